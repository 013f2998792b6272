"""Arrays that programs close over: whose memory they are in, and who may write to it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp

_MEMORY = """
import os, numpy as np, xpr, xpr.numpy as jnp

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20

weights = jnp.asarray(np.ones((16, 1 << 20), np.float32))  # 64 MiB
function = xpr.jit(lambda x: (weights * x.sum()).sum())
for n in (1, 2):  # what a program computes with on its way is kept for the next one
    function(jnp.ones(n)).block_until_ready()
before = resident()
for n in (3, 4, 5):
    assert float(function(jnp.ones(n))) == n * 2.0**24
print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/statm is Linux's")
def test_programs_share_the_arrays_that_they_close_over() -> None:
    done = subprocess.run([sys.executable, "-c", _MEMORY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # A copy for each of the three programs would be 192 MiB.
    assert float(done.stdout) < 48


def test_programs_keep_arrays_that_are_deleted_or_given_up() -> None:
    w = jnp.asarray(np.arange(1000, dtype=np.float32))
    f = xpr.jit(lambda x: (w * x, w))
    np.testing.assert_array_equal(f(2.0)[0], 2 * np.arange(1000))
    grown = xpr.jit(lambda a: a + 1, donate_argnums=0)(w)
    np.testing.assert_array_equal(grown, np.arange(1000) + 1)
    product, same = f(3.0)
    np.testing.assert_array_equal(product, 3 * np.arange(1000))
    np.testing.assert_array_equal(same, np.arange(1000))
    same.delete()
    np.testing.assert_array_equal(f(3.0)[1], np.arange(1000))


def test_a_result_that_was_closed_over_is_not_written_to() -> None:
    w = jnp.asarray(np.arange(1000, dtype=np.float32))
    f = xpr.jit(lambda x: (w * x, w))
    out = xpr.jit(lambda a: a * 0, donate_argnums=0)(f(2.0)[1])
    np.testing.assert_array_equal(out, np.zeros(1000))
    np.testing.assert_array_equal(w, np.arange(1000))
    np.testing.assert_array_equal(f(2.0)[0], 2 * np.arange(1000))


def test_values_of_numpy_are_those_of_the_first_call() -> None:
    w = np.arange(4, dtype=np.float32)
    f = xpr.jit(lambda x: (x * w, jnp.asarray(w)))
    np.testing.assert_array_equal(f(1.0)[0], np.arange(4))
    w[:] = 0
    product, same = f(1.0)
    np.testing.assert_array_equal(product, np.arange(4))
    np.testing.assert_array_equal(same, np.arange(4))
