"""What the families share about complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

_NdArray = np.ndarray[Any, Any]


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of a complex dtype; real dtypes are their own."""
    if dtype.kind != "c":
        return dtype
    return np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)


def complex_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The complex dtype whose parts have `dtype`; complex dtypes are their own."""
    if dtype.kind == "c":
        return dtype
    return np.dtype(np.complex128 if dtype == np.float64 else np.complex64)


def from_parts(real: Any, imag: Any, dtype: np.dtype[Any]) -> _NdArray:
    """`real + i imag` of that complex dtype; unlike a sum it keeps infinite parts apart."""
    out = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), dtype)
    out.real, out.imag = real, imag
    return out


def maximum(x: _NdArray, y: _NdArray) -> Any:
    """The greater of two arrays; complex numbers in lexicographic order, NaN if either is."""
    if x.dtype.kind != "c":
        return np.maximum(x, y)
    first = np.where(x.real == y.real, x.imag >= y.imag, x.real >= y.real)
    return np.where(np.isnan(x) | (first & ~np.isnan(y)), x, y)


def minimum(x: _NdArray, y: _NdArray) -> Any:
    """The lesser of two arrays; complex numbers in lexicographic order, NaN if either is."""
    if x.dtype.kind != "c":
        return np.minimum(x, y)
    first = np.where(x.real == y.real, x.imag <= y.imag, x.real <= y.real)
    return np.where(np.isnan(x) | (first & ~np.isnan(y)), x, y)


def divide(x: _NdArray, y: _NdArray) -> Any:
    """x / y, where infinite operands and a zero divisor give what C99 (Annex G.5.1) says."""
    quotient = np.asarray(np.divide(x, y))
    special = ~(np.isfinite(x) & np.isfinite(y) & (y != 0))
    if not special.any():
        return quotient
    x, y = np.broadcast_arrays(x, y)
    out = np.array(quotient)
    out[special] = _divide_special(x[special], y[special])
    return out


def _divide_special(x: _NdArray, y: _NdArray) -> _NdArray:
    a, b, c, d = x.real, x.imag, y.real, y.imag
    size = np.maximum(np.abs(c), np.abs(d))
    size = np.where(np.isfinite(size) & (size > 0), size, 1)
    c, d = c / size, d / size
    square = c * c + d * d
    real, imag = (a * c + b * d) / square / size, (b * c - a * d) / square / size
    failed = np.isnan(real) & np.isnan(imag)
    zero_divisor = (square == 0) & ~(np.isnan(a) & np.isnan(b))
    x_infinite, y_infinite = np.isinf(a) | np.isinf(b), np.isinf(c) | np.isinf(d)
    grows = x_infinite & np.isfinite(c) & np.isfinite(d)
    vanishes = y_infinite & np.isfinite(a) & np.isfinite(b)
    ua, ub, uc, ud = (np.copysign(np.isinf(v).astype(v.dtype), v) for v in (a, b, c, d))
    pole, inf = np.copysign(np.inf, c), np.inf
    cases = [~failed, zero_divisor, grows, vanishes]
    reals = [real, pole * a, inf * (ua * c + ub * d), 0.0 * (a * uc + b * ud)]
    imags = [imag, pole * b, inf * (ub * c - ua * d), 0.0 * (b * uc - a * ud)]
    return from_parts(np.select(cases, reals, np.nan), np.select(cases, imags, np.nan), x.dtype)
