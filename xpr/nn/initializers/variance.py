"""Initializers whose variance follows from the numbers of inputs and outputs of a layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

import xpr.numpy as jnp
from xpr import random
from xpr.core import dtypes
from xpr.nn.initializers._types import Initializer, takes_place, weights_type
from xpr.numpy._typing import Array, ArrayLike, DType, DTypeLike
from xpr.primitives import _ops as ops

_MODES = ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
_DISTRIBUTIONS = ("truncated_normal", "normal", "uniform")
# The standard deviations of a standard normal number, real or complex, whose absolute value is
# below 2: sqrt(1 - 4 φ(2) / (2 Φ(2) - 1)) and sqrt(1 - 4 / (exp(4) - 1)).
_REAL_STDDEV = 0.87962566103423978
_COMPLEX_STDDEV = 0.95311164380491208

_Axes = int | Sequence[int]


def _size_along(shape: Sequence[int], axes: _Axes) -> int:
    return math.prod(shape[d] for d in ((axes,) if isinstance(axes, int) else axes))


def _fans(
    shape: Sequence[int], in_axis: _Axes, out_axis: _Axes, batch_axis: _Axes
) -> tuple[float, float]:
    """The numbers of inputs and outputs; all other axes are the window of a convolution."""
    if len(shape) <= 1 and in_axis == -2:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor "
            "with default in_axis. Must be at least 2D or specify in_axis explicitly."
        )
    inputs, outputs = _size_along(shape, in_axis), _size_along(shape, out_axis)
    window = math.prod(shape) / inputs / outputs / _size_along(shape, batch_axis)
    return inputs * window, outputs * window


def _complex_drawn(key: Any, shape: tuple[int, ...], dtype: DType, truncated: bool) -> Array:
    """Complex numbers of any direction: uniform in the disk of variance 1, or normal below 2.

    The radius comes from a uniform number by the inverse of its distribution function.
    """
    part = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
    for_radius, for_angle = random.split(key)
    share = random.uniform(for_radius, shape, part)
    angle = (2 * math.pi) * random.uniform(for_angle, shape, part)
    if truncated:
        radius = jnp.sqrt(-jnp.log1p(share * -(1 - math.exp(-4))))
    else:
        radius = jnp.sqrt(2 * share)
    parts = ops.bind("complex", radius * jnp.cos(angle), radius * jnp.sin(angle))
    return parts.astype(dtype)


def variance_scaling(
    scale: ArrayLike,
    mode: Literal["fan_in", "fan_out", "fan_avg", "fan_geo_avg"],
    distribution: Literal["truncated_normal", "normal", "uniform"],
    in_axis: _Axes = -2,
    out_axis: _Axes = -1,
    batch_axis: _Axes = (),
    dtype: DTypeLike = None,
) -> Initializer:
    """An initializer that draws numbers of mean 0 and variance `scale` / n.

    `mode` says what n is: the number of inputs, of outputs, or their arithmetic or geometric mean.
    The inputs are counted along `in_axis`, the outputs along `out_axis`; axes that are named
    nowhere are the window of a convolution, which counts for both, those of `batch_axis` for
    neither. `distribution` is normal, normal without what is beyond two standard deviations, or
    uniform: in an interval, for complex numbers in a disk.

    The initializer raises ValueError for another mode or distribution and, with the default
    `in_axis`, for fewer than two axes.

    >>> import xpr
    >>> init = xpr.nn.initializers.variance_scaling(2.0, "fan_in", "normal")
    >>> weights = init(xpr.random.key(0), (50, 20))
    >>> bool(0.18 < weights.std() < 0.22)
    True
    """

    @takes_place("variance_scaling")
    def init(
        key: Any, shape: Sequence[int], dtype: DTypeLike = dtype, out_sharding: Any = None
    ) -> Array:
        sizes, wanted = weights_type("variance_scaling", shape, dtype)
        fan_in, fan_out = _fans(sizes, in_axis, out_axis, batch_axis)
        if mode not in _MODES:
            raise ValueError(
                f"invalid mode for variance scaling initializer: {mode}; it must be one of {_MODES}"
            )
        count = {
            "fan_in": fan_in,
            "fan_out": fan_out,
            "fan_avg": (fan_in + fan_out) / 2,
            "fan_geo_avg": (fan_in * fan_out) ** 0.5,
        }[mode]
        variance = jnp.asarray(scale / count, wanted)
        if distribution == "normal":
            return random.normal(key, sizes, wanted) * jnp.sqrt(variance)
        is_complex = dtypes.is_complex(wanted)
        if distribution == "uniform":
            if is_complex:
                return _complex_drawn(key, sizes, wanted, False) * jnp.sqrt(variance)
            return random.uniform(key, sizes, wanted, -1) * jnp.sqrt(3 * variance)
        if distribution == "truncated_normal":
            if is_complex:
                stddev = jnp.sqrt(variance) / jnp.asarray(_COMPLEX_STDDEV, wanted)
                return _complex_drawn(key, sizes, wanted, True) * stddev
            stddev = jnp.sqrt(variance) / jnp.asarray(_REAL_STDDEV, wanted)
            return random.truncated_normal(key, -2, 2, sizes, wanted) * stddev
        raise ValueError(
            f"invalid distribution for variance scaling initializer: {distribution}; it must be "
            f"one of {_DISTRIBUTIONS}"
        )

    return init


def glorot_uniform(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: DTypeLike = None
) -> Initializer:
    """`variance_scaling(1, "fan_avg", "uniform")`, also known as Xavier's.

    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks",
    2010.

    >>> import xpr
    >>> xpr.nn.initializers.glorot_uniform()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: DTypeLike = None
) -> Initializer:
    """`variance_scaling(1, "fan_avg", "truncated_normal")`, also known as Xavier's.

    >>> import xpr
    >>> xpr.nn.initializers.glorot_normal()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(
        1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype
    )


def lecun_uniform(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: DTypeLike = None
) -> Initializer:
    """`variance_scaling(1, "fan_in", "uniform")`. LeCun et al., "Efficient BackProp", 1998.

    >>> import xpr
    >>> xpr.nn.initializers.lecun_uniform()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: DTypeLike = None
) -> Initializer:
    """`variance_scaling(1, "fan_in", "truncated_normal")`. LeCun et al., 1998.

    >>> import xpr
    >>> xpr.nn.initializers.lecun_normal()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: DTypeLike = None
) -> Initializer:
    """`variance_scaling(2, "fan_in", "uniform")`, also known as Kaiming's.

    He et al., "Delving Deep into Rectifiers", 2015.

    >>> import xpr
    >>> xpr.nn.initializers.he_uniform()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: DTypeLike = None
) -> Initializer:
    """`variance_scaling(2, "fan_in", "truncated_normal")`, also known as Kaiming's.

    >>> import xpr
    >>> xpr.nn.initializers.he_normal()(xpr.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal
