"""Collectives between threads, against loops over the ranks; and that no error makes a run hang."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xpr.runtimes.collectives import (
    Collective,
    CollectiveError,
    PeerError,
    perform,
    perform_for_all,
    run_together,
    taking_part,
)
from xpr.runtimes.collectives.threads import Rendezvous
from xpr.runtimes.collectives.workers import run_on_each

Array = np.ndarray[Any, Any]
ALL = ((0, 1, 2, 3),)
PAIRS = ((0, 2), (3, 1))
ROWS = ((0, 1), (2, 3))
COLUMNS = ((0, 2), (1, 3))

FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
SMALL_FLOATS = [
    getattr(ml_dtypes, name)
    for name in (
        "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e4m3 float8_e3m4 "
        "float8_e4m3b11fnuz float8_e8m0fnu float4_e2m1fn"
    ).split()
]
COMPLEX = [np.complex64, np.complex128]
INTS = [np.dtype(f"{u}int{n}") for u in ("", "u") for n in (8, 16, 32, 64)]
SMALL_INTS = [ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4]
DTYPES = [np.dtype(t) for t in [*FLOATS, *SMALL_FLOATS, *COMPLEX, *INTS, *SMALL_INTS, np.bool_]]


def data(shape: tuple[int, ...], dtype: Any, seed: int) -> Array:
    """Values of every dtype, some of which overflow when they are added."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if dtype in INTS:
        bits = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
        return bits.view(dtype).reshape(shape)
    if dtype in [np.dtype(t) for t in SMALL_INTS]:
        low = ml_dtypes.iinfo(dtype).min
        return np.asarray(rng.integers(low, ml_dtypes.iinfo(dtype).max + 1, shape)).astype(dtype)
    x = np.asarray(rng.standard_normal(shape))
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def same(found: Array, expected: Array, op: str = "") -> None:
    """The same dtype, shape and bits."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if op == "prod" and found.dtype.kind == "c":
        # NumPy's products of complex numbers differ in rounding between scalars and arrays: each
        # of three products has an error of four roundings at most.
        np.testing.assert_allclose(found, expected, rtol=12 * np.finfo(found.dtype).eps)
        return
    np.testing.assert_array_equal(bits(found), bits(expected))


def bits(x: Array) -> Array:
    return np.frombuffer(x.tobytes(), np.uint8)


def run(collective: Collective, inputs: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The results of each rank for one collective."""
    parts = [lambda xs=xs: perform(collective, xs) for xs in inputs]
    return run_together(parts, timeout=30)


# ---- what each kind means, as loops over the ranks


def combined(op: str, xs: Sequence[Array]) -> Array:
    """The operands combined in order; narrow types as wider ones, rounded once."""
    narrow = xs[0].dtype
    wide = narrow
    if narrow == np.float16 or narrow.name.startswith(("bfloat", "float8", "float4")):
        wide = np.dtype(np.float32)
    elif narrow.name in ("int2", "int4", "uint2", "uint4"):
        wide = np.dtype(np.int64)
    binary: dict[str, Callable[[Any, Any], Any]] = {
        "sum": lambda a, b: a + b,
        "prod": lambda a, b: a * b,
        "max": np.maximum,
        "min": np.minimum,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
    }
    total = xs[0].astype(wide)
    for x in xs[1:]:
        total = np.asarray(binary[op](total, x.astype(wide)))
    return total.astype(narrow)


def expected(c: Collective, rank: int, xs: Sequence[Array]) -> Array:
    group = next(g for g in c.groups if rank in g)
    mine, n = group.index(rank), len(group)
    members = [xs[r] for r in group]
    if c.kind == "all_reduce":
        return combined(c.op, members)
    if c.kind == "reduce_scatter":
        return np.ascontiguousarray(np.split(combined(c.op, members), n, c.axis)[mine])
    if c.kind == "all_gather":
        return np.concatenate(members, c.axis)
    if c.kind == "all_to_all":
        return np.concatenate([np.split(x, n, c.axis)[mine] for x in members], c.concat_axis)
    sender = {d: s for s, d in c.pairs}
    return xs[sender[rank]] if rank in sender else np.zeros_like(xs[rank])


