"""Initializers of matrices with orthonormal rows or columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import xpr.numpy as jnp
from xpr import random
from xpr.nn.initializers._types import Initializer, takes_place, weights_type
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.primitives._index_dims import canonicalize_axis


def orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike = None
) -> Initializer:
    """An initializer that draws orthogonal matrices uniformly, times `scale`.

    The columns run along `column_axis`, the rows along all other axes together; of rows and columns
    those that are fewer are orthonormal. Saxe, McClelland and Ganguli, 2014.

    The initializer raises ValueError for fewer than two axes.

    >>> import xpr
    >>> init = xpr.nn.initializers.orthogonal(scale=2.0)
    >>> isinstance(init, xpr.nn.initializers.Initializer)
    True
    """

    @takes_place("orthogonal")
    def init(
        key: Any, shape: Sequence[int], dtype: DTypeLike = dtype, out_sharding: Any = None
    ) -> Array:
        sizes, wanted = weights_type("orthogonal", shape, dtype)
        if len(sizes) < 2:
            raise ValueError(
                f"orthogonal initializer requires at least a 2D shape, got {tuple(sizes)}"
            )
        if 0 in sizes:
            return jnp.zeros(sizes, wanted)
        place = canonicalize_axis(column_axis, len(sizes))
        columns, others = sizes[place], sizes[:place] + sizes[place + 1 :]
        drawn = random.orthogonal(key, math.prod(others), (), wanted, columns)
        moved = jnp.moveaxis(drawn.reshape((*others, columns)), -1, place)
        return jnp.asarray(scale, wanted) * moved

    return init


def delta_orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike = None
) -> Initializer:
    """An initializer of convolution kernels: an orthogonal matrix in the middle, 0 elsewhere.

    Xiao et al., "Dynamical Isometry and a Mean Field Theory of CNNs", 2018. Shapes are
    (window..., inputs, outputs) with one to three axes of the window.

    The initializer raises ValueError for other numbers of axes and for more inputs than outputs.

    >>> import xpr
    >>> init = xpr.nn.initializers.delta_orthogonal()
    >>> isinstance(init, xpr.nn.initializers.Initializer)
    True
    """

    @takes_place("delta_orthogonal")
    def init(
        key: Any, shape: Sequence[int], dtype: DTypeLike = dtype, out_sharding: Any = None
    ) -> Array:
        sizes, wanted = weights_type("delta_orthogonal", shape, dtype)
        if len(sizes) not in (3, 4, 5):
            raise ValueError(
                f"Delta orthogonal initializer requires a 3D, 4D or 5D shape, got {tuple(sizes)}"
            )
        if sizes[-1] < sizes[-2]:
            raise ValueError(
                "Delta orthogonal initializer requires `fan_in` to be less than or equal to "
                f"`fan_out`, got {sizes[-2]} and {sizes[-1]}"
            )
        matrix = orthogonal(scale, column_axis, wanted)(key, sizes[-2:])
        middle = tuple((n - 1) // 2 for n in sizes[:-2])
        return jnp.zeros(sizes, wanted).at[middle].set(matrix)

    return init
