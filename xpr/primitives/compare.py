"""Comparisons and choices between values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import NotLinear, Primitive, define
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._complex import maximum, minimum
from xpr.primitives.families import FLOATING, REAL, binary, require_same_dtypes, unary
from xpr.primitives.rules import (
    BatchAxis,
    Dim,
    NoTangent,
    Partials,
    Zero,
    at_place,
    broadcast_to,
    full_like,
    instantiate,
    is_linear,
    shape_of,
    zero_tangent,
    zeros,
)

__all__ = [
    "clamp",
    "eq",
    "ge",
    "gt",
    "is_finite",
    "le",
    "lt",
    "ne",
    "select",
    "select_n",
]

_FAMILY = "compare"
_ORDERED = "biuf"
_NdArray = np.ndarray[Any, Any]

# ---- comparisons


def _comparison(name: str, kinds: str, doc: str, reference: Callable[..., Any]) -> Primitive:
    return binary(
        name,
        family=_FAMILY,
        kinds=kinds,
        doc=doc,
        reference=reference,
        result=dtypes.BOOL,
        jvp=NoTangent(),
    )


def _order_key(x: _NdArray) -> _NdArray:
    """Integers in the total order of IEEE 754: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    if dtypes.kind(x.dtype) != "f":
        return x
    bits = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _in_total_order(compare: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: _NdArray, y: _NdArray) -> Any:
        return compare(_order_key(x), _order_key(y))

    return reference


eq_p = _comparison("eq", "biufcx", "x == y.", np.equal)
ne_p = _comparison("ne", "biufcx", "x != y.", np.not_equal)
lt_p = _comparison("lt", _ORDERED, "x < y.", np.less)
le_p = _comparison("le", _ORDERED, "x <= y.", np.less_equal)
gt_p = _comparison("gt", _ORDERED, "x > y.", np.greater)
ge_p = _comparison("ge", _ORDERED, "x >= y.", np.greater_equal)
eq_to_p = _comparison("eq_to", REAL, "x == y in IEEE total order.", _in_total_order(np.equal))
lt_to_p = _comparison("lt_to", REAL, "x < y in IEEE total order.", _in_total_order(np.less))
le_to_p = _comparison("le_to", REAL, "x <= y in IEEE total order.", _in_total_order(np.less_equal))
is_finite_p = unary(
    "is_finite",
    family=_FAMILY,
    kinds=FLOATING,
    doc="Whether x is neither infinite nor NaN.",
    reference=np.isfinite,
    result=lambda dtype: dtypes.BOOL,
    jvp=NoTangent(),
)


def eq(x: Any, y: Any) -> Array:
    """`x == y` elementwise, a boolean array; operands of one dtype, any dtype. NaN equals nothing.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.eq(jnp.arange(3), 1)
    Array([False,  True, False], dtype=bool)
    """
    return eq_p.bind(x, y)


def ne(x: Any, y: Any) -> Array:
    """`x != y` elementwise, a boolean array; operands of one dtype, any dtype.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.ne(jnp.arange(3), 1)
    Array([ True, False,  True], dtype=bool)
    """
    return ne_p.bind(x, y)


def lt(x: Any, y: Any) -> Array:
    """`x < y` elementwise, a boolean array; operands of one dtype that is not complex.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.lt(jnp.arange(3), 1)
    Array([ True, False, False], dtype=bool)
    """
    return lt_p.bind(x, y)


def le(x: Any, y: Any) -> Array:
    """`x <= y` elementwise, a boolean array; operands of one dtype that is not complex.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.le(jnp.arange(3), 1)
    Array([ True,  True, False], dtype=bool)
    """
    return le_p.bind(x, y)


def gt(x: Any, y: Any) -> Array:
    """`x > y` elementwise, a boolean array; operands of one dtype that is not complex.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.gt(jnp.arange(3), 1)
    Array([False, False,  True], dtype=bool)
    """
    return gt_p.bind(x, y)


def ge(x: Any, y: Any) -> Array:
    """`x >= y` elementwise, a boolean array; operands of one dtype that is not complex.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.ge(jnp.arange(3), 1)
    Array([False,  True,  True], dtype=bool)
    """
    return ge_p.bind(x, y)


def is_finite(x: Any) -> Array:
    """Whether elements of a floating array are neither infinite nor NaN, a boolean array.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.is_finite(jnp.array([1.0, jnp.inf, jnp.nan]))
    Array([ True, False, False], dtype=bool)
    """
    return is_finite_p.bind(x)


