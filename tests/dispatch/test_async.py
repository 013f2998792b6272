"""Calls that return before their program has run.

Most tests hold the queue of the CPU with a function that waits for a gate: until the gate is open
no program runs, so that what is seen before and after does not depend on time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import first_device
from xpr.core.config import override
from xpr.dispatch.deferred import DeferredExecutable
from xpr.runtimes.cpu import CpuExecutable
from xpr.runtimes.native_executable import NativeExecutable
from xpr.runtimes.queue import LIMIT, PendingBuffer, queue_of

DEVICE = xpr.devices("cpu")[0]


class Gate:
    """Holds a device's queue until it is opened."""

    def __init__(self, device: xpr.Device = DEVICE) -> None:
        self._event = threading.Event()
        queue_of(device).call(self._wait)

    def _wait(self) -> tuple[()]:
        assert self._event.wait(60)
        return ()

    def open(self) -> None:
        self._event.set()

    def open_soon(self) -> None:
        threading.Timer(0.05, self.open).start()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()
    xpr.effects_barrier()


double = xpr.jit(lambda x: x * 2)
both = xpr.jit(lambda x: (x, x + 1))
add_in_place = xpr.jit(lambda x: x + 1, donate_argnums=0)
subtract_in_place_now = xpr.jit(lambda x: x - 1, donate_argnums=0)
triple_now = xpr.jit(lambda x: x * 3)


@pytest.fixture(autouse=True)
def _queued() -> None:
    """Programs that are queued whatever their size, for float32[8].

    Compiled before each test, since any test of the same process may clear the caches.
    """
    with override("async_dispatch", "always"):
        for jitted in (double, both, add_in_place):
            xpr.block_until_ready(jitted(jnp.ones(8)))


def values(x: Any) -> list[float]:
    return np.asarray(x).tolist()


def test_a_call_returns_before_the_program_has_run(gate: Gate) -> None:
    x = jnp.arange(8.0)
    y = double(x)
    z = double(y)
    assert not y.is_ready()
    assert not z.is_ready()
    assert (z.shape, z.dtype, z.devices()) == ((8,), np.float32, {DEVICE})
    assert "pending" in repr(z._buffers[0])
    gate.open()
    assert xpr.block_until_ready({"z": z})["z"] is z
    assert z.is_ready()
    assert y.is_ready()
    assert values(z) == [4.0 * i for i in range(8)]


@pytest.mark.parametrize(
    "read",
    [
        np.asarray,
        lambda y: y.block_until_ready(),
        lambda y: float(y[1]),
        lambda y: y + 1,
        lambda y: jnp.sin(y),
        triple_now,
        lambda y: xpr.jit(lambda v: v + 3)(y),
        lambda y: xpr.device_put(y, xpr.devices("reference")[0]),
        lambda y: y.tolist(),
        lambda y: y.at[0].set(1.0),
        repr,
        xpr.device_get,
    ],
)
def test_reading_waits(gate: Gate, read: Any) -> None:
    y = double(jnp.arange(8.0))
    assert not y.is_ready()
    gate.open_soon()
    found = read(y)
    assert y.is_ready()
    assert repr(found) == repr(read(jnp.arange(8.0) * 2))


def test_operands_may_be_deleted_or_written_to_after_the_call(gate: Gate) -> None:
    x = jnp.arange(8.0)
    mine = np.arange(8, dtype="float32")
    y, z = double(x), double(mine)
    w = double(y)
    x.delete()
    y.delete()
    mine[:] = 0
    assert y.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        double(y)
    with pytest.raises(RuntimeError, match="deleted"):
        y.block_until_ready()
    gate.open()
    assert values(z) == [2.0 * i for i in range(8)]
    assert values(w) == [4.0 * i for i in range(8)]


def test_donated_arrays_are_gone_at_once(gate: Gate) -> None:
    x = jnp.arange(8.0) + 0
    seen = np.asarray(x)
    before = double(x)
    y = add_in_place(x)
    z = add_in_place(add_in_place(y))
    assert x.is_deleted()
    assert y.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        double(y)
    gate.open()
    assert values(z) == [i + 3.0 for i in range(8)]
    assert values(before) == [2.0 * i for i in range(8)]
    assert seen.tolist() == list(range(8))


def test_a_result_that_is_an_operand_survives_its_donation(gate: Gate) -> None:
    first = double(jnp.arange(8.0))
    same, more = both(first)
    changed = add_in_place(first)
    again = add_in_place(double(same))
    gate.open()
    assert values(same) == [2.0 * i for i in range(8)]
    assert values(more) == values(changed) == [2.0 * i + 1 for i in range(8)]
    assert values(again) == [4.0 * i + 1 for i in range(8)]


