"""Images of other sizes: `resize`, and `scale_and_translate` for parts of them.

An output pixel is a weighted mean of the input pixels around the place that its centre comes from;
pixel `i` of an axis has its centre at i + 0.5. Along every axis this is a product with a matrix of
weights, made from the filter that `ResizeMethod` names.

>>> import xpr, xpr.numpy as jnp
>>> xpr.image.resize(jnp.array([1.0, 3.0]), (4,), "linear")
Array([1. , 1.5, 2.5, 3. ], dtype=float32)
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.numpy._promote import as_operand, promote_dtypes_inexact
from xpr.numpy._typing import Array, ArrayLike, Shape
from xpr.ops import segment_sum
from xpr.primitives._index_dims import canonicalize_axes, canonicalize_shape
from xpr.primitives._precision import PrecisionLike
from xpr.primitives.dot_general import Precision

# Weights that add up to less than this are as good as none: 1000 units of float32's precision.
_NO_WEIGHT = 1000 * float(np.finfo(np.float32).eps)


class ResizeMethod(enum.Enum):
    """The filter that an image is resampled with.

    NEAREST takes the one pixel that holds the place. LINEAR is a triangle. LANCZOS3 and LANCZOS5
    are windowed sincs of radius 3 and 5 (Duchon 1979). CUBIC is the cubic of Keys (1981) with
    a = -1/2; CUBIC_PYTORCH is the same with antialiasing, and without it has a = -3/4 and repeats
    the pixels at the edges. AREA is the mean over the area that an output pixel covers.

    >>> import xpr
    >>> xpr.image.ResizeMethod.from_string("bilinear").name
    'LINEAR'
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of that name; ValueError if there is none.

        >>> ResizeMethod.from_string("bicubic")
        <ResizeMethod.CUBIC: 4>
        """
        if s not in _NAMES:
            raise ValueError(f'Unknown resize method "{s}": methods are {", ".join(_NAMES)}')
        return _NAMES[s]


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}


# ---- filters: weights of pixels at distance x >= 0, in pixels


def _triangle(x: Array) -> Array:
    return jnp.maximum(0, 1 - x)


def _lanczos(radius: int) -> Callable[[Array], Array]:
    return lambda x: jnp.where(x > radius, 0.0, jnp.sinc(x) * jnp.sinc(x / radius))


def _cubic(a: float) -> Callable[[Array], Array]:
    """The interpolating cubic splines of Keys (1981), equation 15, for any slope `a` at 1."""

    def weights(x: Array) -> Array:
        near = 1 - x * x * ((a + 3) - (a + 2) * x)
        far = a * (x - 1) * (x - 2) * (x - 2)
        return jnp.where(x < 1, near, jnp.where(x < 2, far, 0.0))

    return weights


@dataclass(frozen=True)
class _Filter:
    """How weights are made; `weights` is None for areas, which are not a function of distance.

    A filter with `edges` > 0 repeats that many pixels beyond the edges.
    """

    weights: Callable[[Array], Array] | None
    edges: int = 0


_FILTERS = {
    ResizeMethod.LINEAR: _Filter(_triangle),
    ResizeMethod.LANCZOS3: _Filter(_lanczos(3)),
    ResizeMethod.LANCZOS5: _Filter(_lanczos(5)),
    ResizeMethod.CUBIC: _Filter(_cubic(-0.5)),
    ResizeMethod.CUBIC_PYTORCH: _Filter(_cubic(-0.75), edges=2),
    ResizeMethod.AREA: _Filter(None),
}


def _filter_of(method: ResizeMethod, antialias: bool) -> _Filter:
    if method is ResizeMethod.CUBIC_PYTORCH and antialias:
        method = ResizeMethod.CUBIC
    return _FILTERS[method]


# ---- matrices of weights


def _weight_matrix(
    size: int, new_size: int, scale: Any, translation: Any, filter_: _Filter, antialias: bool
) -> Array:
    """The weights [size, new_size] of pixels in the pixels of an axis that is scaled and moved."""
    dtype = jnp.result_type(scale, translation)
    step = 1 / scale
    start = -translation * step
    if filter_.weights is None:
        weights = _overlaps(size, start + jnp.arange(new_size, dtype=dtype) * step, step)
    else:
        # Where an image shrinks, the filter grows, so that no pixel is passed over.
        width = jnp.maximum(step, 1) if antialias else 1
        places = start + (jnp.arange(new_size, dtype=dtype) + 0.5) * step - 0.5
        pixels = jnp.arange(-filter_.edges, size + filter_.edges, dtype=dtype)
        weights = filter_.weights(jnp.abs(places[None, :] - pixels[:, None]) / width)
    if filter_.edges:
        owners = np.clip(np.arange(-filter_.edges, size + filter_.edges), 0, size - 1)
        weights = segment_sum(weights, owners, size, indices_are_sorted=True)
    total = weights.sum(axis=0, keepdims=True)
    enough = jnp.abs(total) > _NO_WEIGHT
    weights = jnp.where(enough, weights / jnp.where(enough, total, 1), 0)
    if filter_.edges:
        return weights
    centres = start + (jnp.arange(new_size, dtype=dtype) + 0.5) * step
    return jnp.where((centres >= 0) & (centres <= size), weights, 0)


def _overlaps(size: int, starts: Array, step: Any) -> Array:
    """How much of the intervals from `starts`, `step` long, lies in each of the pixels."""
    pixels = jnp.arange(size, dtype=starts.dtype)[:, None]
    ends = starts + step
    common = jnp.minimum(ends[None, :], pixels + 1) - jnp.maximum(starts[None, :], pixels)
    return jnp.maximum(0, common)


def _resample(
    image: Array,
    shape: Shape,
    axes: Shape,
    scales: Sequence[Any],
    translations: Sequence[Any],
    filter_: _Filter,
    antialias: bool,
    precision: PrecisionLike,
) -> Array:
    """The products of `image` with the matrices of all `axes`, in the order that costs least."""
    if not axes:
        return image
    operands: list[Any] = [image, list(range(image.ndim))]
    result = list(range(image.ndim))
    for i, axis in enumerate(axes):
        weights = _weight_matrix(
            image.shape[axis], shape[axis], scales[i], translations[i], filter_, antialias
        )
        result[axis] = image.ndim + i
        operands += [weights.astype(image.dtype), [axis, image.ndim + i]]
    return jnp.einsum(*operands, result, precision=precision)


# ---- what users call


def _checked(name: str, image: Any, shape: Any, method: Any) -> tuple[Any, Shape, ResizeMethod]:
    image = jnp.asarray(as_operand(name, image))
    wanted = canonicalize_shape(name, shape)
    if len(wanted) != image.ndim:
        raise ValueError(
            f"{name}: shape must have length equal to the number of dimensions of image, got "
            f"{wanted} for an image of shape {image.shape}"
        )
    for axis, (size, new_size) in enumerate(zip(image.shape, wanted, strict=True)):
        if new_size < 0 or (size == 0 and new_size):
            raise ValueError(
                f"{name} cannot make an axis of size {new_size} (axis {axis}) of {size}"
            )
    if isinstance(method, str):
        method = ResizeMethod.from_string(method)
    if not isinstance(method, ResizeMethod):
        raise TypeError(f"{name}: method must be a ResizeMethod or its name, got {method!r}")
    return image, wanted, method


def resize(
    image: ArrayLike,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: PrecisionLike = Precision.HIGHEST,
) -> Array:
    """`image` resampled to `shape`, which names the sizes of all axes; others stay as they are.

    `method` is a `ResizeMethod` or its name. With `antialias`, axes that shrink are filtered over
    all the pixels that an output pixel covers. `precision` is that of the products. The result is
    floating, except for "nearest", which keeps the dtype.

    Raises ValueError for an unknown method, for a shape of another length and for sizes of 0 that
    should grow.

    >>> import xpr.numpy as jnp
    >>> resize(jnp.arange(4.0), (2,), "linear")
    Array([0.71428573, 2.2857141 ], dtype=float32)
    >>> resize(jnp.arange(4), (2,), "nearest")
    Array([1, 3], dtype=int32)
    """
    x, wanted, method = _checked("resize", image, shape, method)
    axes = tuple(i for i in range(x.ndim) if x.shape[i] != wanted[i])
    if method is ResizeMethod.NEAREST:
        return _nearest(x, wanted, axes)
    [x] = promote_dtypes_inexact(x)
    scales = [wanted[i] / x.shape[i] if wanted[i] else 1.0 for i in axes]
    filter_ = _filter_of(method, antialias)
    return _resample(x, wanted, axes, scales, [0.0] * len(axes), filter_, antialias, precision)


def _nearest(image: Any, shape: Shape, axes: Shape) -> Any:
    """For each pixel the one that holds its centre, in exact arithmetic."""
    for axis in axes:
        size, new_size = image.shape[axis], shape[axis]
        holders = (2 * np.arange(new_size) + 1) * size // (2 * new_size) if new_size else []
        image = jnp.take(image, np.asarray(holders, np.int32), axis=axis)
    return image


def scale_and_translate(
    image: ArrayLike,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: PrecisionLike = Precision.HIGHEST,
) -> Array:
    """`image` scaled and moved along K axes, cut or extended by zeros to `shape`.

    What is at place y of the axis `spatial_dims[k]` comes to y * scale[k] + translation[k]; `scale`
    and `translation` have shape [K] and may be traced, and differentiated. Output pixels whose
    centres lie outside the image are 0. `method` is any but "nearest"; it, `antialias` and
    `precision` are those of `resize`.

    Raises ValueError for an unknown method and for shapes that do not fit.

    >>> import xpr.numpy as jnp
    >>> x = jnp.array([1.0, 3.0])
    >>> scale_and_translate(x, (4,), (0,), jnp.array([1.0]), jnp.array([1.0]), "linear")
    Array([0., 1., 3., 0.], dtype=float32)
    """
    name = "scale_and_translate"
    x, wanted, method = _checked(name, image, shape, method)
    if method is ResizeMethod.NEAREST:
        raise ValueError("scale_and_translate does not support nearest neighbour resampling")
    axes = canonicalize_axes(tuple(spatial_dims), x.ndim)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: spatial_dims must be distinct, got {tuple(spatial_dims)}")
    scales, moves = promote_dtypes_inexact(as_operand(name, scale), as_operand(name, translation))
    for what, given in (("scale", scales), ("translation", moves)):
        if jnp.shape(given) != (len(axes),):
            raise ValueError(
                f"{name}: {what} must have one entry for each of the {len(axes)} spatial_dims, "
                f"got shape {jnp.shape(given)}"
            )
    [x] = promote_dtypes_inexact(x)
    filter_ = _filter_of(method, antialias)
    count = range(len(axes))
    return _resample(
        x,
        wanted,
        axes,
        [scales[i] for i in count],
        [moves[i] for i in count],
        filter_,
        antialias,
        precision,
    )
