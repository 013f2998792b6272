"""Discrete cosine transforms, under the names of `jax.scipy.fft`.

All are of type 2, and the inverses those of type 2. `norm` None or "backward" gives plain sums;
"ortho" makes the transforms orthogonal matrices.

>>> import xpr.numpy as jnp
>>> from xpr.scipy import fft
>>> fft.dct(jnp.array([1.0, 1.0]))
Array([4., 0.], dtype=float32)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, convert, to_inexact
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.fft import irfft, rfft
from xpr.numpy.joining import concatenate, stack
from xpr.numpy.manipulation import flip, moveaxis
from xpr.numpy.ufuncs_math import cos, sin
from xpr.primitives import elementwise as el
from xpr.primitives import shape as sh
from xpr.primitives._complex import complex_dtype, real_dtype
from xpr.primitives._index_dims import canonicalize_axes, canonicalize_axis
from xpr.primitives.creation import iota

_Axes = int | Sequence[int] | None
_OneAxis = Callable[[Array, str | None], Array]


# ---- one transform along the last axis


def _quarter_wave(n: int, x: Array) -> Array:
    """exp(-pi i k / (2 n)) for each k up to n / 2, along the last of as many axes as `x` has."""
    angle = iota(x.dtype, n // 2 + 1) * (-np.pi / (2 * n))
    return el.complex(cos(angle), sin(angle)).reshape((1,) * (x.ndim - 1) + (n // 2 + 1,))


def _ortho_scale(x: Array) -> Any:
    """What makes sums along the last axis of `x` an orthogonal transform."""
    n = x.shape[-1]
    scale = np.full(n, np.sqrt(1 / (2 * n)), x.dtype)
    scale[:1] = np.sqrt(1 / (4 * n))
    return scale.reshape((1,) * (x.ndim - 1) + (n,))


def _forward(x: Array, norm: str | None) -> Array:
    """The cosine transform of length n by the Fourier transform of n real numbers.

    J. Makhoul, "A fast cosine transform in one and two dimensions", 1980: the even elements
    followed by the odd ones in reverse. Of the products z[k] of their frequencies with a quarter
    wave, the real parts are the first half of the result, the imaginary ones the rest backwards.
    """
    n = x.shape[-1]
    order = concatenate([x[..., ::2], flip(x[..., 1::2], -1)], axis=-1)
    z = rfft(order) * _quarter_wave(n, x)
    found = 2 * concatenate([z.real, flip(-z.imag[..., 1 : (n + 1) // 2], -1)], axis=-1)
    return found * _ortho_scale(found) if norm == "ortho" else found


def _inverse(y: Array, norm: str | None) -> Array:
    """The inverse of `_forward`, step by step."""
    n = y.shape[-1]
    y = y / _ortho_scale(y) if norm == "ortho" else y
    # The frequency 0 of real numbers is real; the middle one's parts come from one element.
    imaginary = flip(y[..., n - n // 2 :], -1)
    edge = [(0, 0, 0)] * (y.ndim - 1)
    imaginary = sh.pad(imaginary, y.dtype.type(0), [*edge, (1, 0, 0)])
    z = el.complex(y[..., : n // 2 + 1] / 2, -imaginary / 2)
    order = irfft(z * _quarter_wave(n, y).conj(), n)
    half = (n + 1) // 2
    even, odd = order[..., :half], flip(order[..., half:], -1)
    odd = sh.pad(odd, y.dtype.type(0), [*edge, (0, n % 2, 0)])
    pairs = stack([even, odd], axis=-1)
    return pairs.reshape(*y.shape[:-1], 2 * half)[..., :n]


# ---- arguments


def _checked(name: str, x: Any, type: int, norm: str | None) -> Array:
    operand = as_array(as_operand(name, x))
    if type != 2:
        raise NotImplementedError(f"Only DCT type 2 is implemented; fft.{name} got {type = }")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"fft.{name}: {norm = } is not implemented")
    dtype = to_inexact(operand.dtype)
    wide = complex_dtype(dtype)
    return convert(operand, wide if dtypes.is_complex(dtype) else real_dtype(wide))


def _along(x: Array, n: int | None, axis: int, norm: str | None, transform: _OneAxis) -> Array:
    """`transform` along `axis`, first cut to length `n` or filled up with zeros."""
    if n is not None and n != x.shape[axis]:
        if operator.index(n) < 1:
            raise ValueError(f"the length of a transform must be positive, got {n}")
        edges = [(0, n - x.shape[axis] if i == axis else 0, 0) for i in range(x.ndim)]
        x = sh.pad(x, x.dtype.type(0), edges)
    if x.size == 0:
        return x
    if dtypes.is_complex(x.dtype):
        parts = (_along(p, None, axis, norm, transform) for p in (x.real, x.imag))
        return el.complex(*parts)
    return moveaxis(transform(moveaxis(x, axis, -1), norm), -1, axis)


def _along_all(
    name: str, x: Any, type: int, s: _Axes, axes: _Axes, norm: str | None, transform: _OneAxis
) -> Array:
    operand = _checked(name, x, type, norm)
    sizes: list[int] | None = None
    if s is not None:
        sizes = [operator.index(n) for n in (s if isinstance(s, Sequence) else (s,))]
        if len(sizes) > operand.ndim:
            raise ValueError(
                f"s must have at most x.ndim ({operand.ndim}) elements, got {len(sizes)}"
            )
    if axes is None:
        first = 0 if sizes is None else operand.ndim - len(sizes)
        axes = tuple(range(first, operand.ndim))
    places = canonicalize_axes(axes, operand.ndim)
    if len(set(places)) != len(places):
        raise ValueError(f"fft.{name} got repeated axes: {places}")
    if sizes is not None and len(sizes) != len(places):
        raise ValueError(f"fft.{name} got {len(sizes)} lengths for {len(places)} axes")
    for i, axis in enumerate(places):
        operand = _along(operand, None if sizes is None else sizes[i], axis, norm, transform)
    return operand


# ---- the functions


def dct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The cosine transform along `axis`: twice the sum of `x[j] cos(pi k (2 j + 1) / (2 n))`.

    The axis is first cut to length `n` or filled up with zeros. Of complex numbers both parts are
    transformed. Raises NotImplementedError for another `type`, ValueError for another `norm`.

    >>> import xpr.numpy as jnp
    >>> dct(jnp.array([3.0, 1.0]), norm="ortho").round(3)
    Array([2.828, 1.414], dtype=float32)
    """
    operand = _checked("dct", x, type, norm)
    return _along(operand, n, canonicalize_axis(axis, operand.ndim), norm, _forward)


