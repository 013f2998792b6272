"""Who owns what: an array made of another one outlives it, whichever of the two is given up.

Each way to make an array of an array, or to see it with NumPy, with small arrays and large ones
(whose memory is imported), is followed by a donation or deletion of either. The other one keeps its
values, and so does the NumPy array that both came from. docs/howto/memory.md has the table.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.sharding import Mesh, NamedSharding, PartitionSpec

CPU = xpr.devices("cpu")[0]
MESH = Mesh(np.array([CPU]), ("i",))
SPREAD = NamedSharding(MESH, PartitionSpec("i"))

# What makes another array, or several, of an array with one axis of even length.
WAYS: dict[str, Callable[[Any], Any]] = {
    "device_put": lambda y: xpr.device_put(y, CPU),
    "device_put without aliasing": lambda y: xpr.device_put(y, may_alias=False),
    "device_put there without aliasing": lambda y: xpr.device_put(y, CPU, may_alias=False),
    "device_put with aliasing": lambda y: xpr.device_put(y, CPU, may_alias=True),
    "device_put to a mesh": lambda y: xpr.device_put(y, SPREAD),
    "device_put to a mesh without aliasing": lambda y: xpr.device_put(y, SPREAD, may_alias=False),
    "a tree with it twice": lambda y: xpr.device_put((y, {"again": y}), CPU),
    "a copied tree with it twice": lambda y: xpr.device_put([y, y], may_alias=False),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda y: pickle.loads(pickle.dumps(y)),
    "jnp.copy": jnp.copy,
    "jnp.array": jnp.array,
    "asarray with a copy": lambda y: jnp.asarray(y, copy=True),
    "asarray of a NumPy view": lambda y: jnp.asarray(np.asarray(y)),
    "y.copy": lambda y: y.copy(),
    "to_device": lambda y: y.to_device(CPU),
    "y[:]": lambda y: y[:],
    "y[1:]": lambda y: y[1:],
    "y[::2]": lambda y: y[::2],
    "y[None]": lambda y: y[None],
    "rows": lambda y: list(y.reshape(2, -1)),
    "reshape": lambda y: y.reshape(2, -1),
    "transpose": lambda y: y.reshape(2, -1).T,
    "view": lambda y: y.view(np.int32),
    "broadcast_to": lambda y: jnp.broadcast_to(y, (2, *y.shape)),
    "squeeze": lambda y: jnp.squeeze(y[None]),
    "flip": jnp.flip,
    "split": lambda y: jnp.split(y, 2),
    "stop_gradient": lax.stop_gradient,
    "optimization_barrier": lax.optimization_barrier,
    "full_like": lambda y: jnp.full_like(y, y),
    "zeros_like": jnp.zeros_like,
    "identity": lambda y: xpr.jit(lambda y: y)(y),
    "it twice": lambda y: xpr.jit(lambda y: (y, y))(y),
    "a loop without rounds": lambda y: lax.fori_loop(0, 0, lambda _, c: c + 1, y),
    "an update of nothing": lambda y: y.at[:0].set(0),
    "a part of it": lambda y: y.addressable_shards[0].data,
    "a part of it on a mesh": lambda y: xpr.device_put(y, SPREAD).addressable_shards[0].data,
    "assembled": lambda y: xpr.make_array_from_single_device_arrays(y.shape, SPREAD, [y]),
    "from a callback": lambda y: xpr.make_array_from_callback(y.shape, SPREAD, lambda i: y[i]),
    "from_dlpack": jnp.from_dlpack,
    "np.asarray": np.asarray,
    "np.from_dlpack": np.from_dlpack,
    "device_get": xpr.device_get,
    "keys": lambda y: xpr.random.wrap_key_data(y.view(np.uint32).reshape(-1, 2)),
}


def _double(y: Any) -> Any:
    return y * 2 + 1


def _change(y: Any) -> Any:
    return y.at[1].set(-5.0)


DONATED = {
    "elementwise": xpr.jit(_double, donate_argnums=0),
    "update": xpr.jit(_change, donate_argnums=0),
    "delete": lambda y: y.delete(),
}
# Where the first array comes from.
SOURCES: dict[str, Callable[[Any], Any]] = {
    "NumPy": jnp.asarray,
    "an operation": lambda x: jnp.asarray(x) + 0,
    "a program": xpr.jit(lambda x: x * 1),
}


def _values(found: Any) -> list[np.ndarray[Any, Any]]:
    leaves = xpr.tree.leaves(found)
    keys = [jnp.issubdtype(x.dtype, xpr.dtypes.prng_key) for x in leaves]
    return [np.array(xpr.random.key_data(x) if k else x) for x, k in zip(leaves, keys, strict=True)]


def _give_up(give: Callable[[Any], Any], found: Any) -> None:
    for x in xpr.tree.leaves(found):
        if isinstance(x, xpr.Array) and x.dtype == np.float32 and not x.is_deleted():
            if x.ndim == 1 or give is DONATED["delete"]:
                give(x)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_made_of_an_array_is_independent_of_it(way: str) -> None:
    for size in (8, 20_000):
        values = np.arange(size, dtype=np.float32)
        for source, begin in SOURCES.items():
            for how, give in DONATED.items():
                where = f"{way} of {size} elements from {source}, {how}"
                given = values.copy()
                y = begin(given)
                made = WAYS[way](y)
                if any(x is y for x in xpr.tree.leaves(made)):
                    continue  # one object: who gives it up has nothing left
                expected = _values(made)
                give(y)
                for a, e in zip(_values(made), expected, strict=True):
                    np.testing.assert_array_equal(a, e, err_msg=f"{where}: the new one")
                y = begin(given)
                _give_up(give, WAYS[way](y))
                np.testing.assert_array_equal(y, values, err_msg=f"{where}: the old one")
                np.testing.assert_array_equal(given, values, err_msg=f"{where}: NumPy's")


@pytest.mark.parametrize(
    "way", ["device_put", "device_put without aliasing", "copy.copy", "copy.deepcopy", "jnp.copy"]
)
def test_copies_are_other_objects(way: str) -> None:
    y = jnp.arange(4.0)
    assert not any(x is y for x in xpr.tree.leaves(WAYS[way](y)))


def test_memory_of_its_own_without_aliasing() -> None:
    y = jnp.arange(20_000.0) + 0
    for place in (None, CPU, SPREAD):
        z = xpr.device_put(y, place, may_alias=False)
        assert z.addressable_data(0).unsafe_buffer_pointer() != y.unsafe_buffer_pointer()
        assert place is None or z.committed


def test_numpy_arrays_stay_their_owners() -> None:
    given = np.arange(20_000, dtype=np.float32)
    made = [jnp.asarray(given), jnp.array(given), xpr.device_put(given, may_alias=True)]
    given[:] = -1
    for x in made:
        np.testing.assert_array_equal(x, np.arange(20_000, dtype=np.float32))


def test_a_donation_gives_up_the_old_array() -> None:
    y = jnp.arange(20_000.0) + 0
    z = xpr.device_put(y, CPU, donate=True)
    assert y.is_deleted()
    assert float(z[3]) == 3
    kept = copy.copy(z)
    w = xpr.device_put(z, CPU, donate=True, may_alias=False)
    assert float(kept[5]) == 5
    assert float(w[5]) == 5


_LIKE: dict[str, Callable[[Any], Any]] = {
    "lax.full_like": lambda x: lax.full_like(x, 1),
    "jnp.full_like": lambda x: jnp.full_like(x, 1),
    "zeros_like": jnp.zeros_like,
    "ones_like": jnp.ones_like,
    "empty_like": jnp.empty_like,
    "another dtype": lambda x: lax.full_like(x, 1, np.int32),
}


@pytest.mark.parametrize("name", _LIKE)
def test_arrays_made_like_another_lie_where_it_does(name: str) -> None:
    make = _LIKE[name]
    x = xpr.device_put(np.ones(4, np.float32), CPU)
    assert make(x).committed
    assert make(x).device is CPU
    assert not make(jnp.ones(4)).committed
    spread = xpr.device_put(np.ones(4, np.float32), SPREAD)
    assert make(spread).sharding == SPREAD
    type_ = xpr.ShapeDtypeStruct((4,), np.float32, sharding=SPREAD)
    assert make(type_).sharding == SPREAD
    assert make(np.ones(4, np.float32)).shape == (4,)
    assert xpr.jit(make)(x).shape == (4,)


def test_another_shape_follows_replicated_arrays_only() -> None:
    whole = NamedSharding(MESH, PartitionSpec())
    assert lax.full_like(xpr.device_put(jnp.ones(4), whole), 1, shape=(3,)).sharding == whole
    assert jnp.zeros_like(xpr.device_put(jnp.ones(4), CPU), shape=(3,)).device is CPU
