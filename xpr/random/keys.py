"""Keys: what random numbers are made from, typed (`key`) or raw (`PRNGKey`).

A typed key is an array of the dtype `key<fry>`, that numbers cannot be mistaken for. A raw key is
its data alone, an array uint32[2]. Every function of `xpr.random` takes both, and those that make
keys from a key give the same sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NewType

import numpy as np

from xpr import numpy as jnp
from xpr.core.array import Array
from xpr.core.config import state
from xpr.core.dtypes import is_integer
from xpr.core.errors import shown
from xpr.core.extended_array import seen_as
from xpr.core.key_types import GENERATORS, Generator, KeyType
from xpr.core.trace import get_aval, is_eager, is_valid_value
from xpr.numpy._concrete import from_host
from xpr.primitives._index_dims import canonicalize_shape
from xpr.primitives._keys import (
    random_clone,
    random_seed,
    random_unwrap,
    random_wrap,
    seed_numbers,
)
from xpr.primitives.convert import convert_type
from xpr.primitives.random import random_fold_in, random_split
from xpr.random import rbg as rbg  # registers its generators
from xpr.random._sampling import draw

Key = NewType("Key", Array)
Key.__doc__ = """The type of keys, for annotations: `def sample(key: xpr.random.Key) -> xpr.Array`.

It is not a class: `xpr.numpy.issubdtype(x.dtype, xpr.dtypes.prng_key)` tells whether `x` holds
keys. At run time `Key(x)` returns `x`.

>>> import xpr
>>> def sample(key: xpr.random.Key) -> xpr.Array:
...     return xpr.random.normal(key, (3,))
>>> sample(xpr.random.Key(xpr.random.key(0))).shape
(3,)
"""

_UINT32 = np.dtype(np.uint32)
# JAX has names for these, and no bits either.
_WITHOUT_BITS = ("philox2x32", "philox4x32", "threefry4x32")


def _generator(impl: Any, dtype: Any, name: str) -> Generator:
    """The generator that `impl`, a name or a key's dtype, or `dtype` says; None is the default."""
    if dtype is not None and impl is not None:
        raise ValueError(f"{name} takes impl or dtype, not both: got {impl!r} and {dtype!r}")
    spec = dtype if impl is None else impl
    if spec is None:
        spec = state.default_prng_impl
    if isinstance(spec, KeyType):
        return spec.generator
    if isinstance(spec, Generator):
        return spec
    if not isinstance(spec, str):
        raise TypeError(
            f"unrecognized type {type(spec)} for specifying a PRNG implementation: impl must be "
            f"its name, got {spec!r}"
        )
    if spec in _WITHOUT_BITS:
        raise NotImplementedError(
            f"PRNG implementation {spec!r} is not implemented: it is one of "
            f"{', '.join(map(repr, GENERATORS))}"
        )
    if spec not in GENERATORS:
        choices = ", ".join(f'"{g}"' for g in GENERATORS)
        raise ValueError(
            f'unrecognized PRNG implementation "{spec}". Did you mean one of: {choices}?'
        )
    return GENERATORS[spec]


# ---- keys given as arguments


def is_typed(key: Any) -> bool:
    """Whether `key` is an array of keys."""
    return isinstance(key, Array) and isinstance(key.dtype, KeyType)


def typed_or_raw(name: str, key: Any) -> Any:
    """Keys as primitives take them: typed ones, or the data uint32[..., 2] of those of threefry.

    Raw data of another generator, the default one, are made typed. Raises TypeError, naming `key`,
    for what are no keys.
    """
    if is_typed(key):
        return key
    if isinstance(key, (bool, int, float, complex)) or not is_valid_value(key):
        raise TypeError(
            "JAX encountered invalid PRNG key data: expected key_data to have ndim, shape, and "
            f"dtype attributes. Got {key!r}: {name} requires a key made by xpr.random.key, or its "
            "uint32 data"
        )
    aval = get_aval(key)
    generator = _generator(None, None, name)
    if aval.dtype != _UINT32:
        raise TypeError(
            "JAX encountered invalid PRNG key data: expected key_data.dtype = uint32; got "
            f"dtype={aval.dtype} ({name})"
        )
    if aval.shape[-1:] != generator.key_shape:
        raise TypeError(
            "JAX encountered invalid PRNG key data: expected key_data.shape to end with "
            f"{generator.key_shape}; got shape={aval.shape} ({name})"
        )
    return key if generator.name == "threefry2x32" else random_wrap(key, generator)


