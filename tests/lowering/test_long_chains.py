"""Long chains of operations are cut, and compile in time that grows with their length."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.lowering import passes
from xpr.lowering.passes import long_chains
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints

HOIST = "--iree-opt-const-expr-hoisting=false"


def chain(x: Any, count: int) -> Any:
    for i in range(count):
        x = x * 0.5 + (i % 7)
    return x


def in_numpy(x: np.ndarray, count: int) -> np.ndarray:
    for i in range(count):
        x = x * np.float32(0.5) + np.float32(i % 7)
    return x


def barriers(function: Any, *args: Any) -> int:
    text = xpr.jit(function).lower(*args).as_text("iree")
    return len(re.findall(r"stablehlo\.optimization_barrier", text))


def test_a_chain_is_cut_into_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones(4, np.float32)
    assert barriers(lambda x: chain(x, 200), x) == 0
    assert barriers(lambda x: chain(x, 700), x) == 2
    # Many operations side by side are no chain.
    assert barriers(lambda x: [chain(x * i, 30) for i in range(50)], x) == 0
    # Those of a formula's body count less.
    many = np.ones(5000, np.float32)  # fewer are computed in a loop
    assert barriers(lambda x: [x := jnp.sin(x) for _ in range(10)][-1], many) == 0
    assert barriers(lambda x: [x := jnp.sin(x) for _ in range(50)][-1], many) == 1
    monkeypatch.delitem(passes.PASSES, "long_chains")
    assert barriers(lambda x: chain(x, 700), x) == 0


def test_chains_in_loops_and_of_shared_values_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_chains, "LONGEST", 20)
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)

    def program(x: Any) -> Any:
        y = chain(x, 25)
        z = lax.fori_loop(0, 2, lambda _, v: chain(v, 25), y.T)
        return x + y, jnp.sum(chain(z, 25), axis=0), (chain(x, 15) > 4).astype(jnp.int32)

    first, second, third = xpr.jit(program)(x)
    y = in_numpy(x, 25)
    z = in_numpy(in_numpy(y.T, 25), 25)
    np.testing.assert_allclose(first, x + y, rtol=1e-6)
    np.testing.assert_allclose(second, in_numpy(z, 25).sum(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(third, in_numpy(x, 15) > 4)
    assert barriers(program, x) >= 6


def test_complex_chains_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_chains, "LONGEST", 10)
    x = np.array([1 + 2j, -0.5j, 3], np.complex64)
    found = xpr.jit(lambda x: chain(x, 30))(x)
    np.testing.assert_allclose(found, in_numpy(x, 30), rtol=1e-6)


def test_large_programs_compute_constants_when_they_run() -> None:
    for name in ("cpu", "vulkan", "vmvx"):
        target = get_target(name)
        small, large = (ProgramHints(num_operations=n) for n in (1500, 1501))
        assert all(HOIST not in flags for flags in target.flag_sets(small))
        assert all(HOIST in flags for flags in target.flag_sets(large))


def test_5000_operations_compile() -> None:
    x = np.array([1.0, -2.0, 0.25, 1e5], np.float32)
    found = xpr.debug.explain(lambda x: chain(x, 2500), x)
    assert found.dispatches == 7  # of ten pieces, some of which are the same
    np.testing.assert_allclose(xpr.jit(lambda x: chain(x, 2500))(x), in_numpy(x, 2500), rtol=1e-6)
