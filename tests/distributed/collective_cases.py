"""What `test_collectives.py` has each process do: collectives against loops over the ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.runtimes.test_collectives import DTYPES, bits, data, expected, same
from xpr.runtimes import processes
from xpr.runtimes.collectives import (
    Collective,
    RankPlaces,
    between,
    mpi,
    perform,
    perform_for_all,
    plans,
    run_together,
    small,
    streams,
)

Array = np.ndarray[Any, Any]
Groups = tuple[tuple[int, ...], ...]
BITWISE = ("and", "or", "xor")


def places(owners: Sequence[int], name: str = "program") -> RankPlaces:
    here = processes.current
    assert here is not None
    return RankPlaces([r for r, p in enumerate(owners) if p == here.index], owners, here, name)


@contextmanager
def ways(way: str) -> Iterator[None]:
    """Small arrays go the way of larger ones."""
    before = (plans.INLINE_BYTES, between.STREAM_BYTES, streams.PIECE_BYTES, mpi._PACK_BYTES)
    limits = (plans.DIRECT, plans.ROUND_BYTES, small.EACH)
    if way == "root":
        small.EACH = 1
    if way.startswith("rounds"):
        plans.DIRECT = 2
    if way == "rounds, blocks":
        plans.ROUND_BYTES = 0
    if way not in ("inline", "root", "rounds"):
        plans.INLINE_BYTES = 0
    if way == "pieces":
        between.STREAM_BYTES, streams.PIECE_BYTES, mpi._PACK_BYTES = 0, 24, 16
    try:
        yield
    finally:
        plans.INLINE_BYTES, between.STREAM_BYTES, streams.PIECE_BYTES, mpi._PACK_BYTES = before
        plans.DIRECT, plans.ROUND_BYTES, small.EACH = limits


def reduced_by_process(c: Collective, rank: int, xs: Sequence[Array], owners: Sequence[int]) -> Any:
    """As loops say, where each process combines its own ranks first."""
    group = next(g for g in c.groups if rank in g)
    kind = xs[0].dtype
    wide = kind
    if kind.kind in "fV" and kind.itemsize < 4 and not kind.name.startswith(("int", "uint")):
        wide = np.dtype(np.float32)
    partials = []
    for p in dict.fromkeys(owners[r] for r in group):
        partials.append(_loop(c.op, [xs[r].astype(wide) for r in group if owners[r] == p]))
    total = _loop(c.op, partials).astype(kind)
    if c.kind == "all_reduce":
        return total
    return np.ascontiguousarray(np.split(total, len(group), c.axis)[group.index(rank)])


def in_rounds(c: Collective, xs: Sequence[Array], owners: Sequence[int]) -> Array:
    """As loops say, where pairs of processes combine, then pairs of these, and so on."""
    group = next(g for g in c.groups if 0 in g)
    kind = xs[0].dtype
    is_float = kind.kind in "fV" and not kind.name.startswith(("int", "uint"))
    narrow = is_float and kind.itemsize < 4
    wide = np.dtype(np.float32) if narrow else kind
    order = dict.fromkeys(owners[r] for r in group)
    made = [_loop(c.op, [xs[r].astype(wide) for r in group if owners[r] == p]) for p in order]
    more = len(made) - (1 << (len(made).bit_length() - 1))
    made = [_loop(c.op, made[2 * i : 2 * i + 2]) for i in range(more)] + made[2 * more :]
    while len(made) > 1:
        made = [_loop(c.op, made[i : i + 2]) for i in range(0, len(made), 2)]
    return made[0].astype(kind)


def _loop(op: str, xs: Sequence[Array]) -> Array:
    ops: dict[str, Callable[[Any, Any], Any]] = {
        "sum": np.add,
        "prod": np.multiply,
        "max": np.maximum,
        "min": np.minimum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    kind = xs[0].dtype
    total = xs[0]
    for x in xs[1:]:
        if kind.name in ("int2", "int4", "uint2", "uint4"):
            total = np.asarray(ops[op](total.astype(np.int64), x.astype(np.int64))).astype(kind)
        else:
            total = np.asarray(ops[op](total, x))
    return total


def check(
    c: Collective,
    owners: Sequence[int],
    shapes: Sequence[tuple[int, ...]],
    dtype: Any,
    *,
    threads: bool = False,
) -> None:
    """One meeting for arrays of all shapes: this process's ranks get what the loops say."""
    where = places(owners, "check")
    inputs = [
        [data(s, dtype, 10 * r + i) for i, s in enumerate(shapes)] for r in range(len(owners))
    ]
    before = [[bits(x) for x in xs] for xs in inputs]
    mine = [inputs[r] for r in where.ranks]
    with np.errstate(all="ignore"):
        if threads:
            with where.running() as run:
                parts = [lambda xs=xs: perform(c, xs) for xs in mine]
                found = run_together(parts, timeout=30, places=run)
        else:
            found = perform_for_all(c, mine, where)
        for rank, results in zip(where.ranks, found, strict=True):
            assert len(results) == len(shapes)
            for i, got in enumerate(results):
                group = next(g for g in c.groups if rank in g)
                apart = len({owners[r] for r in group}) == len(group)
                xs = [x[i] for x in inputs]
                inside = len({owners[r] for r in group}) == 1
                small = sum(x.nbytes for x in inputs[0]) <= plans.INLINE_BYTES
                if (
                    c.kind == "all_reduce"
                    and len(c.groups) == 1
                    and len(set(owners)) > plans.DIRECT
                    and small
                ):
                    same(got, in_rounds(c, xs, owners), c.op)
                elif c.op and not apart and not inside:
                    same(got, reduced_by_process(c, rank, xs, owners), c.op)
                else:
                    same(got, expected(c, rank, xs), c.op)
                assert not any(np.shares_memory(got, x) for x in xs)
    for xs, old in zip(inputs, before, strict=True):
        for x, o in zip(xs, old, strict=True):
            np.testing.assert_array_equal(bits(x), o)