def single_key(name: str, key: Any) -> Any:
    """One key, as `typed_or_raw` gives it; ValueError, naming `key`, for an array of keys."""
    found = typed_or_raw(name, key)
    aval = get_aval(found)
    shape = aval.shape if isinstance(aval.dtype, KeyType) else aval.shape[:-1]
    if shape:
        raise ValueError(
            f"{name} accepts a single key, but was given a key array of shape {shape} != (). Use "
            "jax.vmap for batching."
        )
    return found


def _like(key: Any, found: Any) -> Any:
    """New keys of the sort of `key`, typed or raw."""
    return random_unwrap(found) if is_typed(found) and not is_typed(key) else found


# ---- the public functions


def _checked_seed(name: str, seed: Any) -> Any:
    """`seed`; TypeError for what is no integer scalar, OverflowError for one beyond 64 bits."""
    if is_typed(seed):
        raise TypeError(f"{name} accepts a scalar seed, but was given a PRNG key.")
    if type(seed) is int or type(seed) is bool:
        if not -(1 << 63) <= seed < 1 << 63:
            raise OverflowError(f"{name} requires seed to fit 64 bits, got {seed}")
        return seed
    if not is_valid_value(seed):
        raise TypeError(
            f"PRNG key seed must be an integer; got {seed!r} of type {type(seed).__name__} ({name})"
        )
    aval = get_aval(seed)
    if aval.shape:
        raise TypeError(
            f"{name} accepts a scalar seed, but was given an array of shape {aval.shape} != (). "
            "Use jax.vmap for batching"
        )
    if not is_integer(aval.dtype):
        raise TypeError(f"PRNG key seed must be an integer; got {aval} ({name})")
    return jnp.asarray(seed)


