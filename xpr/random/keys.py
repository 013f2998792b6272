"""Keys: what random numbers are made from, typed (`key`) or raw (`PRNGKey`).

A typed key is a `KeyArray`: an array of keys with its own dtype, `key<fry>`, that numbers cannot be
mistaken for. A raw key is its data alone, an array uint32[2]. Every function of `xpr.random` takes
both, and those that make keys from a key give the same sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from xpr import numpy as jnp
from xpr import tree_util
from xpr.core.array import Array
from xpr.core.config import state
from xpr.core.dtypes import is_integer, prng_key
from xpr.core.trace import Tracer, get_aval, is_valid_value
from xpr.numpy._concrete import from_host
from xpr.primitives._index_dims import canonicalize_axes, canonicalize_shape
from xpr.primitives.convert import convert_type
from xpr.primitives.integer import shift_right_logical
from xpr.primitives.joining import stack
from xpr.primitives.random import random_fold_in, random_split
from xpr.random._sampling import draw

_UINT32 = np.dtype(np.uint32)
_DEFAULT_IMPL = "threefry2x32"
# What JAX has besides. Generating threefry's bits costs no more than writing them to memory.
_OTHER_IMPLS = ("rbg", "unsafe_rbg", "philox2x32", "philox4x32", "threefry4x32")


class KeyType:
    """The dtype of arrays of keys.

    >>> import xpr
    >>> xpr.random.key_dtype()
    key<fry>
    >>> xpr.numpy.issubdtype(xpr.random.key_dtype(), xpr.dtypes.prng_key)
    True
    """

    name = "key<fry>"
    itemsize = 8
    kind = "V"
    type = prng_key

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyType)

    def __hash__(self) -> int:
        return hash(KeyType)


_KEY_TYPE = KeyType()


def _require_impl(impl: Any) -> str:
    """The name of an implementation, or of that of a key's dtype; None is the default one."""
    if impl is None:
        impl = state.default_prng_impl
    if isinstance(impl, KeyType) or impl == _DEFAULT_IMPL:
        return _DEFAULT_IMPL
    if not isinstance(impl, str):
        raise TypeError(f"impl must be the name of a PRNG implementation, got {impl!r}")
    if impl in _OTHER_IMPLS:
        raise NotImplementedError(
            f"PRNG implementation {impl!r} is not implemented: use impl={_DEFAULT_IMPL!r}, whose "
            "bits are made as fast as memory takes them"
        )
    raise ValueError(f"unrecognized PRNG implementation {impl!r}: impl must be {_DEFAULT_IMPL!r}")


def _impl_of(impl: Any, dtype: Any, name: str) -> str:
    if dtype is not None and impl is not None:
        raise ValueError(f"{name} takes impl or dtype, not both: got {impl!r} and {dtype!r}")
    return _require_impl(impl if dtype is None else dtype)


