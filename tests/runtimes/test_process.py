"""What can only be seen from outside: imports, the end of the process, forks, memory errors.

Each script runs in a process of its own, which must end by itself, in order and silently.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .programs import BASIC, DONATING, SORTING, compiled

ROOT = Path(__file__).parents[2]

PRELUDE = """
import gc, os, sys, threading
import numpy as np
from xpr.runtimes import registry
from xpr.runtimes.base import ExecutableSignature, HostCall
from xpr.runtimes.host import HostBuffer, aligned_copy, aligned_empty

folder = sys.argv[1]
device = registry.devices("cpu")[0]

def f32(*shape):
    return shape, np.dtype(np.float32)

def load(module, entry, inputs, outputs, parallel=False, **options):
    with open(os.path.join(folder, module), "rb") as file:
        code = file.read()
    signature = ExecutableSignature(entry, tuple(inputs), tuple(outputs), **options)
    return device.runtime.load(code, signature, device, parallel=parallel)

def put(array):
    return HostBuffer(np.asarray(array), device)

V, L = f32(32), f32(4096)
ones = np.ones(32, np.float32)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the compiled modules."""
    path = tmp_path_factory.mktemp("modules")
    for name, text in (("basic", BASIC), ("donating", DONATING), ("sorting", SORTING)):
        (path / name).write_bytes(compiled(text))
    return path


def script(folder: Path, body: str, prelude: str = PRELUDE, **environment: str) -> str:
    """Runs a script; returns what it printed. It must end with status 0 and complain of nothing."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-c", prelude + body, str(folder)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stderr}"
    assert done.stderr == ""
    return done.stdout


def test_registry_and_buffers_load_no_iree(folder: Path) -> None:
    body = """
import numpy as np
from xpr.runtimes import base, host, registry
device = registry.devices()[0]
buffer = device.runtime.buffer_from_host(np.ones(9000), device, copy=True)
buffer.host_view().sum(), buffer.is_shared(), buffer.memory_span(), device.memory_stats()
buffer.delete()
print([m for m in __import__("sys").modules if m.startswith("iree")])
"""
    assert script(folder, body, prelude="") == "[]\n"


@pytest.mark.parametrize("parallel", [False, True])
def test_the_end_of_the_process_is_quiet(folder: Path, parallel: bool) -> None:
    body = f"""
add = load("basic", "add", [V, V], [V, V], parallel={parallel})
repeat = load("basic", "repeat", [V, ((), np.dtype(np.int32))], [V], parallel=not {parallel})
H = f32(100)
sort = load("sorting", "sort", [H], [H], parallel={parallel},
            host_calls=(HostCall("sort", np.sort, (H,), (H,)),))
(ordered,) = sort([put(np.arange(100, 0, -1, dtype=np.float32))])
total, product = add([put(ones), put(ones)])
seen = product.host_view()
imported = put(aligned_copy(np.ones(5000)))
imported.hal_view()
sys.kept = [total, add, sort, ordered]          # still there when modules are cleared
class Last:
    def __del__(self, add=add, total=total, seen=seen):
        add([total, total])[0].host_view()
        assert seen.tolist() == [1.0] * 32
last = Last()
loop = [add, total, last]
loop.append(loop)                # only the collector can free it
print(float(total.host_view()[0]))
"""
    assert script(folder, body) == "2.0\n"


def test_daemon_threads_at_the_end_of_the_process(folder: Path) -> None:
    body = """
add = load("basic", "add", [V, V], [V, V])
square = load("basic", "square", [f32(64, 64)], [f32(64, 64)], parallel=True)
ready = threading.Barrier(6)
def work(program, *operands):
    ready.wait()
    while True:
        program([put(o) for o in operands])
def spin(a):
    for _ in range(1000):
        a = np.sort(a)
    return a
H = f32(100)
sort = load("sorting", "sort", [H], [H], host_calls=(HostCall("sort", spin, (H,), (H,)),))
threading.Thread(target=work, args=(sort, np.ones(100, np.float32)), daemon=True).start()
for i in range(2):
    threading.Thread(target=work, args=(add, ones, ones), daemon=True).start()
    threading.Thread(
        target=work, args=(square, np.ones((64, 64), np.float32)), daemon=True).start()
ready.wait()
import time
time.sleep(0.3)
print("end")
"""
    assert script(folder, body) == "end\n"


def test_buffers_under_memory_pressure(folder: Path) -> None:
    body = """
negate = load("basic", "negate", [L], [L])
identity = load("basic", "identity", [V], [V])
add = load("donating", "add_large", [L, L], [L], donations=((0, 0),))
rng = np.random.default_rng(0)
kept = []
noise = []
for i in range(3000):
    a = rng.standard_normal(4096).astype(np.float32)
    if i % 2:
        a = aligned_copy(a)
    expected = np.negative(a)
    buffer = put(a)
    del a                                    # IREE alone holds the memory now
    noise.append(np.full(4096, np.nan, np.float32))
    if len(noise) > 8:
        noise.clear()
    (result,) = negate([buffer])
    if i % 3 == 0:
        buffer.delete()
    if i % 5 == 0:
        (result,) = add([result, put(np.zeros(4096, np.float32))])
    view = result.host_view()
    if i % 7 == 0:
        result.delete()
    kept.append((view, expected))
    (same,) = identity([put(np.full(32, i, np.float32))])
    kept.append((same.host_view(), np.full(32, i, np.float32)))
    if len(kept) > 40:
        del kept[:: 3]
    if i % 100 == 0:
        gc.collect()
    for found, wished in kept[:: 4]:
        np.testing.assert_array_equal(found, wished)
print("right")
"""
    assert script(folder, body, MALLOC_PERTURB_="165") == "right\n"


