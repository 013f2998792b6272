"""`jax.extend.random`: the hash behind random numbers, and keys of a given implementation."""

from __future__ import annotations

from typing import Any

import xpr.numpy as jnp
from xpr import random
from xpr.core.trace import get_aval
from xpr.primitives.random import threefry2x32, threefry2x32_p
from xpr.transforms.vmap import vmap

__all__ = [
    "random_seed",
    "rbg_prng_impl",
    "seed_with_impl",
    "threefry2x32_p",
    "threefry_2x32",
    "threefry_prng_impl",
    "unsafe_rbg_prng_impl",
]

threefry_prng_impl = "threefry2x32"
rbg_prng_impl = "rbg"
unsafe_rbg_prng_impl = "unsafe_rbg"


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """The hash of the numbers `count`, an array of uint32 of any shape, under a pair of uint32.

    The first half of the numbers, with a zero behind an odd count, is hashed with the second.
    Raises TypeError for other dtypes.

    >>> import numpy as np
    >>> threefry_2x32(np.zeros(2, np.uint32), np.zeros(2, np.uint32))
    Array([1797259609, 2579123966], dtype=uint32)
    """
    first, second = keypair
    dtypes = [get_aval(x).dtype for x in (first, second, count)]
    if any(d != jnp.uint32 for d in dtypes):
        raise TypeError(f"threefry_2x32 requires uint32 arguments, got {[d.name for d in dtypes]}")
    numbers = jnp.ravel(count)
    odd = numbers.size % 2
    if odd:
        numbers = jnp.concatenate([numbers, jnp.zeros(1, jnp.uint32)])
    out = jnp.concatenate(threefry2x32(first, second, *jnp.split(numbers, 2)))
    return jnp.reshape(out[: out.size - odd], jnp.shape(count))


def seed_with_impl(impl: str, seed: Any) -> Any:
    """The key of a seed, of the implementation of that name."""
    return random.key(seed, impl=impl)


def random_seed(seeds: Any, impl: str) -> Any:
    """Keys of an array of seeds, of the implementation of that name."""
    numbers = jnp.asarray(seeds)
    keys = jnp.ravel(numbers)
    return vmap(lambda s: random.key(s, impl=impl))(keys).reshape(numbers.shape)