@tree_util.register_pytree_with_keys_class
class KeyArray:
    """An array of keys. Its data, uint32[*shape, 2], is what transformations and trees see.

    It can be indexed, reshaped, compared, iterated over, passed to and returned from transformed
    functions. A negative axis given to `vmap` counts the data's axes.

    >>> import xpr
    >>> keys = xpr.random.split(xpr.random.key(0), 3)
    >>> keys.shape, keys.dtype
    ((3,), key<fry>)
    >>> xpr.vmap(xpr.random.bits)(keys).shape
    (3,)
    """

    __slots__ = ("_data",)
    _path: ClassVar[Any] = tree_util.GetAttrKey("_data")

    def __init__(self, data: Any) -> None:
        self._data = data

    # ---- as a node of trees

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        return (self._data,), None

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[Any, Any]], None]:
        return ((self._path, self._data),), None

    @classmethod
    def tree_unflatten(cls, aux: None, children: Sequence[Any]) -> KeyArray:
        # The children may be anything: transformations put their own objects there.
        return cls(*children)

    # ---- type

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape[:-1]

    @property
    def dtype(self) -> KeyType:
        return _KEY_TYPE

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    @property
    def itemsize(self) -> int:
        return _KEY_TYPE.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    # ---- place and life time

    @property
    def sharding(self) -> Any:
        return self._data.sharding

    @property
    def device(self) -> Any:
        return self._data.device

    def devices(self) -> Any:
        return self._data.devices()

    @property
    def committed(self) -> bool:
        return self._data.committed

    def block_until_ready(self) -> KeyArray:
        self._data.block_until_ready()
        return self

    def copy_to_host_async(self) -> None:
        self._data.copy_to_host_async()

    def is_deleted(self) -> bool:
        return self._data.is_deleted()

    def delete(self) -> None:
        self._data.delete()

    def copy(self) -> KeyArray:
        return KeyArray(jnp.copy(self._data))

    # ---- elements and shapes

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object: a single key")
        return self.shape[0]

    def __iter__(self) -> Iterator[KeyArray]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d key array")
        return (self[i] for i in range(self.shape[0]))

    def __getitem__(self, index: Any) -> KeyArray:
        return KeyArray(self._data[_index_of_data(index)])

    def reshape(self, *shape: Any) -> KeyArray:
        """The keys in another shape, in which one size may be -1."""
        sizes = canonicalize_shape("reshape", shape[0] if len(shape) == 1 else shape)
        return KeyArray(jnp.reshape(self._data, (*sizes, 2)))

    def flatten(self) -> KeyArray:
        """The keys in one row."""
        return self.reshape(-1)

    ravel = flatten

    def squeeze(self, axis: Any = None) -> KeyArray:
        """The keys without the axes of size 1, or without those given."""
        if axis is None:
            return self.reshape(tuple(d for d in self.shape if d != 1))
        return KeyArray(jnp.squeeze(self._data, canonicalize_axes(axis, self.ndim)))

    def transpose(self, *axes: Any) -> KeyArray:
        """The keys with their axes in another order, reversed unless given."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        places = canonicalize_axes(order, self.ndim) or range(self.ndim - 1, -1, -1)
        return KeyArray(jnp.transpose(self._data, (*places, self.ndim)))

    @property
    def T(self) -> KeyArray:
        return self.transpose()

    # ---- comparison, printing and what keys are not

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, KeyArray):
            return NotImplemented
        return jnp.all(self._data == other._data, axis=-1)

    def __ne__(self, other: object) -> Any:
        if not isinstance(other, KeyArray):
            return NotImplemented
        return jnp.any(self._data != other._data, axis=-1)

    def __repr__(self) -> str:
        data = self._data
        if not isinstance(data, Array):
            return f"KeyArray({data!r})"
        if isinstance(data, Tracer):
            sizes = ",".join(map(str, self.shape))
            return f"Traced<{_KEY_TYPE}[{sizes}]>with<{type(data).__name__}>"
        return f"Array({self.shape}, dtype={_KEY_TYPE}) overlaying:\n{np.asarray(data)}"

    def __bool__(self) -> bool:
        raise TypeError("a key array cannot be converted to a truth value")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            "an array of keys cannot be converted to a NumPy array; "
            "xpr.random.key_data(keys) gives their uint32 data"
        )


def _index_of_data(index: Any) -> Any:
    """What an index of keys is for their data: the last axis stays whole."""
    parts = index if isinstance(index, tuple) else (index,)
    whole = slice(None)
    return (*parts, whole) if any(p is Ellipsis for p in parts) else (*parts, ..., whole)


# ---- keys given as arguments


def data_of(name: str, key: Any) -> Any:
    """The data of keys, typed or raw: uint32[..., 2]; TypeError, naming `key`, for what is none."""
    if not state.threefry_partitionable:
        raise NotImplementedError(
            f"{name}: only the layout of random bits with threefry_partitionable=True exists"
        )
    data = key._data if type(key) is KeyArray else key
    if isinstance(data, (bool, int, float, complex)) or not is_valid_value(data):
        raise TypeError(
            f"{name} requires key to be a key made by xpr.random.key, or its uint32 data, got "
            f"{type(key).__name__}: {key!r}"
        )
    aval = get_aval(data)
    if aval.dtype != _UINT32:
        raise TypeError(f"{name} requires key to have data of type uint32, got {aval.dtype}")
    if not aval.shape or aval.shape[-1] != 2:
        raise TypeError(
            f"{name} requires the data of key to have a shape that ends in 2, got {aval.shape}"
            + (": vmap needs an array of keys, not a single one" if type(key) is KeyArray else "")
        )
    return data


def single_key(name: str, key: Any) -> Any:
    """The data uint32[2] of one key; ValueError, naming `key`, for an array of keys."""
    data = data_of(name, key)
    shape = get_aval(data).shape
    if len(shape) != 1:
        raise ValueError(
            f"{name} accepts a single key, but key has shape {shape[:-1]}: use xpr.vmap for batches"
        )
    return data


def _like(key: Any, data: Any) -> Any:
    """New keys of the sort of `key`, typed or raw."""
    return KeyArray(data) if type(key) is KeyArray else data


# ---- the public functions


def _seeded(name: str, seed: Any) -> Any:
    """The data of the key of `seed`: its 64 bits, the high half first."""
    if isinstance(seed, KeyArray):
        raise TypeError(f"{name} accepts a scalar seed, but seed is a key already")
    if type(seed) is int or type(seed) is bool:
        if not -(1 << 63) <= seed < 1 << 63:
            raise OverflowError(f"{name} requires seed to fit 64 bits, got {seed}")
        # Without 64-bit types the seed is an int32, which has no high half.
        high = seed >> 32 & 0xFFFFFFFF if state.enable_x64 else 0
        return from_host(np.array([high, seed & 0xFFFFFFFF], _UINT32), computed=True)
    if not is_valid_value(seed):
        raise TypeError(f"{name} requires seed to be an integer, got {type(seed).__name__}")
    aval = get_aval(seed)
    if aval.shape:
        raise TypeError(
            f"{name} accepts a scalar seed, but seed has shape {aval.shape}: use xpr.vmap for "
            "several seeds"
        )
    if not is_integer(aval.dtype):
        raise TypeError(f"{name} requires seed to be an integer, got {aval.dtype}")
    number = jnp.asarray(seed)
    low = convert_type(number, _UINT32)
    if aval.dtype.itemsize < 8:
        return stack([jnp.zeros((), _UINT32), low])
    return stack([convert_type(shift_right_logical(number, 32), _UINT32), low])


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """The typed key that `seed`, an integer scalar, stands for.

    `impl` (or `dtype`, a key's) is the generator: "threefry2x32". Raises TypeError for a seed that
    is no integer scalar, OverflowError for one beyond 64 bits, ValueError for an unknown
    generator, NotImplementedError for those of JAX that are not here.

    >>> import xpr
    >>> xpr.random.key(7)
    Array((), dtype=key<fry>) overlaying:
    [0 7]
    """
    _impl_of(impl, dtype, "key")
    return KeyArray(_seeded("key", seed))


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """The raw key, uint32[2], that `seed` stands for. Arguments and errors as for `key`.

    With the setting `enable_custom_prng` it is a typed key, as that of `key`.

    >>> import xpr
    >>> xpr.random.PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    _require_impl(impl)
    data = _seeded("PRNGKey", seed)
    return KeyArray(data) if state.enable_custom_prng else data


def key_dtype(impl_spec: Any = None) -> KeyType:
    """The dtype of arrays of typed keys of the generator `impl_spec`.

    >>> import xpr
    >>> xpr.random.key_dtype() == xpr.random.key(0).dtype
    True
    """
    _require_impl(impl_spec)
    return _KEY_TYPE


def key_data(keys: Any) -> Array:
    """The data of keys: uint32[*keys.shape, 2]. Raises TypeError for what are no keys.

    >>> import xpr
    >>> xpr.random.key_data(xpr.random.key(7))
    Array([0, 7], dtype=uint32)
    """
    return jnp.asarray(data_of("key_data", keys))


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """Typed keys from their data uint32[..., 2], as `key_data` gave it.

    Raises TypeError for data of another dtype or shape; for `impl` and `dtype` see `key`.

    >>> import xpr
    >>> xpr.random.wrap_key_data(xpr.numpy.zeros((3, 2), "uint32")).shape
    (3,)
    """
    _impl_of(impl, dtype, "wrap_key_data")
    if isinstance(key_bits_array, KeyArray):
        raise TypeError("wrap_key_data requires key_bits_array to be uint32 data, got typed keys")
    aval = get_aval(key_bits_array) if is_valid_value(key_bits_array) else None
    if aval is None or aval.dtype != _UINT32 or not aval.shape or aval.shape[-1] != 2:
        found = type(key_bits_array).__name__ if aval is None else f"{aval.dtype}{[*aval.shape]}"
        raise TypeError(f"wrap_key_data requires key_bits_array to be uint32[..., 2], got {found}")
    return KeyArray(jnp.asarray(key_bits_array))


def key_impl(keys: Any) -> str:
    """The name of the generator that `keys`, typed or raw, belong to.

    >>> import xpr
    >>> xpr.random.key_impl(xpr.random.key(0))
    'threefry2x32'
    """
    data_of("key_impl", keys)
    return _DEFAULT_IMPL


def clone(key: Any) -> Any:
    """The same key, as an object of its own: for programs that mean to use a key twice.

    >>> import xpr
    >>> bool(xpr.random.clone(xpr.random.key(3)) == xpr.random.key(3))
    True
    """
    return _like(key, data_of("clone", key))


def split(key: Any, num: int | Sequence[int] = 2) -> Any:
    """`num` new keys from one: an array of keys of shape `(num,)`, or of the shape `num`.

    The result is typed or raw as `key` is. Raises TypeError for what is no key, ValueError for an
    array of keys and for negative numbers.

    >>> import xpr
    >>> first, second = xpr.random.split(xpr.random.key(0))
    >>> xpr.random.split(xpr.random.PRNGKey(0), (2, 3)).shape
    (2, 3, 2)
    """
    data = single_key("split", key)
    shape = canonicalize_shape("split", num)
    if any(d < 0 for d in shape):
        raise ValueError(f"split requires num to be nonnegative, got {num}")
    return _like(key, draw((*shape, 2), random_split, data, shape=shape))


def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and a number, which is read as uint32.

    Raises TypeError for what is no key and for an array of numbers, ValueError for an array of
    keys, OverflowError for a Python integer outside uint32.

    >>> import xpr
    >>> xpr.random.fold_in(xpr.random.PRNGKey(0), 1)
    Array([ 928981903, 3453687069], dtype=uint32)
    """
    bits = single_key("fold_in", key)
    if type(data) is int:
        if not 0 <= data < 1 << 32:
            raise OverflowError(f"fold_in requires data to fit uint32, got {data}")
        return _like(key, random_fold_in(bits, np.uint32(data)))
    if not is_valid_value(data):
        raise TypeError(f"fold_in requires data to be a number, got {type(data).__name__}")
    shape = get_aval(data).shape
    if shape:
        raise TypeError(
            f"fold_in accepts a scalar, but data has shape {shape}: use xpr.vmap for several"
        )
    return _like(key, random_fold_in(bits, convert_type(data, _UINT32)))
