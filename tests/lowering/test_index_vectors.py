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
    return xpr.jit(f).lower(*operands).as_text("iree")


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


_DTYPES = ["float32", "float64", "int32", "uint8", "int16", "float16", "bfloat16", "bool"]
_DTYPES += ["complex64", "int64", "uint32"]
ROWS, WIDTH, TAKEN = 300, 24, 2000
PLACES = R.integers(-ROWS - 40, ROWS + 40, TAKEN)


def _rows(shape: tuple[int, ...], dtype: str) -> Array:
    x = R.integers(0, 100, shape)
    return (x % 2 if dtype == "bool" else x).astype(xnp.dtype(dtype))


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_rows_are_taken_as_they_lie(dtype: str, mode: str) -> None:
    with override("enable_x64", True):
        x = _rows((ROWS, WIDTH), dtype)
        found = xpr.jit(lambda x, i: x.at[i].get(mode=mode))(x, PLACES)
        inside = (PLACES >= -ROWS) & (PLACES < ROWS)
        places = np.where(PLACES < 0, PLACES + ROWS, PLACES)
        wanted = x[places.clip(0, ROWS - 1)]
        if mode != "clip":
            wanted = np.where(inside[:, None], wanted, xnp.zeros(1, dtype).at[1].get(mode="fill"))
        assert found.dtype == x.dtype
        # NumPy takes no NaN of bfloat16 for another.
        same = np.float32 if dtype == "bfloat16" else x.dtype
        np.testing.assert_array_equal(np.asarray(found).astype(same), wanted.astype(same))


@pytest.mark.parametrize("how", ["add", "set", "min", "multiply"])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_rows_are_changed_one_after_the_other(dtype: str, how: str) -> None:
    with override("enable_x64", True):
        x = _rows((ROWS, WIDTH), dtype)
        if how != "set" and dtype == "bool":
            how = "min"
        few = TAKEN if how != "multiply" else 200
        places, rows = PLACES[:few], _rows((few, WIDTH), dtype)
        found = xpr.jit(lambda x, i, v: getattr(x.at[i], how)(v))(x, places, rows)
        wanted = x.copy()
        change: Any = {"add": np.add, "multiply": np.multiply, "min": np.minimum}.get(how)
        with np.errstate(all="ignore"):
            for i, row in zip(places, rows, strict=True):
                if -ROWS <= i < ROWS:
                    wanted[i] = row if change is None else change(wanted[i], row)
        np.testing.assert_array_equal(found, wanted)


def test_rows_of_more_axes_and_within_loops_of_the_host() -> None:
    x = R.standard_normal((6, 8, 5, 7)).astype(np.float32)
    i, j = R.integers(0, 6, (40, 30)), R.integers(0, 8, (40, 30))
    text = _text(lambda x, i, j: x[i, j], x, i, j)
    assert "hal.executable.source" in text
    assert "stablehlo.gather" not in text
    np.testing.assert_array_equal(xpr.jit(lambda x, i, j: x[i, j])(x, i, j), x[i, j])
    v = R.standard_normal((40, 30, 5, 7)).astype(np.float32)

    def step(_: Any, x: Any) -> Any:
        seen = xpr.pure_callback(lambda y: y, xpr.ShapeDtypeStruct(x.shape, x.dtype), x)
        return seen.at[i, j].add(0.5 * v) - 0.25 * x[i[0], j[0]].mean()

    found = xpr.jit(lambda x: lax.fori_loop(0, 3, step, x))(x)
    wanted = x.astype(np.float64)
    for _ in range(3):
        mean = wanted[i[0], j[0]].mean()
        np.add.at(wanted, (i, j), 0.5 * v)
        wanted = wanted - 0.25 * mean
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(x, np.asarray(xpr.device_put(x)))


def test_the_array_that_rows_are_added_to_is_left_alone() -> None:
    x, rows = np.zeros((ROWS, WIDTH), np.float32), np.ones((TAKEN, WIDTH), np.float32)
    on_device = xpr.device_put(x)
    add = xpr.jit(lambda x, i, v: x.at[i].add(v))
    for _ in range(2):
        add(on_device, PLACES, rows)
        np.testing.assert_array_equal(on_device, x)
