"""Discrete Fourier transforms over the innermost axes.

Forward transforms sum `x[j] exp(-2 pi i j k / n)`; inverse ones have the other sign and are divided
by the number of elements.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import define
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives import elementwise as el
from xpr.primitives._complex import complex_dtype, real_dtype
from xpr.primitives.convert import convert_type
from xpr.primitives.rules import (
    BatchAxis,
    Dim,
    LinearJVP,
    at_front,
    full_like,
    shape_of,
)
from xpr.runtimes.cores import cores
from xpr.runtimes.scipy_parts import compiled_module

__all__ = ["FftType", "fft"]

NDArray = np.ndarray[Any, Any]

# From so many elements on several transforms are shared out among threads: with fewer these cost
# more than they save (256 by 256 complex64 numbers: 0.37 ms alone, 0.59 to 0.98 with two threads).
_THREADED = 1 << 18

# How pocketfft scales: not at all, or by one over the number of elements.
_NOT_SCALED, _SCALED = 0, 2


class FftType(enum.IntEnum):
    """Which transform: from complex numbers to complex ones, or to and from those of real numbers.

    >>> FftType["RFFT"]
    <FftType.RFFT: 2>
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def _innermost(x: ShapedArray, count: int) -> tuple[int, ...]:
    return x.shape[x.ndim - count :]


def _fft_abstract(
    x: ShapedArray, *, fft_type: FftType, fft_lengths: tuple[int, ...]
) -> ShapedArray:
    count = len(fft_lengths)
    if not 1 <= count <= 3:
        raise ValueError(f"FFT transforms 1 to 3 axes at once, got fft_lengths {fft_lengths}.")
    if count > x.ndim:
        raise ValueError(
            f"FFT input shape {x.shape} must have at least as many input dimensions as fft_lengths "
            f"{fft_lengths}."
        )
    name = "FFT" if fft_type == FftType.IFFT else fft_type.name
    allowed = "float32 or float64" if fft_type == FftType.RFFT else "complex64 or complex128"
    if x.dtype.name not in allowed.split(" or "):
        raise ValueError(f"{name} input must be {allowed}, got {x.dtype}")
    sizes, outer = _innermost(x, count), x.shape[: x.ndim - count]
    *rest, last = fft_lengths
    half = last // 2 + 1
    if fft_type == FftType.IRFFT:
        if sizes != (*rest, half):
            raise ValueError(
                f"IRFFT input shape {x.shape} minor dimensions must be equal to all except the "
                f"last fft_length, got fft_lengths={tuple(fft_lengths)}; the last one must be half "
                "of the last length and one more"
            )
        return ShapedArray((*outer, *fft_lengths), real_dtype(x.dtype))
    if sizes != fft_lengths:
        raise ValueError(
            f"{name} input shape {x.shape} minor dimensions must be equal to fft_lengths "
            f"{fft_lengths}"
        )
    if fft_type == FftType.RFFT:
        return ShapedArray((*outer, *rest, half), complex_dtype(x.dtype))
    return ShapedArray(x.shape, x.dtype)


