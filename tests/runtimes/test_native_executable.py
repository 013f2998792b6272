"""Programs that the native part runs: the values are NumPy's, the bits are IREE's."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("xpr.runtimes._native") is None, reason="the native part was not built here"
)

# Damaged programs may end the process, so all run in one of their own. `check` compares the bits.
SCRIPT = """
import numpy as np
import xpr
import xpr.numpy as xnp
from xpr import lax
from xpr.runtimes.extension import native
from xpr.runtimes.native_executable import CheckedExecutable, NativeExecutable

assert native().checks
rng = np.random.default_rng(0)
loaded = []
begin = NativeExecutable.__init__
def noted(self, *args):
    begin(self, *args)
    loaded.append(self.describe())
NativeExecutable.__init__ = noted

def check(function, *args, **options):
    before = len(loaded)
    wanted = function(np, *args)
    jitted = xpr.jit(lambda *a: function(xnp, *a), **options)
    for _ in range(2):
        found = jitted(*[xnp.asarray(a) for a in args])
        for f, w in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(f), w, rtol=2e-5, atol=1e-6)
    assert len(loaded) == before + 1, "IREE ran it"
    return loaded[-1]

x = rng.standard_normal((5, 7)).astype(np.float32)
n = np.arange(6, dtype=np.int32)

# Kernels in a row, in one thread and in several; results of all sizes; none; those of no bytes.
check(lambda np, x: (x + 1,), x)
check(lambda np, x: (x @ x.T, np.sin(x) * x.sum(0), x.max(), x > 0, x[:0]), x)
check(lambda np, *xs: (sum(xs),), *[x + i for i in range(100)])
large = rng.standard_normal(1_200_000).astype(np.float32)
check(lambda np, x: (x * 2 + 1, x[:3] + x.max(), x.min()), large)
# Copies and fills that several threads share: parts of all sizes, patterns of all widths.
check(lambda np, x: (np.concatenate([x, x + 1, x[:777_777]]), np.roll(x, 300_001)), large)
check(
    lambda np, x: tuple(
        np.concatenate([np.full(700_001, 3, t), x.astype(t), np.full(5, 7, t)])
        for t in (np.int8, np.int16, np.float32)
    ),
    n,
)
# A result that is an argument, two equal ones, a constant one.
check(lambda np, x, n: (x, n, x, n + 1, n + 1, np.arange(4000)), x, n)
# Donated arguments: the result lies in the argument's memory.
check(lambda np, x, n: (x + n.sum(), n * 2), x, n, donate_argnums=(0,))
step = xpr.jit(lambda x: x + 1, donate_argnums=0)
given = step(xnp.asarray(large))
place = given.unsafe_buffer_pointer()
for _ in range(2):
    given = step(given)
assert given.unsafe_buffer_pointer() == place
np.testing.assert_array_equal(np.asarray(given), large + np.float32(1) + 1 + 1)

# Loops and branches by values: the byte code is interpreted.
def collatz(np, x):
    if np is not xnp:
        steps = 0
        while x != 1:
            x, steps = (3 * x + 1 if x % 2 else x // 2), steps + 1
        return (steps,)
    def body(state):
        v, steps = state
        return xnp.where(v % 2 == 1, 3 * v + 1, v // 2), steps + 1
    return (lax.while_loop(lambda s: s[0] != 1, body, (x, 0))[1],)
check(collatz, np.int32(27))

def branches(np, k, x):
    if np is not xnp:
        return ([x + 1, x.T @ x, x * 0][k].sum(),)
    ways = [lambda x: (x + 1).sum(), lambda x: (x.T @ x).sum(), lambda x: x.sum() * 0]
    return (lax.switch(k, ways, x),)
for k in range(3):
    check(branches, np.int32(k), x)

# Values of one, two, four and eight bytes that are read on the host and fill memory.
for dtype in ("int8", "uint16", "bfloat16", "int32", "float32", "complex64"):
    value = xnp.asarray(-77 if dtype[0] != "u" else 51_000).astype(dtype)
    inner = xnp.arange(6).reshape(2, 3).astype(dtype)
    found = xpr.jit(lambda a, v: lax.pad(a, v, ((1, 2, 0), (2, 0, 0))))(inner, value)
    wanted = np.full((5, 5), np.asarray(value))
    wanted[1:3, 2:] = np.asarray(inner)
    np.testing.assert_array_equal(np.asarray(found), wanted)

# Calls of functions of this process: plain ones, decompositions, transforms, several results,
# arrays of no bytes, small numbers (which Python's functions do not take for zero), errors.
before = len(loaded)
def called(function, shape, *args):
    return xpr.jit(lambda *a: xpr.pure_callback(function, shape, *a))(*args)
y = xnp.asarray(x)
np.testing.assert_array_equal(np.asarray(called(lambda v: v * 3, y, y)), x * 3)
spd = np.eye(80, dtype=np.float32) + np.float32(0.01)  # smaller ones have a kernel
np.testing.assert_allclose(xpr.jit(xnp.linalg.cholesky)(spd), np.linalg.cholesky(spd), rtol=1e-4)
np.testing.assert_allclose(xpr.jit(xnp.fft.fft)(x), np.fft.fft(x), rtol=1e-4, atol=1e-5)
parts = called(lambda v: (v.sum(0), v.max(1), v[:0]), (y[0], y[:, 0], y[:0]), y)
for p, w in zip(parts, (x.sum(0), x.max(1), x[:0]), strict=True):
    np.testing.assert_allclose(np.asarray(p), w, rtol=1e-5)
tiny = called(lambda v: v * np.float32(1e-42), y[0], y[0] * 0 + 1)
assert (np.asarray(tiny) == np.float32(1e-42)).all()
class Oops(Exception):
    pass
def fail(v):
    raise Oops("no luck")
try:
    called(fail, y, y)
except Oops as error:
    assert str(error) == "no luck"
else:
    raise AssertionError
assert loaded[before:] == ["interpreted"] * 6, loaded[before:]
print("end")
"""


def test_programs_have_the_values_of_numpy_and_the_bits_of_iree() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", SCRIPT],
        env={**os.environ, "XPR_NATIVE": "check", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
