"""Spectra of signals from the Fourier transforms of their segments.

P. D. Welch, "The use of fast Fourier transform for the estimation of power spectra", 1967.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.source_info import user_stacklevel
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, promote_dtypes_inexact
from xpr.numpy._typing import Array, ArrayLike, DType
from xpr.numpy.creation import zeros
from xpr.numpy.fft import fft, fftfreq, rfft, rfftfreq
from xpr.numpy.manipulation import expand_dims, moveaxis
from xpr.numpy.quantiles import median
from xpr.numpy.ranges import arange
from xpr.numpy.ufuncs_float import conjugate
from xpr.numpy.ufuncs_math import sqrt
from xpr.primitives import elementwise as el
from xpr.primitives._complex import complex_dtype, real_dtype
from xpr.primitives._index_dims import canonicalize_axis
from xpr.scipy.signal._segments import (
    extended,
    given_window,
    is_named,
    known_int,
    named_window,
    segments,
    with_zeros,
)
from xpr.scipy.signal.trends import detrend as _detrend

Detrend = bool | str | Callable[[Any], Any]

_BOUNDARIES = ("even", "odd", "constant", "zeros", None)


# ---- the segments of a signal


@dataclass(frozen=True)
class _Cut:
    """How a signal is cut into segments: the window, steps and the length of transforms."""

    window: Array
    size: int
    overlap: int
    length: int

    @property
    def step(self) -> int:
        return self.size - self.overlap


def _cut(window: Any, nperseg: Any, noverlap: Any, nfft: Any, signal: int, dtype: DType) -> _Cut:
    """The sizes of segments of a signal of `signal` elements, checked."""
    size = None if nperseg is None else known_int(nperseg, "nperseg")
    if size is not None and size < 1:
        raise ValueError(f"nperseg must be a positive integer, got {size}")
    if is_named(window):
        size = signal if size is None else size
        if size > signal:
            warnings.warn(
                f"nperseg={size} is greater than input_length={signal}, using nperseg={signal}",
                stacklevel=user_stacklevel(),
            )
            size = signal
        values = named_window(window, size, dtype)
    else:
        values = given_window(window, dtype)
        if signal < values.size:
            raise ValueError(
                f"window is longer than input signal: {values.size} and {signal} elements"
            )
        if size not in (None, values.size):
            raise ValueError(
                f"value specified for nperseg, {size}, is different from length of window, "
                f"{values.size}"
            )
        size = values.size
    overlap = size // 2 if noverlap is None else known_int(noverlap, "noverlap")
    length = size if nfft is None else known_int(nfft, "nfft")
    if length < size:
        raise ValueError(f"nfft must be greater than or equal to nperseg, got {length} and {size}.")
    if overlap >= size > 0:
        raise ValueError(f"noverlap must be less than nperseg, got {overlap} and {size}.")
    return _Cut(values, size, overlap, length)


def _detrender(detrend: Detrend, last: bool, axis: int) -> Callable[[Array], Array]:
    """What takes the trend from segments along the last axis; a user's function finds `axis`."""
    if isinstance(detrend, str):
        return lambda x: _detrend(x, -1, detrend)
    if callable(detrend):
        if last:
            return detrend
        return lambda x: moveaxis(detrend(moveaxis(x, -1, axis)), axis, -1)
    if not detrend:
        return lambda x: x
    raise ValueError(f"Unsupported detrend type: {detrend}")


def _transformed(x: Array, cut: _Cut, trend: Callable[[Array], Array], one_sided: bool) -> Array:
    """The transforms of the windowed segments of the last axis: [..., count, frequencies]."""
    parts = trend(segments(x, cut.size, cut.step))
    parts = parts * expand_dims(cut.window.astype(parts.dtype), tuple(range(parts.ndim - 1)))
    return rfft(parts.real, cut.length) if one_sided else fft(parts, cut.length)


def _scale(scaling: str, window: Array, fs: Any) -> Any:
    """What makes squares of transforms a density or a spectrum."""
    if scaling == "density":
        return 1 / (fs * (window * window).sum())
    if scaling == "spectrum":
        total = window.sum()
        return 1 / (total * total)
    raise ValueError(f"Unknown scaling: {scaling!r}")


