"""No index reaches memory outside an array: wild indices in a process that must survive.

An index outside a buffer would corrupt the heap and end the process later on, so everything runs
in a process of its own, several times over, and the results are compared with plain loops.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import sys
import numpy as np
import xpr
import xpr.numpy as jnp
from tests.harness import run_compiled
from tests.op_rows.gather import wild_indices
from tests.primitives.index_oracle import (
    as_scatter, gather_oracle, random_gather, scatter_oracle)
from xpr.primitives import scatter as sc
from xpr.primitives.gather import gather
from xpr.primitives.slicing import dynamic_slice_p, dynamic_update_slice_p

WILD = [0, 1, -1, 7, -9, 2**31 - 1, -2**31, 2**31, 2**32 - 1, 2**62, -2**62, 2**63 - 1, -2**63,
        2**64 - 1]
SCATTERS = {"set": (sc.scatter, lambda a, b: b), "add": (sc.scatter_add, np.add),
            "sub": (sc.scatter_sub, np.subtract), "mul": (sc.scatter_mul, np.multiply),
            "min": (sc.scatter_min, np.minimum), "max": (sc.scatter_max, np.maximum)}


def fits(value, dtype):
    info = np.iinfo(dtype)
    return info.min <= value <= info.max


def cases(dtype, rng):
    found = []
    for _ in range(6):
        shape, index_shape, numbers, sizes = random_gather(rng)
        x = rng.integers(1, 5, shape).astype(np.float32)
        i = wild_indices(rng, np.dtype(dtype), index_shape)
        for mode in ("clip", "fill", "promise_in_bounds"):
            found.append((lambda a, i, n=numbers, s=sizes, m=mode: gather(a, i, n, s, mode=m),
                          [x, i], gather_oracle(x, i, numbers, sizes, mode, np.nan)))
        window = gather_oracle(x, i, numbers, sizes, "clip").shape
        u = rng.integers(1, 4, window).astype(np.float32)
        name = list(SCATTERS)[rng.integers(len(SCATTERS))]
        function, combine = SCATTERS[name]
        dims = as_scatter(numbers)
        for mode in ("clip", "drop", "promise_in_bounds"):
            found.append((lambda a, i, u, d=dims, m=mode, f=function: f(a, i, u, d, mode=m),
                          [x, i, u], scatter_oracle(x, i, u, dims, mode, combine)))
    line = np.arange(5, dtype=np.float32)
    for value in WILD:
        if not fits(value, dtype):
            continue
        start = np.array(value, dtype)
        inside = min(max(value, 0), 3)
        written = line.copy()
        written[inside : inside + 2] = 9
        found.append((lambda a, i: dynamic_slice_p.bind(a, i, slice_sizes=(2,)), [line, start],
                      line[inside : inside + 2]))
        found.append((lambda a, i: dynamic_update_slice_p.bind(a, np.full(2, 9, np.float32), i),
                      [line, start], written))
        at = value + 5 if value < 0 else value
        found.append((lambda a, i: a[i], [line, start], line[min(max(at, 0), 4)]))
        one = line.copy()
        if 0 <= at < 5:
            one[at] += 3
        found.append((lambda a, i: a.at[i].add(3.0), [line, start], one))
    return found


with xpr.enable_x64(True):
    dtype = sys.argv[1]
    some = cases(dtype, np.random.default_rng(11))
    # Sizes beyond what a page of the heap would hide.
    large = np.arange(100_000, dtype=np.float32)
    info = np.iinfo(dtype)
    spread = np.linspace(float(info.min), float(info.max), 5000).clip(info.min, info.max)
    spread = spread.astype(dtype)[:, None]
    line = sc.ScatterDimensionNumbers((), (0,), (0,))
    ones = np.ones(5000, np.float32)
    for mode in ("clip", "drop", "promise_in_bounds"):
        for function, combine in SCATTERS.values():
            some.append((lambda a, i, u, m=mode, f=function: f(a, i, u, line, mode=m),
                         [large, spread, ones],
                         scatter_oracle(large, spread, ones, line, mode, combine)))
    for _ in range(2):
        results = run_compiled([(f, args) for f, args, _ in some])
        for k, (found, (_, args, want)) in enumerate(zip(results, some, strict=True)):
            np.testing.assert_allclose(found[0], want, rtol=1e-5, err_msg=f"case {k}")
    garbage = [np.random.default_rng(k).standard_normal(1000) for k in range(200)]
    del results, garbage
print("survived")
"""


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_wild_indices(dtype: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", _SCRIPT, dtype],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "survived" in done.stdout
