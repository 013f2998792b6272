"""One device's part of a program for many, run without the others: how long does it compute?

Where it would meet the others nobody comes, and what it would get from them is zero.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.dispatch.spmd import SpmdProgram
from xpr.dispatch.spmd_run import Runner
from xpr.dispatch.transfer import device_put
from xpr.runtimes.collectives.base import Array, Collective, Group
from xpr.runtimes.collectives.places import Meetings, RankPlaces
from xpr.runtimes.processes import Processes


class _NobodyComes(Meetings):
    """Meetings at which one process is alone, and gets zeros."""

    def begin(self, places: RankPlaces) -> int:
        del places
        return 0

    def perform(
        self,
        places: RankPlaces,
        collective: Collective,
        groups: Sequence[Group],
        operands: Mapping[int, Sequence[Array]],
        results: Mapping[int, Sequence[Array]],
        *,
        apart: bool,
        timeout: float | None = None,
    ) -> None:
        del places, collective, groups, operands, apart, timeout
        for arrays in results.values():
            for x in arrays:
                x.fill(0)

    def fail(self, places: RankPlaces, error: BaseException) -> None:
        """There is nobody to tell."""

    def poll(self) -> None:
        """Nobody sends anything."""

    def state_of(self, process: int) -> str:
        del process
        return ""

    def close(self) -> None:
        """There is nothing to end."""


class _Alone(Processes):
    """The first of two processes, of which the other does not exist."""

    engine = "nothing"
    index = 0
    count = 2
    hosts = (0, 1)

    @property
    def meetings(self) -> Meetings:
        """Those at which nobody comes."""
        return _NobodyComes()

    def gather(self, payload: bytes, **_: Any) -> NoReturn:
        raise RuntimeError("a process that is alone has nobody to gather from")

    def fail(self, error: BaseException) -> None:
        """There is nobody to tell."""

    def poll(self) -> None:
        """Nobody sends anything."""

    def failure_of(self, process: int) -> None:
        """Nobody fails."""


def lone_seconds(program: SpmdProgram, least: float = 0.5) -> float:
    """Seconds that the first device computes in a call, the median of calls for `least` seconds.

    Floating-point arguments are random, others zero. The program is compiled for the device.
    """
    device = program.devices[0]
    places = RankPlaces((0,), (0,) + (1,) * (len(program.devices) - 1), _Alone(), program.name)
    runner = Runner(program.local, program.name, (device,), (), interpreted=False, places=places)
    rng = np.random.default_rng(0)
    columns = [device_put(c, device)._buffers for c in program._made]
    columns += [
        device_put(_operand(aval, rng), device)._buffers
        for aval in program.local.in_avals[len(columns) :]
    ]

    def call() -> float:
        start = time.perf_counter()
        for column in runner.run(columns):
            for buffer in column:
                buffer.block_until_ready()
        return time.perf_counter() - start

    call()
    times: list[float] = []
    end = time.perf_counter() + least
    while len(times) < 3 or time.perf_counter() < end:
        times.append(call())
    return statistics.median(times)


def _operand(aval: ShapedArray, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    dtype = np.dtype(aval.dtype)
    if dtype.kind in "biuOS" or not np.issubdtype(dtype, np.inexact):
        return np.zeros(aval.shape, dtype)
    return rng.standard_normal(aval.shape).astype(dtype)
