"""`xpr bench`: how long a bundle or a module takes, or a function on many processes would."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from pathlib import Path

from xpr.cli.errors import UsageError
from xpr.cli.opening import open_program
from xpr.cli.plots import times_svg
from xpr.cli.programs import random_inputs, read_inputs
from xpr.cli.scale_function import scale_lines
from xpr.cli.times import time_text

_MOST_CALLS = 100_000


def run(options: argparse.Namespace) -> int:
    """Loads the program and calls it for the time that is given; prints the figures."""
    if options.plot is not None:
        if options.scale is not None:
            raise UsageError("--plot is of the times of calls, which --scale does not measure")
        if Path(options.plot).suffix != ".svg":
            raise UsageError(
                f"--plot writes SVG: name a file that ends in .svg, got {options.plot}"
            )
    if options.scale is not None:
        for line in scale_lines(options):
            print(line, flush=True)
        return 0
    if options.args or options.mesh is not None:
        raise UsageError("--args and --mesh are about a function on many processes: add --scale")
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
    print(f"load        {time_text(loaded - start)}")
    print(f"first call  {time_text(first)}")
    print(f"later calls {time_text(statistics.median(times))} (median of {len(times)})")
    print(f"fastest     {time_text(min(times))}")
    if options.plot is not None:
        title = f"{Path(options.program).name} on {program.runtime}"
        Path(options.plot).write_text(times_svg(title, times), encoding="utf-8")
        print(f"wrote       {options.plot}")
    return 0
