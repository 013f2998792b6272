"""Convolutions and correlations of arrays of any rank, directly or by Fourier transforms.

The result has, in mode "full", every element where the two arrays overlap; in mode "same" as many
as the first array, from the middle; in mode "valid" those where one overlaps the other wholly.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, promote_dtypes_inexact
from xpr.numpy._typing import Array, ArrayLike, Shape
from xpr.numpy.fft import fftn, ifftn, irfftn, rfftn
from xpr.numpy.manipulation import flip
from xpr.numpy.ufuncs_float import conjugate
from xpr.primitives import shape as sh
from xpr.primitives._index_dims import canonicalize_axes
from xpr.primitives.conv import conv_general_dilated
from xpr.primitives.slicing import slice as slice_array

_MODES = ("full", "same", "valid")


# ---- what all share


def _operands(name: str, in1: Any, in2: Any, mode: str) -> tuple[Array, Array]:
    x, y = as_operand(f"signal.{name}", in1, 0), as_operand(f"signal.{name}", in2, 1)
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {list(_MODES)}, got {mode!r}")
    if get_aval(x).ndim != get_aval(y).ndim:
        raise ValueError(
            f"in1 and in2 must have the same number of dimensions, got shapes {get_aval(x).shape} "
            f"and {get_aval(y).shape}"
        )
    x, y = promote_dtypes_inexact(x, y)
    return as_array(x), as_array(y)


def _fits(large: Shape, small: Shape) -> bool:
    return all(a >= b for a, b in zip(large, small, strict=True))


def _result_sizes(first: Shape, second: Shape, mode: str) -> list[int]:
    """The sizes of a result whose middle is that of the "full" one."""
    pairs = list(zip(first, second, strict=True))
    if mode == "same":
        return list(first)
    return [abs(a - b) + 1 if mode == "valid" else a + b - 1 for a, b in pairs]


def _first_places(first: Shape, second: Shape, mode: str) -> list[int]:
    """Where the result begins in the "full" one."""
    whole = _result_sizes(first, second, "full")
    part = _result_sizes(first, second, mode)
    return [(a - b) // 2 for a, b in zip(whole, part, strict=True)]


# ---- directly


def _direct(
    x: Array, y: Array, mode: str, precision: Any, starts: Sequence[int] | None = None
) -> Array:
    """The convolution, beginning at the places `starts` of the full one, by sliding the smaller."""
    if x.size == 0 or y.size == 0:
        raise ValueError(
            f"zero-size arrays not supported in convolutions, got shapes {x.shape} and {y.shape}."
        )
    sizes = _result_sizes(x.shape, y.shape, mode)
    starts = _first_places(x.shape, y.shape, mode) if starts is None else starts
    if not _fits(x.shape, y.shape):
        if not _fits(y.shape, x.shape):
            raise ValueError(
                "One input must be smaller than the other in every dimension, got shapes "
                f"{x.shape} and {y.shape}."
            )
        x, y = y, x
    # In the full convolution the kernel begins with its last element on the first one of `x`.
    padding = [
        (k - 1 - start, start + size - n)
        for n, k, start, size in zip(x.shape, y.shape, starts, sizes, strict=True)
    ]
    found = conv_general_dilated(
        sh.expand_dims(x, (0, 1)),
        sh.expand_dims(flip(y), (0, 1)),
        window_strides=(1,) * x.ndim,
        padding=padding,
        precision=precision,
    )
    return as_array(sh.squeeze(found, (0, 1)))


def convolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: Any = None,
) -> Array:
    """The convolution: element k is the sum of `in1[j] in2[k - j]`, floating or complex.

    Both arrays have one rank. `method` is "direct" (also "auto") or "fft", for which see
    `fftconvolve`; `precision` is that of direct products. Raises ValueError for other modes and
    methods, other ranks, and, unless `method` is "fft", for empty arrays and when neither array is
    at least as large as the other along every axis.

    >>> import xpr.numpy as jnp
    >>> convolve(jnp.array([1, 2, 3]), jnp.array([1, 0, 1]), mode="same")
    Array([2., 4., 2.], dtype=float32)
    """
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    if method not in ("direct", "auto"):
        raise ValueError(f"Got {method=}; expected 'auto', 'fft', or 'direct'.")
    return _direct(*_operands("convolve", in1, in2, mode), mode, precision)


def correlate(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: Any = None,
) -> Array:
    """The correlation: the convolution of `in1` with the reversed conjugate of `in2`.

    Arguments and errors as for `convolve`.

    >>> import xpr.numpy as jnp
    >>> correlate(jnp.array([1, 2, 3]), jnp.array([0, 1]), mode="valid")
    Array([2., 3.], dtype=float32)
    """
    x, y = _operands("correlate", in1, in2, mode)
    return convolve(x, flip(conjugate(y)), mode, method, precision)


def _matrices(
    name: str, in1: Any, in2: Any, mode: str, boundary: str, fillvalue: Any
) -> tuple[Array, Array]:
    if boundary != "fill" or not isinstance(fillvalue, (int, float)) or fillvalue != 0:
        raise NotImplementedError(f"{name}() only supports boundary='fill', fillvalue=0")
    x, y = as_operand(f"signal.{name}", in1, 0), as_operand(f"signal.{name}", in2, 1)
    if get_aval(x).ndim != 2 or get_aval(y).ndim != 2:
        raise ValueError(
            f"{name}() only supports 2-dimensional inputs, got shapes {get_aval(x).shape} and "
            f"{get_aval(y).shape}."
        )
    return _operands(name, x, y, mode)


def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """The `convolve` of matrices. Raises NotImplementedError for edges other than zeros.

    >>> import xpr.numpy as jnp
    >>> convolve2d(jnp.eye(2), jnp.ones((1, 2)))
    Array([[1., 1., 0.],
           [0., 1., 1.]], dtype=float32)
    """
    x, y = _matrices("convolve2d", in1, in2, mode, boundary, fillvalue)
    return _direct(x, y, mode, precision)


def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """The `correlate` of matrices, with SciPy's conventions for them.

    The middle of mode "same" is rounded up, not down. In mode "valid" with a larger `in2` the
    result is conjugate. Raises NotImplementedError for edges other than zeros.

    >>> import xpr.numpy as jnp
    >>> correlate2d(jnp.eye(2), jnp.array([[0.0, 1.0]]), mode="same")
    Array([[0., 0.],
           [1., 0.]], dtype=float32)
    """
    x, y = _matrices("correlate2d", in1, in2, mode, boundary, fillvalue)
    starts = [n // 2 for n in y.shape] if mode == "same" else None
    found = _direct(x, flip(conjugate(y)), mode, precision, starts)
    turned = mode == "valid" and x.shape != y.shape and _fits(y.shape, x.shape)
    return conjugate(found) if turned else found


# ---- by Fourier transforms


@functools.lru_cache(maxsize=256)
def _fast_length(n: int) -> int:
    """The least length of at least `n` with no other prime factors than 2, 3 and 5."""
    best = 1 << max(n - 1, 0).bit_length()
    power5 = 1
    while power5 < best:
        power3 = power5
        while power3 < best:
            quotient = -(-n // power3)
            best = min(best, power3 << max(quotient - 1, 0).bit_length())
            power3 *= 3
        power5 *= 5
    return best


def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Sequence[int] | None = None
) -> Array:
    """The convolution along `axes` (all of them), by the product of Fourier transforms.

    Much faster than `convolve` for large arrays; errors are relative to the greatest element. Other
    axes must agree. Raises ValueError for other modes and ranks, axes that do not fit, and in mode
    "valid" when neither array is at least as large as the other along every axis.

    >>> import xpr.numpy as jnp
    >>> fftconvolve(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0])).round(3)
    Array([1., 3., 5., 3.], dtype=float32)
    """
    x, y = _operands("fftconvolve", in1, in2, mode)
    if axes is None:
        places = tuple(range(x.ndim))
    else:
        given = axes if isinstance(axes, Sequence) else (operator.index(axes),)
        places = canonicalize_axes(tuple(given), x.ndim)
    if any(x.shape[i] != y.shape[i] for i in range(x.ndim) if i not in places):
        raise ValueError(
            f"mapped axes must have same shape; got {x.shape} and {y.shape} for {axes=}"
        )
    first = tuple(x.shape[i] for i in places)
    second = tuple(y.shape[i] for i in places)
    if mode == "valid" and not (_fits(first, second) or _fits(second, first)):
        raise ValueError(
            "For 'valid' mode, One input must be at least as large as the other in every "
            f"dimension, got shapes {x.shape} and {y.shape}."
        )
    if all(1 in pair for pair in zip(first, second, strict=True)):
        whole = x * y
    else:
        is_complex = dtypes.is_complex(x.dtype)
        forward, back = (fftn, ifftn) if is_complex else (rfftn, irfftn)
        lengths = [_fast_length(n) for n in _result_sizes(first, second, "full")]
        whole = back(forward(x, lengths, places) * forward(y, lengths, places), lengths, places)
    starts, sizes = [0] * x.ndim, list(whole.shape)
    for i, start, size in zip(
        places,
        _first_places(first, second, mode),
        _result_sizes(first, second, mode),
        strict=True,
    ):
        starts[i], sizes[i] = start, size
    return slice_array(whole, starts, [a + b for a, b in zip(starts, sizes, strict=True)])
