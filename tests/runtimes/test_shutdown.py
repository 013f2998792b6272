"""Processes that end while daemon threads are inside IREE: they end in order, and silently."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import xpr
from tests.conftest import first_device
from xpr.core import progress
from xpr.runtimes.queue import DeviceQueue

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


NEW_PROGRAMS = """
import threading
import numpy as np

def handler():
    import xpr, xpr.numpy as jnp
    x = jnp.ones(7)
    found = [xpr.jit(lambda x: jnp.tanh(x) * 3.25 + x)(x)]
    thread = threading.Thread(target=lambda: found.append(xpr.jit(lambda x: x * 2.5 - 1)(x)))
    thread.start()
    thread.join()
    double = lambda v: v * 2
    shape = xpr.ShapeDtypeStruct((7,), "float32")
    found.append(xpr.jit(lambda x: xpr.pure_callback(double, shape, x) + 0.75)(x))
    found.append(xpr.jit(xpr.grad(lambda x: jnp.sin(x).sum()))(x))
    expected = [np.tanh(1) * 3.25 + 1, 1.5, 2.75, np.cos(1)]
    print(np.allclose([a[6] for a in found], expected, rtol=1e-5))
"""


@pytest.mark.parametrize("order", ["registered first", "registered last"])
def test_new_programs_in_functions_that_atexit_calls(order: str, tmp_path: Path) -> None:
    """Compiled and called by the last thread, and by one that it starts and waits for."""
    register = "import atexit\natexit.register(lambda: handler())\n"
    load = "import xpr\nxpr.jit\n"
    script = register + load if order == "registered first" else load + register
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", NEW_PROGRAMS + script],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"XPR_CACHE_DIR": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


DAEMONS = """
import itertools, threading, time
import xpr, xpr.numpy as jnp
started = threading.Barrier(5)

def forever(function):
    function(0)
    started.wait()
    for i in itertools.count(1):
        function(i)

for function in (
    lambda i: xpr.jit(lambda x: jnp.tanh(x) * i + x)(jnp.ones(7)),
    lambda i: (jnp.ones((50, 50)) @ jnp.full((50, 50), i)).sum().item(),
    lambda i: jnp.linalg.solve(jnp.eye(3) * jnp.arange(1.0, 900.0)[:, None, None], jnp.ones(3)),
    lambda i: jnp.sort(jnp.cos(jnp.arange(100_000.0) + i)).mean().item(),
):
    threading.Thread(target=forever, args=(function,), daemon=True).start()
started.wait()
time.sleep(0.2)
print("end")
"""


def test_daemon_threads_that_compile_at_the_end() -> None:
    """Python ends them wherever they ask for its lock: in programs, in NumPy, between stacks."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", DAEMONS],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_queue_without_a_thread_runs_its_programs_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where Python, while the process ends, starts no thread any more."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    queue = DeviceQueue(xpr.devices("cpu")[0])
    called: list[int] = []
    queue.call(lambda: called.append(1) or [])
    assert called == [1]
    assert queue.is_idle
    with progress.phase("compiling", stream=Terminal(), patience=0.0):
        called.append(2)
    assert called == [1, 2]


class Terminal(io.StringIO):
    """A text that says it is a terminal."""

    def isatty(self) -> bool:
        return True
