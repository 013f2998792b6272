"""Sharding rules at sizes that divide, evaluated in parts, and what some rules must look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.sharding.in_parts import Array
from tests.sharding.rule_checks import check_equation, rule_for
from xpr import lax
from xpr.core.config import override
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.primitive import get_primitive
from xpr.core.trace import get_aval
from xpr.sharding import rules
from xpr.sharding.rule import FactorRule
from xpr.tree_util import tree_leaves

rules.load_all()

_RNG = np.random.default_rng(0)
_NUMBERS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 3.0], np.float32)


def special(*shape: int) -> Array:
    """Few different numbers: many are equal, zeros have both signs, some are no numbers."""
    return _RNG.choice(_NUMBERS, shape).astype(np.float32)


def plain(*shape: int) -> Array:
    """Random numbers."""
    return _RNG.uniform(-2, 2, shape).astype(np.float32)


def integers(high: int, *shape: int, dtype: Any = np.int32, low: int = 0) -> Array:
    """Random integers from `low` up to, not including, `high`."""
    return _RNG.integers(low, high, shape).astype(dtype)


def equation(name: str, function: Callable[..., Any], *args: Array) -> dict[str, Any]:
    """The parameters of the one equation `name` that the function makes of its arguments."""
    with override("enable_x64", True):
        avals = [get_aval(a) for a in args]
        closed = trace_to_jaxpr(lambda *xs: tree_leaves(function(*xs)), avals)
    (eqn,) = [e for e in closed.jaxpr.eqns if e.primitive.name == name]
    assert list(eqn.invars) == list(closed.jaxpr.invars), "the equation has other operands"
    return eqn.params


def check(name: str, function: Callable[..., Any], *args: Array, at_least: int = 1) -> None:
    """The parts give the whole, for `at_least` as many ways to shard."""
    params = equation(name, function, *args)
    with override("enable_x64", True):
        assert check_equation(name, params, list(args)) >= at_least


def factors(name: str, function: Callable[..., Any], *args: Array) -> FactorRule:
    """The rule of the one equation of the function."""
    return rule_for(name, equation(name, function, *args), args)[0]


# ---- what rules look like


@pytest.mark.parametrize(
    ("old", "new", "sizes", "operand", "result"),
    [
        ((4, 6), (24,), (4, 6), ((0,), (1,)), ((0, 1),)),
        ((24,), (4, 6), (4, 6), ((0, 1),), ((0,), (1,))),
        ((2, 3, 4), (6, 4), (2, 3, 4), ((0,), (1,), (2,)), ((0, 1), (2,))),
        ((8, 3, 5), (4, 2, 15), (4, 2, 3, 5), ((0, 1), (2,), (3,)), ((0,), (1,), (2, 3))),
        ((1, 4, 1), (2, 1, 2), (2, 2), ((), (0, 1), ()), ((0,), (), (1,))),
        ((12, 5), (6, 10), (6, 2, 5), ((0, 1), (2,)), ((0,), (1, 2))),
    ],
)
def test_reshapes_share_factors(old: Any, new: Any, sizes: Any, operand: Any, result: Any) -> None:
    rule = factors("reshape", lambda x: lax.reshape(x, new), plain(*old))
    assert rule.sizes == sizes
    assert rule.operands == (operand,)
    assert rule.results == (result,)
    assert not rule.whole


def test_reshapes_without_a_common_divisor_are_whole() -> None:
    rule = factors("reshape", lambda x: lax.reshape(x, (6, 2, 7)), plain(4, 3, 7))
    # Of 4 and 6 the major 2 is shared; what is left, and the 3 and the 2, is not; the 7 is again.
    assert rule.sizes == (2, 2, 3, 3, 2, 7)
    assert rule.operands == (((0, 1), (3,), (5,)),)
    assert rule.results == (((0, 2), (4,), (5,)),)
    assert rule.whole == {1, 2, 3, 4}


def test_contractions_are_summed() -> None:
    numbers = (((2,), (1,)), ((0,), (0,)))
    rule = factors(
        "dot_general", lambda a, b: lax.dot_general(a, b, numbers), plain(2, 3, 4), plain(2, 4, 5)
    )
    batch, contracted, left, right = range(4)
    assert rule.sizes == (2, 4, 3, 5)
    assert rule.operands == (
        ((batch,), (left,), (contracted,)),
        ((batch,), (contracted,), (right,)),
    )
    assert rule.results == (((batch,), (left,), (right,)),)
    assert rule.reduced == {contracted: "sum"}


def test_convolutions_sum_input_features() -> None:
    rule = factors(
        "conv_general_dilated",
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "VALID"),
        plain(2, 3, 8, 8),
        plain(5, 3, 3, 3),
    )
    assert rule.sizes == (2, 5, 3)
    assert rule.operands == (((0,), (2,), (), ()), ((1,), (2,), (), ()))
    assert rule.results == (((0,), (1,), (), ()),)
    assert rule.reduced == {2: "sum"}


def test_embeddings_are_looked_up_where_they_are() -> None:
    rule = factors("gather", _rows(None), plain(16, 6), integers(16, 2, 4, 1))
    assert rule.sizes == (2, 4, 16, 6)
    assert rule.operands == (((2,), (3,)), ((0,), (1,), ()))
    # No result has the factor of the rows: `apply` brings them together.
    assert rule.results == (((0,), (1,), (3,)),)
    assert not rule.reduced
    assert rule.apply is not None


def test_broadcast_axes_have_factors_of_their_own() -> None:
    rule = factors(
        "broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (0, 2)), plain(1, 4)
    )
    assert rule.operands == (((), (2,)),)
    assert rule.results == (((0,), (1,), (2,)),)


# ---- convolutions and windows


@pytest.mark.parametrize(
    ("size", "window", "options"),
    [
        (12, 3, {"padding": "SAME"}),
        (12, 4, {"padding": "SAME"}),
        (12, 3, {"padding": "SAME", "window_strides": (2,)}),
        (12, 2, {"padding": "VALID", "window_strides": (2,)}),
        (12, 1, {"padding": "VALID", "window_strides": (3,)}),
        (12, 5, {"padding": "SAME", "window_strides": (3,)}),
        (12, 3, {"padding": "SAME", "rhs_dilation": (2,)}),
        (8, 11, {"padding": [(5, 5)]}),
        (8, 3, {"padding": [(3, -1)]}),
        (8, 3, {"padding": [(-1, 3)]}),
        (8, 3, {"padding": [(9, -7)]}),
        (6, 4, {"padding": [(2, 2)], "lhs_dilation": (2,)}),
        (6, 3, {"padding": [(1, 2)], "lhs_dilation": (2,)}),
        (6, 3, {"padding": [(-1, 4)], "lhs_dilation": (2,)}),
        (6, 2, {"padding": [(0, 3)], "lhs_dilation": (3,)}),
        (6, 5, {"padding": [(4, 5)], "lhs_dilation": (2,), "rhs_dilation": (2,)}),
    ],
)
def test_convolutions_along_a_sharded_axis(size: int, window: int, options: Any) -> None:
    options = {"window_strides": (1,), **options}
    check(
        "conv_general_dilated",
        lambda x, k: lax.conv_general_dilated(x, k, **options),
        plain(1, 1, size),
        plain(1, 1, window),
        at_least=2,
    )


@pytest.mark.parametrize(
    ("size", "window", "options"),
    [
        (12, 12, {"padding": [(1, 1)]}),
        (12, 12, {"padding": [(0, 0)]}),
        (12, 12, {"padding": [(2, 0)]}),
        (12, 12, {"padding": [(-1, 3)]}),
        (12, 12, {"padding": [(7, 7)]}),
        (12, 6, {"padding": [(0, 1)], "rhs_dilation": (2,)}),
        (12, 12, {"padding": [(2, 2)], "window_strides": (2,)}),
    ],
)
def test_convolutions_that_sum_over_a_sharded_axis(size: int, window: int, options: Any) -> None:
    options = {"window_strides": (1,), **options}

    def summed(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, **options)

    image, kernel = plain(1, 1, size), plain(1, 1, window)
    rule = factors("conv_general_dilated", summed, image, kernel)
    assert set(rule.reduced.values()) == {"sum"}
    check("conv_general_dilated", summed, image, kernel, at_least=2)


def test_convolutions_over_two_sharded_axes() -> None:
    check(
        "conv_general_dilated",
        lambda x, k: lax.conv_general_dilated(x, k, (1, 2), "SAME"),
        plain(2, 2, 6, 8),
        plain(2, 2, 3, 3),
        at_least=20,
    )


@pytest.mark.parametrize(
    ("lhs", "rhs", "options"),
    [
        ((2, 8, 5), (8, 1, 3), {"feature_group_count": 8}),
        ((2, 8, 5), (16, 2, 3), {"feature_group_count": 4}),
        ((8, 2, 5), (8, 2, 3), {"batch_group_count": 4}),
        ((4, 2, 5), (4, 2, 3), {"batch_group_count": 4}),
    ],
)
def test_groups_of_convolutions(lhs: Any, rhs: Any, options: Any) -> None:
    check(
        "conv_general_dilated",
        lambda x, k: lax.conv_general_dilated(x, k, (1,), "VALID", **options),
        plain(*lhs),
        plain(*rhs),
        at_least=3,
    )


@pytest.mark.parametrize("fold", ["max", "min", "sum"])
@pytest.mark.parametrize(
    ("size", "window", "stride", "padding"),
    [(12, 3, 1, (1, 1)), (12, 3, 2, (1, 0)), (8, 2, 2, (0, 0)), (6, 9, 1, (4, 4))],
)
def test_windows_over_a_sharded_axis(
    fold: str, size: int, window: int, stride: int, padding: Any
) -> None:
    function, start = {
        "max": (lax.max, -np.inf),
        "min": (lax.min, np.inf),
        "sum": (lax.add, 0.0),
    }[fold]
    values = plain(size, 2) if fold == "sum" else special(size, 2)

    def windows(x: Any) -> Any:
        return lax.reduce_window(
            x, np.float32(start), function, (window, 1), (stride, 1), (padding, (0, 0))
        )

    check(f"reduce_window_{fold}", windows, values, at_least=3)


def test_general_windows_start_from_an_operand() -> None:
    def windows(x: Any, start: Any) -> Any:
        return lax.reduce_window(x, start, lambda a, b: a + b + a * b, (3,), (1,), ((1, 1),))

    check("reduce_window", windows, integers(4, 12), np.asarray(2, np.int32), at_least=2)


def test_reversals_of_sharded_axes() -> None:
    check("rev", lambda x: lax.rev(x, (0, 2)), special(12, 2, 4), at_least=15)


@pytest.mark.parametrize("by", [1, -1, 3, -5, 6, -8, 11])
def test_shifts_by_padding(by: int) -> None:
    def shifted(x: Any, value: Any) -> Any:
        return lax.pad(x, value, ((by, -by, 0), (0, 0, 0)))

    check("pad", shifted, special(12, 2), np.asarray(7, np.float32), at_least=3)


def test_spreading_by_padding() -> None:
    def spread(x: Any, value: Any) -> Any:
        return lax.pad(x, value, ((1, 1, 2),))

    check("pad", spread, special(4), np.asarray(7, np.float32), at_least=2)


# ---- indices


def _rows(mode: Any, collapsed: bool = True) -> Callable[..., Any]:
    """Rows of a matrix at the places of the last axis of the indices."""

    def rows(x: Any, indices: Any) -> Any:
        last = len(indices.shape) - 1
        offsets = (last,) if collapsed else (last, last + 1)
        numbers = lax.GatherDimensionNumbers(offsets, (0,) if collapsed else (), (0,))
        return lax.gather(x, indices, numbers, (1, x.shape[1]), mode=mode)

    return rows


@pytest.mark.parametrize("mode", [None, "clip", "fill"])
@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.uint8, np.uint32, np.int64])
def test_lookups_in_sharded_rows(mode: Any, dtype: Any) -> None:
    low = 0 if np.dtype(dtype).kind == "u" else -5
    indices = integers(20, 4, 3, 1, dtype=dtype, low=low)
    check("gather", _rows(mode), special(12, 4), indices, at_least=9)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint32, np.complex64])
def test_lookups_of_other_types(dtype: Any) -> None:
    values = integers(3, 8, 2).astype(dtype)
    check("gather", _rows("fill", collapsed=False), values, integers(10, 4, 1, low=-2))


def test_lookups_along_two_sharded_axes() -> None:
    def points(x: Any, indices: Any) -> Any:
        numbers = lax.GatherDimensionNumbers((), (0, 1), (1, 0))
        return lax.gather(x, indices, numbers, (1, 1), mode="fill")

    check("gather", points, special(4, 6), integers(7, 10, 2, low=-1), at_least=8)


_SCATTERS: dict[str, Any] = {
    "scatter": lax.scatter,
    "scatter-add": lax.scatter_add,
    "scatter-sub": lax.scatter_sub,
    "scatter-mul": lax.scatter_mul,
    "scatter-min": lax.scatter_min,
    "scatter-max": lax.scatter_max,
}


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("name", list(_SCATTERS))
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_updates_of_sharded_rows(name: str, mode: str, dtype: Any) -> None:
    def updated(x: Any, indices: Any, updates: Any) -> Any:
        numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
        return _SCATTERS[name](x, indices, updates, numbers, mode=mode)

    x, updates = integers(9, 8, 2).astype(dtype), integers(9, 6, 2).astype(dtype)
    check(name, updated, x, integers(10, 6, 1, low=-2), updates, at_least=5)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
@pytest.mark.parametrize("start", [0, 3, 5, 11, 200])
def test_dynamic_slices_of_sharded_axes(start: int, dtype: Any) -> None:
    low = -start if dtype is not np.uint8 and start > 100 else start
    at = np.asarray(low, dtype)

    def window(x: Any, i: Any, j: Any) -> Any:
        return get_primitive("dynamic_slice").bind(x, i, j, slice_sizes=(5, 4))

    check("dynamic_slice", window, special(12, 4), at, at, at_least=6)


@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("start", [0, 3, 11, -4, 100])
def test_dynamic_updates_of_sharded_axes(start: int, width: int) -> None:
    at = np.asarray(start, np.int32)

    def written(x: Any, new: Any, i: Any, j: Any) -> Any:
        return get_primitive("dynamic_update_slice").bind(x, new, i, j)

    check("dynamic_update_slice", written, special(12, 4), special(width, 2), at, at, at_least=6)


@pytest.mark.parametrize(
    ("start", "limit", "stride"),
    [(0, 12, 2), (1, 12, 3), (2, 12, 3), (0, 3, 1), (11, 12, 1), (2, 5, 2), (1, 12, 1)],
)
def test_static_slices_of_sharded_axes(start: int, limit: int, stride: int) -> None:
    def part(x: Any) -> Any:
        return lax.slice(x, (start, 0), (limit, 4), (stride, 1))

    check("slice", part, special(12, 4), at_least=2)


# ---- choices, running folds, random bits


@pytest.mark.parametrize("k", [1, 3, 7, 12])
def test_greatest_of_a_sharded_axis(k: int) -> None:
    check("top_k", lambda x: lax.top_k(x, k, axis=0), special(12, 4), at_least=6)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.uint8])
def test_first_extremum_of_a_sharded_axis(name: str, dtype: Any) -> None:
    find = {"argmax": lax.argmax, "argmin": lax.argmin}[name]
    numbers = special(12, 8)
    numbers[:, 4:] = np.nan_to_num(numbers[:, 4:])
    check(name, lambda x: find(x, 0, dtype), numbers, at_least=6)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
def test_running_reductions_along_a_sharded_axis(name: str, reverse: bool) -> None:
    fold = getattr(lax, name)
    check(name, lambda x: fold(x, axis=0, reverse=reverse), plain(12, 2), at_least=4)
    check(name, lambda x: fold(x, axis=0, reverse=reverse), special(12, 2), at_least=4)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_random_bits_are_the_same_everywhere(width: int) -> None:
    def bits(key: Any) -> Any:
        return get_primitive("random_bits").bind(key, bit_width=width, shape=(4, 6))

    check("random_bits", bits, integers(2**32, 2, 2, dtype=np.uint32), at_least=10)


def test_split_keys_are_the_same_everywhere() -> None:
    def keys(key: Any) -> Any:
        return get_primitive("random_split").bind(key, shape=(4, 3))

    check("random_split", keys, integers(2**32, 2, 2, dtype=np.uint32), at_least=6)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.float16, np.complex64])
def test_counting_along_a_sharded_axis(dtype: Any) -> None:
    # More than the narrow types can count.
    params = {"dtype": np.dtype(dtype), "shape": (3000, 2), "dimension": 0, "sharding": None}
    assert check_equation("iota", params, []) >= 4
