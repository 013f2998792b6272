"""Random keys as elements of arrays: seeding, wrapping, and what keys are made with.

These primitives exist while programs are traced and transformed. Before lowering they become
operations on the keys' numbers (`xpr/primitives/_physical_rules.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.extended_array import base_of, seen_as
from xpr.core.key_types import Generator, KeyType
from xpr.core.physical import check_physical, physical_aval
from xpr.core.primitive import NOT_LINEAR, define
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives.rules import BatchAxis, NoTangent, at_front

__all__ = ["random_clone", "random_unwrap", "random_wrap"]

_FAMILY = "random"


def require_keys(name: str, aval: ShapedArray) -> KeyType:
    """The dtype of an array of keys; TypeError for any other."""
    if not isinstance(aval.dtype, KeyType):
        raise TypeError(f"{name} requires an array of keys, got {aval}")
    return aval.dtype


class _SameDim:
    """Batching of operations that keep each element in its place."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(
        self, axis: BatchAxis, args: Sequence[Any], dims: Sequence[int | None], **params: Any
    ) -> tuple[Any, int]:
        (x,), (dim,) = args, dims
        return ops.bind(self.name, at_front(axis, x, dim), **params), 0


# ---- random_wrap: keys from their numbers


def _random_wrap_abstract(data: ShapedArray, *, impl: Generator) -> ShapedArray:
    dtype = KeyType(impl)
    shape = check_physical("random_wrap", data, dtype)
    return ShapedArray(shape, dtype, vma=data.vma)


def _random_wrap_reference(data: Any, *, impl: Generator) -> Any:
    array = data if hasattr(data, "addressable_shards") else ops.bind("copy", data)
    return seen_as(array, KeyType(impl))


random_wrap_p = define(
    "random_wrap",
    family=_FAMILY,
    doc="Keys of a generator from their numbers.",
    abstract=_random_wrap_abstract,
    reference=_random_wrap_reference,
    jvp=NoTangent(),
    transpose=NOT_LINEAR,
    batch=_SameDim("random_wrap"),
    eager="inline",
)


def random_wrap(data: Any, generator: Generator) -> Any:
    """The keys of `generator` whose numbers are `data`, uint32[*shape, *key_shape]."""
    return random_wrap_p.bind(data, impl=generator)


def full_of_elements(shape: tuple[int, ...], value: Any, dtype: Any) -> Any:
    """An array of an extended dtype: elements all of whose numbers are `value`.

    `value` may be an element itself. A dtype may say otherwise, by `full` of its rules.
    """
    aval = get_aval(value)
    if aval.dtype == dtype:
        return ops.broadcast_in_dim(value, shape, range(len(shape) - aval.ndim, len(shape)))
    if not isinstance(dtype, KeyType):
        return dtype._rules.full(shape, value, dtype)
    sizes = (*shape, *dtype.generator.key_shape)
    return random_wrap(ops.broadcast_in_dim(np.uint32(value), sizes, ()), dtype.generator)


# ---- random_unwrap: the numbers of keys


def _random_unwrap_abstract(keys: ShapedArray) -> ShapedArray:
    require_keys("random_unwrap", keys)
    return physical_aval(keys)


random_unwrap_p = define(
    "random_unwrap",
    family=_FAMILY,
    doc="The numbers of keys.",
    abstract=_random_unwrap_abstract,
    reference=base_of,
    jvp=NoTangent(),
    transpose=NOT_LINEAR,
    batch=_SameDim("random_unwrap"),
    eager="inline",
)


def random_unwrap(keys: Any) -> Any:
    """The numbers of keys: uint32[*shape, *key_shape]."""
    return random_unwrap_p.bind(keys)


# ---- random_clone: keys once more


def _random_clone_abstract(keys: ShapedArray) -> ShapedArray:
    require_keys("random_clone", keys)
    return keys


random_clone_p = define(
    "random_clone",
    family=_FAMILY,
    doc="The same keys, for programs that mean to use them twice.",
    abstract=_random_clone_abstract,
    reference=lambda keys: keys,
    jvp=NoTangent(),
    transpose=NOT_LINEAR,
    batch=_SameDim("random_clone"),
    eager="inline",
)


def random_clone(keys: Any) -> Any:
    """The same keys."""
    return random_clone_p.bind(keys)


# ---- random_seed: keys from numbers that anybody may choose


def seed_numbers(seed: Any, generator: Generator) -> Any:
    """The numbers of the keys of `seed`, integers of any shape: 64 bits, the high half first.

    Keys of four numbers have the two of a key of threefry2x32 twice.
    """
    aval = get_aval(seed)
    low = ops.convert(seed, np.uint32)
    if aval.dtype.itemsize < 8:
        high = ops.broadcast_in_dim(np.uint32(0), aval.shape, ())
    else:
        shift = ops.broadcast_in_dim(np.asarray(32, aval.dtype)[()], aval.shape, ())
        high = ops.convert(ops.bind("shift_right_logical", seed, shift), np.uint32)
    pair = ops.bind("stack", high, low, axis=len(aval.shape))
    if generator.key_shape == (2,):
        return pair
    return ops.bind("concatenate", pair, pair, dimension=len(aval.shape))


def _random_seed_abstract(seed: ShapedArray, *, impl: Generator) -> ShapedArray:
    return ShapedArray(seed.shape, KeyType(impl), vma=seed.vma)


def _random_seed_reference(seed: Any, *, impl: Generator) -> Any:
    return seen_as(seed_numbers(seed, impl), KeyType(impl))


random_seed_p = define(
    "random_seed",
    family=_FAMILY,
    doc="The keys that integers stand for.",
    abstract=_random_seed_abstract,
    reference=_random_seed_reference,
    jvp=NoTangent(),
    transpose=NOT_LINEAR,
    batch=_SameDim("random_seed"),
    eager="inline",
)


def random_seed(seed: Any, generator: Generator) -> Any:
    """The keys that integers `seed` stand for."""
    return random_seed_p.bind(seed, impl=generator)
