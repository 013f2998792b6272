"""`ragged_dot`, `ragged_dot_general` and `scaled_dot` against loops over groups and blocks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
from xpr import lax
from xpr.lax import RaggedDotDimensionNumbers as Numbers
from xpr.test_util import check_grads

RNG = np.random.default_rng(8)


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(-4, 5, shape).astype(np.float32)


def rows_by_loop(lhs: np.ndarray, rhs: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """[m, k], [g, k, n], [g] -> [m, n]"""
    out = np.zeros((len(lhs), rhs.shape[2]), lhs.dtype)
    start = 0
    for matrix, size in zip(rhs, sizes, strict=True):
        out[start : start + size] = lhs[start : start + size] @ matrix
        start += size
    return out


def sums_by_loop(lhs: np.ndarray, rhs: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """[m, k], [k, n], [g] -> [g, m, n]"""
    ends = np.cumsum(sizes)
    pairs = zip(ends - sizes, ends, strict=True)
    return np.stack([lhs[:, a:b] @ rhs[a:b] for a, b in pairs])


LHS, GROUPS = integers(6, 3), integers(3, 3, 4)
SIZES = [np.array(s) for s in ([1, 2, 3], [0, 6, 0], [2, 0, 1], [0, 0, 0], [4, 4, 4])]
LISTS = np.array([[1, 2, 0], [0, 1, 3]])


def test_rows_times_the_matrix_of_their_group() -> None:
    found = xpr.jit(xpr.vmap(lax.ragged_dot, (None, None, 0)))(LHS, GROUPS, np.stack(SIZES))
    for sizes, batched in zip(SIZES, found, strict=True):
        want = rows_by_loop(LHS, GROUPS, sizes)
        np.testing.assert_array_equal(lax.ragged_dot(LHS, GROUPS, sizes), want)
        np.testing.assert_array_equal(batched, want)


def test_all_kinds_of_ragged_axes() -> None:
    # Rows [b, x, m, k] with matrices [b, k, g, n]: sizes for each b and x, or for all.
    lhs, rhs = integers(2, 2, 4, 3), integers(2, 3, 3, 5)
    rows = Numbers((((3,), (1,)), ((0,), (0,))), [2], [2])
    lists = np.stack([LISTS, LISTS[::-1]])

    def expected_rows(sizes: Any) -> np.ndarray:
        matrices = rhs.transpose(0, 2, 1, 3)
        parts = [rows_by_loop(lhs[b, x], matrices[b], sizes[b, x]) for b, x in np.ndindex(2, 2)]
        return np.stack(parts).reshape(2, 2, 4, 5)

    # Sums [b, k, m] with [n, k, b] over k.
    left, right = integers(2, 4, 3), integers(5, 4, 2)
    sums = Numbers((((1,), (1,)), ((0,), (2,))), [1], [])

    def expected_sums(sizes: Any) -> np.ndarray:
        parts = [sums_by_loop(left[b].T, right[:, :, b].T, sizes[b]) for b in range(2)]
        return np.stack(parts, axis=1)

    whole = Numbers((((1,), (1,)), ((0,), (2,))), [0], [])
    cases = [
        (lhs, rhs, lists, rows, expected_rows(lists)),
        (lhs, rhs, LISTS[0], rows, expected_rows(np.tile(LISTS[0], (2, 2, 1)))),
        (left, right, LISTS, sums, expected_sums(LISTS)),
        (left, right, LISTS[0], sums, expected_sums(np.tile(LISTS[0], (2, 1)))),
        (left, right, np.array([1, 1]), whole, np.einsum("bkm,nkb->bmn", left, right)),
    ]
    compiled = xpr.jit(
        lambda operands: [
            lax.ragged_dot_general(*x, c[3]) for x, c in zip(operands, cases, strict=True)
        ]
    )([c[:3] for c in cases])
    for (x, y, sizes, numbers, want), got in zip(cases, compiled, strict=True):
        found = np.asarray(lax.ragged_dot_general(x, y, sizes, numbers))
        np.testing.assert_array_equal(found, want, strict=True)
        np.testing.assert_array_equal(np.asarray(got), want, strict=True)


def test_groups_do_not_see_each_other() -> None:
    """A matrix of nan spoils the rows of its own group alone."""
    matrices = GROUPS.copy()
    matrices[1] = np.nan
    found = np.asarray(lax.ragged_dot(LHS, matrices, SIZES[0]))
    np.testing.assert_array_equal(np.isnan(found).any(axis=1), [0, 1, 1, 0, 0, 0])


def test_derivatives_of_groups() -> None:
    with xpr.enable_x64(True):
        lhs, rhs = LHS.astype(np.float64), GROUPS.astype(np.float64)
        check_grads(lambda a, b: lax.ragged_dot(a, b, SIZES[2]), (lhs, rhs), order=2)
        sums = Numbers((((0,), (0,)), ((), ())), [0], [])
        check_grads(lambda a, b: lax.ragged_dot_general(a, b, SIZES[0], sums), (lhs, lhs), order=2)


def test_dtypes_of_groups() -> None:
    def dtype(a: Any, b: Any, **options: Any) -> str:
        return str(lax.ragged_dot(LHS.astype(a), GROUPS.astype(b), SIZES[0], **options).dtype)

    half = ml_dtypes.bfloat16
    assert dtype(half, half) == "bfloat16"
    assert dtype(half, np.float32) == "float32"
    assert dtype(np.int8, np.int8) == "int8"
    assert dtype(np.int8, np.int8, preferred_element_type=np.int32) == "int32"


def test_numbers_are_values() -> None:
    one = Numbers((([1], [np.int64(1)]), ((), ())), [0], [0])
    same = Numbers((((1,), (1,)), ((), ())), (0,), (0,))
    assert one == same
    assert hash(one) == hash(same)
    assert repr(one) == (
        "RaggedDotDimensionNumbers(dot_dimension_numbers=(((1,), (1,)), ((), ())), "
        "lhs_ragged_dimensions=(0,), rhs_group_dimensions=(0,))"
    )


@pytest.mark.parametrize(
    ("rhs", "sizes", "numbers", "message"),
    [
        (GROUPS, [1.5, 1, 1], None, "group_sizes are integers, got float32"),
        (GROUPS, 1, None, "group_sizes of rank 1 or more, got a scalar"),
        (GROUPS, [1, 2], None, "rhs group dimension size to be 2, got 3"),
        (GROUPS, [[1, 2, 3]], None, r"group_sizes to have shape \(3,\), got \(1, 3\)"),
        (GROUPS[:, :2], [1, 1, 1], None, "contracting dimensions to have the same shape"),
        (GROUPS, [1, 1, 1], ([0, 1], [0]), "exactly one lhs ragged dimension, got"),
        (GROUPS, [1, 1, 1], ([5], [0]), "got 5 for lhs of rank 2"),
        (GROUPS, [1, 1, 1], ([0], [5]), "got 5 for rhs of rank 3"),
        (GROUPS, [1, 1, 1], ([0], []), "exactly one rhs group dimension"),
        (GROUPS, [1, 1, 1], ([0], [1]), "distinct from contracting and batch"),
        (GROUPS, [1, 1, 1], ([1], [0]), "zero group dimensions in the rhs"),
    ],
)
def test_errors_of_groups(rhs: Any, sizes: Any, numbers: Any, message: str) -> None:
    ragged, group = numbers or ([0], [0])
    dims = Numbers((((1,), (1,)), ((), ())), ragged, group)
    with pytest.raises(TypeError, match=message):
        lax.ragged_dot_general(LHS, rhs, np.array(sizes), dims)


def test_an_offset_of_groups_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="group_offset is for groups that are spread"):
        lax.ragged_dot(LHS, GROUPS, SIZES[0], group_offset=np.array([1]))


# ---- scaled_dot


def scaled_by_numpy(x: np.ndarray, scale: np.ndarray, axis: int) -> np.ndarray:
    wide = scale.astype(np.float32)
    return x.astype(np.float32) * np.repeat(wide, x.shape[axis] // scale.shape[axis], axis)


def test_scales_of_blocks() -> None:
    lhs = RNG.standard_normal((3, 2, 64)).astype(ml_dtypes.float8_e4m3fn)
    rhs = RNG.standard_normal((3, 64, 4)).astype(ml_dtypes.float8_e5m2)
    left = (2.0 ** RNG.integers(-3, 3, (3, 2, 2))).astype(ml_dtypes.float8_e8m0fnu)
    right = (2.0 ** RNG.integers(-3, 3, (3, 16, 4))).astype(ml_dtypes.float8_e8m0fnu)
    a, b = scaled_by_numpy(lhs, left, 2), scaled_by_numpy(rhs, right, 1)

    def both(lhs: Any, rhs: Any, left: Any, right: Any) -> Any:
        precise = lax.scaled_dot(
            lhs, rhs, lhs_scale=left, rhs_scale=right, preferred_element_type=np.float32
        )
        turned = lax.scaled_dot(
            rhs[0], lhs[0], rhs_scale=left[0], dimension_numbers=(((0,), (1,)), ((), ()))
        )
        return precise, turned

    for run in (both, xpr.jit(both)):
        precise, turned = run(lhs, rhs, left, right)
        np.testing.assert_allclose(precise, a @ b, rtol=1e-5, atol=1e-5)
        want = rhs[0].astype(np.float32).T @ a[0].T
        assert turned.dtype == ml_dtypes.bfloat16
        np.testing.assert_allclose(turned.astype(np.float32), want, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("lhs", "scale", "message"),
    [
        ((64,), None, "operands and scales of one rank, got lhs of rank 1, rhs of rank 2"),
        ((2, 32), None, "contracting dimensions to have the same shape"),
        ((2, 64), (2,), "of one rank, got lhs of rank 2, rhs of rank 2, lhs_scale of rank 1"),
        ((2, 64), (2, 3), "axis 1 of lhs to be divisible by that of its scale, got 3"),
        ((2, 64), (3, 2), "axis 0 of lhs and of its scale to have one size, got 2 and 3"),
        ((2, 64), (2, 64), "at least twice as long"),
    ],
)
def test_errors_of_scales(lhs: Any, scale: Any, message: str) -> None:
    ones = None if scale is None else np.ones(scale, np.float32)
    with pytest.raises(TypeError, match=message):
        lax.scaled_dot(np.ones(lhs, np.float32), np.ones((64, 3), np.float32), lhs_scale=ones)


def test_scaled_dot_needs_axes_for_other_ranks() -> None:
    with pytest.raises(TypeError, match="operands of rank 2 or more, got rank 1"):
        lax.scaled_dot(np.ones(4, np.float32), np.ones(4, np.float32))
    x = np.ones((1, 1, 1, 4), np.float32)
    with pytest.raises(TypeError, match="dimension_numbers for operands of rank 4"):
        lax.scaled_dot(x, x)
