"""Initializers whose elements are constant or drawn alike, whatever the shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xpr.numpy as jnp
from xpr import random
from xpr.nn.initializers._types import Initializer, takes_place, weights_type
from xpr.numpy._typing import Array, ArrayLike, DTypeLike


def zeros(
    key: Any, shape: Sequence[int], dtype: DTypeLike = None, out_sharding: Any = None
) -> Array:
    """An initializer that gives zeros; it ignores the key.

    >>> import xpr
    >>> xpr.nn.initializers.zeros(None, (3,))
    Array([0., 0., 0.], dtype=float32)
    """
    del key
    sizes, wanted = weights_type("zeros", shape, dtype)
    return jnp.zeros(sizes, wanted, out_sharding=out_sharding)


def ones(
    key: Any, shape: Sequence[int], dtype: DTypeLike = None, out_sharding: Any = None
) -> Array:
    """An initializer that gives ones; it ignores the key.

    >>> import xpr
    >>> xpr.nn.initializers.ones(None, (3,))
    Array([1., 1., 1.], dtype=float32)
    """
    del key
    sizes, wanted = weights_type("ones", shape, dtype)
    return jnp.ones(sizes, wanted, out_sharding=out_sharding)


def constant(value: ArrayLike, dtype: DTypeLike = None) -> Initializer:
    """An initializer that gives arrays full of `value`, in `dtype` unless told otherwise.

    >>> import xpr
    >>> xpr.nn.initializers.constant(-7)(None, (3,))
    Array([-7., -7., -7.], dtype=float32)
    """

    @takes_place("constant")
    def init(
        key: Any, shape: Sequence[int], dtype: DTypeLike = dtype, out_sharding: Any = None
    ) -> Array:
        del key
        sizes, wanted = weights_type("constant", shape, dtype)
        return jnp.full(sizes, value, wanted)

    return init


def uniform(scale: ArrayLike = 1e-2, dtype: DTypeLike = None) -> Initializer:
    """An initializer that draws real numbers uniformly from [0, scale).

    >>> import xpr
    >>> weights = xpr.nn.initializers.uniform(10.0)(xpr.random.key(0), (100,))
    >>> bool(((weights >= 0) & (weights < 10)).all())
    True
    """

    @takes_place("uniform")
    def init(
        key: Any, shape: Sequence[int], dtype: DTypeLike = dtype, out_sharding: Any = None
    ) -> Array:
        sizes, wanted = weights_type("uniform", shape, dtype)
        return random.uniform(key, sizes, wanted) * jnp.asarray(scale, wanted)

    return init


def normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike = None) -> Initializer:
    """An initializer that draws normal numbers of mean 0 and standard deviation `stddev`.

    Complex ones have that standard deviation as a whole, half the variance in each part.

    >>> import xpr
    >>> weights = xpr.nn.initializers.normal(5.0)(xpr.random.key(0), (1000,))
    >>> bool(4.5 < weights.std() < 5.5)
    True
    """

    @takes_place("normal")
    def init(
        key: Any, shape: Sequence[int], dtype: DTypeLike = dtype, out_sharding: Any = None
    ) -> Array:
        sizes, wanted = weights_type("normal", shape, dtype)
        return random.normal(key, sizes, wanted) * jnp.asarray(stddev, wanted)

    return init


def truncated_normal(
    stddev: ArrayLike = 1e-2,
    dtype: DTypeLike = None,
    lower: ArrayLike = -2.0,
    upper: ArrayLike = 2.0,
) -> Initializer:
    """An initializer that draws standard normal numbers in (lower, upper), times `stddev`.

    `stddev` is the standard deviation before the tails are cut off; what it is afterwards is less.

    >>> import xpr
    >>> weights = xpr.nn.initializers.truncated_normal(5.0)(xpr.random.key(0), (1000,))
    >>> bool(abs(weights).max() <= 10)
    True
    """

    @takes_place("truncated_normal")
    def init(
        key: Any, shape: Sequence[int], dtype: DTypeLike = dtype, out_sharding: Any = None
    ) -> Array:
        sizes, wanted = weights_type("truncated_normal", shape, dtype)
        drawn = random.truncated_normal(key, lower, upper, sizes, wanted)
        return drawn * jnp.asarray(stddev, wanted)

    return init