def idct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The inverse of `dct`.

    >>> import xpr.numpy as jnp
    >>> idct(dct(jnp.array([3.0, 1.0, 2.0]))).round(3)
    Array([3., 1., 2.], dtype=float32)
    """
    operand = _checked("idct", x, type, norm)
    return _along(operand, n, canonicalize_axis(axis, operand.ndim), norm, _inverse)


def dctn(
    x: ArrayLike, type: int = 2, s: _Axes = None, axes: _Axes = None, norm: str | None = None
) -> Array:
    """The `dct` along each of `axes`: the last `len(s)`, or all, by default.

    `s` are the lengths. Raises also ValueError for repeated axes, or more lengths than axes.

    >>> import xpr.numpy as jnp
    >>> dctn(jnp.ones((2, 2)))
    Array([[16.,  0.],
           [ 0.,  0.]], dtype=float32)
    """
    return _along_all("dctn", x, type, s, axes, norm, _forward)


def idctn(
    x: ArrayLike, type: int = 2, s: _Axes = None, axes: _Axes = None, norm: str | None = None
) -> Array:
    """The inverse of `dctn`.

    >>> import xpr.numpy as jnp
    >>> idctn(dctn(jnp.eye(2))).round(3)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return _along_all("idctn", x, type, s, axes, norm, _inverse)
