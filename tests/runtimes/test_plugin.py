"""A package that adds a runtime: installed as a user would, found and used in a fresh process."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "examples" / "plugin_runtime"

PROGRAM = """
import logging, sys
import xpr, xpr.numpy as jnp
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
(device,) = xpr.devices("logged")
x = xpr.device_put(jnp.arange(3.0), device)
print(x.devices(), xpr.default_backend())
y = xpr.jit(lambda v: v * 2 + 1)(x)
print(y, y.devices(), flush=True)
print((xpr.device_put(y, xpr.devices("cpu")[0]) + jnp.ones(3)).device)
"""

BROKEN = """
import xpr, xpr.numpy as jnp
print(xpr.print_devices(return_string=True))
print(xpr.jit(lambda v: v + 1)(jnp.ones(2)), xpr.default_backend())
try:
    xpr.devices("broken")
except RuntimeError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the package, from a copy of its source."""
    source = tmp_path_factory.mktemp("source") / "plugin"
    shutil.copytree(
        PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg*")
    )
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "--no-index", "--no-deps", "--no-build-isolation", "--target", target, source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


def _run(code: str, folder: Path) -> str:
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_an_installed_package_adds_a_device(installed: Path) -> None:
    where, call, result, after = _run(PROGRAM, installed).splitlines()
    assert where == "{LoggedDevice(id=0)} cpu"
    assert re.fullmatch(r"logged:0: \(float32\[3\]\) -> \(float32\[3\]\) in \d+\.\d+ ms", call)
    assert result == "[1. 3. 5.] {LoggedDevice(id=0)}"
    assert after == "cpu:0"


def test_a_package_that_fails_breaks_nothing(installed: Path) -> None:
    info = installed / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[xpr.runtimes]\nbroken = no_driver_here:Runtime\n")
    out = _run(BROKEN, installed)
    assert re.search(
        r"^broken +- +- +unusable: ModuleNotFoundError: No module named 'no_driver_here'$",
        out,
        re.MULTILINE,
    )
    assert re.search(r"^logged:0 +cpu ", out, re.MULTILINE)
    last = out.splitlines()[-2:]
    assert last[0] == "[2. 2.] cpu"
    assert last[1] == (
        "Unable to initialize backend broken: ModuleNotFoundError: No module named 'no_driver_here'"
    )
