"""Contexts that say what may happen: tracing, leaks, transfers, garbage; and named calls."""

from __future__ import annotations

import gc
import logging
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.errors import UnexpectedTracerError


def test_known_values_are_computed_at_once() -> None:
    @xpr.custom_jvp
    def cube(x: Any) -> Any:
        return x**3

    cube.defjvp(lambda primals, tangents: (cube(*primals), 3 * primals[0] ** 2 * tangents[0]))
    seen: list[Any] = []

    def f(x: Any) -> Any:
        with xpr.ensure_compile_time_eval():
            n = jnp.arange(4).sum()
            seen.append((int(n), bool(n > 5), float(xpr.grad(cube)(2.0)), float(cube(2.0))))
            seen.append(xpr.vmap(lambda y: y + n)(np.arange(2)).tolist())
            seen.append(float(xpr.jit(jnp.sin)(0.0)))
            y = cube(x) + n  # depends on x
        return y * int(n)

    jaxpr = xpr.make_jaxpr(f)(1.0)
    assert seen == [(6, True, 12.0, 8.0), [6, 7], 0.0]
    assert [e.primitive.name for e in jaxpr.eqns] == ["custom_jvp_call", "add", "mul"]
    assert xpr.jit(f)(1.0) == 42
    assert xpr.grad(f)(1.0) == 18
    np.testing.assert_array_equal(xpr.vmap(f)(np.array([0.0, 1.0])), [36, 42])
    with xpr.ensure_compile_time_eval():
        assert jnp.ones(2).sum() == 2


def test_tracing_can_be_forbidden() -> None:
    def double(x: Any) -> Any:
        return 2 * x

    f = xpr.jit(double)
    f(1.0)
    with xpr.no_tracing():
        assert f(2.0) == 4
        with pytest.raises(RuntimeError, match=r"tracing function double at .*'no_tracing' is set"):
            f(np.ones(2, np.float32))
    assert f(np.ones(2, np.float32)).tolist() == [2, 2]


@pytest.mark.parametrize(
    "transform",
    [
        xpr.jit,
        xpr.make_jaxpr,
        xpr.vmap,
        lambda f: lambda x: xpr.jvp(f, (x,), (x,)),
        lambda f: lambda x: xpr.vjp(f, x),
    ],
    ids=["jit", "make_jaxpr", "vmap", "jvp", "vjp"],
)
def test_leaks_are_found(transform: Any) -> None:
    kept: list[Any] = []

    def leak(x: Any) -> Any:
        kept.append(x * 2)
        return x

    def tidy(x: Any) -> Any:
        return xpr.jit(jnp.sin)(x) * 2

    x = np.ones(2, np.float32)
    with xpr.checking_leaks():
        transform(tidy)(x)
        with pytest.raises(UnexpectedTracerError, match=r"Leaked trace .*Trace\. Leaked tracer"):
            transform(leak)(x)
    kept.clear()
    with xpr.check_tracer_leaks(False):
        transform(leak)(x)
    assert len(kept) == 1


def test_random_number_settings() -> None:
    with xpr.enable_custom_prng():
        assert xpr.random.PRNGKey(7).dtype == xpr.random.key(7).dtype
    assert xpr.random.PRNGKey(7).dtype == np.uint32
    with xpr.default_prng_impl("threefry2x32"):
        assert xpr.random.key(0).dtype == xpr.random.key_dtype()
    with xpr.default_prng_impl("rbg"):
        assert str(xpr.random.key(0).dtype) == "key<rbg>"
    with (
        xpr.default_prng_impl("philox4x32"),
        pytest.raises(NotImplementedError, match="philox4x32"),
    ):
        xpr.random.key(0)
    with xpr.threefry_partitionable(True):
        xpr.random.bits(xpr.random.key(0))
    with xpr.threefry_partitionable(False):
        found = xpr.random.bits(xpr.random.key(0), (3,))
    np.testing.assert_array_equal(found, np.array([4146024105, 1351547692, 2718843009], np.uint32))


def test_transfers_are_guarded(caplog: Any) -> None:
    f = xpr.jit(lambda x: x + 1)
    host = np.ones(3, np.float32)
    x = xpr.device_put(host)
    with xpr.transfer_guard("disallow"):
        assert f(x).tolist() == [2, 2, 2]
        assert f(xpr.device_put(host)).tolist() == [2, 2, 2]
        with pytest.raises(RuntimeError, match=r"Disallowed host-to-device transfer: .*\[3\]"):
            f(host)
    with (
        xpr.transfer_guard("disallow_explicit"),
        pytest.raises(RuntimeError, match="Disallowed host-to-device transfer"),
    ):
        xpr.device_put(host)
    with xpr.transfer_guard_device_to_device("disallow_explicit"):
        assert f(host).tolist() == [2, 2, 2]
    with caplog.at_level(logging.WARNING, "xpr.transfer"):
        with xpr.transfer_guard_host_to_device("log"):
            f(xpr.device_put(host))
            assert caplog.messages == []
            f(host)
            assert len(caplog.messages) == 1
        with xpr.transfer_guard("log_explicit"):
            f(xpr.device_put(host))
            assert len(caplog.messages) == 2
        f(host)
        assert len(caplog.messages) == 2
    with pytest.raises(ValueError, match="expected one of allow, log"), xpr.transfer_guard("no"):
        pass


def test_arrays_of_devices_with_memory_of_their_own_are_guarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = xpr.device_put(np.ones(3, np.float32))
    monkeypatch.setattr(type(x.device.runtime), "is_host", False)
    with xpr.transfer_guard_device_to_host("disallow"):
        assert xpr.device_get(x).tolist() == [1, 1, 1]
        with pytest.raises(RuntimeError, match=r"Disallowed device-to-host transfer: .*\[3\] from"):
            np.asarray(x)
    with (
        xpr.transfer_guard_device_to_host("disallow_explicit"),
        pytest.raises(RuntimeError, match="Disallowed device-to-host transfer"),
    ):
        xpr.device_get(x)


def test_garbage_is_noticed(caplog: Any) -> None:
    class Node:
        def __init__(self) -> None:
            self.me = self
            self.array = jnp.ones(3)

    gc.collect()
    for level, count in (("allow", 0), ("log", 1)):
        with xpr.array_garbage_collection_guard(level):
            Node()
            x = jnp.ones(2)
            del x  # freed at once, which is as it should be
            gc.collect()
        found = [m for m in caplog.messages if "deleted by the garbage collector" in m]
        assert len(found) == count
    assert found[0].startswith("1 arrays")
    with (
        pytest.raises(ValueError, match="got 'all'"),
        xpr.array_garbage_collection_guard("all"),
    ):
        pass


def test_named_calls() -> None:
    def double(x: Any) -> Any:
        return 2 * x

    names = [
        xpr.make_jaxpr(f)(1.0).eqns[0].source_info.name_stack
        for f in (xpr.named_call(double), xpr.named_call(double, name="twice"), double)
    ]
    assert names == ["double", "twice", ""]
    with pytest.raises(TypeError, match=r"Expected a callable value.*named_call"):
        xpr.named_call(3)  # pyright: ignore[reportArgumentType]


def test_a_named_scope_is_a_decorator_too() -> None:
    @xpr.named_scope("inner")
    def f(x, n):
        return f(x, n - 1) * 2 if n else x + 1

    found = [e.source_info.name_stack for e in xpr.make_jaxpr(lambda x: f(x, 2) - 3)(1.0).eqns]
    assert found == ["inner/inner/inner", "inner/inner", "inner", ""]
