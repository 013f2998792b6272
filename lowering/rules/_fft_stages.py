"""Fourier transforms by products with small matrices, for targets that cannot call the host.

Functions of tracers, on arrays [2, n, columns]: the real and the imaginary parts, in one array to
halve the number of kernels. Lengths with small prime factors are transformed in stages (Stockham's
form of the Cooley-Tukey algorithm: Van Loan, "Computational Frameworks for the Fast Fourier
Transform", 1992, sections 1.7 and 2.2), others as a convolution (Bluestein, "A linear filtering
approach to the computation of discrete Fourier transform", 1970).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives import elementwise as el
from xpr.primitives._precision import Precision
from xpr.primitives.dot_general import dot_general
from xpr.primitives.fft import FftType
from xpr.primitives.joining import concatenate
from xpr.primitives.rules import full_like, shape_of
from xpr.primitives.shape import pad, rev
from xpr.primitives.slicing import slice_in_dim

Parts = tuple[Any, Any]

# The greatest radix that several prime factors are joined to, and the greatest prime radix.
_RADIX = 16
_PRIME = 31
# Tables of more factors than these are computed by the program, not written into it. A chirp's
# table saves a transform.
_TABLE = 1024
_CHIRP_TABLE = 4096
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
# Between these sizes the square of an index fits 64 bits, and not 32.
_SHORT_SQUARE = 1 << 15


# ---- lengths


def _prime_factors(n: int) -> list[int]:
    """The prime factors of `n`, ascending."""
    found, p = [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return [*found, n] if n > 1 else found


def _is_smooth(n: int) -> bool:
    return all(p <= _PRIME for p in _prime_factors(n))


def _radices(n: int) -> list[int]:
    """Factors of `n`: products of its primes up to `_RADIX`, and greater primes."""
    found: list[int] = []
    for p in reversed(_prime_factors(n)):
        place = next((i for i, r in enumerate(found) if r * p <= _RADIX), None)
        if place is None:
            found.append(p)
        else:
            found[place] *= p
    return found


def _convolution_length(n: int) -> int:
    """The least length of at least `2 n - 1` with the prime factors 2 and 3 alone, 3 once."""
    power = 1 << (2 * n - 2).bit_length()
    return power * 3 // 4 if power >= 4 and power * 3 // 4 >= 2 * n - 1 else power


# ---- roots of unity


def _roots(index: Any, order: int, sign: int, dtype: np.dtype[Any]) -> Parts:
    """exp(sign 2 pi i index / order) for integers 0 <= index < order.

    The angle is reduced to an eighth of a turn in integers, so that no digit is lost.
    """
    shape = shape_of(index)

    def constant(value: float, kind: np.dtype[Any]) -> Any:
        return ops.broadcast_in_dim(kind.type(value), shape, ())

    def at_least(eighths: int) -> Any:
        bound = constant(-(-eighths * order // 8), get_aval(index).dtype)
        return ops.convert(ops.bind("ge", index, bound), get_aval(index).dtype)

    kind = get_aval(index).dtype
    quarter = at_least(1)
    for eighths in (3, 5, 7):
        quarter = ops.add(quarter, at_least(eighths))
    # Products that overflow wrap around, and their difference is right again.
    rest = ops.sub(ops.mul(index, constant(4, kind)), ops.mul(quarter, constant(order, kind)))
    angle = ops.mul(ops.convert(rest, dtype), constant(math.pi / 2 / order, dtype))
    square = ops.mul(angle, angle)
    terms = 6 if dtype.itemsize == 4 else 10

    def series(first: int) -> Any:
        """The sum of (-1)^k angle^(2 k) / (2 k + first)!, below its last digit on an eighth."""
        total = constant(0, dtype)
        for k in reversed(range(terms)):
            term = constant((-1) ** k / math.factorial(2 * k + first), dtype)
            total = ops.add(ops.mul(total, square), term)
        return total

    cosine, sine = series(0), ops.mul(series(1), angle)
    odd = ops.eq(ops.bind("and", quarter, constant(1, kind)), constant(1, kind))
    re, im = ops.select(odd, sine, cosine), ops.select(odd, cosine, sine)
    # The cosine is negative in the second and third quarter, the sine in the third and fourth.
    half_turn = ops.bind("and", ops.add(quarter, constant(1, kind)), constant(2, kind))
    re = ops.select(ops.eq(half_turn, constant(2, kind)), ops.neg(re), re)
    low = ops.eq(ops.bind("and", quarter, constant(2, kind)), constant(2, kind))
    if sign < 0:
        low = ops.bind("not", low)
    return re, ops.select(low, ops.neg(im), im)


def _table(index: np.ndarray[Any, Any], order: int, sign: int, dtype: np.dtype[Any]) -> Parts:
    """As `_roots`, on the host."""
    angle = sign * 2 * np.pi * ((index % order) / order)
    return np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)


def _iota(kind: np.dtype[Any], shape: Sequence[int], axis: int) -> Any:
    return ops.bind("iota", dtype=kind, shape=tuple(shape), dimension=axis, sharding=None)


def _twiddles(radix: int, rest: int, sign: int, dtype: np.dtype[Any]) -> Parts:
    """exp(sign 2 pi i j k / (radix rest)) for each k below `radix` and j below `rest`."""
    if radix * rest <= _TABLE:
        k, j = np.ogrid[:radix, :rest]
        return _table(k * j, radix * rest, sign, dtype)
    kind = _INT32 if radix * rest < 1 << 31 else _INT64
    shape = (radix, rest)
    return _roots(ops.mul(_iota(kind, shape, 0), _iota(kind, shape, 1)), radix * rest, sign, dtype)


def _chirp(n: int, sign: int, dtype: np.dtype[Any]) -> Parts:
    """exp(sign pi i j^2 / n) for each j below `n`."""
    if n <= _CHIRP_TABLE:
        return _table(np.arange(n) ** 2, 2 * n, sign, dtype)
    kind = _INT32 if n <= _SHORT_SQUARE else _INT64
    j = _iota(kind, (n,), 0)
    order = ops.broadcast_in_dim(kind.type(2 * n), (n,), ())
    return _roots(ops.bind("rem", ops.mul(j, j), order), 2 * n, sign, dtype)


# ---- arithmetic on parts


def _is_real(shape: Sequence[int]) -> Any:
    """Where the real parts are, in arrays whose first axis has both parts."""
    return ops.eq(_iota(_INT32, shape, 0), ops.broadcast_in_dim(np.int32(0), shape, ()))


def _paired(re: Any, im: Any) -> Any:
    """Both parts along a new first axis."""
    shape = (2, *shape_of(re))
    axes = tuple(range(1, len(shape)))
    re, im = (ops.broadcast_in_dim(v, shape, axes) for v in (re, im))
    return ops.select(_is_real(shape), re, im)


def _part(x: Any, index: int) -> Any:
    """The real (0) or imaginary (1) part."""
    return ops.reshape(slice_in_dim(x, index, index + 1), shape_of(x)[1:])


def _product(x: Any, w: Parts) -> Any:
    """x w for `x` [2, *outer, columns] and roots `w` [*outer]."""
    shape = shape_of(x)
    axes = tuple(range(1, len(shape)))
    re, im = (ops.broadcast_in_dim(_part(x, i), shape, axes) for i in (0, 1))
    c, s = w
    # (re + i im) (c + i s) = re (c, s) + im (-s, c)
    first, second = _paired(c, s), _paired(ops.neg(s), c)
    first, second = (
        ops.broadcast_in_dim(v, shape, tuple(range(len(shape) - 1))) for v in (first, second)
    )
    return ops.add(ops.mul(re, first), ops.mul(im, second))


def _scaled(x: Any, factor: float) -> Any:
    return ops.mul(x, full_like(x, factor))


# ---- stages


def _small_transform(x: Any, sign: int) -> Any:
    """The transform of [2, radix, columns], or of real [1, radix, columns], by one matrix."""
    parts, radix, columns = shape_of(x)
    k, j = np.ogrid[:radix, :radix]
    c, s = _table(k * j, radix, sign, get_aval(x).dtype)
    matrix = np.block([[c, -s], [s, c]])[:, : parts * radix]
    numbers = (((1,), (0,)), ((), ()))
    flat = ops.reshape(x, (parts * radix, columns))
    return ops.reshape(dot_general(matrix, flat, numbers, Precision.HIGHEST), (2, radix, columns))


def _smooth(x: Any, sign: int) -> Any:
    """The transform of [2, n, columns], or of real [1, n, columns], in stages.

    Before each stage the state is [2, left, done, columns]: `left` places are still to be
    transformed, and the digits of the frequency that are known, the lowest ones, number `done`.
    """
    _, n, columns = shape_of(x)
    dtype = get_aval(x).dtype
    left, done = n, 1
    for radix in _radices(n):
        left //= radix
        width = done * columns
        x = _small_transform(ops.reshape(x, (shape_of(x)[0], radix, left * width)), sign)
        if left > 1:
            x = ops.reshape(x, (2, radix, left, width))
            x = _product(x, _twiddles(radix, left, sign, dtype))
            x = ops.transpose(x, (0, 2, 1, 3))
        done *= radix
    return ops.reshape(x, (2, n, columns))


def _bluestein(x: Any, sign: int) -> Any:
    """The transform of [2, n, columns] for any n, as a cyclic convolution of a smooth length.

    j k = (j^2 + k^2 - (k - j)^2) / 2, so the frequencies are a convolution with a chirp.
    """
    n, dtype = shape_of(x)[1], get_aval(x).dtype
    size = _convolution_length(n)
    chirp = _chirp(n, sign, dtype)
    if shape_of(x)[0] == 1:
        x = _paired(_part(x, 0), full_like(_part(x, 0), 0))
    x = pad(_product(x, chirp), dtype.type(0), [(0, 0, 0), (0, size - n, 0), (0, 0, 0)])
    spectrum = _product(_smooth(x, -1), _chirp_spectrum(n, size, sign, dtype))
    return _product(slice_in_dim(_smooth(spectrum, 1), 0, n, axis=1), chirp)


def _chirp_spectrum(n: int, size: int, sign: int, dtype: np.dtype[Any]) -> Parts:
    """The transform, divided by `size`, of the conjugate chirp at the distances 1 - n, ..., n - 1.

    Negative distances are at the end of the cycle of length `size`.
    """
    if size <= _CHIRP_TABLE:
        j = np.arange(n)
        wave = np.zeros(size, np.complex128)
        wave[:n] = np.exp(-sign * 1j * np.pi * ((j * j % (2 * n)) / n))
        wave[size - n + 1 :] = wave[1:n][::-1]
        spectrum = np.fft.fft(wave) / size
        return spectrum.real.astype(dtype), spectrum.imag.astype(dtype)
    chirp = _paired(*_chirp(n, -sign, dtype))
    back = rev(slice_in_dim(chirp, 1, n, axis=1), (1,))
    gap = ops.broadcast_in_dim(dtype.type(0), (2, size - 2 * n + 1), ())
    wave = ops.reshape(concatenate([chirp, gap, back], 1), (2, size, 1))
    spectrum = _scaled(ops.reshape(_smooth(wave, -1), (2, size)), 1 / size)
    return _part(spectrum, 0), _part(spectrum, 1)


def _transform(x: Any, axis: int, sign: int) -> Any:
    """The transform along one axis of an array of any rank, whose first axis has the parts."""
    shape = shape_of(x)
    n = shape[axis]
    order = (0, axis, *(i for i in range(1, len(shape)) if i != axis))
    back = tuple(order.index(i) for i in range(len(shape)))
    moved = ops.transpose(x, order)
    columns = ops.reshape(moved, (shape[0], n, math.prod(shape[1:]) // n))
    found = _smooth(columns, sign) if _is_smooth(n) else _bluestein(columns, sign)
    return ops.transpose(ops.reshape(found, (2, *shape_of(moved)[1:])), back)


# ---- the primitive


def fft(x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Any:
    """The transforms of the primitive `fft`, of arrays that are not empty."""
    shape = shape_of(x)
    inverse = fft_type in (FftType.IFFT, FftType.IRFFT)
    sign = 1 if inverse else -1
    # The axes in the array of parts, and those of them that are not of length 1.
    *outer, last = range(len(shape) - len(fft_lengths) + 1, len(shape) + 1)
    sizes = dict(zip((*outer, last), fft_lengths, strict=True))
    outer = [axis for axis in outer if sizes[axis] > 1]
    axes = [last, *outer] if sizes[last] > 1 else outer
    if fft_type == FftType.RFFT:
        parts = ops.reshape(x, (1, *shape))
        if not axes:
            return el.complex(x, full_like(x, 0))
    else:
        parts = _paired(el.real(x), el.imag(x))
    if fft_type == FftType.IRFFT:
        for axis in outer:
            parts = _transform(parts, axis, sign)
        parts, axes = _whole_spectrum(parts, last, sizes[last]), [a for a in axes if a == last]
    for axis in axes:
        parts = _transform(parts, axis, sign)
        if fft_type == FftType.RFFT and axis == last:
            parts = slice_in_dim(parts, 0, sizes[last] // 2 + 1, axis=last)
    if inverse:
        parts = _scaled(parts, 1 / math.prod(fft_lengths))
    re, im = _part(parts, 0), _part(parts, 1)
    return re if fft_type == FftType.IRFFT else el.complex(re, im)


def _whole_spectrum(x: Any, axis: int, n: int) -> Any:
    """All `n` frequencies of real numbers from the first half of them along `axis`.

    What the first and the middle one have of imaginary parts changes no real result.
    """
    if n <= 2:
        return slice_in_dim(x, 0, n, axis=axis)
    mirrored = rev(slice_in_dim(x, 1, (n + 1) // 2, axis=axis), (axis,))
    shape = shape_of(mirrored)
    conjugate = ops.select(_is_real(shape), mirrored, ops.neg(mirrored))
    return concatenate([x, conjugate], axis)
