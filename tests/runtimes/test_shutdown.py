"""Processes that end while daemon threads are inside IREE: they end in order, and silently."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xpr
from tests.conftest import first_device

PRELUDE = """
import sys, threading, time
import numpy as np
sys.setswitchinterval(1e-5)      # a thread gives up the interpreter's lock wherever it can
big = np.ones((1000, 500), np.float32)
stayed = threading.Barrier(4)

def forever(function):
    function()
    stayed.wait()
    while True:
        function()

def end_beside(*functions):
    for function in functions:
        threading.Thread(target=forever, args=(function,), daemon=True).start()
    stayed.wait()
    time.sleep(0.1)
    print("end")
"""

IN_A_PROCESS_OF_XPR = """
import xpr
device = xpr.devices(sys.argv[1])[0]
square = xpr.jit(lambda x: x @ x)
x = xpr.device_put(np.ones((300, 300), np.float32), device)
end_beside(
    lambda: square(x),                                   # the short way of a call
    lambda: xpr.device_put(big, device),
    lambda: np.asarray(xpr.device_put(big[:700], device)),
)
"""

WITH_THE_LOADER = """
from xpr.runtimes.bundle import Bundle
x = np.ones((300, 300), np.float32)
bundle = Bundle(sys.argv[2], platform=sys.argv[1])
end_beside(
    lambda: bundle.call(x),
    lambda: bundle.call(x),
    lambda: Bundle(sys.argv[2], platform=sys.argv[1]).call(x),
)
"""

CALLED_BACK = """
import xpr
calls = threading.Semaphore(0)
def slow(x):
    calls.release()
    time.sleep(0.3)
    return np.asarray(xpr.device_put(x, xpr.devices(sys.argv[1])[0]))   # may still enter IREE
f = xpr.jit(lambda x: xpr.pure_callback(slow, x, x) + 1)
x = np.ones(100, np.float32)
thread = threading.Thread(target=lambda: f(x).block_until_ready(), daemon=True)
thread.start()
calls.acquire()
print("end")
"""


def end_of(script: str, *arguments: str) -> str:
    """What a process prints, which must end with status 0 and complain of nothing."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PRELUDE + script, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("platform", ["cpu", "vulkan"])
@pytest.mark.parametrize("script", [IN_A_PROCESS_OF_XPR, CALLED_BACK], ids=["calls", "called back"])
def test_threads_that_call_programs_and_move_arrays(platform: str, script: str) -> None:
    first_device(platform)
    assert end_of(script, platform) == "end\n"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose program squares a matrix."""
    path = tmp_path_factory.mktemp("bundle") / "square.xpr"
    x = np.ones((300, 300), np.float32)
    xpr.export.export(xpr.jit(lambda x: x @ x), platforms=("cpu", "vulkan"))(x).save(path)
    return path


@pytest.mark.parametrize("platform", ["cpu", "vulkan"])
def test_threads_that_call_bundles(bundle: Path, platform: str) -> None:
    first_device(platform)
    assert end_of(WITH_THE_LOADER, platform, str(bundle)) == "end\n"
