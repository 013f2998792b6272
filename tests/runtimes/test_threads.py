"""How many threads run a large program of the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import xpr
from xpr.runtimes import cores

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="counts threads where Linux lists them"
)

SCRIPT = """
import os
import threading
import numpy as np
import xpr
from xpr.lowering.iree.requests import THREAD_NAME

def threads():
    return len(os.listdir("/proc/self/task"))

values = np.arange(4_000_000, dtype=np.float32)
x = xpr.numpy.asarray(values)
large = xpr.jit(lambda x: x * 2 + 1).lower(x).compile()
# One that has compiled may be about to end.
for thread in threading.enumerate():
    if thread.name == THREAD_NAME:
        thread.join()
before = threads()
for _ in range(3):
    np.testing.assert_array_equal(np.asarray(large(x)), values * 2 + 1)
print(threads() - before)
"""


def _run(choice: str, count: str) -> subprocess.CompletedProcess[str]:
    settings = {
        "XPR_NATIVE": choice,
        "XPR_NUM_THREADS": count,
        "XPR_ASYNC_DISPATCH": "never",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    return subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@linux
@pytest.mark.skipif(
    find_spec("xpr.runtimes._native") is None, reason="the native part was not built here"
)
@pytest.mark.parametrize("count", [1, 3])
def test_the_native_part_takes_as_many_threads_as_it_may(count: int) -> None:
    done = _run("1", str(count))
    assert (done.returncode, done.stdout) == (0, f"{count - 1}\n"), done.stderr


def test_pieces_are_computed_in_either_order() -> None:
    """Every second round of a pool goes backwards; sizes that no number of threads divides."""
    program = xpr.jit(lambda x, y: (x * 2 + 1, (x.T + y.T).T))
    for rows, columns in ((997, 1009), (1, 1_000_003), (1_000_003, 1), (3, 700_001)):
        a = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
        b = a[::-1]
        x, y = xpr.numpy.asarray(a), xpr.numpy.asarray(b)
        for _ in range(4):
            one, two = program(x, y)
            np.testing.assert_array_equal(np.asarray(one), a * np.float32(2) + np.float32(1))
            np.testing.assert_array_equal(np.asarray(two), a + b)


@linux
def test_iree_takes_no_thread_where_there_may_be_one() -> None:
    done = _run("0", "1")
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


@pytest.mark.parametrize("text", ["many", "0", "-1", ""])
def test_a_number_of_threads_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPR_NUM_THREADS", text)
    monkeypatch.setattr(cores, "_asked", cores._asked.__wrapped__)
    with pytest.raises(ValueError, match=f"XPR_NUM_THREADS must be a pos.* integer, got '{text}'"):
        cores.cores()