def _is_one_sided(wanted: bool, *signals: Array) -> bool:
    if wanted and any(dtypes.is_complex(x.dtype) for x in signals):
        warnings.warn(
            "Input data is complex, switching to return_onesided=False",
            stacklevel=user_stacklevel(),
        )
        return False
    return wanted


def _frequencies(length: int, fs: Any, dtype: DType, one_sided: bool) -> Array:
    return (rfftfreq if one_sided else fftfreq)(length, 1 / fs, dtype=dtype)


# ---- short-time transforms


def stft(
    x: ArrayLike,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """Frequencies, times and the Fourier transforms of the windowed segments of `x` along `axis`.

    Segments of `nperseg` elements share `noverlap` (half) with the next one and are filled up with
    zeros to `nfft` (nperseg). `window` is the name of one, a tuple of name and parameters for
    SciPy's `get_window`, or an array. The signal is first extended by half a segment at both ends:
    by "zeros", its edge ("constant"), or its reflection ("even", or "odd" about the end points),
    or not at all (None); and by zeros to whole segments if `padded`. `detrend` is False, a type for
    `detrend`, or a function of the segments. `fs` is the number of samples for each unit of time.
    The frequencies stand in the place of `axis`, the times last; transforms of real signals have
    the frequencies from 0 on only, if `return_onesided`. They are divided by the sum of the window.
    Raises ValueError for sizes that do not fit and unknown names.

    >>> import xpr.numpy as jnp
    >>> f, t, z = stft(jnp.ones(8), nperseg=4)
    >>> (f.tolist(), t.tolist(), z.shape)
    ([0.0, 0.25, 0.5], [0.0, 2.0, 4.0, 6.0, 8.0], (3, 5))
    """
    if boundary not in _BOUNDARIES:
        raise ValueError(
            f"Unknown boundary option {boundary!r}, must be one of: {list(_BOUNDARIES)}"
        )
    (signal,) = promote_dtypes_inexact(as_operand("signal.stft", x))
    signal = as_array(signal)
    place = canonicalize_axis(axis, signal.ndim)
    cut = _cut(window, nperseg, noverlap, nfft, signal.shape[place], signal.dtype)
    result, real = complex_dtype(signal.dtype), real_dtype(complex_dtype(signal.dtype))
    if signal.size == 0:
        nothing = zeros(signal.shape, real)
        return nothing, nothing, nothing.astype(result)
    trend = _detrender(detrend, place == signal.ndim - 1, place)
    one_sided = _is_one_sided(return_onesided, signal)
    signal = moveaxis(signal, place, -1)
    if boundary is not None:
        signal = extended(signal, cut.size // 2, boundary)
    if padded:
        signal = with_zeros(signal, -(signal.shape[-1] - cut.size) % cut.step % cut.size)
    found = _transformed(signal, cut, trend, one_sided)
    found = found * sqrt(_scale("spectrum", cut.window, fs)).astype(found.dtype)
    half = cut.size / 2
    time = arange(half, signal.shape[-1] - half + 1, cut.step, dtype=real) / fs
    if boundary is not None:
        time = time - half / fs
    frequencies = _frequencies(cut.length, fs, real, one_sided)
    return frequencies, time.astype(real), moveaxis(found.astype(result), -1, place)


# ---- densities


def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Frequencies and the cross spectral density of `x` and `y` along `axis`, complex.

    The products of the transforms of their segments, that of `x` conjugate, are averaged: by the
    "mean" or the "median" of their parts. Without `y`, and then real, that of `x` with itself.
    `scaling` is "density" (power for each unit of frequency) or "spectrum". `nperseg` is by default
    the size of the axis or of a given window; other arguments and errors are those of `stft`. The
    shorter signal is filled up with zeros; other axes are broadcast.

    >>> import xpr.numpy as jnp
    >>> x = jnp.array([1.0, -1.0, 1.0, -1.0])
    >>> csd(x, 2 * x, nperseg=2, noverlap=0)[1].round(3)
    Array([2.+0.j, 2.+0.j], dtype=complex64)
    """
    if average not in ("mean", "median"):
        raise ValueError(f'average must be "median" or "mean", got {average}')
    signals = _signals(x, y, axis)
    first = signals[0]
    place = canonicalize_axis(axis, first.ndim)
    cut = _cut(window, nperseg, noverlap, nfft, first.shape[place], first.dtype)
    result = complex_dtype(first.dtype)
    real = real_dtype(result)
    trend = _detrender(detrend, place == first.ndim - 1, place)
    if any(s.size == 0 for s in signals):
        shape = list(np.broadcast_shapes(*(_without(s.shape, place) for s in signals)))
        shape.insert(place, min(s.shape[place] for s in signals))
        return zeros(shape, real), zeros(shape, real if y is None else result)
    one_sided = _is_one_sided(return_onesided, *signals)
    size = max(s.shape[place] for s in signals)
    signals = [moveaxis(s, place, -1) for s in signals]
    signals = [with_zeros(s, size - s.shape[-1]) for s in signals]
    found = [_transformed(s, cut, trend, one_sided) for s in signals]
    power = _power(found[0]) if y is None else conjugate(found[0]) * found[1]
    power = power * _scale(scaling, cut.window, fs).astype(power.dtype)
    if one_sided:
        power = power * _sides(cut.length, power)
    power = _averaged(power.astype(real if y is None else result), average)
    return _frequencies(cut.length, fs, real, one_sided), moveaxis(power, -1, place)


def _without(shape: tuple[int, ...], place: int) -> tuple[int, ...]:
    return shape[:place] + shape[place + 1 :]


def _signals(x: Any, y: Any, axis: int) -> list[Array]:
    """The operands of one dtype and rank, whose other axes can be broadcast."""
    given = [as_operand("signal.csd", v, i) for i, v in enumerate((x, y)) if v is not None]
    signals = [as_array(v) for v in promote_dtypes_inexact(*given)]
    ranks = [s.ndim for s in signals]
    if len(set(ranks)) > 1:
        raise ValueError(f"two-arguments must have the same rank ({ranks[0]} vs {ranks[1]}).")
    place = canonicalize_axis(axis, ranks[0])
    try:
        np.broadcast_shapes(*(_without(s.shape, place) for s in signals))
    except ValueError:
        shapes = " and ".join(str(s.shape) for s in signals)
        raise ValueError(f"x and y cannot be broadcast together: shapes {shapes}.") from None
    return signals


def _power(x: Array) -> Array:
    re, im = el.real(x), el.imag(x)
    return re * re + im * im


def _sides(length: int, power: Array) -> np.ndarray[Any, Any]:
    """How many frequencies of the whole spectrum each of the half spectrum stands for."""
    sides = np.full(length // 2 + 1, 2, power.dtype)
    sides[0] = 1
    if length % 2 == 0:
        sides[-1] = 1
    return sides.reshape((1,) * (power.ndim - 1) + sides.shape)


def _averaged(power: Array, average: str) -> Array:
    """The average of [..., count, frequencies] over the segments.

    The median of the squares of Gaussian numbers is less than their mean: B. Allen and others,
    "FINDCHIRP", 2012, appendix B.
    """
    if average == "mean":
        return power.mean(-2)
    even = np.arange(2.0, power.shape[-2], 2)
    bias = float(1 + np.sum(1 / (even + 1) - 1 / even))
    if not dtypes.is_complex(power.dtype):
        return median(power, axis=-2) / bias
    return el.complex(median(power.real, axis=-2), median(power.imag, axis=-2)) / bias


def welch(
    x: ArrayLike,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Frequencies and the power spectral density of `x` along `axis`: `csd` without `y`.

    >>> import xpr.numpy as jnp
    >>> f, power = welch(jnp.array([1.0, -1.0, 1.0, -1.0]), nperseg=2, window="boxcar")
    >>> (f.tolist(), power.round(3).tolist())
    ([0.0, 0.5], [0.0, 2.0])
    """
    return csd(
        x,
        None,
        fs=fs,
        window=window,
        nperseg=nperseg,
        noverlap=noverlap,
        nfft=nfft,
        detrend=detrend,
        return_onesided=return_onesided,
        scaling=scaling,
        axis=axis,
        average=average,
    )
