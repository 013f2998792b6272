"""The functions of xpr.numpy that are `ufunc` objects: those that reduce axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.numpy import bitwise, log_sums, logic, ufuncs
from xpr.numpy._promote import as_operand, convert, promote_dtypes_inexact
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, DTypeLike
from xpr.numpy.cumulative import cumprod, cumsum
from xpr.numpy.dtype_api import requested_dtype
from xpr.numpy.indexing import take
from xpr.numpy.logic import to_bool
from xpr.numpy.manipulation import broadcast_to, moveaxis
from xpr.numpy.reductions import (
    all,
    any,
    kept_dims,
    max,
    min,
    prod,
    reduced_axes,
    sum,
)
from xpr.numpy.ufunc_api import ufunc
from xpr.numpy.updates import at as index_update
from xpr.primitives import elementary as fn
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bits
from xpr.primitives.creation import broadcasted_iota, full
from xpr.primitives.cumulative import cumlogsumexp_p, cummax_p, cummin_p
from xpr.primitives.joining import concatenate
from xpr.primitives.reduce import limits, reduce_and_p, reduce_or_p, reduce_xor_p
from xpr.primitives.shape import expand_dims
from xpr.primitives.slicing import slice_in_dim

Reduce = Callable[..., Array]


def _cast(name: str, x: Any, dtype: DTypeLike) -> Any:
    return x if dtype is None else convert(x, requested_dtype(dtype, name))


# ---- reductions that are no functions of their own


def _extremum(reduce: Reduce) -> Reduce:
    def fold(x: Any, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Array:
        return reduce(_cast("reduce", x, dtype), axis, None, keepdims, initial, where)

    return fold


def _logical(reduce: Reduce, join: Reduce) -> Reduce:
    def fold(x: Any, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Array:
        found = reduce(x, axis, None, keepdims, where=where)
        found = found if initial is None else join(found, as_operand("reduce", initial))
        return _cast("reduce", found, dtype)

    return fold


def _bitwise(fold_p: Primitive, join: Reduce, neutral: int) -> Reduce:
    def fold(x: Any, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Array:
        x = _cast("reduce", x, dtype)
        axes = reduced_axes(axis, x.ndim)
        if where is not None:
            value = bool(neutral) if x.dtype == dtypes.BOOL else neutral
            start = ~x.dtype.type(0) if value == -1 else x.dtype.type(value)
            x = select_where(to_bool(as_operand("reduce", where)), x, start)
        found = fold_p.bind(x, axes=axes)
        if initial is not None:
            found = join(found, convert(as_operand("reduce", initial), x.dtype))
        return kept_dims(found, x.shape, axes) if keepdims else found

    return fold


def _parity(x: Any, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Array:
    fold = _bitwise(reduce_xor_p, logic.logical_xor, 0)
    found = fold(to_bool(x), axis=axis, dtype=None, keepdims=keepdims, initial=None, where=where)
    found = found if initial is None else logic.logical_xor(found, initial)
    return _cast("reduce", found, dtype)


def _difference(
    x: Any, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any
) -> Array:
    """The first element less the sum of the others."""
    x = _cast("reduce", x, dtype)
    if where is not None and initial is None:
        raise ValueError(
            "reduction operation 'subtract' does not have an identity, so to use a where mask one "
            "has to specify 'initial'."
        )
    total = sum(x, axis, None, None, keepdims, None, where, promote_integers=False)
    if initial is not None:
        return el.sub_p.bind(convert(as_operand("reduce", initial), x.dtype), total)
    axes = reduced_axes(axis, x.ndim)
    if len(axes) != 1:
        raise ValueError(f"reduction operation 'subtract' is not reorderable, got {axis=}")
    if not x.shape[axes[0]]:
        raise ValueError("zero-size array to reduction operation subtract which has no identity")
    first = slice_in_dim(x, 0, 1, axis=axes[0])
    first = first if keepdims else sum(first, axes[0], promote_integers=False)
    return el.sub_p.bind(el.add_p.bind(first, first), total)


def _log_sum(power: Primitive, log: Callable[[Any], Any], join: Reduce) -> Reduce:
    def fold(x: Any, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Array:
        (x,) = promote_dtypes_inexact(_cast("reduce", x, dtype))
        infinity = x.dtype.type(float("inf"))
        greatest = max(x, axis, None, True, initial=-infinity, where=where)
        finite = el.abs_p.bind(greatest)
        shift = select_where(finite < infinity, greatest, x.dtype.type(0))
        powers = power.bind(el.sub_p.bind(x, broadcast_to(shift, x.shape)))
        total = log(sum(powers, axis, None, None, True, None, where))
        found = el.add_p.bind(total, shift)
        if not keepdims:
            found = max(found, axis)
        return found if initial is None else join(found, initial)

    return fold


# ---- prefixes


def _cumulative(fold_p: Primitive) -> Reduce:
    def accumulate(x: Any, *, axis: int, dtype: Any) -> Array:
        return fold_p.bind(_cast("accumulate", x, dtype), axis=axis, reverse=False)

    return accumulate


def _differences(x: Any, *, axis: int, dtype: Any) -> Array:
    x = _cast("accumulate", x, dtype)
    first = slice_in_dim(x, 0, 1, axis=axis)
    rest = el.neg_p.bind(slice_in_dim(x, 1, x.shape[axis], axis=axis))
    return cumsum(concatenate([first, rest], axis), axis)


def _log_sums(scale: float) -> Reduce:
    def accumulate(x: Any, *, axis: int, dtype: Any) -> Array:
        (x,) = promote_dtypes_inexact(_cast("accumulate", x, dtype))
        factor = x.dtype.type(scale)
        found = cumlogsumexp_p.bind(el.mul_p.bind(x, factor), axis=axis, reverse=False)
        return el.div_p.bind(found, factor)

    return accumulate


def _by_halves(join: Reduce, *, logical: bool = False) -> Reduce:
    """Prefixes of an associative function in a logarithmic number of steps."""

    def accumulate(x: Any, *, axis: int, dtype: Any) -> Array:
        found = to_bool(x) if logical else _cast("accumulate", x, dtype)
        size, step = x.shape[axis], 1
        while step < size:
            head = slice_in_dim(found, 0, step, axis=axis)
            before = slice_in_dim(found, 0, size - step, axis=axis)
            after = slice_in_dim(found, step, size, axis=axis)
            found = concatenate([head, join(before, after)], axis)
            step *= 2
        return _cast("accumulate", found, dtype) if logical else found

    return accumulate


# ---- slices


def _masked(reduce: Reduce, neutral: Callable[[Any], Any]) -> Reduce:
    """`reduceat` for all slices at once: each is the whole axis with the other elements masked."""

    def reduceat(x: Any, starts: Any, axis: int) -> Array:
        index, size, count = starts.dtype, x.shape[axis], starts.shape[0]
        last = concatenate([slice_in_dim(starts, 1, count), full((1,), index.type(size))], 0)
        stops = select_where(last > starts, last, starts + index.type(1))
        wide = expand_dims(moveaxis(x, axis, -1), (x.ndim - 1,))
        shape = (*wide.shape[:-2], count, size)
        number = broadcasted_iota(index, shape, len(shape) - 1)
        of_slices = (*range(len(shape) - 2), len(shape) - 1)
        inside = bits.and_p.bind(
            number >= expand_dims(starts, of_slices), number < expand_dims(stops, of_slices)
        )
        found = reduce(
            broadcast_to(wide, shape), axis=-1, dtype=None, keepdims=False,
            initial=neutral(x.dtype), where=inside,
        )  # fmt: skip
        return moveaxis(found, -1, axis)

    return reduceat


def _differences_at(x: Any, starts: Any, axis: int) -> Array:
    """Of each slice the first element less the sum of the others."""
    totals = _masked(sum, _constant(0))(x, starts, axis)
    first = convert(take(x, starts, axis), totals.dtype)
    return convert(el.sub_p.bind(el.add_p.bind(first, first), totals), x.dtype)


def _constant(value: Any) -> Callable[[Any], Any]:
    return lambda dtype: value


def _limit(which: int) -> Callable[[Any], Any]:
    return lambda dtype: dtype.type(limits(dtype)[which])


# ---- updates


def _update(method: str) -> Callable[[Any, Any, Any], Array]:
    def at(x: Any, indices: Any, b: Any) -> Array:
        return getattr(index_update(x)[indices], method)(b)

    return at


def _make(
    function: Callable[..., Any],
    name: str,
    reduce: Reduce,
    accumulate: Reduce,
    identity: Any,
    reduceat: Reduce,
    at: str | None = None,
) -> ufunc:
    return ufunc(
        function,
        2,
        1,
        name=name,
        call=function,
        identity=identity,
        reduce=reduce,
        accumulate=accumulate,
        reduceat=reduceat,
        at=None if at is None else _update(at),
    )


_LOG_2 = 0.6931471805599453


def _log2_of(x: Any) -> Any:
    return el.div_p.bind(fn.log_p.bind(x), x.dtype.type(_LOG_2))


_greatest, _least = _extremum(max), _extremum(min)
_every, _some = _logical(all, logic.logical_and), _logical(any, logic.logical_or)
_and = _bitwise(reduce_and_p, bitwise.bitwise_and, -1)
_or = _bitwise(reduce_or_p, bitwise.bitwise_or, 0)
_xor = _bitwise(reduce_xor_p, bitwise.bitwise_xor, 0)
_log_sum_e = _log_sum(fn.exp_p, fn.log_p.bind, log_sums.logaddexp)
_log_sum_2 = _log_sum(fn.exp2_p, _log2_of, log_sums.logaddexp2)
_none = _constant(None)

add = _make(ufuncs.add, "add", sum, cumsum, 0, _masked(sum, _constant(0)), "add")
multiply = _make(
    ufuncs.multiply, "multiply", prod, cumprod, 1, _masked(prod, _constant(1)), "multiply"
)
subtract = _make(
    ufuncs.subtract, "subtract", _difference, _differences, None, _differences_at, "subtract"
)
maximum = _make(
    ufuncs.maximum, "maximum", _greatest, _cumulative(cummax_p), None,
    _masked(_greatest, _limit(0)), "max",
)  # fmt: skip
minimum = _make(
    ufuncs.minimum, "minimum", _least, _cumulative(cummin_p), None,
    _masked(_least, _limit(1)), "min",
)  # fmt: skip
logical_and = _make(
    logic.logical_and, "logical_and", _every, _by_halves(logic.logical_and, logical=True), True,
    _masked(_every, _constant(True)),
)  # fmt: skip
logical_or = _make(
    logic.logical_or, "logical_or", _some, _by_halves(logic.logical_or, logical=True), False,
    _masked(_some, _constant(False)),
)  # fmt: skip
logical_xor = _make(
    logic.logical_xor, "logical_xor", _parity, _by_halves(logic.logical_xor, logical=True), False,
    _masked(_parity, _constant(False)),
)  # fmt: skip
bitwise_and = _make(
    bitwise.bitwise_and, "bitwise_and", _and, _by_halves(bitwise.bitwise_and), -1,
    _masked(_and, _none),
)  # fmt: skip
bitwise_or = _make(
    bitwise.bitwise_or, "bitwise_or", _or, _by_halves(bitwise.bitwise_or), 0, _masked(_or, _none)
)
bitwise_xor = _make(
    bitwise.bitwise_xor, "bitwise_xor", _xor, _by_halves(bitwise.bitwise_xor), 0,
    _masked(_xor, _none),
)  # fmt: skip
logaddexp = _make(
    log_sums.logaddexp, "logaddexp", _log_sum_e, _log_sums(1.0), float("-inf"),
    _masked(_log_sum_e, _none),
)  # fmt: skip
logaddexp2 = _make(
    log_sums.logaddexp2, "logaddexp2", _log_sum_2, _log_sums(_LOG_2), float("-inf"),
    _masked(_log_sum_2, _none),
)  # fmt: skip
negative = ufunc(ufuncs.negative, 1, 1, name="negative", call=ufuncs.negative)
