"""Generators of random numbers that keep their state, as in `jax.experimental.random`.

A generator has a key and a reference to the number of draws that were made: see
`docs/transformations/references.md` for what functions may do with it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import random
from xpr.core import dtypes
from xpr.core.references import Ref
from xpr.core.trace import is_eager
from xpr.ref import addupdate, new_ref
from xpr.tree_util import register_pytree_node_class

_Size = int | Sequence[int] | None


def _shape(size: _Size, *like: Any) -> tuple[int, ...]:
    if size is None:
        return np.broadcast_shapes(*(jnp.shape(x) for x in like))
    if isinstance(size, (int, np.integer)):
        return (operator.index(size),)
    return tuple(map(operator.index, size))


@register_pytree_node_class
class StatefulPRNG:
    """A generator that is made by `stateful_rng`; a pytree of its key and its reference.

    >>> rng = stateful_rng(42)
    >>> rng.uniform(), rng.uniform()
    (Array(0.5302608, dtype=float32), Array(0.72766423, dtype=float32))
    """

    __slots__ = ("_base_key", "_counter")

    def __init__(self, _base_key: Any, _counter: Any) -> None:
        dtype = getattr(_base_key, "dtype", None)
        if dtype is None or not jnp.issubdtype(dtype, dtypes.prng_key):
            raise ValueError(f"Expected base_key to be a typed PRNG key; got {_base_key}")
        if not isinstance(_counter, Ref):
            raise ValueError(f"Expected counter to be a scalar integer ref; got {_counter}")
        self._base_key = _base_key
        self._counter = _counter

    def tree_flatten(self) -> tuple[tuple[Any, Any], None]:
        """The key and the reference."""
        return (self._base_key, self._counter), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Sequence[Any]) -> StatefulPRNG:
        """A generator of such parts, which may be anything that stands for them."""
        made = object.__new__(cls)
        made._base_key, made._counter = children
        return made

    def __repr__(self) -> str:
        return f"StatefulPRNG(_base_key={self._base_key}, _counter={self._counter})"

    def key(self, shape: int | Sequence[int] = ()) -> Any:
        """A new key, or an array of such; ValueError for a generator that `split` has made."""
        if self._base_key.shape:
            raise ValueError(
                "cannot operate on split stateful generator: map over it with vmap, its shape is "
                f"{self._base_key.shape}"
            )
        key = random.fold_in(self._base_key, self._counter[...])
        addupdate(self._counter, ..., 1)
        sizes = _shape(shape)
        return random.split(key, sizes) if sizes else key

    def random(self, size: _Size = None, dtype: Any = float) -> Any:
        """Numbers between 0 and 1, which is left out."""
        return random.uniform(self.key(), _shape(size), dtype)

    def uniform(
        self, low: Any = 0, high: Any = 1, size: _Size = None, *, dtype: Any = float
    ) -> Any:
        """Numbers between `low` and `high`, of the shape `size` or that of these."""
        return random.uniform(self.key(), _shape(size, low, high), dtype, low, high)

    def normal(
        self, loc: Any = 0, scale: Any = 1, size: _Size = None, *, dtype: Any = float
    ) -> Any:
        """Numbers of the normal distribution of mean `loc` and standard deviation `scale`."""
        drawn = random.normal(self.key(), _shape(size, loc, scale), dtype)
        return (jnp.asarray(loc) + jnp.asarray(scale) * drawn).astype(dtype)

    def integers(self, low: Any, high: Any = None, size: _Size = None, *, dtype: Any = int) -> Any:
        """Integers from `low` up to but not including `high`; from 0 up to `low` without `high`."""
        if high is None:
            low, high = 0, low
        return random.randint(self.key(), _shape(size, low, high), low, high, dtype)

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """Generators in one object, to be mapped over by `vmap`."""
        counters = new_ref(jnp.zeros(_shape(num), int))
        return StatefulPRNG(self.key(num), counters)

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """A list of independent generators."""
        return [StatefulPRNG(key, new_ref(0)) for key in self.key(n_children)]


def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    """A generator whose key is made of `seed`, or of the system's entropy.

    Raises TypeError without a seed in a function that is transformed.

    >>> import xpr
    >>> rng = stateful_rng(42)
    >>> rng.integers(0, 10, 3).shape
    (3,)
    """
    if seed is None:
        if not is_eager():
            raise TypeError(
                "When used within transformed code, xpr.experimental.random.stateful_rng() "
                "requires an explicit seed to be set."
            )
        entropy = np.random.SeedSequence().entropy
        assert isinstance(entropy, int)
        seed = np.int64(entropy & np.iinfo(np.int64).max)
    return StatefulPRNG(random.key(seed, impl=impl), new_ref(0))