def check(c: Collective, shapes: Sequence[tuple[int, ...]], dtype: Any, seed: int = 0) -> None:
    """One meeting for arrays of all shapes; every rank gets what the loop says."""
    inputs = [[data(s, dtype, seed + 10 * r + i) for i, s in enumerate(shapes)] for r in range(4)]
    before = [[bits(x) for x in xs] for xs in inputs]
    outputs = run(c, inputs)
    for rank, alone in enumerate(perform_for_all(c, inputs)):
        for found, other in zip(alone, outputs[rank], strict=True):
            same(found, other, c.op)
            assert not any(np.shares_memory(found, x) for xs in inputs for x in xs)
    for rank, results in enumerate(outputs):
        assert [(x.shape, x.dtype) for x in results] == c.out_types(
            [(s, np.dtype(dtype)) for s in shapes]
        )
        for i, result in enumerate(results):
            same(result, expected(c, rank, [xs[i] for xs in inputs]), c.op)
            assert result.flags.writeable
            assert not any(np.shares_memory(result, x) for xs in inputs for x in xs)
    for xs, kept in zip(inputs, before, strict=True):
        for x, k in zip(xs, kept, strict=True):
            np.testing.assert_array_equal(bits(x), k)


def ops_of(dtype: np.dtype[Any]) -> list[str]:
    found = [] if dtype == np.bool_ else ["sum", "prod"]
    if dtype.kind != "c":
        found += ["max", "min"]
    return found + (["and", "or", "xor"] if dtype.kind in "iub" or "int" in dtype.name else [])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.name)
@pytest.mark.filterwarnings("ignore:(overflow|invalid value|underflow) encountered")
def test_reductions(dtype: np.dtype[Any]) -> None:
    for seed, op in enumerate(ops_of(dtype)):
        check(Collective("all_reduce", ALL, op), [(3, 5), (), (0,)], dtype, seed)
        check(Collective("reduce_scatter", ALL, op, axis=1), [(3, 8, 2), (2, 0)], dtype, seed)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.name)
def test_moves(dtype: np.dtype[Any]) -> None:
    check(Collective("all_gather", ALL, axis=1), [(3, 5), (2, 0, 3), (1, 1)], dtype)
    check(Collective("all_to_all", ALL, axis=0, concat_axis=1), [(4, 3), (8, 2, 3)], dtype)
    check(Collective("permute", ALL, pairs=PAIRS), [(3,), (), (0, 2)], dtype)


@pytest.mark.parametrize("groups", [ROWS, COLUMNS, ((3, 1), (2, 0)), ((0,), (1,), (2,), (3,))])
def test_groups(groups: tuple[tuple[int, ...], ...]) -> None:
    check(Collective("all_reduce", groups, "sum"), [(3, 5)], np.float32)
    check(Collective("all_gather", groups, axis=0), [(3, 5)], np.float32)
    check(Collective("reduce_scatter", groups, "max", axis=0), [(4, 5)], np.float32)
    for split, concat in ((0, 0), (0, 1), (1, 0), (2, 1)):
        c = Collective("all_to_all", groups, axis=split, concat_axis=concat)
        check(c, [(4, 2, 6)], np.int32)


def test_groups_of_several_sizes() -> None:
    check(Collective("all_reduce", ((2,), (3, 0, 1)), "sum"), [(5,)], np.float64)
    with pytest.raises(ValueError, match="needs groups of equal size"):
        Collective("all_gather", ((2,), (3, 0, 1)))


@pytest.mark.parametrize("shape", [(300_001,), (4, 100_000), (40, 4, 1001), (100_000, 4)])
def test_large_arrays_are_cut_into_pieces(shape: tuple[int, ...]) -> None:
    check(Collective("all_reduce", ALL, "sum"), [shape], np.float32)
    check(Collective("all_reduce", ROWS, "sum"), [shape], ml_dtypes.bfloat16)
    last = len(shape) - 1
    check(Collective("all_gather", ALL, axis=last), [shape], np.float32)
    if len(shape) > 1:
        axis = shape.index(4)
        check(Collective("reduce_scatter", ALL, "sum", axis=axis), [shape], np.float32)
        check(Collective("all_to_all", ALL, axis=axis, concat_axis=last), [shape], np.int16)
    check(Collective("permute", ALL, pairs=PAIRS), [shape], np.float64)


