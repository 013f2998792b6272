"""Methods of arrays that take their arguments in another form than the functions of `xpr.numpy`."""

from __future__ import annotations

from typing import Any

from xpr.numpy import conversion, manipulation
from xpr.numpy._typing import Array


def method_astype(x: Any, dtype: Any, copy: bool, device: Any) -> Array:
    """`x.astype(...)`."""
    return conversion.astype(x, dtype, copy=copy, device=device)


def method_byteswap(x: Any, inplace: bool) -> Array:
    """`x.byteswap()`."""
    if inplace:
        raise NotImplementedError("byteswap(inplace=True) is not possible: arrays are immutable")
    return conversion.byteswap(x)


def method_flatten(x: Any, order: str, *, out_sharding: Any = None) -> Array:
    """`x.flatten(order)`."""
    return manipulation.ravel(x, order, out_sharding=out_sharding)


def method_reshape(x: Any, *args: Any, order: str, out_sharding: Any = None) -> Array:
    """`x.reshape(shape)` or `x.reshape(*shape)`."""
    shape = args[0] if len(args) == 1 else args
    return manipulation.reshape(x, shape, order, out_sharding=out_sharding)


def method_transpose(x: Any, *args: Any) -> Array:
    """`x.transpose()`, `x.transpose(axes)` or `x.transpose(*axes)`."""
    if not args or args == (None,):
        return manipulation.transpose(x)
    one = len(args) == 1 and not isinstance(args[0], int)
    axes: Any = args[0] if one else args
    return manipulation.transpose(x, axes)


def method_view(x: Any, dtype: Any, type: None) -> Array:
    """`x.view(dtype)`."""
    if type is not None:
        raise NotImplementedError("the `type` argument of array.view() is not supported")
    return conversion.view(x, dtype)
