"""What every sampler does: check its arguments, then draw, large arrays by compiled programs.

A sampler's body is `body(key, *params, **static)`: `key` the data of a key, `params` arrays or
numbers, `static` shapes and dtypes. Small arrays are drawn step by step in NumPy, in microseconds;
for large ones the body is compiled as a whole, once for each shape.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.errors import TypePromotionError
from xpr.core.trace import get_aval, is_eager
from xpr.numpy._promote import as_operand, broadcast_to
from xpr.numpy.dtype_api import requested_dtype
from xpr.primitives._index_dims import canonicalize_shape
from xpr.primitives.convert import convert_type
from xpr.primitives.shape import broadcast_shapes
from xpr.transforms.jit import jit

Shape = tuple[int, ...]
DType = np.dtype[Any]

# A normal number takes 60 ns in NumPy and 2 ns compiled, but compiling takes half a second the
# first time that a shape is drawn on a machine.
_LARGE = 1 << 16


def draw(size: Shape, body: Callable[..., Any], key: Any, *params: Any, **static: Any) -> Any:
    """`body(key, *params, **static)`, compiled if `size` is large and nothing is being traced."""
    if math.prod(size) > _LARGE:
        return draw_compiled(body, key, *params, **static)
    return body(key, *params, **static)


def draw_compiled(body: Callable[..., Any], key: Any, *params: Any, **static: Any) -> Any:
    """`body(key, *params, **static)`, compiled unless something is being traced.

    For bodies with loops, whose steps would be compiled one by one.
    """
    if is_eager():
        return _compiled(body, tuple(static.items()))(key, *params)
    return body(key, *params, **static)


@functools.lru_cache(maxsize=1024)
def _compiled(body: Callable[..., Any], static: tuple[tuple[str, Any], ...]) -> Any:
    bound = functools.partial(body, **dict(static))
    return jit(functools.wraps(body)(lambda key, *params: bound(key, *params)))


# ---- checks; each error names the sampler and the argument


def checked_dtype(name: str, dtype: Any, default: type, kinds: str, what: str) -> DType:
    """The dtype asked for, or that of `default`; ValueError unless it is of one of `kinds`."""
    found = requested_dtype(default if dtype is None else dtype, name)
    if dtypes.kind(found) not in kinds:
        raise ValueError(f"dtype argument to `{name}` must be {what} dtype, got {found}")
    return found


def float_dtype(name: str, dtype: Any) -> DType:
    """The floating dtype asked for, or the default one."""
    return checked_dtype(name, dtype, float, "f", "a float")


def inexact_dtype(name: str, dtype: Any) -> DType:
    """The floating or complex dtype asked for, or the default floating one."""
    return checked_dtype(name, dtype, float, "fc", "a float or complex")


def integer_dtype(name: str, dtype: Any) -> DType:
    """The integer dtype asked for, or the default one."""
    return checked_dtype(name, dtype, int, "iu", "an int")


def checked_shape(name: str, shape: Any) -> Shape:
    """`shape` as a tuple; TypeError for what is none, and for negative sizes."""
    found = canonicalize_shape(name, shape)
    if any(d < 0 for d in found):
        raise TypeError(
            "Only non-negative indices are allowed when broadcasting static shapes, but got shape "
            f"{found}: {name} requires sizes that are not negative"
        )
    return found


def common_shape(name: str, shape: Any, *params: Any) -> Shape:
    """The shape to draw: that of the parameters together, or the one given, to which they fit.

    Raises ValueError when they do not.
    """
    shapes = [get_aval(as_operand(name, p)).shape for p in params]
    if shape is None:
        return broadcast_shapes(*shapes) if shapes else ()
    return fitting_shape(name, checked_shape(name, shape), *shapes)


def fitting_shape(name: str, shape: Shape, *shapes: Shape) -> Shape:
    """`shape`; ValueError unless broadcasting it with each of `shapes` leaves it as it is."""
    try:
        found = np.broadcast_shapes(shape, *shapes)
    except ValueError:
        found = None
    if found != shape:
        shown = " and ".join(map(str, shapes))
        raise ValueError(
            f"{name} parameter shapes must be broadcast-compatible with shape argument, and the "
            f"result of broadcasting the shapes must equal the shape argument, but got parameters "
            f"of shape {shown} for shape argument {shape}."
        )
    return shape


def check_safe_casts(name: str, dtype: DType, *params: Any) -> None:
    """Raises TypePromotionError for a parameter that `dtype` may not hold, such as float64."""
    for p in params:
        aval = get_aval(as_operand(name, p))
        if dtypes.promote_avals((aval.dtype, aval.weak_type), (dtype, False))[0] != dtype:
            raise TypePromotionError(
                f"In arguments to {name}, cannot safely cast argument of type {aval.dtype} to "
                f"{dtype}"
            )


# ---- parameters


def as_dtype(x: Any, dtype: DType) -> Any:
    """`x` in `dtype`; a Python number becomes a scalar, which goes with any shape."""
    if type(x) is float or type(x) is int or type(x) is bool:
        return np.asarray(x).astype(dtype)[()]
    return convert_type(x, dtype)


def spread(x: Any, shape: Shape) -> Any:
    """`x` made to go with arrays of `shape`, in front of whose axes it may lack some."""
    found = get_aval(x).shape
    return x if not found or found == shape else broadcast_to(x, shape)
