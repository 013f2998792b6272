"""Signals from their short-time Fourier transforms."""

from __future__ import annotations

from typing import Any

from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, convert
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.fft import ifft, irfft
from xpr.numpy.manipulation import broadcast_to, moveaxis
from xpr.numpy.ranges import arange
from xpr.numpy.selection import where
from xpr.primitives._complex import complex_dtype, real_dtype
from xpr.primitives._index_dims import canonicalize_axis
from xpr.scipy.signal._segments import (
    given_window,
    is_named,
    known_int,
    named_window,
    overlapped,
)

# Where the windows' squares sum up to no more than this, they say nothing about the signal.
_LEAST_WEIGHT = 1e-10


def istft(
    Zxx: ArrayLike,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """Times and the signal whose `stft` is `Zxx`, by least squares.

    The arguments are those of `stft`; `nperseg` is by default the one for which its frequencies,
    with the negative ones if `input_onesided`, are as many as elements. With `boundary` half a
    segment at both ends, by which `stft` had extended the signal, is left out. The signal is real
    for one-sided transforms. Where no window reaches it is 0. Times are as many as the size of the
    signal's first axis. Raises ValueError for sizes and axes that do not fit.

    D. W. Griffin and J. S. Lim, "Signal estimation from modified short-time Fourier transform",
    1984.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy.signal import stft
    >>> f, t, z = stft(jnp.array([1.0, 2.0, 3.0, 2.0]), nperseg=4)
    >>> istft(z)[1].round(3)
    Array([1., 2., 3., 2.], dtype=float32)
    """
    z = as_array(as_operand("signal.istft", Zxx))
    if z.ndim < 2:
        raise ValueError(f"Input stft must be at least 2d, got shape {z.shape}")
    times, frequencies = (canonicalize_axis(a, z.ndim) for a in (time_axis, freq_axis))
    if times == frequencies:
        raise ValueError("Must specify differing time and frequency axes!")
    z = convert(z, complex_dtype(z.dtype))
    bins = z.shape[frequencies]
    size, length, step = _sizes(bins, nperseg, noverlap, nfft, input_onesided)
    z = moveaxis(z, (times, frequencies), (-2, -1))
    frames = (irfft if input_onesided else ifft)(z, length)[..., :size]
    weights = _window(window, size, z.dtype)
    # The transforms had been divided by the sum of the window.
    scales = (weights.sum() * weights).reshape((1,) * (frames.ndim - 1) + (size,))
    signal = overlapped(frames * scales.astype(frames.dtype), step)
    squares = broadcast_to(weights * weights, (frames.shape[-2], size))
    norm = overlapped(squares, step)
    if boundary:
        start, stop = size // 2, signal.shape[-1] - size // 2
        signal, norm = signal[..., start:stop], norm[start:stop]
    norm = where(abs(norm) > _LEAST_WEIGHT, norm, 1).astype(signal.dtype)
    signal = signal / norm.reshape((1,) * (signal.ndim - 1) + norm.shape)
    # The place of the time axis when that of frequencies is gone.
    signal = moveaxis(signal, -1, times - (frequencies < times))
    time = arange(signal.shape[0], dtype=real_dtype(z.dtype)) / fs
    return time, signal


def _sizes(
    bins: int, nperseg: Any, noverlap: Any, nfft: Any, one_sided: bool
) -> tuple[int, int, int]:
    """The sizes of segments and of transforms, and the step between segments."""
    default = 2 * (bins - 1) if one_sided else bins
    size = default if nperseg is None else known_int(nperseg, "nperseg")
    if size < 1:
        raise ValueError(f"nperseg must be a positive integer, got {size}")
    if nfft is not None:
        length = known_int(nfft, "nfft")
    else:
        # Half spectra of one length are those of an even and an odd number of elements.
        length = size if one_sided and size == default + 1 else default
    if length < size:
        raise ValueError(f"FFT length ({length}) must be longer than nperseg ({size}).")
    overlap = size // 2 if noverlap is None else known_int(noverlap, "noverlap")
    if overlap >= size:
        raise ValueError(f"noverlap must be less than nperseg, got {overlap} and {size}.")
    return size, length, size - overlap


def _window(window: Any, size: int, dtype: Any) -> Array:
    if is_named(window):
        return named_window(window, size, dtype)
    values = given_window(window, dtype)
    if values.shape[0] != size:
        raise ValueError(f"window must have length of {size}, got {values.shape[0]}")
    return values
