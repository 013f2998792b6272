"""Segment reductions against loops over the rows, eager and jitted, with derivatives."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
from tests.numpy.cases import Case, check, jnp
from xpr import ops
from xpr.test_util import check_grads

RNG = np.random.default_rng(5)
IDS = np.array([2, 0, 2, -1, 4, 0, 2, 9], "i4")
ROWS = RNG.normal(size=(8, 3)).astype("f4")
INTS = RNG.integers(1, 9, 8).astype("i4")
COMBINE = {
    "segment_sum": (np.add, 0),
    "segment_prod": (np.multiply, 1),
    "segment_max": (np.maximum, None),
    "segment_min": (np.minimum, None),
}


def start_of(name: str, dtype: np.dtype[Any]) -> Any:
    start = COMBINE[name][1]
    if start is not None:
        return start
    largest = name == "segment_min"
    if dtype.kind == "b":
        return largest
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.max if largest else info.min
    return np.inf if largest else -np.inf


def by_loop(name: str, data: Any, ids: Any, count: int, mode: str = "drop") -> np.ndarray[Any, Any]:
    out = np.full((count, *data.shape[1:]), start_of(name, data.dtype), data.dtype)
    for row, place in zip(data, ids, strict=True):
        if mode == "clip":
            place = min(max(place, 0), count - 1)
        if 0 <= place < count:
            out[place] = COMBINE[name][0](out[place], row)
    return out


def segment_case(name: str, data: Any, ids: Any, count: int, **kwargs: Any) -> Case:
    mode = kwargs.get("mode", "drop")
    return Case(
        name,
        (data, ids),
        kwargs,
        call=lambda _, d, i, **kw: getattr(ops, name)(d, i, num_segments=count, **kw),
        expected=lambda d, i: by_loop(name, d, i, count, mode),
        atol=1e-6,
    )


def test_against_loops() -> None:
    cases = []
    for name in COMBINE:
        cases += [
            segment_case(name, ROWS, IDS, 6),
            segment_case(name, INTS, IDS, 3),
            segment_case(name, ROWS[:, :0], IDS, 5),
            segment_case(name, ROWS[:0], IDS[:0], 2),
            segment_case(name, ROWS[:, 0], IDS, 0),
            segment_case(name, ROWS, IDS.astype("i2"), 4, mode="clip"),
            segment_case(name, ROWS, IDS, 5, bucket_size=3),
            segment_case(name, INTS, np.sort(IDS), 5, indices_are_sorted=True),
            segment_case(name, INTS[:3], IDS[[0, 1, 4]], 5, unique_indices=True),
            segment_case(name, ROWS.astype("f2"), IDS, 5),
            segment_case(name, INTS.astype("u1"), np.abs(IDS).astype("u4"), 5),
        ]
    flags = INTS > 4
    cases += [segment_case(name, flags, IDS, 5) for name in ("segment_max", "segment_min")]
    cases.append(segment_case("segment_sum", ROWS[:, 0] + 1j * ROWS[:, 1], IDS, 5))
    check(cases)


def test_nan_and_infinity_belong_to_their_segment() -> None:
    data = jnp.array([np.nan, 1.0, np.inf, 2.0, -np.inf])
    ids = jnp.array([0, 1, 2, 1, 3])
    np.testing.assert_array_equal(ops.segment_sum(data, ids), [np.nan, 3, np.inf, -np.inf])
    np.testing.assert_array_equal(ops.segment_max(data, ids), [np.nan, 2, np.inf, -np.inf])


def test_number_of_segments_is_found() -> None:
    found = ops.segment_sum(jnp.arange(4.0), jnp.array([0, 2, 2, 0]))
    np.testing.assert_array_equal(found, [3, 0, 3])
    with pytest.raises(xpr.errors.ConcretizationTypeError, match="num_segments"):
        xpr.jit(ops.segment_sum)(jnp.arange(4.0), jnp.array([0, 2, 2, 0]))
    with pytest.raises(xpr.errors.ConcretizationTypeError, match="num_segments"):
        xpr.jit(ops.segment_sum)(jnp.arange(4.0), jnp.array([0, 2, 2, 0]), 3)


def test_buckets_keep_rounding_errors_small() -> None:
    data = jnp.full(4096, 1.0, ml_dtypes.bfloat16)
    ids = jnp.zeros(4096, jnp.int32)
    # One by one, bfloat16 sums stay at 256.
    assert float(ops.segment_sum(data, ids, 1, bucket_size=64)[0]) == 4096


def test_vmap() -> None:
    ids = jnp.array([[0, 1, 1], [2, 2, 0]])
    data = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    found = xpr.vmap(lambda d, i: ops.segment_sum(d, i, 3))(data, ids)
    np.testing.assert_array_equal(found, [[1, 5, 0], [6, 0, 9]])


@pytest.mark.parametrize("name", list(COMBINE))
def test_derivatives(name: str) -> None:
    with xpr.enable_x64(True):
        data = jnp.array([0.3, -1.2, 2.5, 0.7, 1.9])
        # Products are differentiable where every row has a segment of its own.
        unique = name == "segment_prod"
        ids = jnp.array([0, 1, 4, 3, 2] if unique else [0, 1, 0, 3, 1])

        def total(d: Any) -> Any:
            found = getattr(ops, name)(d, ids, 5, unique_indices=unique)
            return jnp.where(jnp.isin(jnp.arange(5), ids), found, 0.0)

        modes = ("rev",) if name in ("segment_max", "segment_min") else ("fwd", "rev")
        check_grads(total, (data,), order=1, modes=modes)


def test_products_of_several_rows_have_no_derivative() -> None:
    with pytest.raises(NotImplementedError, match="only with unique_indices=True"):
        xpr.grad(lambda d: ops.segment_prod(d, jnp.array([0, 0]), 1).sum())(jnp.ones(2))


def test_errors() -> None:
    data, ids = jnp.arange(3.0), jnp.array([0, 0, 1])
    with pytest.raises(ValueError, match="num_segments must be non-negative, got -1"):
        ops.segment_sum(data, ids, num_segments=-1)
    with pytest.raises(TypeError, match="segment_sum requires ndarray or scalar arguments"):
        ops.segment_sum([1, 2], ids, num_segments=2)
    with pytest.raises(TypeError, match="requires integer segment_ids, got float32"):
        ops.segment_min(data, ids.astype(float), num_segments=2)
    with pytest.raises(ValueError, match="broadcast"):
        ops.segment_sum(data, ids[:2], num_segments=2)
    with pytest.raises(TypeError, match="integer"):
        ops.segment_sum(data, ids, num_segments=2.5)
    with pytest.raises(ValueError, match="segment_prod requires num_segments"):
        ops.segment_prod(data[:0], ids[:0])
    with pytest.raises(ValueError, match="positive bucket_size, got 0"):
        ops.segment_sum(data, ids, 2, bucket_size=0)
    with pytest.raises(TypeError, match="`out_sharding` argument of segment_max"):
        ops.segment_max(data, ids, 2, out_sharding="x")