# ---- choices


def _select_n_abstract(which: ShapedArray, *cases: ShapedArray) -> ShapedArray:
    if not cases:
        raise ValueError("select_n() must have at least one case")
    first, shapes = cases[0], [c.shape for c in cases]
    if any(s != shapes[0] for s in shapes):
        raise TypeError(
            f"select cases must have the same shapes, got [{', '.join(map(str, shapes))}]."
        )
    if any(c.dtype != first.dtype for c in cases):
        found = ", ".join(str(c.dtype) for c in cases)
        raise TypeError(
            f"lax.select requires arguments to have the same dtypes, got {found}. "
            "(Tip: jnp.where is a similar function that does automatic type promotion on inputs)."
        )
    if which.shape not in ((), shapes[0]):
        raise TypeError(
            "select `which` must be scalar or have the same shape as cases, got `which` shape "
            f"{which.shape} but case shape {shapes[0]}."
        )
    kind = dtypes.kind(which.dtype)
    if kind not in "biu":
        raise TypeError(f"select `which` must be boolean or integer type, got {which.dtype}.")
    if kind == "b" and len(cases) > 2:
        raise TypeError("select with boolean `which` cannot have > 2 cases.")
    return first.update(weak_type=all(c.weak_type for c in cases))


def _select_n_reference(which: _NdArray, *cases: _NdArray) -> Any:
    if len(cases) == 1:
        return cases[0]
    if len(cases) == 2:
        return np.where(which > 0, cases[1], cases[0])
    result = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        result = np.where(which <= i, cases[i], result)
    return result


def _select_n_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    which, *cases = primals
    out = select_n_p.bind(which, *cases)
    if all(type(t) is Zero for t in tangents[1:]):
        return out, zero_tangent(out)
    return out, select_n_p.bind(which, *map(instantiate, tangents[1:]))


def _select_n_transpose(ct: Any, which: Any, *cases: Any) -> list[Any]:
    nothing = zeros(get_aval(ct)) if len(cases) > 1 else None
    return [
        None,
        *(
            select_n_p.bind(which, *(ct if i == j else nothing for j in range(len(cases))))
            if is_linear(case)
            else None
            for i, case in enumerate(cases)
        ),
    ]


def _select_n_batch(axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim]) -> tuple[Any, int]:
    which, *cases = args
    which_dim, *case_dims = dims
    rank = len(shape_of(cases[0])) - (case_dims[0] is not None)
    scalar = len(shape_of(which)) == (which_dim is not None)
    # The axis goes where an operand of full rank has it already.
    full_dims = case_dims if scalar and rank else [*case_dims, which_dim]
    place = next((d for d in full_dims if d is not None), 0)
    typed = _typed_case(axis, cases, case_dims, place)
    cases = [
        at_place(axis, x, d, place)
        if d is not None or typed is None
        else _like(axis, x, place, typed)
        for x, d in zip(cases, case_dims, strict=True)
    ]
    if not scalar:
        which = at_place(axis, which, which_dim, place)
    elif rank and which_dim is not None:
        which = ops.broadcast_in_dim(which, shape_of(cases[0]), (place,))
    return select_n_p.bind(which, *cases), place


def _typed_case(axis: BatchAxis, cases: Sequence[Any], dims: Sequence[Dim], place: int) -> Any:
    """The sharding of a case that examples differ in, for constants among the cases.

    None where types show no sharding, and where every case differs.
    """
    if axis.sharding is None or None not in dims:
        return None
    found = (
        get_aval(at_place(axis, x, d, place)).sharding
        for x, d in zip(cases, dims, strict=True)
        if d is not None
    )
    return next((s for s in found if s is not None), None)


def _like(axis: BatchAxis, x: Any, place: int, sharding: Any) -> Any:
    """A case that all examples share, for each of them; a constant is sharded as the others."""
    aval = get_aval(x)
    if aval.sharding is not None and any(aval.sharding.spec.partitions):
        return at_place(axis, x, None, place)
    shape = (*aval.shape[:place], axis.size, *aval.shape[place:])
    dims = tuple(i for i in range(len(shape)) if i != place)
    return ops.bind(
        "broadcast_in_dim", x, shape=shape, broadcast_dimensions=dims, sharding=sharding
    )


