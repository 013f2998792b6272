"""IREE's dispatches of a program, looked through for what it would do wrong.

Each hazard is found where its pass is switched off. Nothing is compiled beyond the phase that forms
dispatches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.harness import trace_cases
from tests.lowering.dispatches.faults import faults
from tests.lowering.dispatches.formed import formed
from xpr import lax
from xpr.lowering import passes

F32 = np.float32
X = np.ones((64, 100), F32)
PLACES = np.array([3, -1, 40, 1, 1], np.int32)
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


def _paired(x: Any) -> Any:
    v = x[0] * x[0] + 1
    return jnp.minimum(v[None], x.sum(0)), v[:, None] + v


def _handed_on(x: Any) -> Any:
    y = jnp.sin(x)
    xpr.debug.callback(lambda _: None, y)
    return y, y.at[2].add(1)


def _given_by_the_host(x: Any) -> Any:
    y = xpr.pure_callback(np.sin, xpr.ShapeDtypeStruct(x.shape, x.dtype), x)
    return y, y.at[jnp.array([2, 3])].add(1)


def _returned(x: Any, i: Any) -> Any:
    y = jnp.sin(x)
    return lax.cond(i > 0, lambda: y, lambda: y * 2).at[2].set(1), jnp.cumsum(y, axis=0)


def _returned_twice(x: Any, i: Any) -> Any:
    y, z = lax.cond(i > 0, lambda: (x + 1,) * 2, lambda: (x, x * 2))
    return y.at[2].set(1), jnp.cumsum(z, axis=0)


def _updated(x: Any, i: Any) -> Any:
    return lax.dynamic_update_slice(x, x[:2] * 2, (i, 0))


def _long_sum(*arrays: Any) -> Any:
    return sum(x * 2 for x in arrays)


def _as_bytes(x: Any) -> Any:
    positive = jnp.minimum(x.sum(1), x[:, 1]) > 1
    return positive, positive.astype(np.int8)


def _counted(x: Any, y: Any) -> Any:
    return x.astype(F32) @ y.astype(F32)


def _updated_twice(x: Any, i: Any) -> Any:
    return x.at[i].set(0.0), x.at[i].add(1.0)


HAZARDS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[str, ...], str]] = {
    "two access maps": (_pairs, (X,), ("fused_producers",), "is read as"),
    "two access maps of one that is shared": (_paired, (X,), ("shared_elements",), "is read as"),
    "narrow": (_softmax, (BYTES,), ("narrow_sources",), "widened"),
    "one number": (_ones, (X,), ("known_values",), "of constants"),
    "before": (_kept, (X,), ("aliasing_updates",), "reads later"),
    "behind": (_kept_behind, (X,), ("aliasing_updates",), "reads later"),
    "handed on": (_handed_on, (X,), ("aliasing_updates",), "handed on later"),
    "given by the host": (_given_by_the_host, (X,), ("aliasing_updates",), "overwrites an arg"),
    "argument": (_updated, (X, np.int32(1)), ("argument_barriers",), "overwrites an argument"),
    "returned": (_returned, (X, np.int32(1)), ("region_results",), "reads later"),
    "returned twice": (_returned_twice, (X, np.int32(1)), ("region_results",), "reads later"),
    "bindings": (_long_sum, tuple(X[:, i] for i in range(40)), ("binding_limit",), "41 bindings"),
    "bytes": (_as_bytes, (X,), ("conversions",), "one array is two"),
    "one element": (_updated_twice, (X[0], PLACES), ("single_elements",), "a single element"),
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