def test_strided_operands() -> None:
    inputs = [[data((6, 4), np.float32, r).T[::2]] for r in range(4)]
    for rank, results in enumerate(run(Collective("all_gather", ALL, axis=1), inputs)):
        same(results[0], np.concatenate([xs[0] for xs in inputs], 1))
        assert rank < 4


def test_nan_and_signed_zeros() -> None:
    rows = [[np.nan, -0.0, np.inf], [1.0, -0.0, -np.inf], [2.0, -0.0, 0.0], [-1.0, -0.0, 1.0]]
    inputs = [[np.array(r, np.float32)] for r in rows]
    for op in ("max", "min", "sum"):
        for results in run(Collective("all_reduce", ALL, op), inputs):
            assert np.isnan(results[0][0])
            assert np.signbit(results[0][1])
            expected = {"max": np.inf, "min": -np.inf, "sum": np.nan}[op]
            np.testing.assert_equal(results[0][2], np.float32(expected))


def test_narrow_floats_are_rounded_once() -> None:
    # In bfloat16 256 + 1 is 256: only a sum in a wider type sees the three ones.
    inputs = [[np.array([v], ml_dtypes.bfloat16)] for v in (256, 1, 1, 1)]
    for results in run(Collective("all_reduce", ALL, "sum"), inputs):
        assert float(results[0][0]) == 260.0  # 259 lies between 258 and 260


def test_results_can_be_written_to_given_arrays() -> None:
    c = Collective("all_gather", ALL)
    given = [np.empty(8, np.float32) for _ in range(4)]

    def part(rank: int) -> list[Array]:
        return perform(c, [np.full(2, rank, np.float32)], out=[given[rank]])

    for rank, results in enumerate(run_together([lambda r=r: part(r) for r in range(4)])):
        assert results[0] is given[rank]
        np.testing.assert_array_equal(given[rank], [0, 0, 1, 1, 2, 2, 3, 3])
    with pytest.raises(ValueError, match=r"writes to contiguous arrays float32\[8\], got"):
        run_together(
            [lambda: perform(c, [np.zeros(2, np.float32)], out=[np.empty(4, np.float32)])] * 4
        )


# ---- what a collective refuses


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"a collective must be one of all_reduce.*got 'psum'"):
        Collective("psum", ALL)
    with pytest.raises(ValueError, match=r"all_reduce needs an op of sum.*got 'mean'"):
        Collective("all_reduce", ALL, "mean")
    with pytest.raises(ValueError, match="has rank 1 twice in its groups"):
        Collective("all_gather", ((0, 1), (1, 2)))
    with pytest.raises(ValueError, match=r"has a rank that receives twice, 1"):
        Collective("permute", ALL, pairs=((0, 1), (2, 1)))
    with pytest.raises(ValueError, match=r"has the pair \(0, 2\) in no group"):
        Collective("permute", ROWS, pairs=((0, 2),))
    f4 = np.dtype(np.float32)
    with pytest.raises(ValueError, match=r"requires axis 1 to be divisible by the 4 .*\[4,6\]"):
        Collective("reduce_scatter", ALL, "sum", axis=1).out_types([((4, 6), f4)])
    with pytest.raises(ValueError, match=r"has no axis 1 in float32\[4\]"):
        Collective("all_gather", ALL, axis=1).out_types([((4,), f4)])
    with pytest.raises(TypeError, match=r"all_reduce and number 0 is not defined for .* float32"):
        Collective("all_reduce", ALL, "and").out_types([((4,), f4)])
    with pytest.raises(TypeError, match=r"all_reduce sum number 0 is not defined for .* bool"):
        Collective("all_reduce", ALL, "sum").out_types([((4,), np.dtype(bool))])
    with pytest.raises(RuntimeError, match=r"all_reduce sum number 0 needs the other ranks"):
        perform(Collective("all_reduce", ALL, "sum"), [np.zeros(3)])