def test_threads_that_share_buffers_under_pressure(folder: Path) -> None:
    body = """
negate = load("basic", "negate", [L], [L])
square = load("basic", "square", [f32(64, 64)], [f32(64, 64)], parallel=True)
shared = put(aligned_copy(np.arange(4096, dtype=np.float32)))
wrong = []
def work(seed):
    rng = np.random.default_rng(seed)
    for i in range(60):
        (a,) = negate([shared])
        (b,) = negate([a])
        m = rng.integers(-2, 3, (64, 64)).astype(np.float32)
        (c,) = square([put(aligned_copy(m))])
        if not (b.host_view() == np.arange(4096)).all() or not (c.host_view() == m @ m).all():
            wrong.append(seed)
threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
print(wrong)
"""
    assert script(folder, body, MALLOC_PERTURB_="90") == "[]\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_goes_on(folder: Path) -> None:
    body = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads: that is the point
add = load("basic", "add", [V, V], [V, V])
square = load("basic", "square", [f32(64, 64)], [f32(64, 64)], parallel=True)
m = np.random.default_rng(0).integers(-2, 3, (64, 64)).astype(np.float32)
before = square([put(m)])[0]
total = add([put(ones), put(ones)])[0]
def check():
    for _ in range(3):
        assert (square([put(m)])[0].host_view() == m @ m).all()
        assert (add([total, put(ones)])[0].host_view() == 3).all()
        assert (before.host_view() == m @ m).all()
    again = load("basic", "square", [f32(64, 64)], [f32(64, 64)], parallel=True)
    assert (again([before])[0].host_view() == m @ m @ m @ m).all()
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        check()
        if os.fork() == 0:
            check()
            sys.exit(0)
        assert os.wait()[1] == 0
        sys.exit(0)
    children.append(child)
check()
print([os.waitpid(c, 0)[1] for c in children])
"""
    assert script(folder, body) == "[0, 0, 0]\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_forked_before_iree_was_started(folder: Path) -> None:
    body = """
child = os.fork()
add = load("basic", "add", [V, V], [V, V], parallel=True)
assert (add([put(ones), put(ones)])[0].host_view() == 2).all()
if child:
    print(os.waitpid(child, 0)[1])
"""
    assert script(folder, body) == "0\n"


def test_number_of_devices_from_the_environment(folder: Path) -> None:
    body = """
from xpr.runtimes import registry
print(registry.devices(), registry.device_count())
registry.set_num_cpu_devices(3)
try:
    registry.set_num_cpu_devices(2)
except RuntimeError as error:
    print(error)
"""
    assert script(folder, body, prelude="", XPR_NUM_CPU_DEVICES="3").splitlines() == [
        "[CpuDevice(id=0), CpuDevice(id=1), CpuDevice(id=2)] 3",
        "num_cpu_devices must be set before the first use of a CPU device: the cpu runtime has "
        "started with 3, got 2",
    ]


def test_platforms_from_the_environment(folder: Path) -> None:
    body = """
from xpr.runtimes import registry
try:
    print(registry.default_backend(), registry.devices())
except RuntimeError as error:
    print(error)
"""

    def run(platforms: str) -> str:
        return script(folder, body, prelude="", XPR_PLATFORMS=platforms)

    assert run("reference, cpu") == "reference [ReferenceDevice(id=0)]\n"
    assert run("") == "cpu [CpuDevice(id=0)]\n"
    assert run("tpu,cpu").startswith(
        "Unknown backend tpu in XPR_PLATFORMS. Available backends are ['cpu', 'reference', "
    )


def test_mpis_launcher_is_none_of_irees_business(folder: Path) -> None:
    """IREE wants MPI's library where it sees the launcher's variables, and makes no device."""
    body = """
import xpr.runtimes.hal as hal
print(os.environ["OMPI_COMM_WORLD_SIZE"], os.environ["PMI_SIZE"])
shared = hal.start()
try:
    shared.create_driver("local-sync").create_default_device()
except RuntimeError as error:
    print("the hazard:", "MPI runtime library not available" in str(error))
program = load("basic", "add", [V, V], [V])
print(program([put(ones), put(ones)])[0].host_view()[0])
print(os.environ["OMPI_COMM_WORLD_SIZE"], os.environ["PMI_SIZE"])
"""
    found = script(folder, body, OMPI_COMM_WORLD_SIZE="2", PMI_SIZE="2", LD_LIBRARY_PATH="")
    assert found.splitlines() == ["2 2", "the hazard: True", "2.0", "2 2"]
