"""`pmap`: every slice on a device of its own, against NumPy and the unmapped function."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr import numpy as jnp
from xpr.runtimes.base import Device
from xpr.sharding import IndivisibleError, Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

CPUS = xpr.devices("cpu")[:8]
A = np.random.default_rng(0).normal(size=(8, 3, 3)).astype("f4")


def test_axes_trees_and_keywords_of_one_call() -> None:
    def f(a: Any, b: Any, c: float, *, k: Any) -> Any:
        assert (a["x"].shape, b.shape, k.shape) == ((3, 3), (3, 3), (2,))
        return {"sum": a["x"] + b, "mean": lax.pmean(k, "i"), "c": c * 2, "one": jnp.float32(1)}

    mapped = xpr.pmap(
        f,
        axis_name="i",
        in_axes=({"x": 0}, 1, None),
        out_axes={"sum": 2, "mean": None, "c": 0, "one": 0},
    )
    k = np.arange(16, dtype="f4").reshape(8, 2)
    out = mapped({"x": A}, np.moveaxis(A, 0, 1), 1.5, k=k)
    np.testing.assert_allclose(out["sum"], np.moveaxis(A * 2, 0, 2))
    np.testing.assert_allclose(out["mean"], k.mean(0))
    np.testing.assert_array_equal(out["c"], np.full(8, 3))
    assert out["c"].weak_type
    np.testing.assert_array_equal(out["one"], np.ones(8))
    mesh = Mesh(CPUS, ("i",))
    assert out["sum"].sharding == NamedSharding(mesh, P(None, None, "i"))
    assert out["mean"].sharding == NamedSharding(mesh, P())
    assert out["c"].sharding == NamedSharding(mesh, P("i"))
    assert out["c"].committed


def test_slices_are_on_the_first_devices_or_on_those_given() -> None:
    x = np.arange(3 * 2 * 2, dtype="f4").reshape(3, 2, 2)
    first = xpr.pmap(jnp.dot)(x, x)
    np.testing.assert_allclose(first, x @ x)
    assert [s.device for s in first.addressable_shards] == CPUS[:3]
    assert first.sharding.spec == P("_internal_pmap_axis_name")
    given = xpr.pmap(jnp.dot, devices=CPUS[5:])(x, x)
    np.testing.assert_allclose(given, x @ x)
    assert [s.device for s in given.addressable_shards] == CPUS[5:]
    assert xpr.pmap(lambda y: y, backend="cpu")(x).sharding.device_set == set(CPUS[:3])
    assert xpr.local_device_count() == xpr.device_count() == len(xpr.devices())


def test_an_axis_counted_from_the_last() -> None:
    x = np.arange(12.0, dtype="f4").reshape(3, 4)
    mapped = xpr.pmap(lambda a, b: a + b, in_axes=(-1, 0))
    np.testing.assert_array_equal(mapped(x, x.T), x.T * 2)
    np.testing.assert_array_equal(mapped(np.arange(4.0), np.arange(4)), np.arange(4) * 2.0)


def test_programs_of_the_documentation() -> None:
    np.testing.assert_array_equal(xpr.pmap(lambda x: x**2)(jnp.arange(8)), np.arange(8) ** 2)
    x, y = jnp.arange(2.0), 4.0
    both = xpr.pmap(lambda x, y: (x + y, y * 2.0), in_axes=(0, None))(x, y)
    np.testing.assert_array_equal(both[0], [4, 5])
    np.testing.assert_array_equal(both[1], [8, 8])
    share = xpr.pmap(lambda x: x / lax.psum(x, axis_name="i"), axis_name="i")(jnp.arange(4.0))
    np.testing.assert_allclose(share, np.arange(4) / 6)
    np.testing.assert_allclose(share.sum(), 1)

    @partial(xpr.pmap, axis_name="i", devices=CPUS[:6])
    def f1(x: Any) -> Any:
        return x / lax.psum(x, axis_name="i")

    @partial(xpr.pmap, axis_name="i", devices=CPUS[-2:])
    def f2(x: Any) -> Any:
        return lax.psum(x**2, axis_name="i")

    np.testing.assert_allclose(f1(jnp.arange(6.0)), np.arange(6) / 15)
    np.testing.assert_array_equal(f2(jnp.array([2.0, 3.0])), [13, 13])
    assert f1.__name__ == "f1"


def test_collectives() -> None:
    shift = [(i, (i + 1) % 8) for i in range(8)]

    def f(x: Any) -> Any:
        return (
            lax.axis_index("i"),
            lax.pmax(x, "i"),
            lax.ppermute(x, "i", shift),
            lax.all_gather(x, "i"),
            lax.psum(x, "i", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]]),
            lax.psum(1, "i"),
        )

    index, largest, shifted, everybody, halves, count = xpr.pmap(f, "i")(A)
    np.testing.assert_array_equal(index, np.arange(8))
    np.testing.assert_array_equal(largest, np.broadcast_to(A.max(0), A.shape))
    np.testing.assert_array_equal(shifted, np.roll(A, 1, axis=0))
    np.testing.assert_array_equal(everybody, np.broadcast_to(A, (8, *A.shape)))
    wanted = np.repeat([A[:4].sum(0), A[4:].sum(0)], 4, axis=0)
    np.testing.assert_allclose(halves, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(count, [8] * 8)


def test_static_arguments() -> None:
    traced: list[Any] = []

    def f(x: Any, how: Any, y: Any) -> Any:
        traced.append(how)
        return x + y if how == "sum" else x * y

    mapped = xpr.pmap(f, static_broadcasted_argnums=1, in_axes=(0, None, 1))
    x = A[:4, 0]
    for _ in range(2):
        np.testing.assert_array_equal(mapped(x, "sum", x.T), x + x)
        np.testing.assert_array_equal(mapped(x, "product", x.T), x * x)
    assert traced == ["sum", "product"]
    with pytest.raises(ValueError, match=r"Non-hashable static arguments .* \(index 1\)"):
        mapped(x, ["sum"], x.T)
    with pytest.raises(ValueError, match="with only 1 positional argument\\. All static"):
        xpr.pmap(f, static_broadcasted_argnums=1)(x)


def test_a_repeated_call_does_not_trace_again() -> None:
    traced: list[int] = []

    def f(tree: Any, *, k: Any) -> Any:
        traced.append(len(tree))
        return tree[0] + k

    mapped = xpr.pmap(f)
    x = xpr.pmap(lambda a: a)(jnp.ones((8, 2)))
    for _ in range(3):
        np.testing.assert_array_equal(mapped([x], k=x), np.full((8, 2), 2))
    assert len(traced) == 1
    # The same structure, but another number of slices; another structure.
    half = jnp.ones((4, 2))
    np.testing.assert_array_equal(mapped([half], k=half), np.full((4, 2), 2))
    np.testing.assert_array_equal(mapped([x, x], k=x), np.full((8, 2), 2))
    assert traced == [1, 1, 2]


def test_donated_arguments_are_gone() -> None:
    mapped = xpr.pmap(
        lambda how, x, y: x * 2 + y, static_broadcasted_argnums=0, donate_argnums=(1,)
    )
    x = xpr.pmap(lambda a: a)(jnp.ones((8, 2)))
    y = x + 1
    np.testing.assert_array_equal(mapped("h", x, y), np.full((8, 2), 4))
    assert x.is_deleted()
    assert not y.is_deleted()


def test_derivatives_and_transformations() -> None:
    x = jnp.arange(4.0)

    def total(x: Any) -> Any:
        return xpr.pmap(lambda a: lax.psum(jnp.sin(a), "i") * a, axis_name="i")(x).sum()

    def plain(x: Any) -> Any:
        return (jnp.sin(x).sum() * x).sum()

    np.testing.assert_allclose(xpr.grad(total)(x), xpr.grad(plain)(x), rtol=1e-5)
    np.testing.assert_allclose(xpr.jit(xpr.grad(total))(x), xpr.grad(plain)(x), rtol=1e-5)
    # The derivative inside: each device's own, the cotangents of the sum summed.
    inside = xpr.pmap(xpr.grad(lambda a: lax.pmean(a**3, "i")), axis_name="i")(x)
    np.testing.assert_allclose(inside, 3 * np.arange(4.0) ** 2)
    rows = np.arange(8, dtype="f4").reshape(2, 4)
    outer = xpr.vmap(xpr.pmap(lambda a: lax.psum(a, "i"), axis_name="i"))(rows)
    np.testing.assert_array_equal(outer, np.repeat(rows.sum(1)[:, None], 4, 1))
    inner = xpr.pmap(xpr.vmap(lambda a: a / lax.psum(a, ("i", "j")), axis_name="j"), axis_name="i")(
        rows
    )
    np.testing.assert_allclose(inner, rows / rows.sum(), rtol=1e-6)


def test_inside_jit() -> None:
    mapped = xpr.pmap(lambda a: lax.psum(a, "i") + a, axis_name="i")
    found = xpr.jit(lambda x: mapped(x) * 2)(jnp.arange(8.0))
    np.testing.assert_array_equal(found, (28 + np.arange(8)) * 2)
    assert found.sharding == NamedSharding(Mesh(CPUS, ("i",)), P("i"))
    text = str(xpr.make_jaxpr(mapped)(jnp.arange(8.0)))
    assert "shard_map[" in text
    assert "squeeze[dimensions=(0,)]" in text
    with xpr.disable_jit():
        np.testing.assert_array_equal(mapped(jnp.arange(8.0)), 28 + np.arange(8))


def test_random_keys() -> None:
    keys = xpr.random.split(xpr.random.key(0), 4)
    found = xpr.pmap(lambda k: xpr.random.uniform(k, (2,)))(keys)
    np.testing.assert_array_equal(found, xpr.vmap(lambda k: xpr.random.uniform(k, (2,)))(keys))


def test_lower_and_compile() -> None:
    mapped: Any = xpr.pmap(lambda t, k: t["a"] + lax.psum(k, "i"), axis_name="i")
    lowered = mapped.lower({"a": A}, k=A)
    assert "all_reduce" in str(lowered.communication())
    compiled = lowered.compile()
    np.testing.assert_allclose(compiled({"a": A}, k=A), A + A.sum(0), rtol=1e-5, atol=1e-5)
    with pytest.raises(TypeError, match="was compiled for arguments of structure"):
        compiled(A, k=A)


def test_sizes_that_do_not_fit() -> None:
    same = xpr.pmap(lambda x, *more: x)
    with pytest.raises(IndivisibleError, match="size 9 requires 9 devices, but only 8"):
        same(jnp.arange(9))
    with pytest.raises(ValueError, match="requires 3 devices, but only 2 are given"):
        xpr.pmap(lambda x: x, devices=CPUS[:2])(jnp.arange(3))
    with pytest.raises(ValueError, match=r"different sizes .* of size 8, flat argument 1 has 4"):
        same(jnp.arange(8), jnp.arange(4))
    with pytest.raises(ValueError, match="axis_size 4 doesn't match received axis_size 8"):
        xpr.pmap(lambda x: x, axis_size=4)(jnp.arange(8))
    with pytest.raises(IndexError, match="axis 1, which an array of shape \\(4,\\) does not have"):
        xpr.pmap(lambda x: x, in_axes=1)(jnp.arange(4))
    with pytest.raises(ValueError, match="flat argument 1 along axis 1, which"):
        xpr.pmap(lambda x, y: x, in_axes=(0, 1))(jnp.arange(4), jnp.arange(4))
    for arguments in ((), (3.0,)):
        with pytest.raises(ValueError, match="requires at least one argument with a mapped axis"):
            same(*arguments)


def test_options_that_are_wrong() -> None:
    with pytest.raises(TypeError, match=r"pmap in_axes must be an int, None, or .* but got 1\.0"):
        xpr.pmap(lambda x: x, in_axes=1.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"pmap out_axes must be an int, None, or .* but got a"):
        xpr.pmap(lambda x: x, out_axes="a")
    with pytest.raises(ValueError, match="out_axes must not be negative, got -1"):
        xpr.pmap(lambda x: x, out_axes=-1)
    with pytest.raises(ValueError, match="'devices' argument to pmap must be non-empty"):
        xpr.pmap(lambda x: x, devices=list[Device]())
    with pytest.raises(TypeError, match="Expected a callable value, got 3"):
        xpr.pmap(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="donate_argnums must be an int or a sequence of ints"):
        xpr.pmap(lambda x: x, donate_argnums="a")  # pyright: ignore[reportArgumentType]
    x = jnp.arange(4)
    with pytest.raises(ValueError, match=r"pmap in_axes\[0\](.|\n)*must be a tree prefix"):
        xpr.pmap(lambda x: x, in_axes=(0, 0))(x)
    with pytest.raises(ValueError, match="pmap out_axes specification must be a tree prefix"):
        xpr.pmap(lambda x: (x, x), out_axes=(0, 0, 0))(x)
    with pytest.raises(RuntimeError, match="Unknown backend nope"):
        xpr.pmap(lambda x: x, backend="nope")(x)
    with pytest.raises(TypeError, match="string"):
        xpr.pmap(lambda x: x)("string")


def test_nested_maps_and_arrays_that_live_elsewhere() -> None:
    # As in JAX 0.10: a map inside another one would need a mesh of both their axes.
    nested = xpr.pmap(xpr.pmap(lambda x: x, axis_name="j"), axis_name="i")
    with pytest.raises(ValueError, match="should match the mesh passed to shard_map"):
        nested(jnp.ones((2, 2)))
    x = xpr.device_put(jnp.ones(4), CPUS[6])
    with pytest.raises(ValueError, match="incompatible devices"):
        xpr.pmap(lambda x: x)(x)