def test_one_thread_for_all_ranks_refuses_the_same() -> None:
    x, other = np.zeros(3), np.zeros(3, np.float32)
    total = Collective("all_reduce", ALL, "sum")
    with pytest.raises(CollectiveError, match=r"rank 0 is at .* float64\[3\], rank 2 at .*"):
        perform_for_all(total, [[x], [x], [other], [x]])
    with pytest.raises(ValueError, match=r"has the group \(0, 1, 2, 3\), of 2 ranks in all"):
        perform_for_all(total, [[x], [x]])
    with pytest.raises(ValueError, match=r"has no group with rank 4"):
        perform_for_all(total, [[x]] * 5)


def test_a_rank_that_the_run_or_the_collective_lacks() -> None:
    x = np.zeros(3)
    with pytest.raises(ValueError, match=r"has no group with rank 3: \(\(0, 1, 2\),\)"):
        run(Collective("all_reduce", ((0, 1, 2),), "sum"), [[x]] * 4)
    with pytest.raises(ValueError, match=r"has the group \(0, 1, 2, 3\), of 2 ranks in all"):
        run(Collective("all_reduce", ALL, "sum"), [[x]] * 2)
    with pytest.raises(ValueError, match="program runs on 4 ranks, got rank 4"):
        Rendezvous(4).participant(4)


# ---- errors reach every rank


SUM = Collective("all_reduce", ALL, "sum", number=3, source="psum over 'x' at train.py:12")
GATHER = Collective("all_gather", ALL, number=4, source="all_gather at train.py:13")


def errors_of(parts: Sequence[Callable[[], Any]], **options: Any) -> list[BaseException | None]:
    """What each rank raises, in bounded time, and that the run is broken afterwards."""
    meeting = Rendezvous(len(parts), **options)
    found: list[BaseException | None] = [None] * len(parts)

    def part(rank: int) -> None:
        try:
            with taking_part(meeting.participant(rank)):
                parts[rank]()
            meeting.leave(rank)
        except Exception as error:
            meeting.abort(rank, error)
            found[rank] = error

    start = time.monotonic()
    run_on_each([lambda r=r: part(r) for r in range(len(parts))])
    assert time.monotonic() - start < 10
    with pytest.raises(CollectiveError, match=r"train\.py:12"):
        meeting.participant(0).perform(SUM, [np.zeros(3)])
    return found


def summing(shape: tuple[int, ...] = (3,), dtype: Any = np.float64) -> Callable[[], Any]:
    return lambda: perform(SUM, [np.zeros(shape, dtype)])


MISMATCHES = {
    "another collective": (
        lambda: perform(GATHER, [np.zeros(3)]),
        r"all_gather number 4 \(all_gather at train.py:13\) of float64\[3\]",
    ),
    "another shape": (summing((4,)), r"psum over 'x' at train.py:12\) of float64\[4\]"),
    "another dtype": (summing((3,), np.int32), r"psum over 'x' at train.py:12\) of int32\[3\]"),
    "other groups": (
        lambda: perform(Collective("all_reduce", ROWS[::-1], "sum"), [np.zeros(3)]),
        r"all_reduce sum number 0 of float64\[3\]",
    ),
    "another order": (
        lambda: perform(Collective("all_reduce", ((3, 2, 1, 0),), "sum"), [np.zeros(3)]),
        r"all_reduce sum number 0 of float64\[3\]",
    ),
}


@pytest.mark.parametrize("name", MISMATCHES)
@pytest.mark.parametrize("odd", [0, 2, 3])
def test_mismatches_raise_everywhere(name: str, odd: int) -> None:
    part, description = MISMATCHES[name]
    for delay in (0.0, 0.05):  # first to come, and last

        def late(part: Callable[[], Any] = part, delay: float = delay) -> Any:
            time.sleep(delay)
            return part()

        parts = [late if r == odd else summing() for r in range(4)]
        for error in errors_of(parts, name="jit(step)"):
            assert type(error) is CollectiveError
            text = str(error)
            assert text.startswith("jit(step): rank ")
            assert "must perform the same collectives" in text
            assert "all_reduce sum number 3 (psum over 'x' at train.py:12) of float64[3]" in text
            with pytest.raises(CollectiveError, match=description):
                raise error


