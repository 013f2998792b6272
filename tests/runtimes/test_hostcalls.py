"""Programs that call functions of this process."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xpr.runtimes.base import HostCall
from xpr.runtimes.cpu import CpuExecutable
from xpr.runtimes.host import HostBuffer, aligned_empty
from xpr.runtimes.hostcalls import HostCallError

from .programs import CALLING, cpu, f32, load, put, run

H = f32(100)
FLAGS = ((3,), np.dtype(bool))
HALF = ((), np.dtype(ml_dtypes.bfloat16))
BOTH = pytest.mark.parametrize("parallel", [False, True], ids=["local-sync", "local-task"])


def values(seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(100).astype(np.float32)


def unexpected(*_: Any) -> Any:
    raise AssertionError("this function is not part of the program under test")


def calls(**functions: Callable[..., Any]) -> tuple[HostCall, ...]:
    """All host calls of the module; those not given must not be reached."""
    return (
        HostCall("sort", functions.get("sort", unexpected), (H,), (H,)),
        HostCall("split", functions.get("split", unexpected), (H, FLAGS), (H, HALF)),
        HostCall("tell", functions.get("tell", unexpected), (H,), ()),
        HostCall("make", functions.get("make", unexpected), (), (H,)),
    )


def sorter(function: Callable[..., Any], parallel: bool = False, **options: Any) -> CpuExecutable:
    return load(
        CALLING, "sort", [H], [H], host_calls=calls(sort=function), parallel=parallel, **options
    )


@BOTH
def test_one_operand_and_one_result(parallel: bool) -> None:
    seen: list[bool] = []

    def sort(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        seen.append(a.flags.writeable)
        return np.sort(a)

    program = sorter(sort, parallel)
    for seed in range(3):
        np.testing.assert_array_equal(run(program, values(seed))[0], 2 * np.sort(values(seed)))
    assert seen == [False] * 3


@BOTH
def test_a_function_may_change_a_copy_in_place(parallel: bool) -> None:
    def sort(a: np.ndarray[Any, Any]) -> None:
        assert a.flags.writeable
        a.sort()
        if a[0] > 0:
            raise ValueError("no negative number")

    in_place = (HostCall("sort", sort, (H,), (H,), in_place=True), *calls()[1:])
    program = load(CALLING, "sort", [H], [H], host_calls=in_place, parallel=parallel)
    for seed in range(3):
        operand = values(seed)
        np.testing.assert_array_equal(run(program, operand)[0], 2 * np.sort(values(seed)))
        np.testing.assert_array_equal(operand, values(seed))
    with pytest.raises(ValueError, match="no negative number"):
        run(program, np.abs(values()))


L, TWO = f32(5000), f32(2)
FILLED = """
func.func private @xpr.fill(tensor<5000xf32>) -> (tensor<5000xf32>, tensor<2xf32>, tensor<0xf32>)
func.func public @fill(%a: tensor<5000xf32>) -> (tensor<5000xf32>, tensor<2xf32>, tensor<0xf32>) {
  %i = stablehlo.constant dense<100> : tensor<i32>
  %0:3 = func.call @xpr.fill(%a)
    : (tensor<5000xf32>) -> (tensor<5000xf32>, tensor<2xf32>, tensor<0xf32>)
  %1 = stablehlo.dynamic_update_slice %0#0, %0#1, %i
    : (tensor<5000xf32>, tensor<2xf32>, tensor<i32>) -> tensor<5000xf32>
  return %1, %0#1, %0#2 : tensor<5000xf32>, tensor<2xf32>, tensor<0xf32>
}
"""


@BOTH
def test_a_function_may_write_its_results_where_they_go(parallel: bool) -> None:
    """The program may update such a result in place, which memory of NumPy's would not allow."""

    def fill(a: np.ndarray[Any, Any], out: list[np.ndarray[Any, Any]]) -> None:
        assert [(x.shape, x.dtype) for x in out] == [L, TWO, f32(0)]
        assert all(x.flags.writeable and x.flags.c_contiguous for x in out)
        assert out[0].__array_interface__["data"][0] % 64 == 0
        np.add(a, 1, out=out[0])
        out[1][:] = a[:2]
        if np.isnan(a[0]):
            raise ValueError("not a number")

    call = HostCall("fill", fill, (L,), (L, TWO, f32(0)), out=True)
    outputs = [L, TWO, f32(0)]
    program = load(FILLED, "fill", [L], outputs, host_calls=(call,), parallel=parallel)
    for seed in range(3):
        a = np.random.default_rng(seed).standard_normal(5000).astype(np.float32)
        expected = a + 1
        expected[100:102] = a[:2]
        long, two, none = run(program, a)
        np.testing.assert_array_equal(long, expected)
        np.testing.assert_array_equal(two, a[:2])
        assert none.shape == (0,)
    with pytest.raises(ValueError, match="not a number"):
        run(program, np.full(5000, np.nan, np.float32))