def test_a_program_that_runs_at_once_waits_before_it_takes_memory() -> None:
    subtract_in_place_now(jnp.ones(8))
    x = xpr.block_until_ready(double(jnp.arange(8.0)))
    gate = Gate()
    y = double(x)
    gate.open_soon()
    z = subtract_in_place_now(x)
    assert y.is_ready()
    assert x.is_deleted()
    assert values(y) == [4.0 * i for i in range(8)]
    assert values(z) == [2.0 * i - 1 for i in range(8)]


class Oops(Exception):
    pass


def test_errors_appear_where_somebody_waits(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, buffers: Any) -> Any:
        for b in buffers:
            b.hal_view()  # raises if the program that makes it has failed
        raise Oops("no luck")

    with monkeypatch.context() as patch:
        for kind in (CpuExecutable, NativeExecutable):
            patch.setattr(kind, "__call__", fail)
        y = double(jnp.ones(8))
        line = sys._getframe().f_lineno - 1
        z = double(y)
        gate.open()
        xpr.effects_barrier()
    assert y.is_ready()
    for read in (
        np.asarray,
        str,
        lambda v: v.block_until_ready(),
        lambda v: xpr.block_until_ready([1, v]),
        lambda v: v + 1,
        triple_now,
    ):
        for x in (y, z):
            with pytest.raises(Oops, match="no luck") as caught:
                read(x)
            (note,) = caught.value.__notes__
            assert f"{os.path.basename(__file__)}:{line}:" in note
    depth = len(caught.traceback)
    with pytest.raises(Oops) as caught:
        triple_now(z)
    assert len(caught.traceback) == depth
    assert values(double(jnp.ones(8))) == [2.0] * 8


def test_the_queue_is_bounded(gate: Gate) -> None:
    x = jnp.ones(8)
    results = [double(x) for _ in range(LIMIT - 1)]  # the gate's own function takes a place
    waiter = threading.Thread(target=lambda: results.append(double(x)))
    waiter.start()
    waiter.join(0.2)
    assert waiter.is_alive()
    gate.open()
    waiter.join(60)
    assert [values(r) for r in results] == [[2.0] * 8] * LIMIT


def test_the_switch_turns_it_off(gate: Gate) -> None:
    with override("async_dispatch", "never"):
        y = double(jnp.ones(8))
        assert type(y._buffers[0]) is not PendingBuffer
        assert values(y) == [2.0] * 8
    with pytest.raises(ValueError, match="expected one of auto, always, never, got 'maybe'"):
        xpr.config.update("async_dispatch", "maybe")


def test_only_large_cpu_programs_are_queued() -> None:
    assert triple_now(jnp.ones(8)).is_ready()
    large = xpr.jit(lambda x: x @ x).trace(xpr.ShapeDtypeStruct((2000, 2000), "float32"))
    program = large.lower().compile()._program
    assert isinstance(program.executable, DeferredExecutable)
    small = xpr.jit(triple_now).trace(jnp.ones(8)).lower().compile()._program
    assert not isinstance(small.executable, DeferredExecutable)


def test_effects_barrier_waits_for_all() -> None:
    gate = Gate()
    y = double(jnp.ones(8))
    gate.open_soon()
    assert xpr.effects_barrier() is None
    assert y.is_ready()
    gate = Gate()
    y = double(jnp.ones(8))
    gate.open_soon()
    DEVICE.runtime.synchronize(DEVICE)
    assert y.is_ready()


def test_errors_without_results_appear_at_the_barrier() -> None:
    def fail() -> tuple[()]:
        raise Oops("nobody asked")

    queue_of(DEVICE).call(fail)
    with pytest.raises(Oops, match="nobody asked"):
        xpr.effects_barrier()
    assert xpr.effects_barrier() is None


def test_a_function_of_a_program_cannot_wait_for_what_is_behind_it(gate: Gate) -> None:
    found: list[Any] = []

    def wait_for_itself() -> tuple[()]:
        assert values(double(jnp.ones(8))) == [2.0] * 8  # a call of its own runs at once
        try:
            found[0].block_until_ready()
        except RuntimeError as error:
            found.append(error)
        return ()

    queue_of(DEVICE).call(wait_for_itself)
    found.append(double(jnp.ones(8)))
    gate.open()
    assert values(found[0]) == [2.0] * 8
    assert "behind it in the queue" in str(found[1])