def fft_on_host(x: NDArray, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> NDArray:
    """The transform by pocketfft, which keeps single precision and takes any length."""
    if 0 in x.shape or 0 in fft_lengths:
        operand = ShapedArray(x.shape, x.dtype)
        aval = _fft_abstract(operand, fft_type=fft_type, fft_lengths=fft_lengths)
        return np.zeros(aval.shape, aval.dtype)
    return _pocketfft(x, fft_type, fft_lengths)


def fft_in_place(x: NDArray, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> None:
    """The transform of complex numbers to complex ones, written over a contiguous operand."""
    _pocketfft(x, fft_type, fft_lengths, out=x)


def _pocketfft(
    x: NDArray, fft_type: FftType, fft_lengths: tuple[int, ...], out: NDArray | None = None
) -> NDArray:
    # It is loaded when it is first needed.
    pocketfft = compiled_module("fft._pocketfft.pypocketfft")
    count = len(fft_lengths)
    # One transform of one axis is the work of one thread.
    shared = x.size >= _THREADED and (count > 1 or x.size > x.shape[-1])
    if pocketfft is None:
        return _by_scipy(x, fft_type, fft_lengths, out, workers=cores() if shared else 1)
    forward = fft_type in (FftType.FFT, FftType.RFFT)
    how: dict[str, Any] = {
        "axes": tuple(range(x.ndim - count, x.ndim)),
        "forward": forward,
        "inorm": _NOT_SCALED if forward else _SCALED,
        "out": out,
        "nthreads": cores() if shared else 1,
    }
    if fft_type == FftType.IRFFT:
        return pocketfft.c2r(x, lastsize=fft_lengths[-1], **how)
    return (pocketfft.r2c if fft_type == FftType.RFFT else pocketfft.c2c)(x, **how)


def _by_scipy(
    x: NDArray, fft_type: FftType, fft_lengths: tuple[int, ...], out: NDArray | None, workers: int
) -> NDArray:
    """The same by SciPy's public functions, whose import takes longer than all of xpr's."""
    from scipy import fft as scipy_fft  # noqa: PLC0415

    function = getattr(scipy_fft, f"{fft_type.name.lower()}n")
    axes = tuple(range(x.ndim - len(fft_lengths), x.ndim))
    found = np.asarray(function(x, fft_lengths, axes, workers=workers))
    if out is None:
        return found
    out[...] = found
    return out


def _redundancy(x: Any, length: int, often: float = 2) -> Any:
    """How often each frequency of a half spectrum `x` counts in the whole one: once or twice.

    The transform of `length` real numbers has the conjugates of all frequencies but 0 and, for even
    lengths, the last one. `often` stands for twice.
    """
    shape = shape_of(x)
    counts = np.full(shape[-1], often, get_aval(x).dtype)
    counts[0] = 1
    if length % 2 == 0:
        counts[-1] = 1
    return ops.broadcast_in_dim(counts, shape, (len(shape) - 1,))


def _fft_transpose(
    ct: Any, x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]
) -> list[Any]:
    del x
    if fft_type in (FftType.FFT, FftType.IFFT):
        # The matrix of the transform is symmetric.
        return [fft_p.bind(ct, fft_type=fft_type, fft_lengths=fft_lengths)]
    size, last = math.prod(fft_lengths), fft_lengths[-1]
    if fft_type == FftType.RFFT:
        # Halves are exact, and a complex quotient takes many times as long as a product.
        halved = ops.mul(el.conj(ct), _redundancy(ct, last, 0.5))
        found = fft_p.bind(halved, fft_type=FftType.IRFFT, fft_lengths=fft_lengths)
        return [ops.mul(found, full_like(found, size))]
    found = fft_p.bind(ct, fft_type=FftType.RFFT, fft_lengths=fft_lengths)
    scaled = ops.mul(found, _redundancy(found, last))
    return [el.conj(ops.mul(scaled, full_like(found, 1 / max(size, 1))))]


def _fft_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[Any, int]:
    return fft_p.bind(at_front(axis, args[0], dims[0]), **params), 0


fft_p = define(
    "fft",
    family="fft",
    doc="The discrete Fourier transform over the innermost axes, one to three of them.",
    abstract=_fft_abstract,
    reference=fft_on_host,
    jvp=LinearJVP(),
    transpose=_fft_transpose,
    batch=_fft_batch,
)


def _as_fft_type(fft_type: Any) -> FftType:
    if isinstance(fft_type, FftType):
        return fft_type
    if not isinstance(fft_type, str):
        raise TypeError(f"Unknown FFT type value '{fft_type}'")
    if fft_type not in ("fft", "FFT", "ifft", "IFFT", "rfft", "RFFT", "irfft", "IRFFT"):
        raise ValueError(f"Unknown FFT type '{fft_type}'")
    return FftType[fft_type.upper()]


def fft(x: Any, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """The transform `fft_type` of the innermost axes of `x`, as many as there are `fft_lengths`.

    "fft" and "ifft" take complex [..., *fft_lengths] and keep the type; "rfft" takes real arrays of
    that shape and gives the first n // 2 + 1 frequencies of the last axis, complex; "irfft" is its
    inverse, which takes those. Other dtypes become complex64, or float32 for "rfft"; integers of 64
    bits become complex128 or float64. Raises ValueError for shapes that do not fit the lengths,
    more than three of these, 16-bit floats or complex operands of "rfft" and unknown names;
    TypeError for other kinds of `fft_type`.

    >>> fft(np.array([1, 2, 3, 4], np.complex64), "fft", (4,))
    Array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)
    """
    kind = _as_fft_type(fft_type)
    dtype = get_aval(x).dtype
    # Of integers only those of 64 bits become floats of 64 bits.
    floating = dtype
    if not dtypes.is_inexact(dtype):
        floating = np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)
    if kind == FftType.RFFT:
        if dtypes.is_complex(dtype):
            raise ValueError("only real valued inputs supported for rfft")
        wanted = floating
    else:
        wanted = complex_dtype(floating)
    x = convert_type(x, wanted, False)
    lengths = tuple(map(operator.index, fft_lengths))
    return fft_p.bind(x, fft_type=kind, fft_lengths=lengths) if lengths else x
