"""What the native part refuses, and what it does where memory or threads cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("xpr.runtimes._native") is None, reason="the native part was not built here"
)

PRELUDE = """
import numpy as np
import xpr
from xpr.runtimes.extension import native
from xpr.runtimes.native_executable import NativeExecutable

modules = []
begin = NativeExecutable.__init__
def noted(self, *args):
    modules.append(args[1])
    begin(self, *args)
NativeExecutable.__init__ = noted
x = np.arange(35, dtype=np.float32).reshape(5, 7)
add = xpr.jit(lambda x: x + 1)
np.testing.assert_array_equal(np.asarray(add(x)), x + 1)
_native, kind = native().executor, ((5, 7), 4)
"""

MODULES = """
(module,) = modules
program = _native.Program(module, "main", [kind], [kind], [False])
block = _native.Block.copied(x)
(result,) = program([block], False, True)
np.testing.assert_array_equal(np.frombuffer(result, np.float32).reshape(5, 7), x + 1)

def refused(data, entry="main", inputs=(kind,), outputs=(kind,)):
    try:
        _native.Program(bytes(data), entry, list(inputs), list(outputs), [False] * len(inputs))
    except _native.Refusal as error:
        return bool(str(error))
    return False

# Truncated ones, foreign ones, and those of another processor.
# The end is filled up with zeros.
assert all(refused(module[:n]) for n in range(0, len(module) // 2, len(module) // 300 + 1))
assert all(refused(data) for data in (b"", b"PK", b"IREE" * 50, bytes(4096), b"\\x7fELF" * 99))
code = bytearray(module)
place = code.index(b"\\x7fELF")
for number in (40, 62 ^ 183 ^ code[place + 18], 243):           # the processor's number in ELF
    code[place + 18] = number
    assert refused(code), number
# Other entries, numbers of arrays and types.
assert refused(module, "other")
assert refused(module, inputs=(kind, kind)) and refused(module, outputs=())
assert refused(module, inputs=(((7, 5), 4),)) and refused(module, outputs=(((5, 7), 2),))
for wrong in ([], [block, block], [_native.Block.empty(8)], [None]):
    try:
        program(wrong, False, True)
    except TypeError:
        continue
    raise AssertionError(wrong)
# Arrays that lie where compiled code cannot use them are copied.
for shift in (1, 4, 63):
    raw = np.zeros(16_384 + 128, np.uint8)
    start = -raw.ctypes.data % 64 + shift
    over = _native.Block.over(raw[start : start + 16_384], 0)
    assert over.address % 64 == 0 and over.is_own, shift
"""

MEMORY = """
import resource
large = xpr.jit(lambda x: xpr.numpy.zeros((1 << 28, 4)) + x).lower(np.float32(1)).compile()
assert float(add(np.float32(1))) == 2
limits = resource.getrlimit(resource.RLIMIT_AS)
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 28), limits[1]))
for _ in range(3):
    try:
        large(np.float32(1)).block_until_ready()
    except MemoryError:
        continue
    raise AssertionError("4 GB were had")
np.testing.assert_array_equal(np.asarray(add(x)), x + 1)      # what fits still runs
"""

THREADS = """
import resource
wide = np.arange(3_000_000, dtype=np.float32)
large = xpr.jit(lambda x: x * 2 + 1).lower(wide).compile()
pages = int(open("/proc/self/statm").read().split()[0])
limits = resource.getrlimit(resource.RLIMIT_AS)
# Room for the stacks of some of 255 threads; the results get what is kept of an array.
np.ones(16_000_000, np.float32)
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 27), limits[1]))
for _ in range(3):
    np.testing.assert_array_equal(np.asarray(large(wide)), wide * 2 + 1)
"""


@pytest.mark.parametrize(
    "script",
    [
        MODULES,
        *(
            pytest.param(
                text,
                marks=pytest.mark.skipif(
                    sys.platform != "linux", reason="limits memory as Linux does"
                ),
            )
            for text in (MEMORY, THREADS)
        ),
    ],
    ids=["modules", "memory", "threads"],
)
def test_bad_input(script: str) -> None:
    settings = {
        "XPR_NATIVE": "1",
        "XPR_NUM_THREADS": "256",
        "XPR_ASYNC_DISPATCH": "never",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PRELUDE + script],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