def test_groups_may_be_at_different_places() -> None:
    rows, columns = Collective("all_reduce", ROWS, "sum"), Collective("all_reduce", COLUMNS, "sum")

    def part(rank: int) -> float:
        x = np.array([float(rank)])
        # The first row goes through its loop twice as often as the second.
        for _ in range(200 if rank < 2 else 100):
            x = perform(rows, [x])[0] / 2
        return perform(columns, [x])[0][0]

    assert run_together([lambda r=r: part(r) for r in range(4)], timeout=30) == [3.0] * 4


def test_a_failing_rank_fails_all() -> None:
    def failing() -> None:
        raise ZeroDivisionError("bad batch")

    found = errors_of([summing(), summing(), failing, summing()], name="jit(step)")
    for rank in (0, 1, 3):
        with pytest.raises(
            PeerError,
            match=rf"jit\(step\): rank {rank} cannot perform all_reduce sum number 3 .*: rank 2 "
            "failed with ZeroDivisionError: bad batch",
        ) as caught:
            raise found[rank] or AssertionError
        assert caught.value.__cause__ is found[2]
    with pytest.raises(ZeroDivisionError, match="bad batch"):
        run_together([summing(), summing(), failing, summing()])


def test_a_rank_that_ends_early_fails_all() -> None:
    for delay in (0.0, 0.05):
        parts = [summing(), summing(), lambda delay=delay: time.sleep(delay), summing()]
        found = errors_of(parts)
        assert found.pop(2) is None
        for error in found:
            with pytest.raises(CollectiveError, match=r"rank 2 has ended, while rank . waits for "):
                raise error or AssertionError
        with pytest.raises(
            CollectiveError, match=r"rank 2 has ended, while rank . waits for it at"
        ):
            run_together(parts)


def test_waiting_has_a_limit() -> None:
    go_on = threading.Event()

    def late() -> None:
        go_on.wait(5)
        summing()()

    def stuck() -> None:
        try:
            summing()()
        finally:
            go_on.set()

    found = errors_of([summing(), stuck, late, late], timeout=0.2, name="jit(step)")
    limits = [e for e in found if isinstance(e, TimeoutError)]
    assert len(limits) == 1
    with pytest.raises(
        TimeoutError, match=r"rank . has waited 0.2 s at all_reduce sum number 3 .* for rank 2, 3"
    ):
        raise limits[0]
    assert all(
        isinstance(e, PeerError) and e.__cause__ is limits[0] for e in found if e is not limits[0]
    )


# ---- runs of threads


def test_each_function_has_a_thread_of_its_own() -> None:
    barrier = threading.Barrier(5)

    def part(i: int) -> tuple[int, int]:
        barrier.wait(10)
        return i, threading.get_ident()

    first = run_on_each([lambda i=i: part(i) for i in range(5)])
    again = run_on_each([lambda i=i: part(i) for i in range(5)])
    assert [i for i, _ in first] == list(range(5))
    assert len({t for _, t in first}) == 5
    assert first[-1][1] == threading.get_ident()
    assert first == again
    assert run_on_each([]) == []
    assert run_on_each([lambda: 7]) == [7]


def test_runs_of_several_threads_and_runs_inside_of_runs() -> None:
    def inner(rank: int) -> float:
        return float(perform(SUM, [np.array([float(rank)])])[0][0])

    def outer() -> list[list[float]]:
        def inside() -> list[float]:
            return run_together([lambda r=r: inner(r) for r in range(4)], timeout=30)

        return run_on_each([inside] * 3)

    assert run_on_each([outer] * 3) == [[[6.0] * 4] * 3] * 3