def _clamp_abstract(low: ShapedArray, x: ShapedArray, high: ShapedArray) -> ShapedArray:
    for aval in (low, x, high):
        if dtypes.kind(aval.dtype) not in "biufc":
            raise TypeError(f"clamp does not accept dtype {aval.dtype}")
    if not low.dtype == x.dtype == high.dtype:
        require_same_dtypes("clamp", low, x, high)
    for name, aval in (("min", low), ("max", high)):
        if aval.shape and aval.shape != x.shape:
            raise TypeError(
                f"clamp requires {name}.shape == operand.shape or {name}.shape == (), got "
                f"{name}.shape={aval.shape}, operand.shape={x.shape}."
            )
    return x.update(weak_type=low.weak_type and x.weak_type and high.weak_type)


def _clamp_reference(low: _NdArray, x: _NdArray, high: _NdArray) -> Any:
    return minimum(maximum(low, x), high)


def _clamped_to(own: Callable[..., Any], others: Callable[..., Any]) -> Callable[..., Any]:
    """The tangent of one operand: that of the result where it is `own`, and none of `others`.

    So the derivative is zero where `x` is equal to a bound, as JAX has it.
    """

    def tangent(t: Any, out: Any, low: Any, x: Any, high: Any) -> Any:
        mine = own(low, x, high)
        chosen = ops.eq(out, mine)
        for other in others(low, x, high):
            chosen = ops.bind("and", chosen, ops.bind("ne", mine, other))
        return ops.select(chosen, broadcast_to(t, shape_of(out)), full_like(out, 0))

    return tangent


def _clamp_batch(axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim]) -> tuple[Any, int]:
    low, x, high = args
    rank = len(shape_of(x)) - (dims[1] is not None)
    # The axis goes where an operand of full rank has it already.
    places = [
        dims[i] for i in (1, 0, 2) if dims[i] is not None and len(shape_of(args[i])) == rank + 1
    ]
    place = places[0] or 0 if places else 0
    x = at_place(axis, x, dims[1], place)

    def bound(value: Any, dim: Dim) -> Any:
        if dim is None:
            return at_place(axis, value, None, place) if shape_of(value) else value
        if rank and len(shape_of(value)) == 1:
            return ops.broadcast_in_dim(value, shape_of(x), (place,))
        return at_place(axis, value, dim, place)

    return clamp_p.bind(bound(low, dims[0]), x, bound(high, dims[2])), place


select_n_p = define(
    "select_n",
    family=_FAMILY,
    doc="Takes each element from the case that the first operand numbers.",
    abstract=_select_n_abstract,
    reference=_select_n_reference,
    jvp=_select_n_jvp,
    transpose=_select_n_transpose,
    batch=_select_n_batch,
)
clamp_p = define(
    "clamp",
    family=_FAMILY,
    doc="min(max(x, low), high).",
    abstract=_clamp_abstract,
    reference=_clamp_reference,
    jvp=Partials(
        _clamped_to(lambda low, x, high: low, lambda low, x, high: (x, high)),
        _clamped_to(lambda low, x, high: x, lambda low, x, high: (low, high)),
        _clamped_to(lambda low, x, high: high, lambda low, x, high: (ops.bind("max", low, x),)),
    ),
    transpose=NotLinear("it is not linear"),
    batch=_clamp_batch,
)


def select_n(which: Any, *cases: Any) -> Array:
    """Takes each element from `cases[which]`.

    `which` is boolean (two cases at most: False takes the first) or an integer array, rank 0 or of
    the cases' shape; numbers below 0 take the first case, too great ones the last. Cases have one
    shape and dtype. Raises ValueError without cases, TypeError for other dtypes or shapes.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.select_n(jnp.array([True, False]), jnp.array([1, 2]), jnp.array([3, 4]))
    Array([3, 2], dtype=int32)
    """
    return select_n_p.bind(which, *cases)


def select(pred: Any, on_true: Any, on_false: Any) -> Array:
    """Takes each element from `on_true` where `pred` holds, else from `on_false`.

    The two have one shape and dtype; `pred` is boolean, rank 0 or of their shape.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.select(jnp.array([True, False]), jnp.array([1, 2]), jnp.array([3, 4]))
    Array([1, 4], dtype=int32)
    """
    return select_n_p.bind(pred, on_false, on_true)


def clamp(min: Any, x: Any, max: Any) -> Array:
    """`minimum(maximum(x, min), max)`, operands of one dtype: `max` wins where `min > max`.

    `min` and `max` have rank 0 or the shape of `x`. NaN anywhere gives NaN.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.clamp(0, jnp.array([-1, 1, 5]), 3)
    Array([0, 1, 3], dtype=int32)
    """
    return clamp_p.bind(min, x, max)
