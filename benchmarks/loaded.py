"""``python -m benchmarks.loaded``: programs that JAX exported next to the same ones traced by xpr.

The functions of `tests/export/stablehlo/make_golden.py` are traced with xpr as their `jax`, and
loaded from the bytes that JAX 0.10.2 wrote. Both take the same arguments, in turns; each figure is
the least of all calls. Programs of several devices are left out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import xpr
from tests.export.stablehlo import make_golden
from tests.export.stablehlo.programs import jax_program
from xpr.export import from_stablehlo

ROUNDS, CALLS = 6, 100
LIMIT = 1.1


def _least(call: Callable[[], Any]) -> float:
    """The least time of some calls, in microseconds."""
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        xpr.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return 1e6 * min(times)


def measured(name: str) -> tuple[float, float]:
    """The times of the traced and of the loaded program, in microseconds."""
    function, args, _, _, kwargs = make_golden.PROGRAMS[name]
    with xpr.enable_x64(name == "wide_types"):
        loaded = from_stablehlo(jax_program(name)[0])
        args, kwargs = xpr.device_put((args, kwargs))
        traced, call = xpr.jit(function), xpr.jit(loaded.call)
        pairs = []
        for _ in range(ROUNDS):
            first = _least(lambda: traced(*args, **kwargs))
            pairs.append((first, _least(lambda: call(*args, **kwargs))))
        return min(a for a, _ in pairs), min(b for _, b in pairs)


def main() -> int:
    """Prints a line for each program, and how many are within the limit."""
    make_golden.jax, make_golden.jnp, make_golden.lax = xpr, xpr.numpy, xpr.lax
    names = [n for n in make_golden.PROGRAMS if not n.startswith("shard")]
    ratios = []
    for name in names:
        traced, loaded = measured(name)
        ratios.append(loaded / traced)
        print(f"{name:20} traced {traced:8.1f} us  loaded {loaded:8.1f} us  {ratios[-1]:5.2f}")
    within = sum(ratio <= LIMIT for ratio in ratios)
    mean = float(np.exp(np.mean(np.log(ratios))))
    print(f"{within} of {len(names)} take at most {LIMIT} of the time; geometric mean {mean:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
