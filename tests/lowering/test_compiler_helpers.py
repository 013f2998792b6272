"""Helpers that others started: with a niceness, with limits, and from what was removed since."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("helper processes are for Linux", allow_module_level=True)

from tests.lowering.test_compiler_process import (
    FLAGS,
    ROOT,
    compiled,
    helper_at,
    is_running,
    own,
    use,
    wait_until,
)
from xpr.lowering.iree.process import address

__all__ = ["own", "use"]  # fixtures

_COMPILE = """
import os, resource, sys
{}
import numpy as np, xpr
print(float(xpr.jit(lambda x: x * 2.5)(np.float32(3))))
"""


def _started_by(directory: Path, before: str = "", root: Path = ROOT) -> None:
    """Compiles in a process that does something first, and so starts a helper as it is itself."""
    settings = {"XPR_RUNTIME_DIR": str(directory), "XPR_CACHE": "0", "XPR_COMPILER": "process"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _COMPILE.format(before)],
        env={**os.environ, **settings, "PYTHONPATH": str(root)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "7.5\n", "")


def _niceness(process: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, process)


def _limits(process: int) -> dict[str, str]:
    lines = Path(f"/proc/{process}/limits").read_text().splitlines()
    return {line[:26].strip(): line[26:47].strip() for line in lines}


def test_each_niceness_has_a_helper(own: Path, use: Callable[[Path], None]) -> None:
    use(own)
    more = min(_niceness(0) + 7, 19)
    _started_by(own, "os.nice(7)")
    (nice,) = own.glob("*.sock")
    helper = helper_at(nice)
    assert helper is not None
    assert _niceness(helper) == more
    compiled()
    mine = helper_at(address.socket_path(FLAGS))
    assert mine not in (None, helper)
    assert mine is not None
    assert _niceness(mine) == _niceness(0)
    # The next one that is as nice finds the first.
    _started_by(own, "os.nice(7)")
    assert helper_at(nice) == helper
    assert len(list(own.glob("*.sock"))) == 2


def test_a_helper_raises_the_limits_that_it_gets(own: Path, use: Callable[[Path], None]) -> None:
    use(own)
    hard = _limits(os.getpid())
    lowered = "".join(
        f"resource.setrlimit(resource.RLIMIT_{name}, "
        f"({value}, resource.getrlimit(resource.RLIMIT_{name})[1]))\n"
        for name, value in (("CPU", 1000), ("FSIZE", 1 << 30), ("NOFILE", 200), ("AS", 1 << 36))
    )
    _started_by(own, f"{lowered}\nos.umask(0)\n")
    (path,) = own.glob("*.sock")
    helper = helper_at(path)
    assert helper is not None
    found = _limits(helper)
    assert found["Max cpu time"] == found["Max file size"] == found["Max address space"]
    assert found["Max cpu time"] == hard["Max cpu time"] == "unlimited"
    assert int(found["Max open files"]) > 200
    assert found["Max core file size"] == "0"
    assert "Umask:\t0077" in Path(f"/proc/{helper}/status").read_text()
    compiled()
    assert helper_at(address.socket_path(FLAGS)) == helper


def test_hard_limits_are_those_of_a_helper_of_its_own(
    own: Path, use: Callable[[Path], None]
) -> None:
    use(own)
    _started_by(own, "resource.setrlimit(resource.RLIMIT_CPU, (1000, 1000))")
    (limited,) = own.glob("*.sock")
    compiled()
    path = address.socket_path(FLAGS)
    assert path != limited
    helper = helper_at(path)
    assert helper is not None
    assert _limits(helper)["Max cpu time"] == "unlimited"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The same xpr in another folder."""
    root = tmp_path / "installed"
    for folder in ("xpr", "lowering", "runtimes"):
        shutil.copytree(
            *(ROOT / folder, root / folder),
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", "*.cpp", "*.h"),
        )
    return root


def test_a_helper_whose_installation_is_removed_is_replaced(
    own: Path, use: Callable[[Path], None], copy: Path
) -> None:
    use(own)
    _started_by(own, root=copy)
    (path,) = own.glob("*.sock")
    assert path == address.socket_path(FLAGS)  # it is of the same version
    first = helper_at(path)
    assert first is not None
    compiled()
    assert helper_at(path) == first
    shutil.rmtree(copy)
    compiled("again")
    second = helper_at(path)
    assert second not in (None, first)
    compiled("more")
    assert helper_at(path) == second


_GOES_ON = """
import shutil, sys
import numpy as np, xpr
x = np.float32(3)
print(float(xpr.jit(lambda x: x * 2.5)(x)))
shutil.rmtree(sys.argv[1])
print(float(xpr.jit(lambda x: x * 3.5 + 1)(x)))
"""


def test_a_process_that_is_removed_too_goes_on_with_its_helper(own: Path, copy: Path) -> None:
    settings = {"XPR_RUNTIME_DIR": str(own), "XPR_CACHE": "0", "XPR_COMPILER": "process"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _GOES_ON, str(copy)],
        env={**os.environ, **settings, "PYTHONPATH": str(copy)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "7.5\n11.5\n", "")


def test_what_was_replaced_ends_when_it_is_idle(
    own: Path, use: Callable[[Path], None], copy: Path
) -> None:
    use(own)
    _started_by(own, "os.environ['XPR_COMPILER_IDLE'] = '1'", root=copy)
    (path,) = own.glob("*.sock")
    first = helper_at(path)
    assert first is not None
    shutil.rmtree(copy)
    compiled()
    wait_until(lambda: not is_running(first))
    assert path.exists()  # it is the other's
    assert helper_at(path) is not None
