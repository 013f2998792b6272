"""Indexing of concrete arrays in host memory outside every transformation, by NumPy itself.

It means the same as the general rules of `indexing` and `updates`, at a tenth of their cost. What
NumPy refuses or understands differently (indices out of bounds, dtypes that do not go together,
several devices) is left to them: the functions here then return None.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.trace import context
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.default_device import default_device, mesh_of_work
from xpr.dispatch.eager import eager_trace
from xpr.dispatch.host_values import wrap
from xpr.dispatch.sharded_array import ShardedArrayImpl
from xpr.primitives._views import detached
from xpr.runtimes.base import Device

Host = np.ndarray[Any, Any]

_KIND_ORDER = "biufc"
_SMALL_INT = 1 << 31
_INDEX_DTYPES = frozenset(
    np.dtype(t)
    for t in (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32)
)
_UFUNCS: dict[str, np.ufunc] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


class _Key:
    """An index as NumPy takes it, and what the result's placement and memory depend on."""

    __slots__ = ("committed", "has_arrays", "index")

    def __init__(self, index: Any, has_arrays: bool, committed: bool) -> None:
        self.index = index
        self.has_arrays = has_arrays
        self.committed = committed


def _plain(value: Any) -> bool:
    return value is None or type(value) is int


def _key(x: ArrayImpl, index: Any) -> _Key | None:
    """`index` with its arrays in host memory, or None where the general rules are needed."""
    buffers = x._buffers
    device = buffers[0].device
    if len(buffers) != 1 or not device.runtime.is_host or mesh_of_work() is not None:
        return None
    several = type(index) is tuple
    items = index if several else (index,)
    found: list[Any] = []
    has_arrays = False
    committed = x._committed
    for item in items:
        kind = type(item)
        if kind is int or item is None or item is Ellipsis:
            found.append(item)
        elif kind is slice:
            if not (_plain(item.start) and _plain(item.stop) and _plain(item.step)):
                return None
            found.append(item)
        elif kind is ArrayImpl:
            theirs = item._buffers
            if len(theirs) != 1 or theirs[0].device is not device:
                return None
            if item.aval.dtype not in _INDEX_DTYPES:
                return None
            committed = committed or item._committed
            host = theirs[0].host_view()
            has_arrays = has_arrays or bool(host.ndim) or host.dtype == np.bool_
            found.append(host)
        elif kind is np.ndarray:
            if item.dtype not in _INDEX_DTYPES:
                return None
            has_arrays = has_arrays or bool(item.ndim) or item.dtype == np.bool_
            found.append(item)
        elif isinstance(item, np.integer):
            found.append(int(item))
        elif kind is list and several and item and all(type(e) in (int, bool) for e in item):
            has_arrays = True
            found.append(item)
        else:
            return None
    if not committed and device is not default_device():
        return None
    return _Key(tuple(found) if several else found[0], has_arrays, committed)


def host_read(x: Any, index: Any) -> ArrayImpl | None:
    """`x[index]` by NumPy, or None where the general rules are needed."""
    if type(x) is not ArrayImpl or context.trace is not eager_trace:
        return None
    key = _key(x, index)
    if key is None:
        return None
    buffer = x._buffers[0]
    host = buffer.host_view()
    try:
        part = host[key.index]
    except (IndexError, ValueError):  # out of bounds, or an error that the general rules word
        return None
    part = np.asarray(part)
    aval = ShapedArray(part.shape, x.aval.dtype, x.aval.weak_type)
    if not key.has_arrays:
        part = detached(part, host)
    return wrap(part, aval, buffer.device, key.committed)


