"""Reductions along axes: sums, products, extrema, logical reductions, argmin and argmax.

A general `reduce` combines elements with any associative function of scalars, kept as a jaxpr.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.placing import bound_there, given_sharding, places_now, resharded
from xpr.core.primitive import Absent, DerivedRule, NotLinear, Primitive, Rule, define
from xpr.core.trace import Tracer, get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._reduce_rules import (
    ReductionBatch,
    extremum_tangent,
    product_tangent,
    reduce_batch,
    reduce_jvp,
    sum_transpose,
)
from xpr.primitives._scalar_jaxpr import evaluate, single_primitive, trace_scalars
from xpr.primitives.families import ANY, require_kind
from xpr.primitives.rules import LinearJVP, NoTangent, Partials

__all__ = [
    "argmax",
    "argmin",
    "reduce",
    "reduce_and",
    "reduce_max",
    "reduce_min",
    "reduce_or",
    "reduce_prod",
    "reduce_sum",
    "reduce_xor",
]

NDArray = np.ndarray[Any, Any]
Axes = tuple[int, ...]

_FAMILY = "reduce"
_NOT_LINEAR = NotLinear("it is not linear")


def _kept_shape(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def _check_axes(x: ShapedArray, axes: Axes) -> None:
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axes' of reduction: {axes}")
    if not all(0 <= a < x.ndim for a in axes):
        raise ValueError(f"reduction axes {axes} contains out-of-bounds indices for {x}.")


def _check_computes(name: str, x: ShapedArray) -> None:
    if x.dtype in dtypes.SMALL_FLOAT_TYPES:
        raise TypeError(f"{name} does not compute in {x.dtype}; convert to a wider float first")


def limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The least and the greatest value of `dtype` in the order that max and min use."""
    kind = dtypes.kind(dtype)
    if kind == "b":
        return False, True
    if kind in "iu":
        info = dtypes.iinfo(dtype)
        return info.min, info.max
    return (-math.inf, math.inf) if kind == "f" else (complex(-math.inf, 0), complex(math.inf, 0))


# ---- reductions with a named operation


def _reduction(
    name: str,
    reduce: Callable[[NDArray, Axes], NDArray],
    check: Callable[[ShapedArray], None],
    doc: str,
    jvp: Rule | DerivedRule,
    transpose: Rule | Absent = _NOT_LINEAR,
    keeps_weak: bool = True,
) -> Primitive:
    """A primitive that reduces `axes`; `reduce(x, axes)` is its meaning for non-storage types."""

    def abstract(x: ShapedArray, *, axes: Axes, **_: Any) -> ShapedArray:
        check(x)
        _check_computes(name, x)
        _check_axes(x, axes)
        return ShapedArray(_kept_shape(x.shape, axes), x.dtype, keeps_weak and x.weak_type)

    def reference(x: NDArray, *, axes: Axes, **_: Any) -> NDArray:
        if dtypes.is_float(x.dtype) and x.dtype.itemsize == 2:
            return np.asarray(reduce(x.astype(np.float32), axes)).astype(x.dtype)
        return reduce(x, axes)

    return define(
        name,
        family=_FAMILY,
        doc=doc,
        abstract=abstract,
        reference=reference,
        jvp=jvp,
        transpose=transpose,
        batch=ReductionBatch(),
    )


def _number_check(name: str) -> Callable[[ShapedArray], None]:
    def check(x: ShapedArray) -> None:
        if dtypes.kind(x.dtype) not in "iufc":
            raise TypeError(
                f"{name} does not accept dtype {x.dtype}. Accepted dtypes are subtypes of number."
            )

    return check


def _any_check(x: ShapedArray) -> None:
    dtypes.kind(x.dtype)


def _logical_check(x: ShapedArray) -> None:
    if dtypes.kind(x.dtype) not in "biu":
        raise TypeError(f"logical reduction requires operand dtype bool or int, got {x.dtype}.")


def _sum(x: NDArray, axes: Axes) -> NDArray:
    if x.dtype == np.float32 and x.ndim - 1 not in axes:
        # NumPy sums in pairs only along the last axis; elsewhere float32 would lose digits.
        return np.add.reduce(x, axis=axes, dtype=np.float64).astype(np.float32)
    return np.add.reduce(x, axis=axes, dtype=x.dtype)