def _seed_data(seed: Any, generator: Generator) -> Any:
    """The data of the key of a checked seed: its 64 bits, the high half first."""
    if type(seed) is not int and type(seed) is not bool:
        return seed_numbers(seed, generator)
    # Without 64-bit types the seed is an int32, which has no high half.
    high = seed >> 32 & 0xFFFFFFFF if state.enable_x64 else 0
    halves = [high, seed & 0xFFFFFFFF] * (generator.key_shape[0] // 2)
    return from_host(np.array(halves, _UINT32), computed=True)


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Array:
    """The typed key that `seed`, an integer scalar, stands for.

    `impl` (or `dtype`, a key's) is the generator: "threefry2x32", "rbg" or "unsafe_rbg". Raises
    TypeError for a seed that is no integer scalar, OverflowError for one beyond 64 bits,
    ValueError for an unknown generator, NotImplementedError for those of JAX that are not here.

    >>> import xpr
    >>> xpr.random.key(7)
    Array((), dtype=key<fry>) overlaying:
    [0 7]
    """
    generator = _generator(impl, dtype, "key")
    checked = _checked_seed("key", seed)
    if not is_eager() and isinstance(checked, Array):
        return random_seed(checked, generator)
    data = _seed_data(checked, generator)
    return seen_as(data, KeyType(generator)) if is_eager() else random_wrap(data, generator)


def PRNGKey(seed: Any, *, impl: Any = None) -> Array:
    """The raw key, uint32[2], that `seed` stands for. Arguments and errors as for `key`.

    With the setting `enable_custom_prng` it is a typed key, as that of `key`.

    >>> import xpr
    >>> xpr.random.PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    generator = _generator(impl, None, "PRNGKey")
    if state.enable_custom_prng:
        return key(seed, impl=impl)
    return _seed_data(_checked_seed("PRNGKey", seed), generator)


def key_dtype(impl_spec: Any = None) -> KeyType:
    """The dtype of arrays of typed keys of the generator `impl_spec`.

    >>> import xpr
    >>> xpr.random.key_dtype() == xpr.random.key(0).dtype
    True
    """
    return KeyType(_generator(impl_spec, None, "key_dtype"))


def key_data(keys: Any) -> Array:
    """The data of keys: uint32[*keys.shape, 2]. Raises TypeError for what are no keys.

    >>> import xpr
    >>> xpr.random.key_data(xpr.random.key(7))
    Array([0, 7], dtype=uint32)
    """
    found = typed_or_raw("key_data", keys)
    return random_unwrap(found) if is_typed(found) else jnp.asarray(found)


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Array:
    """Typed keys from their data uint32[..., 2], as `key_data` gave it.

    Raises TypeError for data of another dtype or shape; for `impl` and `dtype` see `key`.

    >>> import xpr
    >>> xpr.random.wrap_key_data(xpr.numpy.zeros((3, 2), "uint32")).shape
    (3,)
    """
    generator = _generator(impl, dtype, "wrap_key_data")
    if is_typed(key_bits_array):
        raise TypeError("wrap_key_data requires key_bits_array to be uint32 data, got typed keys")
    aval = get_aval(key_bits_array) if is_valid_value(key_bits_array) else None
    size = generator.key_shape[0]
    if aval is None or aval.dtype != _UINT32 or aval.shape[-1:] != (size,):
        if aval is None or isinstance(key_bits_array, (bool, int, float, complex)):
            wanted = (
                f"key_data to have ndim, shape, and dtype attributes. Got {shown(key_bits_array)}"
            )
        elif aval.shape[-1:] != (size,):
            wanted = f"key_data.shape to end with {generator.key_shape}; got shape={aval.shape}"
        else:
            wanted = f"key_data.dtype = uint32; got dtype={aval.dtype}"
        raise TypeError(
            f"JAX encountered invalid PRNG key data: expected {wanted} (wrap_key_data, of keys of "
            f"{generator.name}: uint32[..., {size}])"
        )
    return random_wrap(jnp.asarray(key_bits_array), generator)


def key_impl(keys: Any) -> str:
    """The name of the generator that `keys`, typed or raw, belong to.

    >>> import xpr
    >>> xpr.random.key_impl(xpr.random.key(0))
    'threefry2x32'
    """
    found = typed_or_raw("key_impl", keys)
    return found.dtype.generator.name if is_typed(found) else "threefry2x32"


def clone(key: Any) -> Array:
    """The same key, as an object of its own: for programs that mean to use a key twice.

    >>> import xpr
    >>> bool(xpr.random.clone(xpr.random.key(3)) == xpr.random.key(3))
    True
    """
    found = typed_or_raw("clone", key)
    return _like(key, random_clone(found) if is_typed(found) else found)


def split(key: Any, num: int | Sequence[int] = 2) -> Array:
    """`num` new keys from one: an array of keys of shape `(num,)`, or of the shape `num`.

    The result is typed or raw as `key` is. Raises TypeError for what is no key, ValueError for an
    array of keys and for negative numbers.

    >>> import xpr
    >>> first, second = xpr.random.split(xpr.random.key(0))
    >>> xpr.random.split(xpr.random.PRNGKey(0), (2, 3)).shape
    (2, 3, 2)
    """
    one = single_key("split", key)
    shape = canonicalize_shape("split", num)
    if any(d < 0 for d in shape):
        raise ValueError(f"split requires num to be nonnegative, got {num}")
    return _like(key, draw((*shape, 2), random_split, one, shape=shape))


def fold_in(key: Any, data: Any) -> Array:
    """A new key from a key and a number, which is read as uint32.

    Raises TypeError for what is no key and for an array of numbers, ValueError for an array of
    keys, OverflowError for a Python integer outside uint32.

    >>> import xpr
    >>> xpr.random.fold_in(xpr.random.PRNGKey(0), 1)
    Array([ 928981903, 3453687069], dtype=uint32)
    """
    one = single_key("fold_in", key)
    if type(data) is int:
        if not 0 <= data < 1 << 32:
            raise OverflowError(f"fold_in requires data to fit uint32, got {data}")
        return _like(key, random_fold_in(one, np.uint32(data)))
    if not is_valid_value(data):
        raise TypeError(f"fold_in requires data to be a number, got {type(data).__name__}")
    shape = get_aval(data).shape
    if shape:
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape {shape} != (). Use "
            "jax.vmap for batching."
        )
    return _like(key, random_fold_in(one, convert_type(data, _UINT32)))
