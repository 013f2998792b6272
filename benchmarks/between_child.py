"""What is measured between processes: ``mpirun -n N python -m benchmarks.between_child ROUNDS``.

The first process prints one JSON object: for each size the seconds of each sample, in turns, of
`psum` by xpr's engine and of mpi4py's `Allreduce` on the same buffers, and of a jitted `psum`.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy

import xpr
from xpr.runtimes import processes
from xpr.runtimes.collectives import Collective, RankPlaces

SIZES = {"8 B": (2, 100), "64 MiB": (1 << 24, 1)}
"""Elements of float32 of each size, and the samples of a round."""


def _jitted(part: Any, count: int) -> tuple[Callable[[], Any], Any]:
    """`psum` as users write it, on an array with that part in this process, and the part.

    What lies where takes part in the time, so that every way has to sum the same memory.
    """
    mesh = xpr.make_mesh((count,), ("p",))
    spec = xpr.sharding.PartitionSpec
    sharding = xpr.sharding.NamedSharding(mesh, spec("p"))
    x = xpr.make_array_from_callback((count * part.size,), sharding, lambda _: part)
    program = xpr.jit(
        xpr.shard_map(
            lambda x: xpr.lax.psum(x, "p"), mesh=mesh, in_specs=spec("p"), out_specs=spec()
        )
    )
    return lambda: program(x).block_until_ready(), numpy.asarray(x.addressable_shards[0].data)


def measure(elements: int, samples: int) -> dict[str, list[float]]:
    """Seconds of each sample of each way, in turns."""
    here = processes.current
    if here is None:
        raise RuntimeError("this needs xpr.distributed.initialize()")
    communicator = importlib.import_module("mpi4py.MPI").COMM_WORLD.Dup()
    everybody = range(here.count)
    total = Collective("all_reduce", (tuple(everybody),), "sum")
    places = RankPlaces([here.index], everybody, here, "benchmark")
    random = numpy.random.default_rng(here.index).standard_normal(elements).astype(numpy.float32)
    jitted, x = _jitted(random, here.count)
    ours, theirs = numpy.ones_like(x), numpy.ones_like(x)
    jitted()

    def timed(call: Callable[[], Any]) -> float:
        communicator.Barrier()
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    def engine() -> float:
        with places.running() as run:
            return timed(
                lambda: here.meetings.perform(
                    run, total, total.groups, {here.index: [x]}, {here.index: [ours]}, apart=False
                )
            )

    ways: dict[str, Callable[[], float]] = {
        "xpr engine": engine,
        "mpi4py": lambda: timed(lambda: communicator.Allreduce(x, theirs)),
        "xpr jit": lambda: timed(jitted),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(-1, samples):  # the first is not counted
        for name, way in ways.items():
            seconds = way()
            if turn >= 0:
                found[name].append(seconds)
    numpy.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    return found


def main() -> None:
    """Measures, and prints in the first process."""
    rounds = int(sys.argv[1])
    xpr.distributed.initialize()
    found = {size: measure(n, rounds * samples) for size, (n, samples) in SIZES.items()}
    if xpr.process_index() == 0:
        print(json.dumps(found))
    xpr.distributed.shutdown()


if __name__ == "__main__":
    main()
