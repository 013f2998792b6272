"""Exported functions: types, calls from everywhere, derivatives, reading back what is stored."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax, random
from xpr.export import (
    CorruptExportError,
    DisabledSafetyCheck,
    Exported,
    default_export_platform,
    deserialize,
    export,
    register_namedtuple_serialization,
    register_pytree_node_serialization,
)
from xpr.export.tensors import write_tensors

W = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)


def network(params, x):
    y = jnp.tanh(x @ W + params["b"])
    return {"y": y, "sums": (y.sum(), [params["b"] * 2])}


PARAMS = {"b": np.linspace(-1, 1, 5, dtype=np.float32)}


@pytest.fixture(scope="module")
def exported() -> Exported:
    return export(xpr.jit(network))(PARAMS, X)


@pytest.fixture(scope="module")
def restored(exported) -> Exported:
    return deserialize(exported.serialize(vjp_order=2))


def test_what_an_exported_function_tells_of_itself(exported):
    assert exported.fun_name == "network"
    assert [str(a) for a in exported.in_avals] == ["float32[5]", "float32[4,6]"]
    assert [str(a) for a in exported.out_avals] == ["float32[]", "float32[5]", "float32[4,5]"]
    assert exported.in_tree == xpr.tree.structure(((PARAMS, X), {}))
    assert exported.out_tree == xpr.tree.structure({"y": 0, "sums": (0, [0])})
    assert exported.platforms == (default_export_platform(),)
    assert exported.module_kept_var_idx == (0, 1)
    assert not exported.uses_global_constants
    text = exported.mlir_module()
    assert "func.func public @main(%arg0: tensor<5xf32>, %arg1: tensor<4x6xf32>)" in text
    assert "stablehlo.dot_general" in text


def test_calls_agree_with_the_function(exported, restored):
    expected = network(PARAMS, X)
    for e in (exported, restored):
        found = e.call(PARAMS, X)
        assert xpr.tree.structure(found) == xpr.tree.structure(expected)
        for a, b in zip(xpr.tree.leaves(found), xpr.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


def test_calls_from_traced_code(restored):
    def loss(f):
        return lambda params, x: jnp.sum(f(params, x)["y"] ** 2)

    inside = xpr.jit(loss(restored.call))(PARAMS, X)
    np.testing.assert_allclose(inside, loss(network)(PARAMS, X), rtol=1e-5)

    found, wanted = (xpr.grad(loss(f), (0, 1))(PARAMS, X) for f in (restored.call, network))
    for a, b in zip(xpr.tree.leaves(found), xpr.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)

    many = np.stack([X, 2 * X])
    mapped = xpr.vmap(lambda x: restored.call(PARAMS, x)["y"])(many)
    wanted = np.stack([network(PARAMS, x)["y"] for x in many])
    np.testing.assert_allclose(np.asarray(mapped), wanted, rtol=1e-5, atol=1e-6)


def test_derivatives_of_derivatives():
    exported = export(xpr.jit(lambda x: jnp.sin(x) * x))(np.float32(1))
    twice = deserialize(exported.serialize(vjp_order=2))
    x = 0.7
    np.testing.assert_allclose(xpr.grad(twice.call)(x), np.sin(x) + x * np.cos(x), rtol=1e-5)
    second = xpr.grad(xpr.grad(twice.call))(x)
    np.testing.assert_allclose(second, 2 * np.cos(x) - x * np.sin(x), rtol=1e-5)
    assert twice.vjp().vjp().has_vjp() is False


def test_without_vjp_there_is_no_gradient(exported):
    bare = deserialize(exported.serialize())
    assert exported.has_vjp()
    assert not bare.has_vjp()
    with pytest.raises(ValueError, match="No VJP is available for 'network'"):
        bare.vjp()
    with pytest.raises(ValueError, match="No VJP is available"):
        xpr.grad(lambda x: bare.call(PARAMS, x)["y"].sum())(X)


def test_vjp_is_a_function_of_flat_primals_and_cotangents():
    def f(x, n):
        return x * n, n + 1

    vjp = export(xpr.jit(f))(np.ones(3, np.float32), np.int32(2)).vjp()
    names = [a.dtype.name if a.dtype.names is None else "float0" for a in vjp.in_avals]
    assert names == ["float32", "int32", "float32", "float0"]
    nothing = np.zeros((), xpr.float0)
    ct_x, ct_n = vjp.call(np.ones(3, np.float32), np.int32(5), np.ones(3, np.float32), nothing)
    np.testing.assert_array_equal(ct_x, np.full(3, 5, np.float32))
    assert ct_n.dtype == xpr.float0


def test_rules_of_custom_derivatives_are_exported():
    @xpr.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (x * x, x), lambda x, ct: (ct * 100 * x,))
    restored = deserialize(export(xpr.jit(f))(np.float32(1)).serialize(vjp_order=1))
    assert float(restored.call(3.0)) == 9
    assert float(xpr.grad(restored.call)(3.0)) == 300


def control(x, key):
    def body(carry, y):
        return lax.cond(y > 0, lambda c: c + y, lambda c: c * jnp.asarray(0.5), carry), carry

    total, seen = lax.scan(body, jnp.float32(0), x)
    steps = lax.while_loop(lambda s: s < 10, lambda s: s * 2, jnp.int32(1))
    noise = random.normal(key, (3,))
    return total, seen, steps, noise, jnp.sort(x), jnp.linalg.norm(x), x.astype("bfloat16"), x[::-1]


def test_loops_branches_and_random_numbers_are_stored():
    x, key = np.array([1, -1, 2, 0.5], np.float32), random.key(3)
    restored = deserialize(export(xpr.jit(control))(x, key).serialize())
    for a, b in zip(restored.call(x, key), xpr.jit(control)(x, key), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_arguments_that_do_not_fit(exported):
    with pytest.raises(ValueError, match="must have the same pytree structure"):
        exported.call(PARAMS)
    with pytest.raises(ValueError, match=r"Shape mismatch for args\[1\]\.shape\[0\]: expected 4"):
        exported.call(PARAMS, X[:2])
    with pytest.raises(ValueError, match=r"Rank mismatch for args\[0\]\['b'\]"):
        exported.call({"b": np.float32(1)}, X)
    with pytest.raises(ValueError, match=r"Dtype mismatch for args\[1\]: expected float32"):
        exported.call(PARAMS, X.astype(np.int32))


def test_platforms_are_checked(tmp_path):
    f = xpr.jit(lambda x: x + 1)
    x = np.ones(2, np.float32)
    with pytest.raises(ValueError, match="was exported for platforms \\('vulkan',\\) but"):
        export(f, platforms=("vulkan",))(x).call(x)
    lenient = export(f, platforms=("vulkan",), disabled_checks=[DisabledSafetyCheck.platform()])
    restored = deserialize(lenient(x).serialize())
    assert restored.disabled_safety_checks == (DisabledSafetyCheck.platform(),)
    np.testing.assert_array_equal(restored.call(x), x + 1)
    elsewhere = export(f, platforms=("tpu",))(x)
    assert "stablehlo" in elsewhere.mlir_module()
    with pytest.raises(ValueError, match=r"exported for platforms \('tpu',\) but it is used on"):
        elsewhere.call(x)
    both = deserialize(export(f, platforms=("cpu", "tpu"))(x).serialize())
    assert both.platforms == ("cpu", "tpu")
    np.testing.assert_allclose(both.call(x), f(x))
    with pytest.raises(ValueError, match="unknown target 'tpu'"):
        elsewhere.save(tmp_path / "bundle")
    with pytest.raises(ValueError, match=r"platforms must be some of .*, got \('abacus',\)"):
        export(f, platforms=("abacus",))
    with pytest.raises(ValueError, match="must be the result of `jit`"):
        export(lambda x: x)
    assert DisabledSafetyCheck.custom_call("foo").is_custom_call() == "foo"
    assert DisabledSafetyCheck.platform().is_custom_call() is None


class Pair(NamedTuple):
    left: object
    right: object


class Box:
    def __init__(self, content, label):
        self.content, self.label = content, label


xpr.tree_util.register_pytree_node(
    Box, lambda b: ((b.content,), b.label), lambda label, children: Box(children[0], label)
)


def test_nodes_of_the_users_types_must_be_registered():
    f = xpr.jit(lambda pair: Box(pair.left + pair.right["a"], "sum"))
    pair = Pair(np.ones(2, np.float32), OrderedDict(a=np.ones(2, np.float32)))
    exported = export(f)(pair)
    with pytest.raises(ValueError, match="register_namedtuple_serialization was called"):
        exported.serialize()
    assert register_namedtuple_serialization(Pair, serialized_name="tests.Pair") is Pair
    with pytest.raises(ValueError, match="a Box, which cannot be serialised"):
        exported.serialize()
    functions = {"serialize_auxdata": str.encode, "deserialize_auxdata": bytes.decode}
    register_pytree_node_serialization(Box, serialized_name="tests.Box", **functions)
    restored = deserialize(exported.serialize())
    assert restored.in_tree == exported.in_tree
    found = restored.call(pair)
    assert (type(found), found.label) == (Box, "sum")
    np.testing.assert_array_equal(found.content, np.full(2, 2, np.float32))

    with pytest.raises(ValueError, match="Duplicate serialization registration for type"):
        register_pytree_node_serialization(Box, serialized_name="tests.Box2", **functions)
    with pytest.raises(ValueError, match=r"for serialized_name .tests\.Box."):
        register_pytree_node_serialization(Exported, serialized_name="tests.Box", **functions)
    with pytest.raises(ValueError, match="without from_children"):
        register_pytree_node_serialization(Exported, serialized_name="tests.E", **functions)
    with pytest.raises(ValueError, match="is no named tuple"):
        register_namedtuple_serialization(Box, serialized_name="tests.B")


def test_damaged_data_is_refused(exported):
    data = bytes(exported.serialize())
    rng = np.random.default_rng(0)
    for cut in (0, 7, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(CorruptExportError, match="no exported function, or a damaged one: "):
            deserialize(data[:cut])
    header = 8 + int.from_bytes(data[:8], "little")
    places = [*rng.integers(0, header, 200), *rng.integers(header, len(data), 50)]
    for place in [*range(10), header - 1, header, len(data) - 1, *places]:
        changed = bytearray(data)
        changed[place] ^= 1 << rng.integers(8)
        with pytest.raises(CorruptExportError, match=r"has been altered|or a damaged one: "):
            deserialize(changed)
    for longer in (data + b"\0", data[:header] + b"\0" + data[header:]):
        with pytest.raises(CorruptExportError, match="its SHA-256 is not the one that it was"):
            deserialize(longer)
    assert deserialize(data).serialize() == data
    other = write_tensors({"a": np.ones(3)}, {"made_by": "somebody else"})
    with pytest.raises(CorruptExportError, match="have no 'xpr-exported' with a digest"):
        deserialize(other)
    with pytest.raises(ValueError, match="vjp_order must not be negative"):
        exported.serialize(vjp_order=-1)


def test_an_array_that_looks_like_a_digest_is_left_alone():
    digits = np.frombuffer(b"0" * 64, np.uint8)
    e = export(xpr.jit(lambda x: (x + digits, "0" * 64)[0]))(np.uint8(1))
    np.testing.assert_array_equal(deserialize(e.serialize()).call(np.uint8(1)), digits + 1)


def test_a_function_without_a_name_keeps_its_own() -> None:
    exported = export(xpr.jit(lambda x: 2 * x))(xpr.ShapeDtypeStruct((3,), jnp.float32))
    assert exported.fun_name == "<lambda>"
    again = deserialize(exported.serialize())
    assert again.fun_name == "<lambda>"
    np.testing.assert_array_equal(again.call(jnp.arange(3.0)), [0, 2, 4])
    assert "@_lambda_" in exported.mlir_module()