def host_rows(x: Any) -> Iterator[ArrayImpl] | None:
    """`x[0]`, `x[1]`, ..., each made when it is asked for; None where the general rules are needed.

    `x` has an axis. Rows of an array that is cut over several devices belong to none of them.
    """
    if type(x) is ShardedArrayImpl and context.trace is eager_trace and not x.is_fully_replicated:
        device = default_device()
        return _rows_of(x._value, x.aval, device, False) if device.runtime.is_host else None
    if type(x) is not ArrayImpl or context.trace is not eager_trace:
        return None
    buffers = x._buffers
    device = buffers[0].device
    if len(buffers) != 1 or not device.runtime.is_host or mesh_of_work() is not None:
        return None
    if not x._committed and device is not default_device():
        return None
    return _rows_of(buffers[0].host_view(), x.aval, device, x._committed)


def _rows_of(
    host: np.ndarray[Any, Any], whole: ShapedArray, device: Device, committed: bool
) -> Iterator[ArrayImpl]:
    aval = ShapedArray(host.shape[1:], whole.dtype, whole.weak_type)
    for row in host:
        part = detached(row, host) if aval.shape else np.asarray(row)
        yield wrap(part, aval, device, committed)


def _host_values(x: ArrayImpl, values: Any) -> tuple[Any, bool] | None:
    """`values` in the dtype of `x` and whether they are committed to the device; None if unsure."""
    dtype = x.aval.dtype
    kind = type(values)
    if kind is ArrayImpl:
        buffers = values._buffers
        if len(buffers) != 1 or buffers[0].device is not x._buffers[0].device:
            return None
        if values.aval.dtype != dtype:
            return None
        return buffers[0].host_view(), values._committed
    if kind in (bool, int, float):
        given = dtypes.scalar_kind(values) or "c"
        if _KIND_ORDER.index(given) > _KIND_ORDER.index(dtypes.kind(dtype)):
            return None
        if kind is int and not -_SMALL_INT <= values < _SMALL_INT:
            return None
        return np.asarray(values).astype(dtype), False
    if kind is np.ndarray and values.dtype == dtype:
        return values, False
    return None


def host_update(x: Any, index: Any, values: Any, kind: str) -> ArrayImpl | None:
    """`x.at[index].<kind>(values)` by NumPy, or None where the general rules are needed."""
    if type(x) is not ArrayImpl or context.trace is not eager_trace:
        return None
    dtype = x.aval.dtype
    if kind != "set" and (dtype == np.bool_ or dtypes.kind(dtype) == "c"):
        return None
    key = _key(x, index)
    if key is None:
        return None
    with np.errstate(all="ignore"):
        given = _host_values(x, values)
        if given is None:
            return None
        new, new_committed = given
        out = x._buffers[0].host_view().copy()
        try:
            if key.has_arrays:
                if kind == "set":
                    out[key.index] = new
                else:
                    _UFUNCS[kind].at(out, key.index, new)
            else:
                # Integers and slices name each element once.
                part = out[key.index]
                if new.ndim > part.ndim:
                    return None
                out[key.index] = new if kind == "set" else _UFUNCS[kind](part, new)
        except (IndexError, ValueError):
            return None
    aval = ShapedArray(x.aval.shape, dtype, x.aval.weak_type)
    committed = key.committed or new_committed
    return wrap(out, aval, x._buffers[0].device, committed)


def host_take(
    x: Any, indices: Any, axis: int | None, mode: Literal["clip", "wrap"] | None
) -> ArrayImpl | None:
    """`take(x, indices, axis)` by NumPy, or None where the general rules are needed."""
    if type(x) is not ArrayImpl or context.trace is not eager_trace:
        return None
    key = _key(x, indices)
    if key is None or not isinstance(key.index, np.ndarray) or key.index.dtype == np.bool_:
        return None
    buffer = x._buffers[0]
    try:
        # In NumPy's modes "clip" and "wrap" mean what they mean here.
        found = buffer.host_view().take(key.index, axis, mode=mode or "raise")
    except (IndexError, ValueError):  # an index out of bounds, or an error to be worded
        return None
    part = np.asarray(found)
    aval = ShapedArray(part.shape, x.aval.dtype, x.aval.weak_type)
    return wrap(part, aval, buffer.device, key.committed)