@BOTH
def test_several_operands_and_results(parallel: bool) -> None:
    told: list[np.ndarray[Any, Any]] = []

    def split(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> tuple[Any, Any]:
        assert b.dtype == bool
        return a[::-1], np.asarray(b.sum(), ml_dtypes.bfloat16)

    program = load(
        CALLING,
        "split",
        [H, FLAGS],
        [H, HALF],
        host_calls=calls(split=split, tell=lambda a: told.append(a.copy())),
        parallel=parallel,
    )
    reverse, count = run(program, values(), np.array([True, False, True]))
    np.testing.assert_array_equal(reverse, 2 * values()[::-1])
    assert count.dtype == ml_dtypes.bfloat16
    assert count == 2
    np.testing.assert_array_equal(told, [2 * values()])


def test_a_result_may_be_the_operand() -> None:
    program = sorter(lambda a: a)
    source = put(values())
    (result,) = program([source])
    np.testing.assert_array_equal(result.host_view(), 2 * values())
    np.testing.assert_array_equal(source.host_view(), values())


@pytest.mark.parametrize("aligned", [False, True])
def test_the_program_never_writes_to_an_array_that_the_function_keeps(aligned: bool) -> None:
    kept = aligned_empty((100,), np.float32) if aligned else np.empty(100, np.float32)
    kept[:] = values(5)
    make = load(CALLING, "make", [H], [H, H], host_calls=calls(make=lambda: kept))
    for _ in range(3):
        first, second = run(make, values())
        np.testing.assert_array_equal(first, values(5))
        np.testing.assert_array_equal(second, values(5) + values())
        assert not np.shares_memory(first, kept)
    np.testing.assert_array_equal(kept, values(5))


class Refused(Exception):
    """An exception that only these tests know."""


@BOTH
def test_exceptions_pass_through(parallel: bool) -> None:
    cause = KeyError("cause")

    def fail(_: Any) -> Any:
        raise Refused("not today") from cause

    program = sorter(fail, parallel)
    for _ in range(3):
        with pytest.raises(Refused, match="not today") as caught:
            run(program, values())
        assert caught.value.__cause__ is cause
        assert "fail" in [entry.name for entry in caught.traceback]
    np.testing.assert_array_equal(
        run(sorter(np.sort, parallel), values())[0], 2 * np.sort(values())
    )


def test_interrupts_pass_through() -> None:
    def interrupt(_: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(sorter(interrupt), values())


def test_a_function_recovers_after_a_failure() -> None:
    failing = [True]

    def sort(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if failing[0]:
            raise Refused("once")
        return np.sort(a)

    program = sorter(sort)
    with pytest.raises(Refused, match="once"):
        run(program, values())
    failing[0] = False
    np.testing.assert_array_equal(run(program, values())[0], 2 * np.sort(values()))


@pytest.mark.parametrize(
    ("result", "got"),
    [
        (np.zeros(3, np.float32), r"float32\[3\]"),
        (np.zeros(100), r"float64\[100\]"),
        (1, r"int64\[\]"),
    ],
)
def test_results_of_another_type(result: Any, got: str) -> None:
    with pytest.raises(
        HostCallError,
        match=rf"host call sort must return float32\[100\] as result 0, got {got}",
    ):
        run(sorter(lambda _: result), values())


def test_another_number_of_results() -> None:
    for result, got in (((1, 2), "2"), ([], "0"), (None, r"object\[\]")):
        with pytest.raises(HostCallError, match=rf"host call sort must return .*got {got}"):
            run(sorter(lambda _, result=result: result), values())


def test_symbols_must_differ() -> None:
    with pytest.raises(ValueError, match="host calls need distinct symbols, got sort, sort"):
        load(CALLING, "sort", [H], [H], host_calls=(calls()[0], calls()[0]))


def test_a_program_without_its_functions_does_not_load() -> None:
    with pytest.raises(Exception, match="xpr"):
        load(CALLING, "sort", [H], [H])


@BOTH
def test_a_function_may_call_the_same_program(parallel: bool) -> None:
    depth = [0]

    def sort(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if depth[0] == 3:
            return np.sort(a)
        depth[0] += 1
        return program([HostBuffer(np.array(a), cpu()[1])])[0].host_view()

    program = sorter(sort, parallel)
    np.testing.assert_array_equal(run(program, values())[0], 16 * np.sort(values()))


@BOTH
def test_threads_meet_inside_a_function(parallel: bool) -> None:
    meeting = threading.Barrier(4)

    def sort(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        meeting.wait(timeout=20)
        return np.sort(a)

    program = sorter(sort, parallel)
    found: dict[int, np.ndarray[Any, Any]] = {}
    threads = [
        threading.Thread(target=lambda i=i: found.update({i: run(program, values(i))[0]}))
        for i in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(4):
        np.testing.assert_array_equal(found[i], 2 * np.sort(values(i)))


def test_each_thread_gets_its_own_exception() -> None:
    meeting = threading.Barrier(4)

    def sort(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        meeting.wait(timeout=20)
        if a[0] != 0:
            raise Refused(str(int(a[0])))
        return np.array(a)

    program = sorter(sort)
    caught: dict[int, str] = {}

    def work(i: int) -> None:
        try:
            run(program, np.full(100, i, np.float32))
        except Refused as error:
            caught[i] = str(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert caught == {1: "1", 2: "2", 3: "3"}


def test_donation_together_with_a_function() -> None:
    def fail(_: Any) -> Any:
        raise Refused("late")

    program = load(CALLING, "give", [H], [H], donations=[(0, 0)], host_calls=calls(sort=np.sort))
    operand = put(values())
    np.testing.assert_array_equal(program([operand])[0].host_view(), 2 * np.sort(values()))
    assert operand.is_deleted()
    failing = load(CALLING, "give", [H], [H], donations=[(0, 0)], host_calls=calls(sort=fail))
    operand = put(values())
    with pytest.raises(Refused, match="late"):
        failing([operand])
    assert operand.is_deleted()


class Sorter:
    """A function that can be watched by a weak reference."""

    def __call__(self, a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.sort(a)


@BOTH
def test_programs_and_their_functions_are_freed(parallel: bool) -> None:
    function = Sorter()
    program = sorter(function, parallel)
    watched = [weakref.ref(function), weakref.ref(program)]
    (result,) = program([put(values())])
    del function, program
    gc.collect()
    assert [w() for w in watched] == [None, None]
    np.testing.assert_array_equal(result.host_view(), 2 * np.sort(values()))
