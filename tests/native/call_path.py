"""Calls of every kind from many threads, for the sanitizers to watch.

`python tests/native/instrumented.py EXTENSION tests.native.call_path ROUNDS` runs them with the
native part in that file, which a sanitizer has instrumented.
"""

from __future__ import annotations

import sys
import threading
import weakref

import numpy as np

import xpr
import xpr.numpy as xnp
from xpr import lax
from xpr.sharding import Mesh, NamedSharding, PartitionSpec


def _run(rounds: int) -> None:
    xpr.config.update("num_cpu_devices", 4)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    wide = np.arange(600_000, dtype=np.float32)
    fixed = xnp.asarray(values)

    tree = xpr.jit(lambda t, s, *, k: {"a": t["a"] * s + k, "b": [t["b"][0] + 1, t["b"][1]]})
    static = xpr.jit(lambda x, n: x * n, static_argnums=1)
    grow = xpr.jit(lambda x: x + 1, donate_argnums=0)
    large = xpr.jit(lambda x: (x * 2 + 1, x.sum() * 0 + 1))
    loop = xpr.jit(lambda x: lax.while_loop(lambda v: v.sum() < 100, lambda v: v + v @ v.T @ v, x))
    called = xpr.jit(lambda x: xpr.pure_callback(lambda v: v + 1, x, x) * 2)
    failing = xpr.jit(lambda x: xpr.pure_callback(_fail, x, x))
    many = xpr.jit(lambda *a: sum(a))
    inverse = xpr.jit(xnp.linalg.inv)
    small = np.random.default_rng(0).standard_normal((400, 4, 4)).astype(np.float32)
    small += 8 * np.eye(4, dtype=np.float32)
    inverted = np.linalg.inv(small.astype(np.float64))

    devices = Mesh(np.array(xpr.devices("cpu")), ("d",))
    halves = xpr.jit(lambda t, s: {"a": t["a"] * s, "b": [t["b"] + 1, t["a"] - t["b"]]})
    rows = xpr.jit(lambda x: x * 2 + 1)
    shrink = xpr.jit(lambda x: x - 1, donate_argnums=0)
    long = np.arange(64_000, dtype=np.float32)

    def spread(x: object, *axes: str) -> xpr.Array:
        return xpr.device_put(x, NamedSharding(devices, PartitionSpec(*axes)))

    looped = np.asarray(loop(fixed))
    table: list[object] = []

    def once(i: int) -> None:
        found = tree({"a": fixed, "b": [values, 2.0]}, float(i), k=fixed)
        np.testing.assert_array_equal(np.asarray(found["a"]), values * np.float32(i) + values)
        np.testing.assert_array_equal(np.asarray(found["b"][0]), values + 1)
        assert float(found["b"][1]) == 2.0
        np.testing.assert_array_equal(np.asarray(static(fixed, i % 3)), values * (i % 3))
        moving = xnp.asarray(values)
        for _ in range(3):
            moving = grow(moving)
        np.testing.assert_array_equal(np.asarray(moving), values + 3)
        twice, one = large(wide)
        assert np.array_equal(np.asarray(twice), wide * 2 + 1)
        assert float(one) == 1.0
        np.testing.assert_array_equal(np.asarray(loop(fixed)), looped)
        np.testing.assert_array_equal(np.asarray(called(fixed)), (values + 1) * 2)
        assert float(many(*[fixed] * 70)[1, 2]) == 350.0
        np.testing.assert_allclose(np.asarray(inverse(small)), inverted, atol=1e-6)
        try:
            failing(fixed)
        except KeyError:
            pass
        else:
            raise AssertionError("the error of a function of this process was lost")
        # Operators, arrays that one thread makes and another one drops, weak references, caches.
        y = ((fixed + 1) * fixed - values)[1] / 2
        assert float(y[2]) == 12.5
        table.append(y)
        # On several devices: small and larger programs, what is replicated, donated, done outside.
        for part in (spread(long[:64], "d"), spread(long[:64]), spread(long, "d")):
            x = np.asarray(part)
            found = halves({"a": part, "b": part}, 2.0)
            np.testing.assert_array_equal(np.asarray(found["a"]), x * 2)
            np.testing.assert_array_equal(np.asarray(found["b"][0]), x + 1)
            np.testing.assert_array_equal(np.asarray(rows(rows(part))), x * 4 + 3)
            np.testing.assert_array_equal(np.asarray(-(part * 2) + part), -x)
            table.append(found)
            for _ in range(2):
                part = shrink(part)
            np.testing.assert_array_equal(np.asarray(part), x - 2)
        kept = weakref.ref(y)
        del y
        if len(table) > 8:
            table.clear()
        _ = kept()
        if i % 16 == 5:
            xpr.clear_caches()

    errors: list[BaseException] = []

    def work(start: int) -> None:
        try:
            for i in range(start, start + rounds):
                once(i)
        except BaseException as error:
            errors.append(error)
            raise

    once(0)
    once(5)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    print("right")


def _fail(_: object) -> object:
    raise KeyError("as it should")


if __name__ == "__main__":
    sys.setswitchinterval(1e-5)
    _run(int(sys.argv[1]))