def test_many_runs() -> None:
    """A thousand runs of ten collectives, in three threads at once, without a hang."""
    collectives = [
        Collective("all_reduce", g, "sum", number=i) for i, g in enumerate([ALL, ROWS] * 5)
    ]

    def part(rank: int) -> float:
        x = np.array([float(rank)])
        for c in collectives:
            x = perform(c, [x])[0] / len(c.groups[0])
        return float(x[0])

    def runs() -> None:
        for _ in range(333):
            assert run_together([lambda r=r: part(r) for r in range(4)], timeout=60) == [1.5] * 4

    run_on_each([runs] * 3)


def process(script: str, *, timeout: float = 60, interrupt: str | None = None) -> tuple[int, str]:
    """The status and output of a process; Ctrl-C as soon as it prints the line `interrupt`."""
    child = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", PRELUDE + script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        lines = []
        if interrupt is not None:
            assert child.stdout is not None
            for line in child.stdout:
                lines.append(line)
                if line.strip() == interrupt:
                    time.sleep(0.3)
                    child.send_signal(2)
                    break
        rest, _ = child.communicate(timeout=timeout)
    finally:
        child.kill()
        child.wait()
    return child.returncode, "".join(lines) + rest


PRELUDE = """
import os, threading, time
import numpy as np
from xpr.runtimes.collectives import Collective, perform, run_together
from xpr.runtimes.collectives.workers import run_on_each

ALL = Collective("all_reduce", ((0, 1, 2, 3),), "sum")
def add(): return float(perform(ALL, [np.ones(1)])[0][0])
"""


@pytest.mark.parametrize("stuck", [0, 3])
def test_ctrl_c_ends_a_run(stuck: int) -> None:
    """Rank 3 is the main thread: once it waits for rank 0, once it is itself what keeps others."""
    status, text = process(
        f"""
ended = threading.Semaphore(0)
def part(i):
    print("go", flush=True) if i == {stuck} else None
    try:
        time.sleep(2 if {stuck} == 0 else 60) if i == {stuck} else add()
    finally:
        ended.release()
start = time.monotonic()
try:
    run_together([lambda i=i: part(i) for i in range(4)])
except KeyboardInterrupt:
    for _ in range(4):
        assert ended.acquire(timeout=5)
    print("interrupted after", time.monotonic() - start < 10)
print(run_together([add] * 4))
""",
        interrupt="go",
    )
    assert (status, text) == (0, "go\ninterrupted after True\n[4.0, 4.0, 4.0, 4.0]\n")


def test_ctrl_c_does_not_wait_for_ranks_that_compute_for_long() -> None:
    status, text = process(
        """
from xpr.runtimes.collectives import workers
workers.PATIENCE = 0.5
def part(i):
    print("go", flush=True) if i == 0 else None
    time.sleep(60) if i == 0 else add()
start = time.monotonic()
try:
    run_together([lambda i=i: part(i) for i in range(4)])
except KeyboardInterrupt:
    print("interrupted after", time.monotonic() - start < 10)
print(run_together([add] * 4))
""",
        interrupt="go",
    )
    assert (status, text) == (0, "go\ninterrupted after True\n[4.0, 4.0, 4.0, 4.0]\n")


def test_a_forked_child_has_workers_of_its_own() -> None:
    status, text = process(
        """
print(run_together([add] * 4), flush=True)
child = os.fork()
if child == 0:
    print(run_together([add] * 4), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1], run_together([add] * 4))
"""
    )
    assert (status, text) == (0, "[4.0, 4.0, 4.0, 4.0]\n" * 2 + "0 [4.0, 4.0, 4.0, 4.0]\n")


def test_the_process_may_end_in_the_middle_of_a_run() -> None:
    status, text = process(
        """
waiting = threading.Semaphore(0)
def part(i):
    waiting.release()
    time.sleep(1000) if i == 1 else add()
threading.Thread(
    target=lambda: run_together([lambda i=i: part(i) for i in range(4)]), daemon=True
).start()
for _ in range(4): waiting.acquire()
time.sleep(0.1)
start = time.monotonic()
import atexit
atexit.register(lambda: print("end", time.monotonic() - start < 5))
"""
    )
    assert (status, text) == (0, "end True\n")
