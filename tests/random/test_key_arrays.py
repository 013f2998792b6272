"""Arrays of keys do what JAX's do: data/key_arrays.json holds what JAX gave for each case."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.random.key_array_cases import CASES, shown
from xpr import random as r
from xpr.core.physical import has_extended
from xpr.interpreters.physical import physical_program
from xpr.sharding import NamedSharding, PartitionSpec

_GOLDEN: Any = json.loads(
    (Path(__file__).parent / "data" / "key_arrays.json").read_text(encoding="utf-8")
)["cases"]


@pytest.mark.parametrize("name", CASES)
def test_keys_do_what_they_do_in_jax(name: str) -> None:
    wanted = _GOLDEN[name]
    found = json.loads(json.dumps(shown(xpr, CASES[name])))
    if isinstance(wanted, dict) and "error" in wanted:
        assert found["error"] == wanted["error"], found
        words = min(len(found["words"]), len(wanted["words"]), 30)
        assert found["words"][:words].lower() == wanted["words"][:words].lower()
    else:
        assert found == wanted


def test_only_numbers_reach_the_compiler() -> None:
    def f(keys: Any, p: Any) -> Any:
        def step(key: Any, k: Any) -> Any:
            key = xpr.lax.cond(p, lambda a, b: a, lambda a, b: r.fold_in(b, 1), key, k)
            return r.split(key)[0], xpr.numpy.where(key == k, r.bits(k), 1)

        return xpr.lax.scan(step, keys[0], keys)

    closed = xpr.make_jaxpr(f)(r.split(r.key(0), 3), True)
    assert has_extended(closed.jaxpr)
    physical = physical_program(closed)
    assert not has_extended(physical.jaxpr)
    assert physical_program(closed) is physical
    assert [a.str_short() for a in physical.in_avals] == ["u32[3,2]", "bool[]"]
    lowered = xpr.jit(f).lower(r.split(r.key(0), 3), True)
    assert lowered.out_info[0].dtype == r.key(0).dtype
    found = lowered.compile()(r.split(r.key(0), 3), True)
    expected = xpr.jit(f)(r.split(r.key(0), 3), True)
    assert bool(found[0] == expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_a_program_without_keys_is_left_alone() -> None:
    closed = xpr.make_jaxpr(lambda x: x + 1)(1.0)
    assert physical_program(closed) is closed


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("sort", lambda k: jnp.sort(k)),
        ("argmax", lambda k: jnp.argmax(k)),
        ("argmin", lambda k: jnp.argmin(k)),
        ("dot_general", lambda k: jnp.dot(k, k)),
    ],
)
def test_what_computes_refuses_keys_when_it_is_traced(name: str, operation: Any) -> None:
    keys = r.split(r.key(0), 3)
    for call in (operation, lambda k: xpr.eval_shape(operation, k)):
        with pytest.raises(TypeError, match=f"{name} does not accept dtype key<fry>"):
            call(keys)


def test_keys_are_put_on_devices() -> None:
    keys = r.split(r.key(0), 4)
    there = xpr.device_put(keys, xpr.devices()[0])
    assert there.committed
    assert there.devices() == {xpr.devices()[0]}
    assert bool((there == keys).all())
    assert xpr.device_get(keys) is keys


def test_keys_are_spread_over_devices() -> None:
    devices = xpr.devices()
    if len(devices) < 2:
        pytest.skip("one device only")
    mesh = xpr.make_mesh((2,), ("x",), devices=devices[:2])
    keys = xpr.device_put(r.split(r.key(0), 4), NamedSharding(mesh, PartitionSpec("x")))
    assert keys.sharding.spec == PartitionSpec("x")
    assert [s.data.shape for s in keys.addressable_shards] == [(2,), (2,)]
    drawn = xpr.jit(xpr.vmap(lambda k: r.bits(k, (3,))))(keys)
    np.testing.assert_array_equal(drawn, xpr.vmap(lambda k: r.bits(k, (3,)))(r.split(r.key(0), 4)))
    again = xpr.jit(lambda k: k[::-1])(keys)
    np.testing.assert_array_equal(r.key_data(again), r.key_data(keys)[::-1])


def test_keys_are_copied_and_pickled() -> None:
    keys = r.split(r.key(0), 2)
    for same in (pickle.loads(pickle.dumps(keys)), copy.copy(keys), copy.deepcopy(keys)):
        assert same.dtype == keys.dtype
        assert bool((same == keys).all())


def test_keys_are_exported() -> None:
    closed_over = r.split(r.key(5), 2)
    call = xpr.jit(lambda k: (r.split(k), r.bits(closed_over[1]), r.key_data(k)))
    exported = xpr.export.export(call)(r.key(3))
    again = xpr.export.deserialize(exported.serialize())
    assert str(again.in_avals[0]) == "key<fry>[]"
    found, expected = again.call(r.key(3)), call(r.key(3))
    assert bool((found[0] == expected[0]).all())
    assert int(found[1]) == int(expected[1])
    np.testing.assert_array_equal(found[2], expected[2])


def test_fast_calls_with_keys_are_kept_apart_from_those_with_numbers() -> None:
    f = xpr.jit(lambda x: x)
    for _ in range(3):
        assert f(r.key(1)).dtype == r.key(1).dtype
        assert f(r.PRNGKey(1)).dtype == np.uint32


def test_types_of_keys_and_other_generators() -> None:
    struct = xpr.ShapeDtypeStruct.like(xpr.random.key(3))
    assert struct.sharding is None  # it was put nowhere
    assert xpr.eval_shape(lambda k: k, struct) == struct
    with pytest.raises(TypeError, match=r"unrecognized type .* for specifying a PRNG"):
        xpr.random.key(3, impl=object())
