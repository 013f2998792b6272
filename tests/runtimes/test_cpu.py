"""The CPU runtime: calls, types, results' memory, donation, threads, several devices."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

import numpy as np
import pytest

from xpr.runtimes.base import Device, ExecutableSignature
from xpr.runtimes.cpu import CpuExecutable, CpuRuntime
from xpr.runtimes.host import HostBuffer, aligned_copy

from .programs import (
    BASIC,
    DONATING,
    ELEMENTS,
    TYPES,
    compiled,
    cpu,
    f32,
    load,
    put,
    run,
    symbol,
)

V32 = f32(32)
LARGE = f32(4096)
BOTH = pytest.mark.parametrize("parallel", [False, True], ids=["local-sync", "local-task"])


def values(count: int = 32, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def basic(entry: str, inputs: Any, outputs: Any, **options: Any) -> CpuExecutable:
    return load(BASIC, entry, inputs, outputs, **options)


# ---- calls


@BOTH
def test_call(parallel: bool) -> None:
    add = basic("add", [V32, V32], [V32, V32], parallel=parallel)
    assert add.parallel is parallel
    for seed in range(3):
        a, b = values(seed=seed), values(seed=seed + 10)
        total, product = run(add, a, b)
        np.testing.assert_array_equal(total, a + b)
        np.testing.assert_array_equal(product, a * b)
        assert not total.flags.writeable


@BOTH
def test_results_are_operands_of_the_next_call(parallel: bool) -> None:
    add = basic("add", [V32, V32], [V32, V32], parallel=parallel)
    other = basic("add", [V32, V32], [V32, V32], parallel=not parallel)
    a = values()
    buffer = put(a)
    for _ in range(5):
        buffer = other([add([buffer, put(a)])[0], put(a)])[0]
    expected = a
    for _ in range(10):
        expected = expected + a
    np.testing.assert_array_equal(buffer.host_view(), expected)


@BOTH
@pytest.mark.parametrize("element", ELEMENTS)
def test_every_element_type(element: str, parallel: bool) -> None:
    dtype = np.dtype(ELEMENTS[element])
    double = load(
        TYPES, f"double_{symbol(element)}", [((6,), dtype)], [((12,), dtype)], parallel=parallel
    )
    source = np.random.default_rng(1).integers(0, 256, 6 * dtype.itemsize).astype(np.uint8)
    if element == "i1":
        source &= 1
    source = source.view(dtype)
    (found,) = run(double, source)
    assert found.dtype == dtype
    assert found.tobytes() == np.concatenate([source, source]).tobytes()


@BOTH
def test_empty_arrays_and_rank_0(parallel: bool) -> None:
    kinds = [f32(0, 3), f32()]
    empty, scalar = run(
        basic("empty", kinds, kinds, parallel=parallel),
        np.zeros((0, 3), np.float32),
        np.float32(1.5),
    )
    assert empty.shape == (0, 3)
    assert scalar.shape == ()
    assert scalar == np.float32(3)


@pytest.mark.parametrize("straight_line", [False, True])
def test_no_operands_and_hoisted_constants(straight_line: bool) -> None:
    constants = basic("constants", [], [f32(1000), f32(2, 4)], straight_line=straight_line)
    calls = [run(constants) for _ in range(3)]
    for iota, table in calls:
        np.testing.assert_array_equal(iota, -np.arange(1000))
        np.testing.assert_array_equal(table, np.arange(1.0, 9).reshape(2, 4))
    for i in range(3):
        for k in range(i):
            assert not np.shares_memory(calls[i][0], calls[k][0])
            assert not np.shares_memory(calls[i][1], calls[k][1])


def test_strided_and_misaligned_operands() -> None:
    negate = basic("negate", [LARGE], [LARGE])
    base = values(3 * 4096 + 1)
    for source in (base[1:4097], base[1::3], base[4096:0:-1]):
        before = source.copy()
        (found,) = run(negate, source)
        np.testing.assert_array_equal(found, -before)
        np.testing.assert_array_equal(source, before)


def test_large_programs_run_on_all_cores() -> None:
    runtime, device = cpu()
    code = compiled(BASIC)
    chosen = [
        runtime.load(code, ExecutableSignature("square", (), (), cost=cost), device).parallel
        for cost in (0.0, 1e5, 1e9)
    ]
    assert chosen[:2] == [False, False]
    assert chosen[2] is True or not _several_cores()


def _several_cores() -> bool:
    return len(os.sched_getaffinity(0)) > 1 if hasattr(os, "sched_getaffinity") else True


# ---- what is refused


def test_wrong_operands() -> None:
    add = basic("add", [V32, V32], [V32, V32])
    a = put(values())
    with pytest.raises(TypeError, match="the program takes 2 arguments, got 1"):
        add([a])
    with pytest.raises(ValueError, match="input1 shape dimension 0 mismatch; expected 32"):
        add([a, put(np.zeros(31, np.float32))])
    with pytest.raises(ValueError, match="input1 element type mismatch; expected f32"):
        add([a, put(np.zeros(32, np.int32))])
    a.delete()
    with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[32\]"):
        add([a, a])


def test_wrong_modules() -> None:
    runtime, device = cpu()
    with pytest.raises(ValueError, match="the module has no function 'nothing', only add, "):
        basic("nothing", [], [])
    with pytest.raises(ValueError, match="FlatBuffer"):
        runtime.load(b"no module" * 100, ExecutableSignature("f", (), ()), device)
    with pytest.raises(ValueError, match="FlatBuffer"):
        runtime.load(compiled(BASIC)[:4000], ExecutableSignature("f", (), ()), device)
    with pytest.raises(TypeError, match="the cpu runtime needs one of its own devices"):
        runtime.load(compiled(BASIC), ExecutableSignature("f", (), ()), Device(runtime, 0, "x"))


def test_wrong_signature() -> None:
    with pytest.raises(TypeError, match=r"promises float32\[64\] as result 0, the module returns"):
        run(basic("add", [V32, V32], [f32(64), V32]), values(), values())
    kind = ((32,), np.dtype(np.float64))
    with pytest.raises(TypeError, match=r"promises float64\[32\] as result 1, .* in 128 bytes"):
        run(basic("add", [V32, V32], [V32, kind]), values(), values())


# ---- every result has memory of its own


@pytest.mark.parametrize("straight_line", [False, True])
@pytest.mark.parametrize(("entry", "shape"), [("identity", (32,)), ("reshape", (4, 8))])
def test_results_share_nothing_with_operands(
    entry: str, shape: tuple[int, ...], straight_line: bool
) -> None:
    program = basic(entry, [V32], [f32(*shape)], straight_line=straight_line)
    for seed in range(3):
        source = put(values(seed=seed))
        (result,) = program([source])
        low, high = source.memory_span()
        assert result.memory_span()[0] >= high or result.memory_span()[1] <= low
        np.testing.assert_array_equal(result.host_view(), values(seed=seed).reshape(shape))
        assert not result.is_shared()


@pytest.mark.parametrize("straight_line", [False, True])
def test_results_share_nothing_with_each_other(straight_line: bool) -> None:
    twice = basic("twice", [V32], [V32, V32, f32(4, 8)], straight_line=straight_line)
    for seed in range(3):
        results = twice([put(values(seed=seed))])
        spans = sorted(r.memory_span() for r in results)
        assert spans[0][1] <= spans[1][0]
        assert spans[1][1] <= spans[2][0]
        for r in results:
            np.testing.assert_array_equal(r.host_view().ravel(), 2 * values(seed=seed))


def test_results_that_a_branch_takes_from_an_operand() -> None:
    branch = basic("branch", [V32, ((), np.dtype(bool))], [V32])
    repeat = basic("repeat", [V32, ((), np.dtype(np.int32))], [V32])
    source = put(values())
    for taken in (False, True, False, True):
        (result,) = branch([source, put(taken)])
        assert not np.shares_memory(result.host_view(), source.host_view())
        assert result.memory_span() != source.memory_span()
        np.testing.assert_array_equal(result.host_view(), values() * (1 if taken else 2))
    for count in (3, 0, 1, 0):
        (result,) = repeat([source, put(np.int32(count))])
        assert result.memory_span() != source.memory_span()
        np.testing.assert_array_equal(result.host_view(), values() * 2**count)


def test_results_outlive_program_and_operands() -> None:
    add = basic("add", [V32, V32], [V32, V32])
    a = put(values())
    total, product = add([a, a])
    a.delete()
    del add, a
    np.testing.assert_array_equal(total.host_view(), 2 * values())
    total.delete()
    np.testing.assert_array_equal(product.host_view(), values() ** 2)


# ---- donation


def donating(entry: str, count: int, outputs: int, donations: Any, **options: Any) -> CpuExecutable:
    kind = V32 if entry == "add" else LARGE
    return load(DONATING, entry, [kind] * count, [kind] * outputs, donations=donations, **options)


@BOTH
def test_a_donated_operand_becomes_the_result(parallel: bool) -> None:
    add = donating("add_large", 2, 1, [(0, 0)], parallel=parallel)
    other = values(4096, 1)
    # The first donation copies NumPy's memory into IREE's; from then on it stays where it is.
    (buffer,) = add([HostBuffer(aligned_copy(values(4096)), cpu()[1]), put(other)])
    expected = values(4096) + other
    span = buffer.memory_span()
    for _ in range(4):
        operand = buffer
        (buffer,) = add([operand, put(other)])
        assert operand.is_deleted()
        with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[4096"):
            operand.host_view()
        expected = expected + other
        assert buffer.memory_span() == span, "the memory was not used again"
        np.testing.assert_array_equal(np.array(buffer.host_view()), expected)


@BOTH
def test_donation_changes_nothing_that_others_see(parallel: bool) -> None:
    for entry, count in (("add", 32), ("add_large", 4096)):
        add = donating(entry, 2, 1, [(0, 0)], parallel=parallel)
        mine = aligned_copy(values(count))
        exported = HostBuffer(aligned_copy(values(count)), cpu()[1])
        seen = exported.host_view()
        exported.hal_view()
        part = HostBuffer(aligned_copy(values(count)), cpu()[1])
        part.hal_view()
        tail = part.host_view()[count - 3 :]
        for operand in (put(mine), exported, part):
            (result,) = add([operand, put(np.ones(count, np.float32))])
            assert operand.is_deleted()
            np.testing.assert_array_equal(result.host_view(), values(count) + 1)
        np.testing.assert_array_equal(mine, values(count))
        np.testing.assert_array_equal(seen, values(count))
        np.testing.assert_array_equal(tail, values(count)[-3:])


@pytest.mark.parametrize("whole", [True, False])
def test_donation_of_results_that_others_see(whole: bool) -> None:
    produce = basic("negate", [LARGE], [LARGE])
    add = donating("add_large", 2, 1, [(0, 0)])
    (first,) = produce([put(values(4096))])
    span = first.memory_span()
    seen = first.host_view()
    if not whole:
        seen = seen[5:10]
    (second,) = add([first, put(np.ones(4096, np.float32))])
    np.testing.assert_array_equal(seen, -values(4096)[slice(None) if whole else slice(5, 10)])
    np.testing.assert_array_equal(second.host_view(), 1 - values(4096))
    assert second.memory_span() != span


def test_donation_of_results_that_nobody_sees_any_more() -> None:
    produce = basic("negate", [LARGE], [LARGE])
    add = donating("add_large", 2, 1, [(0, 0)])
    (first,) = produce([put(values(4096))])
    span = first.memory_span()
    assert first.host_view().sum() == np.float32(-values(4096)).sum()
    (second,) = add([first, put(np.ones(4096, np.float32))])
    assert second.memory_span() == span
    np.testing.assert_array_equal(second.host_view(), 1 - values(4096))


@BOTH
def test_donated_operands_are_updated_in_place(parallel: bool) -> None:
    update = load(DONATING, "update", [LARGE, V32], [LARGE], donations=[(0, 0)], parallel=parallel)
    expected = values(4096)
    expected[100:132] = values(32, 1)
    buffer = HostBuffer(aligned_copy(values(4096)), cpu()[1])
    buffer.hal_view()  # imported memory, which IREE would refuse to update
    (first,) = update([buffer, put(values(32, 1))])
    span = first.memory_span()
    (second,) = update([first, put(values(32, 1))])
    assert second.memory_span() == span
    np.testing.assert_array_equal(second.host_view(), expected)


def test_two_donations_at_once() -> None:
    both = donating("both", 2, 2, [(0, 1), (1, 0)])
    a, b = values(4096, 3), values(4096, 4)
    operands = [HostBuffer(aligned_copy(a), cpu()[1]), HostBuffer(aligned_copy(b), cpu()[1])]
    total, product = both(operands)
    np.testing.assert_array_equal(total.host_view(), a + b)
    np.testing.assert_array_equal(product.host_view(), a * b)
    assert [o.is_deleted() for o in operands] == [True, True]


def test_the_donated_array_may_be_passed_only_once() -> None:
    add = donating("add", 2, 1, [(0, 0)])
    a = put(values())
    with pytest.raises(RuntimeError, match="arguments 0 and 1 are the same array"):
        add([a, a])
    np.testing.assert_array_equal(a.host_view(), values())


def test_donated_operands_are_gone_after_a_failure() -> None:
    add = donating("add", 2, 1, [(0, 0)])
    a = put(values())
    with pytest.raises(ValueError, match="input1 shape"):
        add([a, put(np.zeros(5, np.float32))])
    assert a.is_deleted()


# ---- threads and devices


@BOTH
def test_sixteen_threads_call_the_same_programs(parallel: bool) -> None:
    add = basic("add", [V32, V32], [V32, V32], parallel=parallel, straight_line=True)
    repeat = basic("repeat", [V32, ((), np.dtype(np.int32))], [V32], parallel=parallel)
    square = basic("square", [f32(64, 64)], [f32(64, 64)], parallel=parallel)
    give = donating("add_large", 2, 1, [(0, 0)], parallel=parallel)
    shared = put(values(seed=99))
    wrong: list[str] = []
    start = threading.Barrier(16)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        start.wait()
        for _ in range(20 if parallel else 150):
            a = rng.standard_normal(32).astype(np.float32)
            m = rng.integers(-3, 4, (64, 64)).astype(np.float32)
            g = rng.standard_normal(4096).astype(np.float32)
            total, product = (r.host_view() for r in add([put(a), shared]))
            if not (total == a + values(seed=99)).all():
                wrong.append("add")
            if not (product == a * values(seed=99)).all():
                wrong.append("multiply")
            if not (run(repeat, a, np.int32(seed % 4))[0] == a * 2 ** (seed % 4)).all():
                wrong.append("repeat")
            if not (run(square, m)[0] == m @ m).all():
                wrong.append("square")
            if not (run(give, g, g.copy())[0] == g + g).all():
                wrong.append("give")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_several_devices_at_once() -> None:
    runtime = CpuRuntime(4)
    assert [d.id for d in runtime.devices()] == [0, 1, 2, 3]
    programs = [basic("add", [V32, V32], [V32, V32], device=d) for d in runtime.devices()]
    wrong: list[int] = []

    def work(i: int) -> None:
        a = values(seed=i)
        buffer = HostBuffer(a, runtime.devices()[i])
        for _ in range(100):
            results = programs[i]([buffer, buffer])
            if results[0].device is not runtime.devices()[i]:
                wrong.append(i)
            if not (results[0].host_view() == a + a).all():
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_buffer_from_host() -> None:
    runtime, device = cpu()
    source = values(5000)
    copied = runtime.buffer_from_host(source, device, copy=True)
    shared = runtime.buffer_from_host(source, device, copy=False)
    assert np.shares_memory(shared.host_view(), source)
    source[:] = 0
    np.testing.assert_array_equal(copied.host_view(), values(5000))
    assert copied.memory_span()[0] % 64 == 0
    strided = runtime.buffer_from_host(values(100)[::3], device, copy=True)
    assert strided.host_view().flags.c_contiguous
    runtime.synchronize(device)


def test_memory_stats() -> None:
    _, device = cpu()
    negate = basic("negate", [LARGE], [LARGE])
    operand = put(values(4096))
    negate([operand])

    def used() -> int:
        gc.collect()
        return device.memory_stats()["bytes_in_use"]

    start = used()
    for _ in range(5):
        before = used()
        results = [negate([operand])[0] for _ in range(10)]
        assert used() - before >= len(results) * LARGE[0][0] * 4
        del results
    assert used() - start < 10 * LARGE[0][0] * 4, "results are never freed"
    assert device.memory_stats()["bytes_limit"] > 2**28
