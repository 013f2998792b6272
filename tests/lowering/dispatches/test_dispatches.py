"""IREE's dispatches of many programs, looked through for what it would do wrong.

What the passes did not foresee shows here before it gives wrong numbers: in the operation table, in
random programs and in the examples. Nothing is compiled beyond the phase that forms dispatches.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr.numpy as jnp
from tests.conftest import skip_unless_usable
from tests.harness import trace_cases
from tests.lowering.dispatches.faults import faults
from tests.lowering.dispatches.formed import formed, formed_of
from tests.op_runs import cases_of, that_run
from tests.op_table import all_rows
from tests.reliability import random_arrays, random_programs
from tests.reliability.scripts import cases
from xpr import lax
from xpr.core.config import override
from xpr.dispatch import compiling
from xpr.lowering import passes

F32 = np.float32
X = np.ones((64, 100), F32)
BYTES = np.ones((64, 100), np.uint8)
MASKS = np.ones((64, 100), bool), np.ones((100, 32), bool)


def found(function: Callable[..., Any], args: tuple[Any, ...], runtime: str = "cpu") -> list[str]:
    """What is wrong with the dispatches of one program."""
    with formed(trace_cases([(function, args)])[0], runtime) as program:
        return faults(program)


# ---- each hazard is found where its pass is switched off


def _pairs(x: Any) -> Any:
    s = x.sum(1)
    return s[:, None] - s[None, :]


def _softmax(x: Any) -> Any:
    wide = x.astype(F32)
    e = jnp.exp(wide - wide.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _ones(x: Any) -> Any:
    return jnp.sum(-jnp.ones((3, 20)), axis=1) + x[0, 0]


def _kept(x: Any) -> Any:
    y = jnp.sin(x)
    before = lax.optimization_barrier(y)
    return y.at[2].add(1), before * 3


def _kept_behind(x: Any) -> Any:
    y = jnp.sin(x)
    return lax.optimization_barrier(y).at[2].add(1) * y


def _updated(x: Any, i: Any) -> Any:
    return lax.dynamic_update_slice(x, x[:2] * 2, (i, 0))


def _long_sum(*arrays: Any) -> Any:
    return sum(x * 2 for x in arrays)


def _counted(x: Any, y: Any) -> Any:
    return x.astype(F32) @ y.astype(F32)


HAZARDS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[str, ...], str]] = {
    "two ways": (_pairs, (X,), ("producers",), "is read as"),
    "narrow": (_softmax, (BYTES,), ("narrow_sources",), "widened"),
    "one number": (_ones, (X,), ("known_values",), "of constants"),
    "before": (_kept, (X,), ("aliasing_updates",), "reads later"),
    "behind": (_kept_behind, (X,), ("aliasing_updates",), "reads later"),
    "argument": (_updated, (X, np.int32(1)), ("argument_barriers",), "overwrites an argument"),
    "bindings": (_long_sum, tuple(X[:, i] for i in range(40)), ("binding_limit",), "41 bindings"),
    "booleans": (_counted, MASKS, ("conversions", "narrow_sources"), "of a boolean"),
}


@pytest.mark.parametrize("name", HAZARDS)
def test_a_hazard_is_found_without_its_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When this fails, IREE forms other dispatches, and the pass may be able to go."""
    function, args, off, expected = HAZARDS[name]
    assert found(function, args) == []
    for passed in off:
        monkeypatch.delitem(passes.PASSES, passed)
    wrong = found(function, args)
    assert any(expected in what for what in wrong), wrong


# ---- programs in which nothing is to be found


_TOGETHER = 60
"""The rows that are one program: IREE takes more than proportionally long for larger ones."""


@pytest.mark.parametrize("family", sorted(all_rows()))
def test_the_table(family: str) -> None:
    pairs = that_run([(row, d) for row in all_rows()[family] for d in row.dtypes], "cpu")
    with override("enable_x64", True):
        for k in range(0, len(pairs), _TOGETHER):
            with formed(trace_cases(cases_of(pairs[k : k + _TOGETHER]))[0], "cpu") as program:
                assert faults(program) == []


@pytest.mark.parametrize("runtime", ["cpu", "vulkan"])
@pytest.mark.parametrize("kind", ["loops", "arrays"])
def test_random_programs(kind: str, runtime: str) -> None:
    skip_unless_usable(runtime)
    numbers = range(5_000_000, 5_000_000 + cases(24, 400))
    with override("enable_x64", kind == "loops"):
        for first in range(numbers[0], numbers[-1] + 1, 8):
            program = trace_cases([_random(kind, n) for n in range(first, first + 8)])[0]
            with formed(program, runtime) as formed_program:
                assert faults(formed_program) == [], first


def _random(kind: str, number: int) -> tuple[Callable[..., Any], Any]:
    rng = np.random.default_rng(number)
    if kind == "loops":
        arrays, program = random_programs.operands(rng), random_programs.steps(rng)
        return lambda *xs: random_programs.results(program, xs), arrays
    large, steps = random_arrays.operands(rng), random_arrays.steps(rng)
    count = int(rng.integers(1, 6))
    return lambda *xs: random_arrays.results(steps, xs, count), large


EXAMPLES: dict[str, tuple[list[str], ...]] = {
    "counter": (),
    "curve_fit": ([],),
    "train_digits": (["--epochs", "1"],),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: dict[str, Any] = {}
    lower = compiling.lower_jaxpr_to_module

    def noted(closed: Any, target: Any, **options: Any) -> Any:
        module = lower(closed, target, **options)
        if target.name == "cpu":
            lowered[module.text] = module, target
        return module

    monkeypatch.setattr(compiling, "lower_jaxpr_to_module", noted)
    monkeypatch.chdir(tmp_path)
    path = Path(__file__).parents[3] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(*EXAMPLES[name])
    assert lowered
    for module, target in lowered.values():
        with formed_of(module, target) as program:
            assert faults(program) == [], module.text
