"""The queue of a device by itself, with programs that are Python functions."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xpr.runtimes.base import (
    Buffer,
    Device,
    Executable,
    ExecutableSignature,
    HostCall,
    Runtime,
    deleted_error,
)
from xpr.runtimes.queue import DeviceQueue, PendingBuffer, queue_of

from .programs import CALLING, f32, load
from .programs import put as host

F4 = ((4,), np.dtype(np.float32))


class PlainBuffer(Buffer):
    """The least that a runtime of somebody else may offer."""

    def __init__(self, array: np.ndarray[Any, Any], device: Device) -> None:
        self.array: np.ndarray[Any, Any] | None = array
        self.device = device

    @property
    def shape(self) -> tuple[int, ...]:
        return F4[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        return F4[1]

    def host_view(self) -> np.ndarray[Any, Any]:
        if self.array is None:
            raise deleted_error(F4)
        return self.array

    def is_deleted(self) -> bool:
        return self.array is None

    def delete(self) -> None:
        self.array = None

    def block_until_ready(self) -> None:
        self.host_view()

    def memory_span(self) -> tuple[int, int]:
        return np.lib.array_utils.byte_bounds(self.host_view())


class PlainRuntime(Runtime):
    name = platform = target = "plain"

    def devices(self) -> tuple[Device, ...]:
        return ()

    def buffer_from_host(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool
    ) -> PlainBuffer:
        return PlainBuffer(array.copy() if copy else array, device)

    def load(self, program: Any, signature: ExecutableSignature, device: Device) -> Program:
        return Program(program, signature, device)


class Program(Executable):
    def __init__(
        self, function: Callable[..., Any], signature: ExecutableSignature, device: Device
    ) -> None:
        self.function = function
        self.signature = signature
        self.device = device

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        found = self.function(*(b.host_view() for b in buffers))
        return [PlainBuffer(found, self.device)]


@pytest.fixture
def device() -> Device:
    return Device(PlainRuntime(), 0, "plain")


def put(device: Device, *values: float) -> PlainBuffer:
    return PlainBuffer(np.array(values, "float32"), device)


def program(device: Device, function: Callable[..., Any], **options: Any) -> Program:
    signature = ExecutableSignature("main", (F4,), (F4,), **options)
    return Program(function, signature, device)


def hold(queue: DeviceQueue) -> threading.Event:
    """Stops the queue until the event is set."""
    event = threading.Event()

    def wait() -> tuple[()]:
        assert event.wait(60)
        return ()

    queue.call(wait)
    return event


def test_programs_run_in_order(device: Device) -> None:
    queue = queue_of(device)
    assert queue_of(device) is queue
    event = hold(queue)
    seen: list[int] = []

    def step(k: int) -> Callable[..., Any]:
        return lambda a: (seen.append(k), a + k)[1]

    x: Any = put(device, 0, 0, 0, 0)
    for k in range(10):
        (x,) = queue.submit(program(device, step(k)), [x], None)
    assert isinstance(x, PendingBuffer)
    assert not x.is_ready()
    assert (x.shape, x.dtype, x.nbytes, x.device) == ((4,), np.float32, 16, device)
    event.set()
    np.testing.assert_array_equal(x.host_view(), [45] * 4)
    assert seen == list(range(10))
    device.runtime.synchronize(device)
    assert queue.is_idle


def test_operands_are_held_and_donated_ones_taken(device: Device) -> None:
    queue = queue_of(device)
    event = hold(queue)
    x = put(device, 1, 2, 3, 4)
    (y,) = queue.submit(program(device, lambda a: a * 2), [x], None)
    x.delete()
    w = put(device, 1, 2, 3, 4)
    (z,) = queue.submit(program(device, lambda a: a * 3, donations=((0, 0),)), [w], None)
    assert w.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        queue.submit(program(device, lambda a: a), [w], None)
    event.set()
    np.testing.assert_array_equal(y.host_view(), [2, 4, 6, 8])
    np.testing.assert_array_equal(z.host_view(), [3, 6, 9, 12])


def test_nothing_is_kept_that_nobody_needs(device: Device) -> None:
    queue = queue_of(device)
    event = hold(queue)
    array = np.ones(4, "float32")
    (y,) = queue.submit(program(device, lambda a: a + 1), [PlainBuffer(array, device)], None)
    (z,) = queue.submit(program(device, lambda a: a + 1), [y], None)
    operand = weakref.ref(array)
    del array
    y.delete()
    event.set()
    np.testing.assert_array_equal(z.host_view(), [3] * 4)
    queue.drain()
    gc.collect()
    assert operand() is None


def test_an_error_goes_to_all_that_need_the_result(device: Device) -> None:
    queue = queue_of(device)

    def fail(a: Any) -> Any:
        raise KeyboardInterrupt("in the program")

    (y,) = queue.submit(program(device, fail), [put(device, 1, 2, 3, 4)], "this line")
    (z,) = queue.submit(program(device, lambda a: a), [y], "that line")
    for buffer in (y, z, z, y):
        with pytest.raises(KeyboardInterrupt, match="in the program") as caught:
            buffer.host_view()
        assert caught.value.__notes__ == [
            "The program was called at this line; it failed when it was run."
        ]
    assert y.is_ready()
    assert "ready" in repr(y)


def test_wrong_numbers_of_results_do_not_stop_the_queue(device: Device) -> None:
    queue = queue_of(device)
    two = ExecutableSignature("main", (F4,), (F4, F4))
    x = put(device, 1, 2, 3, 4)
    first, second = queue.submit(Program(lambda a: a, two, device), [x], None)
    for buffer in (first, second):
        with pytest.raises(ValueError, match="zip"):
            buffer.host_view()
    (y,) = queue.submit(program(device, lambda a: -a), [x], None)
    np.testing.assert_array_equal(y.host_view(), [-1, -2, -3, -4])


def test_the_same_array_cannot_be_donated_and_read(device: Device) -> None:
    x = put(device, 1, 2, 3, 4)
    both = ExecutableSignature("main", (F4, F4), (F4,), donations=((1, 0),))
    with pytest.raises(RuntimeError, match="donated in the same call: arguments 1 and 0"):
        queue_of(device).submit(Program(lambda a, b: a + b, both, device), [x, x], None)
    assert not x.is_deleted()


def test_at_the_end_only_what_has_effects_is_awaited(device: Device) -> None:
    queue = queue_of(device)
    event = hold(queue)
    x = put(device, 1, 2, 3, 4)
    kept: list[Any] = []
    call = HostCall("tell", print, (), ())
    with_effects = program(device, lambda a: (kept.append(1), a)[1], host_calls=(call,))
    queue.submit(with_effects, [x], None)
    (dropped,) = queue.submit(program(device, lambda a: (kept.append(2), a)[1]), [x], None)
    threading.Timer(0.05, event.set).start()
    queue.finish()
    assert kept == [1]
    with pytest.raises(RuntimeError, match="the process ended"):
        dropped.host_view()
    (now,) = queue.submit(program(device, lambda a: a + 1), [x], None)
    np.testing.assert_array_equal(now.host_view(), [2, 3, 4, 5])


def test_what_a_function_of_this_process_raises() -> None:
    kind = f32(100)

    def sort(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if a[0] < 0:
            raise ZeroDivisionError("below zero")
        return np.sort(a)

    def unused(*_: Any) -> Any:
        raise AssertionError("not part of the program")

    flags, half = ((3,), np.dtype(bool)), ((), np.dtype(ml_dtypes.bfloat16))
    calls = (
        HostCall("sort", sort, (kind,), (kind,)),
        HostCall("split", unused, (kind, flags), (kind, half)),
        HostCall("tell", unused, (kind,), ()),
        HostCall("make", unused, (), (kind,)),
    )
    sorter = load(CALLING, "sort", [kind], [kind], host_calls=calls)
    queue = queue_of(sorter.device)
    event = hold(queue)
    good, bad = np.arange(100, 0, -1, dtype="float32"), np.full(100, -1, "float32")
    (first,) = queue.submit(sorter, [host(good)], "line 1")
    (second,) = queue.submit(sorter, [host(bad)], "line 2")
    (third,) = queue.submit(sorter, [second], "line 3")
    event.set()
    np.testing.assert_array_equal(first.host_view(), 2 * np.sort(good))
    for buffer in (second, third):
        with pytest.raises(ZeroDivisionError, match="below zero") as caught:
            buffer.hal_view()
        assert "called at line 2" in caught.value.__notes__[0]
        assert [e.name for e in caught.traceback][-1] == "sort"