def _prod(x: NDArray, axes: Axes) -> NDArray:
    return np.multiply.reduce(x, axis=axes, dtype=x.dtype)


def _max(x: NDArray, axes: Axes) -> NDArray:
    if any(x.shape[a] == 0 for a in axes):
        return np.full(_kept_shape(x.shape, axes), limits(x.dtype)[0], x.dtype)
    return np.maximum.reduce(x, axis=axes)


def _min(x: NDArray, axes: Axes) -> NDArray:
    if any(x.shape[a] == 0 for a in axes):
        return np.full(_kept_shape(x.shape, axes), limits(x.dtype)[1], x.dtype)
    return np.minimum.reduce(x, axis=axes)


def _and(x: NDArray, axes: Axes) -> NDArray:
    # NumPy's reduction of unsigned types would start with the signed -1.
    return np.bitwise_and.reduce(x, axis=axes, dtype=x.dtype)


def _or(x: NDArray, axes: Axes) -> NDArray:
    return np.bitwise_or.reduce(x, axis=axes, dtype=x.dtype)


def _xor(x: NDArray, axes: Axes) -> NDArray:
    return np.bitwise_xor.reduce(x, axis=axes, dtype=x.dtype)


reduce_sum_p = _reduction(
    "reduce_sum",
    _sum,
    _number_check("reduce_sum"),
    "The sum along axes.",
    jvp=LinearJVP(),
    transpose=sum_transpose,
)
reduce_prod_p = _reduction(
    "reduce_prod",
    _prod,
    _number_check("reduce_prod"),
    "The product along axes.",
    jvp=Partials(product_tangent),
)
reduce_max_p = _reduction(
    "reduce_max",
    _max,
    _any_check,
    "The greatest element along axes.",
    jvp=Partials(extremum_tangent),
)
reduce_min_p = _reduction(
    "reduce_min",
    _min,
    _any_check,
    "The least element along axes.",
    jvp=Partials(extremum_tangent),
)
reduce_and_p = _reduction(
    "reduce_and", _and, _logical_check, "Bitwise and along axes.", jvp=NoTangent(), keeps_weak=False
)
reduce_or_p = _reduction(
    "reduce_or", _or, _logical_check, "Bitwise or along axes.", jvp=NoTangent(), keeps_weak=False
)
reduce_xor_p = _reduction(
    "reduce_xor", _xor, _logical_check, "Bitwise xor along axes.", jvp=NoTangent(), keeps_weak=False
)


def _axes(axes: Sequence[int]) -> Axes:
    return tuple(operator.index(a) for a in axes)


def _refuse_half(operand: Any, axes: Sequence[int]) -> None:
    """Raises ValueError for sums of float16 and bfloat16 over more than one element."""
    aval = get_aval(operand)
    if aval.dtype.name in ("float16", "bfloat16") and any(aval.shape[i] != 1 for i in axes):
        raise ValueError(
            f"reduce_sum on operand {aval} is not allowed when allow_f16_reductions is False"
        )


