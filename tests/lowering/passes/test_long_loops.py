"""Reductions, products, convolutions and scatters of many elements on Mesa's software device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.harness import run_compiled
from tests.lowering.test_ir import graph_of
from tests.lowering.vulkan_util import vulkan_device
from xpr import lax
from xpr.lowering import passes
from xpr.lowering.ir.graph import Op, dispatched
from xpr.lowering.targets import get_target

MENDED = "this is mended: the guard can go"
F32 = np.float32
N = 70_000
LONG = np.random.default_rng(0).uniform(0, 1, N).astype(F32)
PLACES = np.random.default_rng(1).integers(0, 5, N).astype(np.int32)
CUBE = np.random.default_rng(2).uniform(0, 1, (60, 60, 60, 3)).astype(F32)
IMAGE = np.random.default_rng(3).uniform(0, 1, (1, 268, 268, 1)).astype(F32)
KERNEL = IMAGE[0, :260, :260, 0]
WINDOWS = np.lib.stride_tricks.sliding_window_view(IMAGE[0, :, :, 0], KERNEL.shape)
ROWS = np.random.default_rng(4).uniform(0, 1, (2, N)).astype(F32)
REPEATED = np.array([1, 0, 1, 1, *range(16)], np.int32)
UPDATES = np.random.default_rng(5).uniform(0, 1, (20, 4096)).astype(F32)
# A prime number of elements: the last part of each row is filled up.
LONG_ROWS = np.random.default_rng(6).uniform(0, 1, (4, 65_537)).astype(F32)


def _own_sum(x: Any, axes: tuple[int, ...]) -> Any:
    """A sum that the rules do not know as one."""
    return lax.reduce(x, F32(0), lambda a, b: a + b * 1, axes)


def _added(x: Any, places: Any, updates: Any) -> np.ndarray[Any, Any]:
    result = x.astype(float)
    np.add.at(result, places, updates)
    return result


def _features(x: Any, kernel: Any) -> Any:
    numbers = "NHWC", "HWIO", "NHWC"
    return lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=numbers)


def _two(x: Any) -> Any:
    zero = F32(0)
    return lax.reduce((x, -x), (zero, zero), lambda a, b: (a[0] + b[0], a[1] + b[1]), (0,))


# Functions, their operands, and results that NumPy finds in float64.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "all": (lambda x: _own_sum(x, (0,)), (LONG,), LONG.sum(dtype=float)),
    "pair": (lambda x: _two(x)[1], (LONG,), -LONG.sum(dtype=float)),
    "three axes": (lambda x: x.sum((0, 1, 2)), (CUBE,), CUBE.sum((0, 1, 2), dtype=float)),
    "two axes": (lambda x: x.sum((1, 2)), (CUBE,), CUBE.sum((1, 2), dtype=float)),
    "product": (lambda x: x @ x.T, (ROWS,), ROWS.astype(float) @ ROWS.T.astype(float)),
    "features": (
        _features,
        (ROWS.reshape(1, 1, 2, N), ROWS.T.reshape(1, 1, N, 2)),
        (ROWS.astype(float) @ ROWS.T.astype(float))[None, None],
    ),
    "taps": (
        _features,
        (IMAGE, KERNEL.reshape(260, 260, 1, 1)),
        np.einsum("ijkl,kl->ij", WINDOWS, KERNEL, dtype=float)[None, :, :, None],
    ),
    "scatter": (
        lambda x, i: jnp.zeros(5).at[i].add(x),
        (LONG, PLACES),
        np.bincount(PLACES, LONG.astype(float)),
    ),
    "rows": (
        lambda x, u: x.at[REPEATED].add(u),
        (UPDATES[:17], UPDATES),
        _added(UPDATES[:17], REPEATED, UPDATES),
    ),
    "long rows": (
        lambda x, u: x.at[REPEATED[:4]].add(u),
        (LONG_ROWS[:2], LONG_ROWS),
        _added(LONG_ROWS[:2], REPEATED[:4], LONG_ROWS),
    ),
    "broadcast": (lambda x: jnp.broadcast_to(x[:9].sum(), (N,)), (LONG,), LONG[:9].sum()),
}


def _run() -> list[np.ndarray[Any, Any]]:
    cases = [(function, args) for function, args, _ in PROGRAMS.values()]
    return [found for (found,) in run_compiled(cases, "vulkan")]


def _is_right(found: np.ndarray[Any, Any], expected: Any) -> bool:
    return found.shape == np.shape(expected) and np.allclose(found, expected, rtol=1e-4)


def test_without_the_pass_long_loops_end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    if not getattr(vulkan_device(), "is_software", False):
        pytest.skip("this is about Mesa's software device")
    monkeypatch.delitem(passes.PASSES, "long_loops")
    right = [
        name
        for found, (name, (_, _, expected)) in zip(_run(), PROGRAMS.items(), strict=True)
        if _is_right(found, expected)
    ]
    assert right == [], MENDED


def test_long_loops_are_right() -> None:
    vulkan_device()
    for found, (name, (_, _, expected)) in zip(_run(), PROGRAMS.items(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, err_msg=name)


def _rounds(op: Op) -> int:
    """How many elements make one result; all that a scatter writes."""
    if op.name == "stablehlo.reduce":
        return int(np.prod([op.operands[0].shape[i] for i in op.attributes["dimensions"]]))
    if op.name == "stablehlo.dot_general":
        return int(np.prod([op.operands[0].shape[i] for i in op.attributes["contracting"][0]]))
    if op.name == "stablehlo.convolution":
        return int(np.prod(op.operands[1].shape[:-1]))
    return int(np.prod(op.operands[2].shape)) if op.name == "stablehlo.scatter" else 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_loop_is_longer_than_the_longest(name: str) -> None:
    function, args, _ = PROGRAMS[name]
    graph = graph_of(xpr.make_jaxpr(function)(*args), "vulkan")
    longest = get_target("vulkan").longest_loop
    assert longest is not None
    found = [_rounds(op) for f in graph.functions for op in dispatched(f.body)]
    assert max(found) <= longest


def test_a_broadcast_of_no_reduction_has_no_barrier() -> None:
    """A number that was given, or computed from such, is broadcast where it is used."""
    graph = graph_of(xpr.make_jaxpr(lambda x, y: x + jnp.sin(y))(LONG, F32(1)), "vulkan")
    kept = [op for f in graph.functions for op in f.body.ops if op.results and op.results[0].uses]
    assert not any(op.name == "stablehlo.optimization_barrier" for op in kept)
