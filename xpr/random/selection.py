"""Choosing among things: permutations, choices and categories."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from xpr import numpy as jnp
from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.placing import takes_out_sharding
from xpr.core.trace import get_aval
from xpr.numpy._promote import as_operand, promote_dtypes_inexact
from xpr.numpy._static import concrete
from xpr.primitives._index_dims import canonicalize_axis
from xpr.primitives.random import random_bits, random_split
from xpr.primitives.sort import sort_key_val, top_k
from xpr.random._sampling import Shape, checked_shape, common_shape, draw, fitting_shape
from xpr.random.keys import single_key
from xpr.random.transformed import checked_mode, gumbel_body
from xpr.random.uniform import randint, unit_floats


def _shuffled(key: Any, x: Any, axis: int) -> Any:
    """`x` sorted along `axis` by random words, in rounds enough that equal words do no harm.

    With r rounds of 32-bit words, two elements have equal words each time with a probability of
    2**(-32 r); that is less than 1/size**3.
    """
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(0xFFFFFFFF))
    for _ in range(rounds):
        keys = random_split(key, (2,))
        key = keys[0]
        _, x = sort_key_val(random_bits(keys[1], 32, x.shape), x, axis)
    return x


def _permutation_body(key: Any, x: Any, *, axis: int, independent: bool) -> Any:
    if independent or x.ndim == 1:
        return _shuffled(key, x, axis)
    order = _shuffled(key, jnp.arange(x.shape[axis]), 0)
    return jnp.take(x, order, axis, unique_indices=True)


def _size_of(name: str, argument: str, x: Any) -> int:
    """A concrete integer, the size of the range that `x` stands for."""
    if not dtypes.is_integer(get_aval(x).dtype):
        raise TypeError(
            f"{argument} must be an integer or at least 1-dimensional, got a scalar of type "
            f"{get_aval(x).dtype} ({name})"
        )
    return operator.index(concrete(x, f"argument {argument} of xpr.random.{name}()")[()])


@takes_out_sharding
def permutation(
    key: Any, x: Any, axis: int = 0, independent: bool = False, *, out_sharding: Any = None
) -> Array:
    """The array `x` in random order along `axis`; an integer x stands for `arange(x)`.

    With `independent` each line along the axis is ordered on its own. Raises TypeError for a scalar
    that is no integer, ValueError for an axis out of range.

    >>> import xpr
    >>> xpr.random.permutation(xpr.random.key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    data = single_key("permutation", key)
    x = as_operand("permutation", x)
    shape = get_aval(x).shape
    place = canonicalize_axis(axis, len(shape) or 1)
    array = jnp.asarray(x) if shape else jnp.arange(_size_of("permutation", "x", x))
    size = array.shape
    return draw(size, _permutation_body, data, array, axis=place, independent=bool(independent))


def _weighted_body(key: Any, p: Any, *, shape: Shape) -> Any:
    """Indices with probabilities proportional to `p`, by searching in its sums."""
    sums = jnp.cumsum(p)
    heights = sums[-1] * (1 - unit_floats(key, shape, sums.dtype))
    return jnp.searchsorted(sums, heights).astype(int)


def _weighted_subset_body(key: Any, p: Any, *, count: int, mode: str) -> Any:
    """Different indices, by the greatest of log p plus Gumbel numbers."""
    numbers = gumbel_body(key, shape=p.shape, dtype=p.dtype, mode=mode) + jnp.log(p)
    return top_k(numbers, count)[1].astype(int)


def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Random elements of the array `a` along `axis`; an integer a stands for `arange(a)`.

    The result has `shape` in place of the axis. `p`, a vector as long as the axis, holds weights.
    Without `replace` no element is taken twice. Raises TypeError for a shape that is no sequence,
    ValueError for an empty `a`, for more elements than there are without replacement, and for a
    `p` of another shape.

    >>> import xpr
    >>> xpr.random.choice(xpr.random.key(0), 5, (3,), replace=False)
    Array([0, 1, 4], dtype=int32)
    """
    data = single_key("choice", key)
    if not isinstance(shape, Sequence):
        raise TypeError(f"choice requires shape to be a sequence, got {shape}")
    sizes = checked_shape("choice", shape)
    a = as_operand("choice", a)
    array = jnp.asarray(a)
    chosen = checked_mode("choice", mode)
    if array.ndim:
        axis = canonicalize_axis(axis, array.ndim)
        count = array.shape[axis]
    else:
        count, axis = _size_of("choice", "a", a), 0
    wanted = math.prod(sizes)
    around = (array.shape[:axis], array.shape[axis + 1 :]) if array.ndim else ((), ())
    result = (*around[0], *sizes, *around[1])
    if not wanted:
        # JAX gives `shape` alone here; NumPy's shape is the one of all other calls.
        return jnp.zeros(result, array.dtype)
    if count <= 0:
        raise ValueError(
            f"a must be greater than 0 unless no samples are taken, got {count} (choice)"
        )
    if not replace and wanted > count:
        raise ValueError(
            f"Cannot take a larger sample (size {wanted}, of shape {sizes}) than population "
            f"(size {count}, of a) when 'replace=False'"
        )
    if p is None and not replace:
        mixed = permutation(key, array if array.ndim else count, axis)
        return mixed[(slice(None),) * axis + (slice(wanted),)].reshape(result)
    if p is None:
        indices = randint(key, sizes, 0, count)
    else:
        (weights,) = promote_dtypes_inexact(jnp.asarray(as_operand("choice", p)))
        if weights.shape != (count,):
            raise ValueError(
                "p must be None or a 1D vector with the same size as a.shape[axis]. p has shape "
                f"{weights.shape} and a.shape[axis] is {count}."
            )
        if replace:
            indices = draw(sizes, _weighted_body, data, weights, shape=sizes)
        else:
            body = _weighted_subset_body
            indices = draw((count,), body, data, weights, count=wanted, mode=chosen)
    found = jnp.take(array, indices, axis) if array.ndim else indices
    return found.reshape(result)


def _categorical_body(key: Any, logits: Any, *, shape: Shape, axis: int, mode: str) -> Any:
    rank = logits.ndim
    first = len(shape) - (rank - 1)
    # The shape may stretch batch axes of size 1.
    sizes = list(shape[first:])
    sizes.insert(axis, logits.shape[axis])
    full = (*shape[:first], *sizes)
    numbers = gumbel_body(key, shape=full, dtype=logits.dtype, mode=mode)
    return jnp.argmax(numbers + jnp.expand_dims(logits, tuple(range(first))), axis=axis - rank)


def _categorical_subset_body(
    key: Any, logits: Any, *, shape: Shape, axis: int, count: int, mode: str
) -> Any:
    numbers = logits + gumbel_body(key, shape=logits.shape, dtype=logits.dtype, mode=mode)
    indices = top_k(jnp.moveaxis(numbers, axis, -1), count)[1]
    return jnp.moveaxis(indices, -1, 0).reshape(shape)


@takes_out_sharding
def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Indices along `axis` of `logits`, with probabilities softmax(logits).

    The result has the shape of `logits` without the axis, or `shape`, whose last axes fit that
    one. Without `replace` the leading axes of `shape` count different indices. Raises ValueError
    for a shape that does not fit, and for more different indices than there are.

    >>> import xpr, xpr.numpy as jnp
    >>> logits = jnp.array([[0.0, 100.0, 0.0], [100.0, 0.0, 0.0]])
    >>> xpr.random.categorical(xpr.random.key(0), logits)
    Array([1, 0], dtype=int32)
    """
    data = single_key("categorical", key)
    array = jnp.asarray(as_operand("categorical", logits))
    if not dtypes.is_float(array.dtype):
        raise ValueError(
            f"dtype argument to `gumbel` must be a float dtype, got {array.dtype}: that of the "
            "logits of categorical"
        )
    chosen = checked_mode("categorical", mode)
    place = canonicalize_axis(axis, array.ndim)
    batch = (*array.shape[:place], *array.shape[place + 1 :])
    if shape is None:
        sizes = common_shape("categorical", batch)
    else:
        sizes = checked_shape("categorical", shape)
        fitting_shape("categorical", sizes, batch)
    if replace:
        body = _categorical_body
        size = (*sizes, array.shape[place])
        return draw(size, body, data, array, shape=sizes, axis=place, mode=chosen)
    count = math.prod(sizes[: len(sizes) - len(batch)])
    if count > array.shape[place]:
        raise ValueError(
            f"Number of samples without replacement ({count}, of shape {sizes}) cannot exceed "
            f"number of categories ({array.shape[place]}, of logits)."
        )
    options = {"shape": sizes, "axis": place, "count": count, "mode": chosen}
    return draw(array.shape, _categorical_subset_body, data, array, **options)
