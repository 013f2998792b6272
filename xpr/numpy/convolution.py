"""Convolution and correlation of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import Tracer, get_aval, is_eager
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, promote_dtypes_inexact, with_weak_type_of
from xpr.numpy._static import concrete, host_result
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.numpy.dtype_api import requested_dtype
from xpr.primitives import elementwise as el
from xpr.primitives import shape as sh
from xpr.primitives._precision import canonicalize_precision
from xpr.primitives.conv import conv_general_dilated
from xpr.primitives.convert import convert_type

_MODES = ("full", "same", "valid")


def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """The convolution of two vectors: element k is the sum of `a[i] * v[k - i]`, floating.

    With vectors of m >= n elements the result has m + n - 1 elements in mode "full", the m in
    the middle of these in mode "same", and the m - n + 1 for which both overlap wholly in mode
    "valid". Raises ValueError for other modes, empty vectors and arrays that are no vectors.

    >>> import xpr.numpy as jnp
    >>> jnp.convolve(jnp.array([1, 2, 3]), jnp.array([1, 1]))
    Array([1., 3., 5., 3.], dtype=float32)
    """
    return _slide("convolve", a, v, mode, precision, preferred_element_type)


def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """The correlation of two vectors: element k is the sum of `a[i + k] * conj(v[i])`, floating.

    Modes, lengths and errors as for `convolve`.

    >>> import xpr.numpy as jnp
    >>> jnp.correlate(jnp.array([1, 2, 3]), jnp.array([1, 10]))
    Array([21., 32.], dtype=float32)
    """
    return _slide("correlate", a, v, mode, precision, preferred_element_type)


def _slide(name: str, a: Any, v: Any, mode: str, precision: Any, preferred: DTypeLike) -> Array:
    x, y = as_operand(name, a, 0), as_operand(name, v, 1)
    shapes = get_aval(x).shape, get_aval(y).shape
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {list(_MODES)}, got {mode!r}")
    if len(shapes[0]) != 1 or len(shapes[1]) != 1:
        raise ValueError(
            f"{name}() only support 1-dimensional inputs, got shapes {shapes[0]} and {shapes[1]}."
        )
    if not (shapes[0][0] and shapes[1][0]):
        raise ValueError(f"{name}: inputs cannot be empty, got shapes {shapes[0]} and {shapes[1]}.")
    canonicalize_precision(precision)
    x, y = promote_dtypes_inexact(x, y)
    dtype = None if preferred is None else requested_dtype(preferred, name)
    if is_eager() and not isinstance(x, Tracer) and not isinstance(y, Tracer):
        found = _on_host(name, as_array(x), as_array(y), mode)
    else:
        found = _compiled(name, x, y, mode, precision)
    return found if dtype is None else convert_type(found, dtype)


def _on_host(name: str, x: Any, y: Any, mode: Any) -> Array:
    """By NumPy, for compiling a convolution of vectors would take longer than computing it."""
    left, right = concrete(x, ""), concrete(y, "")
    if dtypes.is_float(left.dtype) and left.dtype.itemsize < 4:
        left, right = left.astype(np.float32), right.astype(np.float32)
    function = np.convolve if name == "convolve" else np.correlate
    with np.errstate(all="ignore"):
        found = host_result(function(left, right, mode).astype(get_aval(x).dtype), x, y)
    return with_weak_type_of(x if get_aval(y).weak_type else y, found)


def _compiled(name: str, x: Any, y: Any, mode: str, precision: Any) -> Array:
    turn = False
    if name == "correlate" and dtypes.is_complex(get_aval(y).dtype):
        y = el.conj(y)
    if get_aval(x).size < get_aval(y).size:
        x, y = y, x
        turn = name == "correlate"
    if name == "convolve":
        y = sh.rev(y, (0,))
    size = get_aval(y).size
    width = {"full": (size - 1, size - 1), "same": (size // 2, size - size // 2 - 1)}.get(mode)
    out = conv_general_dilated(
        sh.expand_dims(x, (0, 1)),
        sh.expand_dims(y, (0, 1)),
        window_strides=(1,),
        padding=[width or (0, 0)],
        precision=precision,
    )
    if turn:
        out = sh.rev(out, (2,))
    return as_array(sh.squeeze(out, (0, 1)))
