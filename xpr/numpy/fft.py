"""Discrete Fourier transforms, under the names of `jax.numpy.fft`.

Transforms keep single and double precision; integers become complex64, those of 64 bits complex128.
`norm` says which direction is divided by the number n of elements: "backward" (the default, also
None) the inverse one, "forward" the forward one, "ortho" both by its square root. Functions with
an argument `n` or `s` first cut the axes to these lengths, or fill them up with zeros.

>>> import xpr.numpy as jnp
>>> jnp.fft.fft(jnp.array([1.0, 2.0, 3.0, 4.0]))
Array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array as _AnyArray
from xpr.core.trace import Tracer, get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, convert, to_inexact
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.numpy.creation import placed
from xpr.numpy.dtype_api import requested_dtype
from xpr.numpy.manipulation import moveaxis, roll
from xpr.numpy.ufuncs_float import conjugate
from xpr.primitives import elementwise as el
from xpr.primitives import fft as _fft
from xpr.primitives import shape as sh
from xpr.primitives._complex import real_dtype
from xpr.primitives._index_dims import canonicalize_axes
from xpr.primitives.creation import iota
from xpr.primitives.fft import FftType

_Sizes = Sequence[int] | None

# The primitive transforms up to so many axes at once.
_AT_ONCE = 3


# ---- what all transforms share


def _transform(
    name: str, kind: FftType, a: Any, s: _Sizes, axes: Sequence[int] | None, norm: str | None
) -> Array:
    x = as_array(as_operand(f"jax.numpy.fft.{name}", a))
    if s is not None:
        s = tuple(map(operator.index, s))
        if any(n <= 0 for n in s):
            raise ValueError(f"Shape should be positive. Got {s}")
    places = _checked_axes(name, x.ndim, s, axes)
    # The primitive takes the innermost axes.
    last = tuple(range(x.ndim - len(places), x.ndim))
    x = moveaxis(x, places, last)
    if s is not None:
        x = _resized(x, kind, s)
    else:
        s = x.shape[x.ndim - len(places) :]
        if kind == FftType.IRFFT and s:
            s = (*s[:-1], max(0, 2 * (s[-1] - 1)))
            x = _resized(x, kind, s) if x.shape[-1] == 0 else x
    factor = _factor(math.prod(s), norm, inverse=kind in (FftType.IFFT, FftType.IRFFT))
    found = _over_innermost(x, kind, s)
    return moveaxis(found if factor == 1 else found * factor, last, places)


def _checked_axes(name: str, ndim: int, s: _Sizes, axes: Sequence[int] | None) -> tuple[int, ...]:
    """The axes to transform; all of them, or the last ones, when none are given."""
    if axes is None:
        count = ndim if s is None else len(s)
        if count > ndim:
            raise ValueError(
                f"jax.numpy.fft.{name} got {count} lengths, s={s}, for an array of {ndim} "
                "dimensions"
            )
        return tuple(range(ndim - count, ndim))
    if s is not None and len(s) != len(axes):
        raise ValueError(f"Shape and axes have different lengths. Got s={s} and axes={axes}")
    places = canonicalize_axes(tuple(axes), ndim)
    if len(set(places)) != len(places):
        raise ValueError(
            f"jax.numpy.fft.{name} does not support repeated axes. Got axes {list(axes)}."
        )
    return places


def _resized(x: Array, kind: FftType, s: Sequence[int]) -> Array:
    """`x` with its innermost axes cut, or filled up with zeros, for a transform of lengths `s`."""
    wanted = (*s[:-1], s[-1] // 2 + 1) if kind == FftType.IRFFT else tuple(s)
    missing = [n - have for n, have in zip(wanted, x.shape[x.ndim - len(s) :], strict=True)]
    if not any(missing):
        return x
    edges = [(0, 0, 0)] * (x.ndim - len(s)) + [(0, n, 0) for n in missing]
    return sh.pad(x, x.dtype.type(0), edges)


def _over_innermost(x: Array, kind: FftType, s: Sequence[int]) -> Array:
    """The transform of as many innermost axes as there are lengths `s`, a few at a time."""
    if len(s) <= _AT_ONCE:
        return _fft.fft(x, kind, s)
    inner, outer = s[-_AT_ONCE:], s[:-_AT_ONCE]
    first = x.ndim - len(s)
    source = tuple(range(first, first + len(outer)))
    last = tuple(range(x.ndim - len(outer), x.ndim))
    inverse = kind in (FftType.IFFT, FftType.IRFFT)
    if kind != FftType.IRFFT:
        x = _fft.fft(x, kind, inner)
    around = FftType.IFFT if inverse else FftType.FFT
    x = moveaxis(_over_innermost(moveaxis(x, source, last), around, outer), last, source)
    return _fft.fft(x, kind, inner) if kind == FftType.IRFFT else x


def _factor(size: int, norm: str | None, *, inverse: bool) -> float:
    """What the primitive's result is multiplied by; it has divided inverse transforms by `size`."""
    if norm is None or norm == "backward":
        return 1
    size = max(size, 1)
    if norm not in ("ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    factor = 1 / math.sqrt(size) if norm == "ortho" else 1 / size
    return factor * size if inverse and norm == "ortho" else size if inverse else factor


def _along_one(
    name: str, kind: FftType, a: Any, n: int | None, axis: Any, norm: str | None
) -> Array:
    if isinstance(axis, (list, tuple)):
        raise ValueError(
            f"jax.numpy.fft.{name} does not support multiple axes. Please use "
            f"jax.numpy.fft.{name}n. Got {axis = }."
        )
    return _transform(
        name, kind, a, None if n is None else (n,), None if axis is None else (axis,), norm
    )


def _along_two(
    name: str, kind: FftType, a: Any, s: _Sizes, axes: Sequence[int], norm: str | None
) -> Array:
    if len(axes) != 2:
        raise ValueError(f"jax.numpy.fft.{name} only supports 2 axes. Got {axes = }.")
    return _transform(name, kind, a, s, axes, norm)


# ---- one axis


def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The transform along `axis`: element k is the sum of `a[j] exp(-2 pi i j k / n)`, complex.

    Raises ValueError for lengths `n` that are not positive, another `norm`, several axes and an
    axis out of bounds.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.fft(jnp.array([1.0, 0.0, 0.0]), n=2)
    Array([1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _along_one("fft", FftType.FFT, a, n, axis, norm)


def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `fft`: element j is the mean of `a[k] exp(2 pi i j k / n)`.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.ifft(jnp.array([4.0, 0.0]))
    Array([2.+0.j, 2.+0.j], dtype=complex64)
    """
    return _along_one("ifft", FftType.IFFT, a, n, axis, norm)


def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The first n // 2 + 1 elements of the `fft` of real numbers; the others are conjugates.

    Raises ValueError for complex arrays too.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.rfft(jnp.array([1.0, 2.0, 3.0, 4.0]))
    Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    return _along_one("rfft", FftType.RFFT, a, n, axis, norm)


def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The `n` real numbers whose `rfft` is `a`; an even n, 2 (m - 1) for m elements, by default.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.irfft(jnp.array([10.0, -2 + 2j, -2.0]))
    Array([1., 2., 3., 4.], dtype=float32)
    """
    return _along_one("irfft", FftType.IRFFT, a, n, axis, norm)


_OTHER_DIRECTION = {None: "forward", "backward": "forward", "forward": "backward"}


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The real `fft` of `n` numbers of which `a` is the first half, the others being conjugates.

    n is 2 (m - 1) by default, for m elements along `axis`.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.hfft(jnp.array([1.0, 2.0, 3.0]))
    Array([ 8., -2.,  0., -2.], dtype=float32)
    """
    x = conjugate(as_array(as_operand("jax.numpy.fft.hfft", a)))
    return _along_one("hfft", FftType.IRFFT, x, n, axis, _OTHER_DIRECTION.get(norm, norm))


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`: the first n // 2 + 1 numbers of the `ifft` of real ones.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.ihfft(jnp.array([8.0, -2.0, 0.0, -2.0]))
    Array([1.+0.j, 2.+0.j, 3.+0.j], dtype=complex64)
    """
    found = _along_one("ihfft", FftType.RFFT, a, n, axis, _OTHER_DIRECTION.get(norm, norm))
    return conjugate(found)


# ---- several axes


def fftn(
    a: ArrayLike, s: _Sizes = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """The `fft` along each of `axes`: all of them, or the last `len(s)`, by default.

    `s` are the lengths to transform. Raises ValueError for lengths that are not positive or not as
    many as axes, repeated axes, and another `norm`.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.fftn(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([[10.+0.j, -2.+0.j],
           [-4.+0.j,  0.+0.j]], dtype=complex64)
    """
    return _transform("fftn", FftType.FFT, a, s, axes, norm)


def ifftn(
    a: ArrayLike, s: _Sizes = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """The inverse of `fftn`.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.ifftn(jnp.array([[4, 0], [0, 0]]))
    Array([[1.+0.j, 1.+0.j],
           [1.+0.j, 1.+0.j]], dtype=complex64)
    """
    return _transform("ifftn", FftType.IFFT, a, s, axes, norm)


def rfftn(
    a: ArrayLike, s: _Sizes = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """The `rfft` along the last of `axes`, then the `fft` along the others.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.rfftn(jnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform("rfftn", FftType.RFFT, a, s, axes, norm)


def irfftn(
    a: ArrayLike, s: _Sizes = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """The inverse of `rfftn`, for an even length of the last axis by default.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.irfftn(jnp.array([[4, 0], [0, 0]]))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _transform("irfftn", FftType.IRFFT, a, s, axes, norm)


def fft2(
    a: ArrayLike, s: _Sizes = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """The `fftn` along two axes; ValueError for another number of them.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.fft2(jnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _along_two("fft2", FftType.FFT, a, s, axes, norm)


def ifft2(
    a: ArrayLike, s: _Sizes = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """The inverse of `fft2`.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.ifft2(jnp.array([[4, 0], [0, 0]]))
    Array([[1.+0.j, 1.+0.j],
           [1.+0.j, 1.+0.j]], dtype=complex64)
    """
    return _along_two("ifft2", FftType.IFFT, a, s, axes, norm)


def rfft2(
    a: ArrayLike, s: _Sizes = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """The `rfftn` along two axes; ValueError for another number of them.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.rfft2(jnp.ones((2, 4))).shape
    (2, 3)
    """
    return _along_two("rfft2", FftType.RFFT, a, s, axes, norm)


def irfft2(
    a: ArrayLike, s: _Sizes = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """The inverse of `rfft2`.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.irfft2(jnp.ones((2, 3))).shape
    (2, 4)
    """
    return _along_two("irfft2", FftType.IRFFT, a, s, axes, norm)


# ---- frequencies


def _frequencies(name: str, n: Any, d: Any, dtype: DTypeLike, device: Any, *, half: bool) -> Array:
    if isinstance(n, (list, tuple)):
        raise ValueError(
            f"The n argument of jax.numpy.fft.{name} only takes an int. Got n = {list(n)}."
        )
    if isinstance(d, (list, tuple)):
        raise ValueError(
            f"The d argument of jax.numpy.fft.{name} only takes a single value. Got d = {list(d)}."
        )
    if isinstance(n, Tracer):
        raise n._concretization(
            f"the n argument of jax.numpy.fft.{name} must be known when it is traced"
        )
    wanted = dtypes.default_dtype("f") if dtype is None else requested_dtype(dtype, name)
    computed = real_dtype(to_inexact(wanted))
    size = operator.index(n)
    k = iota(np.dtype(np.int32), (size // 2 + 1 if half else max(size, 0)))
    if not half and size > 0:
        # The second half of the frequencies are the negative ones.
        k = el.sub(k, convert(k > (size - 1) // 2, k.dtype) * np.int32(size))
    spacing = d * size
    if isinstance(spacing, _AnyArray):
        spacing = convert(spacing, computed)
    else:
        spacing = np.asarray(spacing).astype(computed)[()]
    return placed(as_array(convert(convert(k, computed) / spacing, wanted)), device)


def fftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """The frequencies of the elements of `fft` for samples at distances `d`: 0, 1, ..., -1 over dn.

    The default dtype is float32 (float64 with 64 bits). Raises ValueError for sequences.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.fftfreq(5, d=0.5)
    Array([ 0. ,  0.4,  0.8, -0.8, -0.4], dtype=float32)
    """
    return _frequencies("fftfreq", n, d, dtype, device, half=False)


def rfftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """The frequencies of the n // 2 + 1 elements of `rfft`, as `fftfreq` but not negative.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.rfftfreq(4)
    Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    return _frequencies("rfftfreq", n, d, dtype, device, half=True)


# ---- the zero frequency in the middle


def _shifted(name: str, x: Any, axes: int | Sequence[int] | None, sign: int) -> Array:
    operand = as_operand(name, x)
    shape = get_aval(operand).shape
    places = tuple(range(len(shape))) if axes is None else canonicalize_axes(axes, len(shape))
    if not places:
        return as_array(operand)
    return roll(operand, [sign * (shape[i] // 2) for i in places], places)


def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """`x` with the zero frequency, the first element, moved to the middle of `axes` (all).

    >>> import xpr.numpy as jnp
    >>> jnp.fft.fftshift(jnp.fft.fftfreq(4, 0.25))
    Array([-2., -1.,  0.,  1.], dtype=float32)
    """
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of `fftshift`: the middle element of `axes` (all) moved to the front.

    >>> import xpr.numpy as jnp
    >>> jnp.fft.ifftshift(jnp.array([-2.0, -1.0, 0.0, 1.0]))
    Array([ 0.,  1., -2., -1.], dtype=float32)
    """
    return _shifted("ifftshift", x, axes, -1)
