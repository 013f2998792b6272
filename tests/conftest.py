"""Options and fixtures for every test."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from xpr import config
from xpr.lowering.loops import choice
from xpr.lowering.loops.refusal import NotInMemory
from xpr.runtimes import _spinning_threads, registry
from xpr.runtimes.base import Device

# Tests of shardings need several devices, and others do not mind: the first one is the default, and
# one that is not used costs nothing. Processes that tests start have one device, as users have.
CPU_DEVICES = 8
config.update("num_cpu_devices", CPU_DEVICES)

# Who reads the failure of a test wants all frames.
config.update("traceback_filtering", "off")

# What compiles for the tests is of no use to anybody afterwards.
config.update("compiler_idle", 60)
os.environ.setdefault("XPR_COMPILER_IDLE", "60")

# `XPR_COLD_TESTS=1` has a run begin with nothing compiled, as on a machine that has never run the
# tests. Its workers and the processes that tests start share what one of them has compiled.
_own_cache: tempfile.TemporaryDirectory[str] | None = None
if os.environ.get("XPR_COLD_TESTS") == "1" and "XPR_CACHE_DIR" not in os.environ:
    # The last programs may still be written while the directory is removed.
    _own_cache = tempfile.TemporaryDirectory(prefix="xpr-tests-", ignore_cleanup_errors=True)
    os.environ["XPR_CACHE_DIR"] = _own_cache.name

# All tests behind the first on a software Vulkan device share the cores with the threads that spin
# for it, two in each worker. With the share that users have them get these take a sixth of all.
_spinning_threads._NICENESS = 19

DEFAULT_RUNTIME = "cpu"
TESTS = Path(__file__).parent
C_KERNELS = TESTS.parent / "xpr" / "experimental" / "kernel"

# As many workers as cores compile at the same time.
if "PYTEST_XDIST_WORKER" in os.environ:
    config.update("parallel_compiles", False)
    os.environ["XPR_PARALLEL_COMPILES"] = "0"  # for the processes that tests start


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--runtime",
        default=None,
        help="the runtime that the whole operation table runs on; without it on the CPU, there in "
        "one of two narrow dtypes by turns, and in part on the other runtimes that start here",
    )


def pytest_unconfigure() -> None:
    """The cache goes with the process that made it, which is the one that waits for the workers."""
    if _own_cache is not None:
        _own_cache.cleanup()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of modules that use Vulkan come last.

    Two threads spin from the moment that a process opens a software device until it ends
    (`runtimes/_spinning_threads.py`), which all tests behind that would pay for.
    """
    found = {path: uses_vulkan(path) for path in {item.path for item in items}}
    items.sort(key=lambda item: found[item.path])
    if not has_c_compiler():
        for item in items:
            if isinstance(item, pytest.DoctestItem) and C_KERNELS in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="the example needs a C compiler"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Half a million objects are made, all of which stay: nobody looks for garbage among them.

    Neither while they are made nor later, when tests that count on it collect garbage.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if was_enabled:
            gc.enable()
        gc.collect()
        gc.freeze()


def uses_vulkan(path: Path) -> bool:
    """Whether a file of the tests speaks of Vulkan; doctests never use it."""
    return TESTS in path.parents and "vulkan" in path.read_text(encoding="utf-8")


def has_c_compiler() -> bool:
    """Whether kernels in C can be compiled here."""
    return any(map(shutil.which, ("cc", "gcc", "clang")))


def skip_unless_usable(name: str) -> None:
    """Skips with the runtime's own reason when it cannot start."""
    try:
        registry.devices(name)
    except RuntimeError as error:
        pytest.skip(f"runtime {name} is not usable here: {error}")


def first_device(name: str) -> Device:
    """The first device of a runtime; skips as `skip_unless_usable` does."""
    skip_unless_usable(name)
    return registry.devices(name)[0]


@pytest.fixture(scope="session")
def runtime(request: pytest.FixtureRequest) -> str:
    """The runtime under test."""
    name = str(request.config.getoption("--runtime") or DEFAULT_RUNTIME)
    skip_unless_usable(name)
    return name


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Iterator[None]:
    """Lets processes that tests start be interrupted.

    A shell has jobs in the background ignore the signal, and what they start inherits that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# Mesa's software device is now and then lost on a busy machine, and a process gets no other then.
# A test to which that happens is run again in a process of its own.
LOST = "VK_ERROR_DEVICE_LOST"
_AGAIN = "XPR_TEST_DEVICE_LOST_BEFORE"
_ATTEMPTS = 3


def command_again(nodeid: str, runtime: str | None) -> list[str]:
    """What runs one test in a process of its own, on the same runtime."""
    options = ["-q", "-p", "no:cacheprovider"]
    if runtime is not None:
        options.append(f"--runtime={runtime}")
    return [sys.executable, "-m", "pytest", *options, nodeid]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    try:
        return (yield)
    except Exception as error:
        lost = LOST in "".join(traceback.format_exception(error))
        if not lost or _AGAIN in os.environ:
            raise
    text = LOST
    for _ in range(_ATTEMPTS):
        if LOST not in text:
            break
        done = subprocess.run(
            command_again(pyfuncitem.nodeid, pyfuncitem.config.getoption("--runtime")),
            env={**os.environ, _AGAIN: "1"},
            cwd=pyfuncitem.config.rootpath,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return True
        text = done.stdout + done.stderr
    raise AssertionError(f"in a process of its own:\n{text[-4000:]}")


@pytest.fixture
def plain_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops over arrays in memory are a series of dispatches, as on devices other than the CPU."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise NotInMemory("a test of plain loops")

    monkeypatch.setattr(choice, "memory_scan", refuse)
    monkeypatch.setattr(choice, "memory_while", refuse)
