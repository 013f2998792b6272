"""Indices of several axes, which are joined in programs and read from where they were before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as xnp
from tests.primitives.index_oracle import gather_oracle
from xpr import lax
from xpr.core.config import override
from xpr.lowering.loops.passes_over_memory import in_few_passes, one_pass_p
from xpr.primitives.gather import GatherDimensionNumbers, gather

Array = np.ndarray[Any, Any]

R = np.random.default_rng(0)
COUNT = 3000
I, J = R.integers(-5, 5, COUNT), R.integers(0, 7, COUNT).astype(np.uint8)  # noqa: E741


def _text(f: Any, *operands: Any) -> str:
    return xpr.jit(f).lower(*operands).as_text()


def test_a_gather_reads_the_indices_where_they_are() -> None:
    x = R.standard_normal((5, 7, 3)).astype(np.float32)

    def f(x: Any, i: Any, j: Any) -> Any:
        return x[i, j]

    text = _text(f, x, I, J)
    assert "stablehlo.slice" not in text
    assert "hal.executable" not in text
    assert "start_index_map = [0]," in text
    np.testing.assert_array_equal(xpr.jit(f)(x, I, J), x[I, J])


@pytest.mark.parametrize("how", ["add", "set", "max"])
def test_a_scatter_reads_the_indices_where_they_are(how: str) -> None:
    x = R.standard_normal((5, 7)).astype(np.float32)
    v = R.integers(-9, 9, COUNT).astype(np.float32)

    def f(x: Any, i: Any, j: Any, v: Any) -> Any:
        return getattr(x.at[i, j], how)(v)

    text = _text(f, x, I, J, v)
    assert "hal.executable" not in text
    wanted = x.copy()
    if how == "set":
        for i, j, one in zip(I, J, v, strict=True):
            wanted[i, j] = one
    else:
        {"add": np.add, "max": np.maximum}[how].at(wanted, (I, J), v)
    np.testing.assert_allclose(xpr.jit(f)(x, I, J, v), wanted, rtol=1e-5, atol=1e-5)


def test_joined_indices_that_are_a_result_too_are_a_pass() -> None:
    x = R.standard_normal((5, 7)).astype(np.float32)
    dims = GatherDimensionNumbers((), (0, 1), (0, 1))

    def f(x: Any, i: Any, j: Any) -> Any:
        both = lax.concatenate([i, j], 1)
        return gather(x, both, dims, (1, 1), mode="clip"), both

    i, j = (v.astype(np.int32)[:, None] for v in (I, J))
    jaxpr = xpr.make_jaxpr(f)(x, i, j).jaxpr
    assert one_pass_p in [e.primitive for e in in_few_passes(jaxpr, is_whole=True).eqns]
    found, both = xpr.jit(f)(x, i, j)
    np.testing.assert_array_equal(both, np.hstack([i, j]))
    np.testing.assert_array_equal(found, x[I.clip(0, 4), J.clip(0, 6)])


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize(
    ("dims", "sizes", "axes"),
    [
        (GatherDimensionNumbers((1,), (0, 1), (1, 0)), (1, 1, 6), (1, 0)),
        (GatherDimensionNumbers((1,), (0, 1), (0, 1)), (1, 1, 4), (0, 1)),
        (GatherDimensionNumbers((0,), (0, 1), (0, 1)), (1, 1, 6), (0, 1)),
        (GatherDimensionNumbers((), (0, 1, 2), (2, 0, 1)), (1, 1, 1), (2, 0, 1)),
        (GatherDimensionNumbers((), (0, 1, 2), (0, 1)), (1, 1, 1), (0, 1)),
        (GatherDimensionNumbers((1,), (1, 2), (1, 2)), (4, 1, 1), (1, 2)),
        (GatherDimensionNumbers((1, 2), (1,), (0, 1)), (1, 1, 6), (0, 1)),
    ],
)
def test_gathers_of_any_axes(
    dims: GatherDimensionNumbers, sizes: tuple[int, ...], axes: tuple[int, ...], mode: str
) -> None:
    x = R.standard_normal((4, 5, 6))
    columns = [R.integers(-3, 9, 40).astype(np.int16) for _ in axes]

    def f(x: Any, *columns: Any) -> Any:
        indices = lax.concatenate([c[:, None] for c in columns], 1)
        return gather(x, indices, dims, sizes, mode=mode)

    wanted = gather_oracle(x, np.stack(columns, 1), dims, sizes, mode, np.nan)
    with override("enable_x64", True):
        np.testing.assert_array_equal(xpr.jit(f)(x, *columns), wanted)


def test_indices_of_a_batch_and_of_two_axes_each() -> None:
    x = R.standard_normal((5, 7)).astype(np.float32)
    i, j = R.integers(0, 5, (6, 1)), R.integers(0, 7, (1, 4))
    found = xpr.jit(lambda x, i, j: (x[i, j], x.at[i, j].set(0)))(x, i, j)
    np.testing.assert_array_equal(found[0], x[i, j])
    wanted = x.copy()
    wanted[i, j] = 0
    np.testing.assert_array_equal(found[1], wanted)
    rows = R.standard_normal((3, 5, 7)).astype(np.float32)
    batched = xpr.jit(xpr.vmap(lambda x, i, j: x[i, j], (0, None, None)))(rows, i, j)
    np.testing.assert_array_equal(batched, rows[:, i, j])
    assert xnp.asarray(found[0]).shape == (6, 4)