def reduce_sum(operand: Any, axes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """The sum of `operand` along `axes`, in its own dtype.

    The axes are non-negative and vanish from the shape; the sum of none is 0. Integers wrap
    around; float16 and bfloat16 are summed in float32 and rounded once. Raises TypeError for bool,
    ValueError for repeated axes and axes out of range.

    >>> reduce_sum(np.ones((2, 3), np.float32), (1,))
    Array([3., 3.], dtype=float32)
    """
    if not state.allow_f16_reductions:
        _refuse_half(operand, axes)
    given = given_sharding("reduce_sum", out_sharding)
    if places_now(given):
        return resharded("reduce_sum", given, lambda: reduce_sum(operand, axes))
    return bound_there(reduce_sum_p, operand, axes=_axes(axes), out_sharding=given)


def reduce_prod(operand: Any, axes: Sequence[int]) -> Array:
    """The product of `operand` along `axes`, in its own dtype; that of no elements is 1.

    Axes and errors as for `reduce_sum`.

    >>> reduce_prod(np.array([2.0, 3.0], np.float32), (0,))
    Array(6., dtype=float32)
    """
    return reduce_prod_p.bind(operand, axes=_axes(axes))


def reduce_max(operand: Any, axes: Sequence[int]) -> Array:
    """The greatest element along `axes`; NaN where there is one.

    That of no elements is -inf, or the least value of an integer type. Any dtype; complex numbers
    are compared by real part, then imaginary part. Equal extremes share the derivative equally.
    Axes as for `reduce_sum`.

    >>> reduce_max(np.array([[1, 5], [7, 2]], np.int32), (0,))
    Array([7, 5], dtype=int32)
    """
    return reduce_max_p.bind(operand, axes=_axes(axes))


def reduce_min(operand: Any, axes: Sequence[int]) -> Array:
    """The least element along `axes`; NaN where there is one.

    That of no elements is inf, or the greatest value of an integer type. Any dtype; complex numbers
    are compared by real part, then imaginary part. Equal extremes share the derivative equally.
    Axes as for `reduce_sum`.

    >>> reduce_min(np.array([[1, 5], [7, 2]], np.int32), (0,))
    Array([1, 2], dtype=int32)
    """
    return reduce_min_p.bind(operand, axes=_axes(axes))


def reduce_and(operand: Any, axes: Sequence[int]) -> Array:
    """Bitwise (for bool: logical) and along `axes`; all ones for no elements.

    Raises TypeError unless the dtype is bool or an integer type. Axes as for `reduce_sum`.

    >>> reduce_and(np.array([True, False]), (0,))
    Array(False, dtype=bool)
    """
    return reduce_and_p.bind(operand, axes=_axes(axes))


def reduce_or(operand: Any, axes: Sequence[int]) -> Array:
    """Bitwise (for bool: logical) or along `axes`; zero for no elements. Otherwise as `reduce_and`.

    >>> reduce_or(np.array([4, 1], np.int32), (0,))
    Array(5, dtype=int32)
    """
    return reduce_or_p.bind(operand, axes=_axes(axes))


def reduce_xor(operand: Any, axes: Sequence[int]) -> Array:
    """Bitwise exclusive or along `axes`; zero for no elements. Otherwise as `reduce_and`.

    >>> reduce_xor(np.array([5, 1], np.int32), (0,))
    Array(4, dtype=int32)
    """
    return reduce_xor_p.bind(operand, axes=_axes(axes))


# ---- argmin and argmax


def _arg_reduction(name: str, find: Callable[..., NDArray], doc: str) -> Primitive:
    def abstract(x: ShapedArray, *, axes: Axes, index_dtype: np.dtype[Any]) -> ShapedArray:
        (axis,) = axes
        if not 0 <= axis < x.ndim:
            raise ValueError(f"Invalid axis {axis} for operand shape {x.shape}")
        if not dtypes.is_integer(index_dtype):
            raise TypeError(f"index_dtype must be an integer type, but got {index_dtype}")
        if x.shape[axis] == 0:
            raise ValueError(
                "argmin and argmax require non-empty reduced dimension. "
                f"operand.shape={x.shape} {axis=}"
            )
        if dtypes.is_complex(x.dtype):
            raise TypeError(
                f"{name} does not accept dtype {x.dtype}; complex numbers have no order"
            )
        require_kind(name, x, ANY)
        _check_computes(name, x)
        return ShapedArray(_kept_shape(x.shape, axes), index_dtype)

    def reference(x: NDArray, *, axes: Axes, index_dtype: np.dtype[Any]) -> NDArray:
        if dtypes.is_float(x.dtype) and x.dtype.itemsize == 2:
            x = x.astype(np.float32)
        return find(x, axis=axes[0]).astype(index_dtype)

    return define(
        name,
        family=_FAMILY,
        doc=doc,
        abstract=abstract,
        reference=reference,
        jvp=NoTangent(),
        transpose=NotLinear("it gives indices"),
        batch=ReductionBatch(),
    )


argmin_p = _arg_reduction("argmin", np.argmin, "Index of the first least element along an axis.")
argmax_p = _arg_reduction("argmax", np.argmax, "Index of the first greatest element along an axis.")


def argmin(operand: Any, axis: int, index_dtype: Any) -> Array:
    """Index along `axis` of the least element: the first of equal ones, or of the first NaN.

    Any real dtype or bool; the result has dtype `index_dtype` and no axis `axis`. Raises
    ValueError for an axis out of range or of size 0, TypeError for an index dtype that is not
    an integer type.

    >>> argmin(np.array([3.0, 1.0, 1.0], np.float32), 0, np.int32)
    Array(1, dtype=int32)
    """
    dtype = dtypes.canonicalize(index_dtype)
    return argmin_p.bind(operand, axes=(operator.index(axis),), index_dtype=dtype)


def argmax(operand: Any, axis: int, index_dtype: Any) -> Array:
    """Index along `axis` of the greatest element: the first of equal ones, or of the first NaN.

    Dtypes and errors as for `argmin`.

    >>> argmax(np.array([3.0, 1.0, 3.0], np.float32), 0, np.int32)
    Array(0, dtype=int32)
    """
    dtype = dtypes.canonicalize(index_dtype)
    return argmax_p.bind(operand, axes=(operator.index(axis),), index_dtype=dtype)


# ---- the general reduction


def _reduce_abstract(
    *avals: ShapedArray, jaxpr: ClosedJaxpr, dimensions: Axes, out_sharding: Any = None
) -> list[ShapedArray]:
    half = len(avals) // 2
    operands, inits = avals[:half], avals[half:]
    for x, init in zip(operands, inits, strict=True):
        if x.dtype != init.dtype:
            raise TypeError(
                "reduce operand dtypes should match corresponding initial value dtypes, got "
                f"operands={list(operands)} and initial_values={list(inits)}"
            )
        if init.shape:
            raise ValueError(f"reduce found non-scalar initial value: {[i.shape for i in inits]}")
        if x.shape != operands[0].shape:
            raise TypeError(
                "reduce requires operands of equal shapes, got "
                f"{' and '.join(str(o.shape) for o in operands)}"
            )
    _check_axes(operands[0], dimensions)
    shape = _kept_shape(operands[0].shape, dimensions)
    weak = [x.weak_type and i.weak_type for x, i in zip(operands, inits, strict=True)]
    return [ShapedArray(shape, x.dtype, w) for x, w in zip(operands, weak, strict=True)]


def _reduce_reference(
    *args: NDArray, jaxpr: ClosedJaxpr, dimensions: Axes, out_sharding: Any = None
) -> list[NDArray]:
    half = len(args) // 2
    operands, inits = args[:half], args[half:]
    kept = [i for i in range(operands[0].ndim) if i not in dimensions]
    shape = tuple(operands[0].shape[i] for i in kept)
    count = math.prod(operands[0].shape[i] for i in dimensions)
    # The reduced elements along axis 0, the initial value first.
    rows = [
        np.concatenate(
            [
                np.broadcast_to(init, (1, *shape)),
                x.transpose((*dimensions, *kept)).reshape((count, *shape)),
            ]
        )
        for x, init in zip(operands, inits, strict=True)
    ]
    return [r[0] for r in reduce_rows(jaxpr, rows)]


def reduce_rows(jaxpr: ClosedJaxpr, rows: Sequence[NDArray]) -> Sequence[NDArray]:
    """Reduces axis 0 to size 1 with the function `jaxpr`, neighbours first and in order."""
    while (n := rows[0].shape[0]) > 1:
        even = n - n % 2
        combined = evaluate(jaxpr, *(r[0:even:2] for r in rows), *(r[1:even:2] for r in rows))
        rows = [np.concatenate([f, r[even:]]) for f, r in zip(combined, rows, strict=True)]
    return rows


reduce_p = define(
    "reduce",
    family=_FAMILY,
    doc="Reduces axes with an associative function of scalars.",
    abstract=_reduce_abstract,
    reference=_reduce_reference,
    jvp=reduce_jvp,
    transpose=NotLinear("its tangents are made by other primitives"),
    batch=reduce_batch,
    multiple_results=True,
    pp_params=lambda params: {k: v for k, v in params.items() if k != "out_sharding"},
)


def _is_value(x: Any, value: Any) -> bool:
    """Whether `x` is a concrete scalar equal to `value`."""
    return not isinstance(x, Tracer) and bool(np.asarray(x) == np.asarray(value))


def _monoid(jaxpr: ClosedJaxpr, aval: ShapedArray, init: Any) -> Callable[..., Array] | None:
    """The named reduction that combines as `jaxpr` does from `init`, if there is one."""
    found = single_primitive(jaxpr)
    if found is None or found.name not in _MONOIDS:
        return None
    reduction, identity, kinds = _MONOIDS[found.name]
    if dtypes.kind(aval.dtype) not in kinds or not _is_value(init, identity(aval.dtype)):
        return None
    return reduction


def all_ones(dtype: np.dtype[Any]) -> Any:
    return True if dtypes.kind(dtype) == "b" else np.invert(np.zeros((), dtype))


_MONOIDS: dict[str, tuple[Callable[..., Array], Callable[[np.dtype[Any]], Any], str]] = {
    "add": (reduce_sum, lambda d: 0, "iufc"),
    "mul": (reduce_prod, lambda d: 1, "iufc"),
    "max": (reduce_max, lambda d: limits(d)[0], "biuf"),
    "min": (reduce_min, lambda d: limits(d)[1], "biuf"),
    "and": (reduce_and, all_ones, "biu"),
    "or": (reduce_or, lambda d: 0, "biu"),
    "xor": (reduce_xor, lambda d: 0, "biu"),
}


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Reduces `dimensions` of `operands` with `computation`, starting from `init_values`.

    `operands` and `init_values` are pytrees of one structure: arrays of one shape, and scalars of
    their dtypes. `computation(a, b)` takes and returns such trees of scalars. It must be
    associative with `init_values` as its identity, since the order of combination is not
    specified. A computation that is add, mul, max, min or a bitwise operation, with its
    identity as a concrete initial value, becomes the primitive of that name.

    Raises TypeError when dtypes or shapes of operands and initial values do not go together or the
    computation returns other types, ValueError for axes out of range.

    >>> from xpr.primitives.elementwise import mul
    >>> x = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    >>> reduce(x, np.float32(1), mul, (0,))
    Array([3., 8.], dtype=float32)
    """
    flat, tree = tree_util.tree_flatten(operands)
    flat_inits, init_tree = tree_util.tree_flatten(init_values)
    if tree != init_tree:
        raise ValueError(
            f"Operands must have the same tree structure as init_values: {tree} vs. {init_tree}"
        )
    if not flat:
        raise ValueError("reduce requires at least one operand")
    axes = _axes(dimensions)
    avals = [get_aval(x) for x in flat]
    # Numbers take the dtypes of the operands, as in JAX even where they are of another kind.
    flat_inits = [
        ops.convert(init, x.dtype, weak_type=True) if get_aval(init).weak_type else init
        for x, init in zip(avals, flat_inits, strict=True)
    ]
    init_avals = [get_aval(x) for x in flat_inits]
    scalars = [
        ShapedArray((), x.dtype, x.weak_type and i.weak_type)
        for x, i in zip(avals, init_avals, strict=True)
    ]

    def flat_computation(*values: Any) -> Sequence[Any]:
        half = len(values) // 2
        left = tree_util.tree_unflatten(tree, values[:half])
        right = tree_util.tree_unflatten(tree, values[half:])
        return tree_util.tree_leaves(computation(left, right))

    for x, init in zip(avals, init_avals, strict=True):
        if x.dtype != init.dtype:
            raise TypeError(
                "reduce operand dtypes should match corresponding initial value dtypes, got "
                f"operands={avals} and initial_values={init_avals}"
            )
    jaxpr = trace_scalars("reduce", flat_computation, scalars)
    if len(flat) == 1 and not init_avals[0].shape:
        named = _monoid(jaxpr, avals[0], flat_inits[0])
        if named is not None:
            return tree_util.tree_unflatten(tree, [named(flat[0], axes)])
    found = reduce_p.bind(
        *flat, *flat_inits, jaxpr=jaxpr, dimensions=axes, out_sharding=out_sharding
    )
    return tree_util.tree_unflatten(tree, found)