def kinds(groups: Groups, number: int = 0) -> list[Collective]:
    """One collective of each kind, and of more axes than one."""
    found = [
        Collective("all_reduce", groups, "sum", number=number),
        Collective("all_gather", groups, axis=1, number=number),
        Collective("reduce_scatter", groups, "sum", axis=0, number=number),
        Collective("reduce_scatter", groups, "max", axis=1, number=number),
        Collective("all_to_all", groups, axis=0, concat_axis=1, number=number),
        Collective("all_to_all", groups, axis=1, concat_axis=0, number=number),
    ]
    pairs = [(g[i], g[i - 1]) for g in groups for i in range(len(g))][1:]
    return [*found, Collective("permute", groups, pairs=tuple(pairs), number=number)]


def every_dtype(owners: Sequence[int]) -> int:
    """Every kind, op and dtype, for one group of all ranks; the number of meetings."""
    count = 0
    n = len(owners)
    groups = (tuple(range(n)),)
    for dtype in DTYPES:
        ops = ["sum", "prod"] if dtype != np.bool_ else []
        ops += ["max", "min"] if dtype.kind != "c" else []
        if dtype == np.bool_ or "int" in dtype.name:
            ops += BITWISE
        for op in ops:
            check(Collective("all_reduce", groups, op, number=count), owners, [(5,)], dtype)
            count += 1
        for c in kinds(groups):
            if c.op in ops or not c.op:
                check(c, owners, [(2 * n, 3 * n)], dtype)
                count += 1
    return count


def every_group(
    owners: Sequence[int],
    chosen: Sequence[Groups],
    tried: Sequence[str] = ("inline", "blocks", "pieces"),
) -> int:
    """Several operands, empty ones among them, in groups of any shape, each way."""
    n = len(owners)
    count = 0
    for way in tried:
        for groups in chosen:
            for c in kinds(groups, count):
                for dtype in (np.float32, DTYPES[3], np.complex128):
                    if dtype is np.complex128 and c.op == "max":
                        continue
                    with ways(way):
                        shapes = [(2 * n, n), (0, n), (n, 3 * n, 2), (n, 0)]
                        check(c, owners, shapes, dtype, threads=count % 3 == 0)
                    count += 1
    return count


def crossing_in_threads(owners: Sequence[int], groups: Sequence[Groups]) -> list[float]:
    """Loops of collectives whose groups cross, each rank in a thread that goes at its own pace."""
    where = places(owners, "loops")
    collectives = [
        Collective("all_reduce", g, "sum", number=i, source=f"psum {i}")
        for i, g in enumerate(groups)
    ]

    def program(rank: int) -> float:
        x = np.full(3, rank + 1.0)
        for turn in range(20):
            if (rank + turn) % 3 == 0:
                time.sleep(0.001)
            for c in collectives:
                x = perform(c, [x])[0] / len(c.group_of(rank))
        return float(x[0])

    with where.running() as run:
        return run_together(
            [lambda r=r: program(r) for r in where.ranks], timeout=30, name="loops", places=run
        )


def outcome(function: Callable[[], Any]) -> str:
    """What a call raised, and the seconds it took, or `fine`."""
    start = time.monotonic()
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__} after {time.monotonic() - start:.0f} s: {error}"
    return "fine"


def summed(
    number: int,
    *,
    count: int = 4,
    kind: str = "all_reduce",
    name: str = "program",
    dtype: Any = np.float32,
) -> float:
    """The sum of 1 over all processes, or another collective of as many numbers."""
    here = processes.current
    assert here is not None
    c = Collective(
        kind,
        (tuple(range(here.count)),),
        "sum" if kind == "all_reduce" else "",
        number=number,
        source=f"line {number}",
    )
    where = places(range(here.count), name)
    found = perform_for_all(c, [[np.ones(count, dtype)]], where)[0][0]
    return float(found.reshape(-1)[-1])