def test_sixteen_threads() -> None:
    def work(k: int) -> None:
        x = jnp.full(8, float(k))
        for _ in range(20):
            x = add_in_place(both(double(x))[0])
            x = triple_now(x) / 6
        found[k] = values(x)

    found: list[Any] = [None] * 16
    threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    for k in range(16):
        want = np.float32(k)
        for _ in range(20):
            want = (want * 2 + 1) * 3 / 6
        np.testing.assert_allclose(found[k], [want] * 8, rtol=1e-5)


def test_vulkan_programs_are_queued() -> None:
    device = first_device("vulkan")
    f = xpr.jit(lambda x: (x * 2, x))
    x = xpr.device_put(np.arange(4.0), device)
    xpr.block_until_ready(f(x))
    gate = Gate(device)
    y, same = f(x)
    z, _ = f(y)
    z.copy_to_host_async()
    x.delete()
    assert not z.is_ready()
    gate.open()
    xpr.effects_barrier()
    assert z.is_ready()
    assert z._buffers[0]._result.buffer._host is not None
    assert values(z) == [0, 4, 8, 12]
    assert values(same) == [0, 1, 2, 3]


PRELUDE = """
import os, signal, sys, threading, time
import numpy as np
import xpr, xpr.numpy as jnp
from xpr.runtimes.queue import queue_of
device = xpr.devices()[0]
xpr.config.update("async_dispatch", "always")
double = xpr.jit(lambda x: x * 2)
def slow_sum(x):   # more than a tenth of a second
    return xpr.lax.fori_loop(0, 30_000_000, lambda i, v: v * 0.5 + i, x)
slow = xpr.jit(slow_sum)
x = jnp.ones(8)
xpr.block_until_ready(double(x))
event = threading.Event()
def hold():
    queue_of(device).call(lambda: (event.wait(60), ())[1])
"""


def script(body: str) -> str:
    """Runs a script; returns what it printed. It must end with status 0 and complain of nothing."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PRELUDE + body],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stderr}"
    assert done.stderr == ""
    return done.stdout


def test_the_process_may_end_while_programs_run() -> None:
    body = """
y = slow(jnp.float32(1))
waiting = [double(x) for _ in range(8)]
z = double(y)
print(z.is_ready())
"""
    assert script(body) == "False\n"


def test_the_process_may_end_while_a_gpu_works() -> None:
    body = """
try:
    device = xpr.devices("vulkan")[0]
except RuntimeError:
    print("False")
    sys.exit()
y = xpr.device_put(np.ones((256, 256), "float32"), device)
f = xpr.jit(lambda v: v @ v * 0.001)
f(y).block_until_ready()
for _ in range(20):
    y = f(y)
print(y.is_ready())
"""
    assert script(body) == "False\n"


def test_a_forked_child_has_the_results() -> None:
    body = """
y = double(double(x))
pid = os.fork()
who = "child" if pid == 0 else "parent"
# In one piece, as both may write at the same time.
os.write(1, f"{who} {y.is_ready()} {float(double(y)[0])}\\n".encode())
if pid == 0:
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
    assert sorted(script(body).splitlines()) == ["child True 8.0", "parent True 8.0"]


def test_waiting_can_be_interrupted() -> None:
    body = """
hold()
y = double(x)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    y.block_until_ready()
except KeyboardInterrupt:
    print("interrupted", y.is_ready())
waiting = [double(x) for _ in range(30)]
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    double(y)
except KeyboardInterrupt:
    print("interrupted")
event.set()
print(float(y[0]), float(waiting[-1][0]))
"""
    assert script(body) == "interrupted False\ninterrupted\n2.0 2.0\n"


def test_functions_see_the_settings_of_the_caller() -> None:
    seen: list[Any] = []

    def look(x: Any) -> Any:
        seen.append((x.dtype, xpr.config.enable_x64, threading.current_thread().name))
        return np.asarray(x)

    with xpr.enable_x64(True), override("async_dispatch", "always"):
        shape = xpr.ShapeDtypeStruct((3,), "float64")
        f = xpr.jit(lambda x: xpr.pure_callback(look, shape, x))
        x = np.array([0.1, 0.2, 0.3])
        np.testing.assert_array_equal(np.asarray(f(x)), x)
    with override("async_dispatch", "always"):
        g = xpr.jit(lambda x: xpr.pure_callback(look, xpr.ShapeDtypeStruct((3,), "float32"), x))
        np.testing.assert_array_equal(np.asarray(g(x)), x.astype("float32"))
    assert [(d, on) for d, on, _ in seen] == [(np.float64, True), (np.float32, False)]
    assert all(name.startswith("xpr ") for *_, name in seen)
