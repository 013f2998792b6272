"""Reductions over sliding windows (pooling), and the selections that their derivatives need."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import Absent, DerivedRule, NotLinear, Primitive, Rule, define
from xpr.core.trace import Tracer, get_aval
from xpr.primitives._complex import maximum, minimum
from xpr.primitives._scalar_jaxpr import evaluate, single_primitive, trace_scalars
from xpr.primitives._window_dims import (
    Shape,
    WindowDims,
    dilated,
    int_tuple,
    pad_array,
    pad_pairs,
    padtype_to_pads,
    window_dims,
)
from xpr.primitives._window_rules import (
    WindowBatch,
    gather_transpose,
    reduce_window_batch,
    reduce_window_jvp,
    scatter_transpose,
    selected_tangent,
    window_sum_transpose,
)
from xpr.primitives.reduce import limits
from xpr.primitives.rules import LinearJVP, Partials

__all__ = ["padtype_to_pads", "reduce_window", "reduce_window_shape_tuple"]

NDArray = np.ndarray[Any, Any]

_FAMILY = "window"
_NOT_LINEAR = NotLinear("it is not linear")


# ---- reductions of windows


def _reduce_windows(
    arrays: Sequence[NDArray], combine: Callable[..., Sequence[NDArray]], dims: WindowDims
) -> list[NDArray]:
    """Reduces each window of padded arrays, the last axis first, in the order of the elements.

    Along an axis, reductions of 1, 2, 4, ... neighbours are made from each other; a window is put
    together from those whose lengths make up its size.
    """
    found = list(arrays)
    for axis in reversed(range(found[0].ndim)):
        size, apart = dims.dimensions[axis], dims.window_dilation[axis]
        count = found[0].shape[axis] - dilated(size, apart) + 1

        def part(
            xs: Sequence[NDArray], start: int, stop: int | None, axis: int = axis
        ) -> list[NDArray]:
            index = (slice(None),) * axis + (slice(start, stop),)
            return [x[index] for x in xs]

        power, length, at, total = found, 1, 0, None
        while size:
            if size & 1:
                piece = part(power, at, at + count)
                total = piece if total is None else list(combine(*total, *piece))
                at += length * apart
            size >>= 1
            if size:
                step = length * apart
                power = list(combine(*part(power, 0, -step), *part(power, step, None)))
                length *= 2
        strided = (slice(None),) * axis + (slice(None, None, dims.strides[axis]),)
        found = [x[strided] for x in total or found]
    return found


def _named_window(
    name: str,
    kinds: str,
    combine: Callable[[NDArray, NDArray], Any],
    identity: Callable[[np.dtype[Any]], Any],
    doc: str,
    jvp: DerivedRule,
    transpose: Rule | Absent = _NOT_LINEAR,
) -> Primitive:
    def abstract(x: ShapedArray, **params: Any) -> ShapedArray:
        if dtypes.kind(x.dtype) not in kinds or x.dtype in dtypes.SMALL_FLOAT_TYPES:
            raise TypeError(f"{name} does not accept dtype {x.dtype}")
        dims = window_dims(**params)
        dims.check(name, x.shape)
        return x.update(shape=dims.out_shape(x.shape))

    def reference(x: NDArray, **params: Any) -> NDArray:
        dims = window_dims(**params)
        shape = dims.out_shape(x.shape)
        if 0 in shape:
            return np.zeros(shape, x.dtype)
        wide = x.astype(np.float32) if dtypes.is_float(x.dtype) and x.dtype.itemsize == 2 else x
        padded = pad_array(wide, identity(x.dtype), dims.padding, dims.base_dilation)
        return _reduce_windows([padded], lambda a, b: [combine(a, b)], dims)[0].astype(x.dtype)

    return define(
        name,
        family=_FAMILY,
        doc=doc,
        abstract=abstract,
        reference=reference,
        jvp=jvp,
        transpose=transpose,
        batch=WindowBatch(),
    )


reduce_window_sum_p = _named_window(
    "reduce_window_sum",
    "iufc",
    np.add,
    lambda d: 0,
    "The sum of each window.",
    jvp=LinearJVP(),
    transpose=window_sum_transpose,
)
reduce_window_max_p = _named_window(
    "reduce_window_max",
    "biufc",
    maximum,
    lambda d: limits(d)[0],
    "The greatest element of each window.",
    jvp=Partials(selected_tangent("ge")),
)
reduce_window_min_p = _named_window(
    "reduce_window_min",
    "biufc",
    minimum,
    lambda d: limits(d)[1],
    "The least element of each window.",
    jvp=Partials(selected_tangent("le")),
)


def _reduce_window_abstract(
    *avals: ShapedArray, jaxpr: ClosedJaxpr, consts: tuple[Any, ...], **params: Any
) -> list[ShapedArray]:
    half = len(avals) // 2
    operands, inits = avals[:half], avals[half:]
    dims = window_dims(**params)
    for x, init in zip(operands, inits, strict=True):
        if x.shape != operands[0].shape:
            raise TypeError(
                "reduce_window requires operands of equal shapes, got "
                f"{' and '.join(str(o.shape) for o in operands)}"
            )
        if init.shape:
            raise TypeError(
                "reduce_window expected init_values to be scalars but init_values have shapes "
                f"{[i.shape for i in inits]}."
            )
        if x.dtype != init.dtype:
            raise TypeError(
                "reduce_window requires operands and init_values of equal dtypes, got "
                f"{x.dtype} and {init.dtype}"
            )
    dims.check("reduce_window", operands[0].shape)
    shape = dims.out_shape(operands[0].shape)
    return [
        ShapedArray(shape, x.dtype, x.weak_type and i.weak_type)
        for x, i in zip(operands, inits, strict=True)
    ]


def _reduce_window_reference(
    *args: NDArray, jaxpr: ClosedJaxpr, consts: tuple[Any, ...], **params: Any
) -> list[NDArray]:
    half = len(args) // 2
    operands, inits = args[:half], args[half:]
    dims = window_dims(**params)
    shape = dims.out_shape(operands[0].shape)
    starts = [np.broadcast_to(i, shape) for i in inits]
    if 0 in shape:
        return starts
    padded = [
        pad_array(x, init, dims.padding, dims.base_dilation)
        for x, init in zip(operands, inits, strict=True)
    ]
    reduced = _reduce_windows(padded, lambda *values: evaluate(jaxpr, *values), dims)
    return evaluate(jaxpr, *starts, *reduced)


reduce_window_p = define(
    "reduce_window",
    family=_FAMILY,
    doc="Reduces each window with an associative function of scalars.",
    abstract=_reduce_window_abstract,
    reference=_reduce_window_reference,
    jvp=reduce_window_jvp,
    transpose=_NOT_LINEAR,
    batch=reduce_window_batch,
    multiple_results=True,
)


# ---- selections

# What each comparison never prefers to an element of the window.
_LEAST_WANTED = {"ge": 0, "gt": 0, "le": 1, "lt": 1}


def outside_value(select_prim: Primitive, dtype: np.dtype[Any]) -> Any:
    """The value that `select_prim` never prefers; TypeError unless it is an order."""
    if select_prim.name not in _LEAST_WANTED:
        raise TypeError(f"windows are selected from by ge, gt, le or lt, got {select_prim.name}")
    return limits(dtype)[_LEAST_WANTED[select_prim.name]]


def _selected(x: NDArray, select_prim: Primitive, dims: WindowDims) -> tuple[NDArray, NDArray]:
    """For each window the number of its selected element, and whether that is an element of `x`.

    The selection goes through the window in order and keeps an element while `select_prim` holds
    for it and the next; padding is never selected where there is anything else.
    """
    if dtypes.is_float(x.dtype) and x.dtype.itemsize == 2:
        x = x.astype(np.float32)
    padded = pad_array(x, outside_value(select_prim, x.dtype), dims.padding, dims.base_dilation)
    inside = pad_array(np.ones(x.shape, bool), False, dims.padding, dims.base_dilation)
    shape = dims.out_shape(x.shape)
    best, real, which = None, np.zeros(shape, bool), np.zeros(shape, np.int64)
    for number, index in enumerate(_window_slices(dims, shape)):
        value, valid = padded[index], inside[index]
        if best is None:
            best, real = value, valid
            continue
        keep = np.where(real & valid, select_prim.reference(best, value), real | ~valid)
        best = np.where(keep, best, value)
        which, real = np.where(keep, which, number), np.where(keep, real, valid)
    return which, real


def _window_slices(dims: WindowDims, shape: Shape) -> list[tuple[slice, ...]]:
    """For each element of a window, the slice of the padded array that has it for all windows."""
    return [
        tuple(
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, d, s, n in zip(offsets, dims.window_dilation, dims.strides, shape, strict=True)
        )
        for offsets in itertools.product(*map(range, dims.dimensions))
    ]


def _select_and_scatter_add_abstract(
    source: ShapedArray, operand: ShapedArray, *, select_prim: Primitive, **params: Any
) -> ShapedArray:
    dims = window_dims(**params)
    dims.check("select_and_scatter_add", operand.shape)
    outside_value(select_prim, operand.dtype)
    if source.shape != dims.out_shape(operand.shape):
        raise TypeError(
            "select_and_scatter_add requires one source element for each window, got source shape "
            f"{source.shape} and {dims.out_shape(operand.shape)} windows"
        )
    if source.dtype != operand.dtype or dtypes.kind(operand.dtype) not in "iuf":
        raise TypeError(
            "select_and_scatter_add requires source and operand of one real dtype, got "
            f"{source.dtype} and {operand.dtype}"
        )
    return operand


def _select_and_scatter_add_reference(
    source: NDArray, operand: NDArray, *, select_prim: Primitive, **params: Any
) -> NDArray:
    dims = window_dims(**params)
    if 0 in source.shape or 0 in operand.shape:
        return np.zeros_like(operand)
    which, real = _selected(operand, select_prim, dims)
    narrow = dtypes.is_float(source.dtype) and source.dtype.itemsize == 2
    wide = source.astype(np.float32) if narrow else source
    sums = np.zeros(dims.padded_shape(operand.shape), wide.dtype)
    for number, index in enumerate(_window_slices(dims, source.shape)):
        sums[index] += np.where((which == number) & real, wide, np.zeros((), wide.dtype))
    # Padding undone: the elements of the operand lie base_dilation apart behind the low padding.
    crop = tuple((-low, -high) for low, high in dims.padding)
    spread = pad_array(sums, 0, crop, (1,) * operand.ndim)
    found = spread[tuple(slice(None, None, d) for d in dims.base_dilation)]
    return found.astype(operand.dtype)


def _without_unit_dilations(params: dict[str, Any]) -> dict[str, Any]:
    return {
        k: v
        for k, v in params.items()
        if not (k in ("base_dilation", "window_dilation") and (v is None or set(v) <= {1}))
    }


select_and_scatter_add_p = define(
    "select_and_scatter_add",
    family=_FAMILY,
    doc="Adds each source element where its window has its selected element.",
    abstract=_select_and_scatter_add_abstract,
    reference=_select_and_scatter_add_reference,
    jvp=Partials(
        lambda t, out, x, operand, **params: select_and_scatter_add_p.bind(t, operand, **params),
        None,
    ),
    transpose=scatter_transpose,
    batch=WindowBatch(),
    pp_params=_without_unit_dilations,
)


def _select_and_gather_add_abstract(
    tangents: ShapedArray, operand: ShapedArray, *, select_prim: Primitive, **params: Any
) -> ShapedArray:
    dims = window_dims(**params)
    dims.check("select_and_gather_add", operand.shape)
    outside_value(select_prim, operand.dtype)
    if tangents.shape != operand.shape or tangents.dtype != operand.dtype:
        raise TypeError(
            "select_and_gather_add requires operands of one type, got "
            f"{tangents.str_short()} and {operand.str_short()}"
        )
    return tangents.update(shape=dims.out_shape(operand.shape))


def _select_and_gather_add_reference(
    tangents: NDArray, operand: NDArray, *, select_prim: Primitive, **params: Any
) -> NDArray:
    dims = window_dims(**params)
    shape = dims.out_shape(operand.shape)
    found = np.zeros(shape, tangents.dtype)
    if 0 in shape or 0 in operand.shape:
        return found
    which, real = _selected(operand, select_prim, dims)
    padded = pad_array(tangents, 0, dims.padding, dims.base_dilation)
    for number, index in enumerate(_window_slices(dims, shape)):
        found = np.where((which == number) & real, padded[index], found)
    return found


select_and_gather_add_p = define(
    "select_and_gather_add",
    family=_FAMILY,
    doc="For each window, the tangent at its selected element of the operand.",
    abstract=_select_and_gather_add_abstract,
    reference=_select_and_gather_add_reference,
    jvp=Partials(
        lambda t, out, x, operand, **params: select_and_gather_add_p.bind(t, operand, **params),
        None,
    ),
    transpose=gather_transpose,
    batch=WindowBatch(),
)


# ---- the functions


def _is_value(x: Any, value: Any) -> bool:
    if isinstance(x, Tracer):
        return False
    with np.errstate(invalid="ignore"):  # NaN and an integer are compared as integers
        return bool(np.asarray(x) == np.asarray(value))


def _named(jaxpr: ClosedJaxpr, dtype: np.dtype[Any], init: Any) -> Primitive | None:
    """The named window reduction that combines as `jaxpr` does from `init`, if there is one."""
    found = single_primitive(jaxpr)
    if found is None or (dtypes.is_complex(dtype) and found.name != "add"):
        return None
    if found.name == "add" and dtypes.kind(dtype) != "b" and _is_value(init, 0):
        return reduce_window_sum_p
    if found.name == "max" and _is_value(init, limits(dtype)[0]):
        return reduce_window_max_p
    if found.name == "min" and _is_value(init, limits(dtype)[1]):
        return reduce_window_min_p
    return None


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Reduces each window of `operand` with `computation`, starting from `init_value`.

    Windows have `window_dimensions` elements along each axis, `window_dilation` apart, and start
    `window_strides` apart. Before, the operand's elements are spread `base_dilation` apart and
    padded with `init_value`: by "VALID" (not at all), "SAME", "SAME_LOWER" or explicit (low, high)
    pairs, which may be negative. "SAME" counts the elements before they are spread. Axis i of the
    result counts the windows along axis i.

    `operand` and `init_value` may be pytrees of one structure, arrays of one shape and scalars of
    their dtypes; `computation(a, b)` takes and returns such trees of scalars and must be
    associative with `init_value` as its identity. Sums, maxima and minima become primitives of
    their own. 16-bit floats are summed in float32.

    Raises TypeError for parts of the wrong length or not positive and for dtypes or shapes that do
    not go together, RuntimeError for an unknown padding string.

    >>> from xpr.primitives.elementwise import add
    >>> reduce_window(np.array([1.0, 2.0, 3.0], np.float32), 0.0, add, (2,))
    Array([3., 5.], dtype=float32)
    """
    flat, tree = tree_util.tree_flatten(operand)
    inits, init_tree = tree_util.tree_flatten(init_value)
    if tree != init_tree:
        raise ValueError(
            f"Operands must have the same tree structure as init_values: {tree} vs. {init_tree}"
        )
    if not flat:
        raise ValueError("reduce_window requires at least one operand")
    avals, init_avals = [get_aval(x) for x in flat], [get_aval(x) for x in inits]
    if any(i.shape for i in init_avals):
        raise TypeError(
            "reduce_window expected init_values to be scalars but init_values have shapes "
            f"{[i.shape for i in init_avals]}."
        )
    params = _window_params(
        avals[0].shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )

    def flat_computation(*values: Any) -> Sequence[Any]:
        half = len(values) // 2
        left = tree_util.tree_unflatten(tree, values[:half])
        right = tree_util.tree_unflatten(tree, values[half:])
        return tree_util.tree_leaves(computation(left, right))

    jaxpr = trace_scalars("reduce_window", flat_computation, avals)
    if len(flat) == 1:
        named = _named(jaxpr, avals[0].dtype, inits[0])
        if named is not None:
            return tree_util.tree_unflatten(tree, [named.bind(flat[0], **params)])
    found = reduce_window_p.bind(*flat, *inits, jaxpr=jaxpr, consts=(), **params)
    return tree_util.tree_unflatten(tree, found)


