"""`xpr bench`: how long a bundle or a module takes."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from pathlib import Path

from xpr.cli.errors import UsageError
from xpr.cli.programs import open_program, random_inputs, read_inputs

_MOST_CALLS = 100_000


def run(options: argparse.Namespace) -> int:
    """Loads the program and calls it for the time that is given; prints the figures."""
    if not (math.isfinite(options.seconds) and options.seconds > 0):
        raise UsageError(f"--seconds must be positive, got {options.seconds}")
    start = time.perf_counter()
    program = open_program(Path(options.program), options.runtime)
    loaded = time.perf_counter()
    inputs = read_inputs(program, options.input) if options.input else random_inputs(program)
    begin = time.perf_counter()
    program(inputs)
    first = time.perf_counter() - begin
    times: list[float] = []
    end = time.perf_counter() + options.seconds
    while not times or (time.perf_counter() < end and len(times) < _MOST_CALLS):
        begin = time.perf_counter()
        program(inputs)
        times.append(time.perf_counter() - begin)
    print(f"runtime     {program.runtime}")
    print(f"load        {_time_text(loaded - start)}")
    print(f"first call  {_time_text(first)}")
    print(f"later calls {_time_text(statistics.median(times))} (median of {len(times)})")
    print(f"fastest     {_time_text(min(times))}")
    return 0


def _time_text(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> _time_text(0.0123), _time_text(2.0), _time_text(4.2e-6)
    ('12.3 ms', '2 s', '4.2 us')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError("the last unit holds every time")
