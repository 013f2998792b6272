"""Reductions of whole axes and of windows, and what scatters back to windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import lax
from xpr.core import dtypes
from xpr.core.primitive import get_primitive
from xpr.core.trace import Tracer
from xpr.export.stablehlo import patterns
from xpr.export.stablehlo.form import Block
from xpr.export.stablehlo.importer import Rule, Site, dtype_of, shape_of
from xpr.export.stablehlo.rules.elements import over_elements
from xpr.export.stablehlo.rules.elementwise import add, maximum, minimum, multiply
from xpr.export.stablehlo.rules.indexing import scatter_flat

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "add": add,
    "multiply": multiply,
    "maximum": maximum,
    "minimum": minimum,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
}
_REDUCE: dict[str, Callable[[Any, Any], Any]] = {
    "add": lax.reduce_sum,
    "multiply": lax.reduce_prod,
    "maximum": lax.reduce_max,
    "minimum": lax.reduce_min,
    "and": lax.reduce_and,
    "or": lax.reduce_or,
    "xor": lax.reduce_xor,
}
_ON_BOOLEANS = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}


def _identity(name: str, dtype: np.dtype[Any]) -> Any:
    """The value that an operation leaves others alone with; None where there is none."""
    kind = dtypes.kind(dtype)
    if name in ("add", "or", "xor"):
        return dtype.type(0)
    if name == "multiply":
        return dtype.type(1)
    if name == "and":
        return (
            dtype.type(True)
            if kind == "b"
            else dtype.type(-1 if kind == "i" else 0)
            - (dtype.type(1) if kind == "u" else dtype.type(0))
        )
    if kind == "c" or kind == "b":
        return None
    if kind == "f":
        info: Any = dtypes.finfo(dtype)
        bound = np.inf if name == "minimum" else -np.inf
        found = np.array(bound).astype(dtype)
        return (
            found[()]
            if np.isinf(found.astype(np.float64))
            else (info.max if name == "minimum" else info.min)
        )
    info = dtypes.iinfo(dtype)
    return dtype.type(info.max if name == "minimum" else info.min)


def is_identity(name: str, init: Any) -> bool:
    """Whether an initial value is known to change nothing."""
    if isinstance(init, Tracer):
        return False
    value = np.asarray(init)
    with np.errstate(all="ignore"):
        want = _identity(name, value.dtype)
    return want is not None and bool(value == want)


def _named(block: Block, dtype: np.dtype[Any]) -> str | None:
    name = patterns.named_body(block)
    if dtype == np.bool_ and name is not None:
        name = _ON_BOOLEANS.get(name, name)
    return name if name in _COMBINE else None


def _reduce(site: Site) -> Any:
    count = len(site.operands) // 2
    operands, inits = site.operands[:count], site.operands[count:]
    axes = site.ints("dimensions")
    if len(set(axes)) != len(axes) or not operands:
        raise site.error(f"the dimensions {axes} repeat, or nothing is reduced")
    promoted = [t.type.dtype for t in site.op.results]
    if count == 1 and promoted[0] == dtype_of(operands[0]):
        name = _named(site.block(0), dtype_of(operands[0]))
        if name is not None:
            found = _REDUCE[name](operands[0], axes)
            if is_identity(name, inits[0]):
                return found
            return _COMBINE[name](lax.broadcast(inits[0], shape_of(found)), found)
    if count == 2 and len(axes) == 1 and promoted == [dtype_of(x) for x in operands]:
        found = _index_reduction(site, operands, axes[0])
        if found is not None:
            return found
    operands = [_promoted(x, d) for x, d in zip(operands, promoted, strict=True)]
    inits = [_promoted(x, d) for x, d in zip(inits, promoted, strict=True)]
    region = site.region(0)
    found = lax.reduce(tuple(operands), tuple(inits), lambda a, b: tuple(region(*a, *b)), axes)
    return list(found)


def _promoted(x: Any, dtype: np.dtype[Any]) -> Any:
    return x if dtype_of(x) == dtype else lax.convert_element_type(x, dtype)


def _index_reduction(site: Site, operands: list[Any], axis: int) -> list[Any] | None:
    """argmax and argmin with the extremes themselves, as JAX writes them."""
    name = patterns.index_reducer(site.block(0))
    if name is None or not patterns.is_iota(site.op.operands[1], axis):
        return None
    init_value = site.operands[2]
    values = operands[0]
    if not shape_of(values)[axis] or isinstance(init_value, Tracer):
        return None
    combine = "maximum" if name == "argmax" else "minimum"
    kind = dtypes.kind(dtype_of(values))
    if kind not in "iuf" or not is_identity(combine, init_value):
        return None
    if patterns.constant(site.op.operands[3], site.scope) != 0:
        return None
    reducer = lax.argmax if name == "argmax" else lax.argmin
    return [
        _REDUCE[combine](values, (axis,)),
        reducer(values, axis, dtype_of(operands[1])),
    ]


# ---- windows


def _window(site: Site, rank: int) -> dict[str, Any]:
    ones = (1,) * rank
    return {
        "window_dimensions": site.ints("window_dimensions"),
        "window_strides": site.ints("window_strides", ones),
        "padding": site.pairs("padding", rank),
        "base_dilation": site.ints("base_dilations", ones),
        "window_dilation": site.ints("window_dilations", ones),
    }


_CUMULATIVE = {
    "add": lax.cumsum,
    "multiply": lax.cumprod,
    "maximum": lax.cummax,
    "minimum": lax.cummin,
    "log_sum": lax.cumlogsumexp,
}


def _cumulative(name: str, x: Any, window: dict[str, Any]) -> Any:
    """The cumulative operation that a window over all before, or behind, each element is."""
    shape = shape_of(x)
    ones = (1,) * len(shape)
    if name not in _CUMULATIVE or any(
        window[key] != ones for key in ("window_strides", "base_dilation", "window_dilation")
    ):
        return None
    axes = [a for a, n in enumerate(window["window_dimensions"]) if n != 1]
    if len(axes) != 1 or window["window_dimensions"][axes[0]] != shape[axes[0]]:
        return None
    before, behind = window["padding"][axes[0]]
    others = all(p == (0, 0) for a, p in enumerate(window["padding"]) if a != axes[0])
    if not others or sorted((before, behind)) != [0, shape[axes[0]] - 1]:
        return None
    return _CUMULATIVE[name](x, axes[0], behind != 0)


def _reduce_window(site: Site) -> Any:
    count = len(site.operands) // 2
    if not count:
        raise site.error("nothing is reduced")
    window = _window(site, len(shape_of(site.operand(0))))
    return reduce_windows(site, site.operands, window, site.block(0), site.region(0))


def reduce_windows(
    site: Site,
    operands: Sequence[Any],
    window: dict[str, Any],
    block: Block,
    region: Callable[..., list[Any]],
) -> list[Any]:
    """Reductions of windows: half of the operands are arrays, the others where these start."""
    count = len(operands) // 2
    arrays, inits = list(operands[:count]), list(operands[count:])
    promoted = [t.type.dtype for t in site.op.results]
    if count == 1 and promoted[0] == dtype_of(arrays[0]):
        name = _named(block, promoted[0])
        if name is not None and is_identity(name, inits[0]):
            found = _cumulative(name, arrays[0], window)
            if found is None:
                found = lax.reduce_window(arrays[0], inits[0], _COMBINE[name], **window)
            return [found]
        is_float = dtypes.is_float(promoted[0])
        if is_float and patterns.is_log_sum(block) and is_identity("maximum", inits[0]):
            found = _cumulative("log_sum", arrays[0], window)
            if found is not None:
                return [found]
    arrays = [_promoted(x, d) for x, d in zip(arrays, promoted, strict=True)]
    inits = [_promoted(x, d) for x, d in zip(inits, promoted, strict=True)]
    found = lax.reduce_window(
        tuple(arrays), tuple(inits), lambda a, b: tuple(region(*a, *b)), **window
    )
    return list(found)


_MOST_WINDOWS, _LARGEST_WINDOW = 1 << 28, 4096
"""Limits for windows that any computation selects from, one place after the other."""

_ORDERS = {"GE": "ge", "LE": "le"}


def _select_and_scatter(site: Site) -> Any:
    operand, source, init = (site.operand(i) for i in range(3))
    rank = len(shape_of(operand))
    ones = (1,) * rank
    sizes = site.ints("window_dimensions", ones)
    strides = site.ints("window_strides", ones)
    padding = site.pairs("padding", rank)
    order = _ORDERS.get(patterns.compared(site.block(0)) or "")
    kind = dtypes.kind(dtype_of(operand))
    if order and kind in "iuf" and patterns.named_body(site.block(1)) == "add":
        found = get_primitive("select_and_scatter_add").bind(
            source,
            operand,
            select_prim=get_primitive(order),
            window_dimensions=sizes,
            window_strides=strides,
            padding=padding,
            base_dilation=ones,
            window_dilation=ones,
        )
        if is_identity("add", init):
            return found
        return lax.add(lax.broadcast(init, shape_of(found)), found)
    return _select_and_scatter_any(site, sizes, strides, padding)


def _select_and_scatter_any(
    site: Site, sizes: tuple[int, ...], strides: tuple[int, ...], padding: Any
) -> Any:
    """With any selection and any combination: the selected places first, then a scatter."""
    operand, source, init = (site.operand(i) for i in range(3))
    shape, windows = shape_of(operand), shape_of(source)
    total, size = math.prod(windows), math.prod(sizes)
    if total > _MOST_WINDOWS or size > _LARGEST_WINDOW:
        raise site.error(f"{total} windows of {size} elements are too many")
    select = site.region(0)
    flat = lax.reshape(operand, (math.prod(shape),))
    best: Any = None
    place: Any = None
    real: Any = None
    for offsets in itertools.product(*map(range, sizes)):
        grids = np.meshgrid(
            *(
                np.arange(n) * s + o - low
                for n, s, o, (low, _) in zip(windows, strides, offsets, padding, strict=True)
            ),
            indexing="ij",
        )
        inside = np.ones(windows, np.bool_)
        index = np.zeros(windows, np.int32)
        for grid, size in zip(grids, shape, strict=True):
            inside &= (grid >= 0) & (grid < size)
            index = index * size + np.clip(grid, 0, max(size - 1, 0)).astype(np.int32)
        value = (
            lax.reshape(lax.index_take(flat, [index.reshape(-1)], (0,)), windows)
            if math.prod(shape)
            else lax.broadcast(init, windows)
        )
        if best is None:
            best, place, real = value, index, inside
            continue
        kept = over_elements(select, [best, value])[0]
        keep = lax.select(lax.bitwise_and(real, inside), kept, lax.bitwise_or(real, ~inside))
        best = lax.select(keep, best, value)
        place = lax.select(keep, place, index)
        real = lax.bitwise_or(real, inside)
    if best is None:
        raise site.error("the window is empty")
    count = math.prod(windows)
    start = lax.broadcast(init, (math.prod(shape),))
    found = scatter_flat(
        [start],
        lax.reshape(place, (count,)),
        lax.reshape(real, (count,)),
        [lax.reshape(source, (count,))],
        site.region(1),
    )
    return lax.reshape(found[0], shape)


RULES: dict[str, Rule] = {
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
}