def _window_params(
    shape: Shape,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: str | Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None,
    window_dilation: Sequence[int] | None,
) -> dict[str, Any]:
    """The parameters of an equation, explicit in every part."""
    sizes = int_tuple(window_dimensions)
    ones = (1,) * len(sizes)
    strides, base, apart = (
        ones if v is None else int_tuple(v)
        for v in (window_strides, base_dilation, window_dilation)
    )
    unpadded = WindowDims(sizes, strides, ((0, 0),) * len(sizes), base, apart)
    unpadded.check("reduce_window", shape)
    if isinstance(padding, str):
        pads = tuple(
            padtype_to_pads(
                # JAX pads as if the operand were not spread: the result has fewer windows.
                shape,
                [dilated(n, d) for n, d in zip(sizes, apart, strict=True)],
                strides,
                padding,
            )
        )
    else:
        pads = pad_pairs("reduce_window", padding, len(sizes))
    return {
        "window_dimensions": sizes,
        "window_strides": strides,
        "padding": pads,
        "base_dilation": base,
        "window_dilation": apart,
    }


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Shape:
    """The number of windows along each axis, as `reduce_window` counts them.

    >>> reduce_window_shape_tuple((5, 6), (2, 2), (1, 1), ((0, 0), (1, 1)))
    (4, 7)
    """
    shape = int_tuple(operand_shape)
    params = _window_params(
        shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    return window_dims(**params).out_shape(shape)
