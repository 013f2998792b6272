"""IREE's threads that spin while a software Vulkan device is open give way to other work."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.lowering.vulkan_util import vulkan_device

# Prints the niceness of each thread that is at work although the program sleeps.
_SCRIPT = """
import os, time
import numpy as np
import xpr
import xpr.export
from pathlib import Path
from xpr.runtimes.bundle import Bundle

def times():
    found = {}
    for task in Path("/proc/self/task").iterdir():
        ran, waited, _ = (task / "schedstat").read_text().split()
        found[int(task.name)] = int(ran) + int(waited)
    return found

device = xpr.devices("vulkan")[0]
x = xpr.device_put(np.ones(4, np.float32), device)
np.asarray(xpr.jit(lambda x: x + 1)(x))
assert device.is_software
exported = xpr.export.export(xpr.jit(lambda x: x * 2), platforms=["vulkan"])(np.ones(4, np.float32))
exported.save("model.xpr")
model = Bundle("model.xpr", platform="vulkan")
assert model.call(np.ones(4, np.float32)).tolist() == [2.0] * 4
before = times()
time.sleep(0.3)
after = times()
for thread, time in after.items():
    if thread in before and time - before[thread] > 0.1e9:
        print(os.getpriority(os.PRIO_PROCESS, thread))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs Linux's list of threads")
def test_threads_that_wait_for_a_software_device_have_low_priority(
    tmp_path: os.PathLike[str],
) -> None:
    if not getattr(vulkan_device(), "is_software", False):
        pytest.skip("the Vulkan device here is a GPU, whose driver sleeps while it waits")
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # Two for one device, which the loader of bundles shares. None: nothing spins any more, and
    # `runtimes/_spinning_threads.py` can go.
    assert done.stdout.split() == ["10", "10"]
