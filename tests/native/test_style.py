"""The sources of the native part: formatted, and nothing in them that clang-tidy finds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [
    str(path.relative_to(ROOT))
    for folder in ("runtimes/native", "runtimes/native/products", "tests/native")
    for path in sorted((ROOT / folder).iterdir())
    if path.suffix in (".cpp", ".h")
]


def _needs(*tools: str) -> pytest.MarkDecorator:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {' and '.join(missing)}")


def _run(*command: str) -> str:
    """What a command prints, whether it succeeds or not; its status is added where it fails."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=3600
    )
    # clang-tidy counts on the other stream what it has left out.
    return done.stdout + (f"{done.stderr}status {done.returncode}" if done.returncode else "")


@_needs("clang-format")
def test_the_sources_are_formatted() -> None:
    assert len(SOURCES) > 40
    assert _run("clang-format", "--dry-run", "-Werror", *SOURCES) == ""


@pytest.mark.skipif(
    os.environ.get("XPR_LONG_TESTS") != "1", reason="takes minutes: XPR_LONG_TESTS=1, or make tidy"
)
@_needs("clang-tidy", "cmake", "ninja", "c++")
def test_clang_tidy_finds_nothing() -> None:
    build = str(ROOT / "build" / "tidy")
    python = f"-DPython_EXECUTABLE={sys.executable}"
    options = ["-DXPR_TEST_PROGRAMS=ON", "-DXPR_IN_PLACE=OFF", python]
    made = _run("cmake", "--preset", "release", "-B", build, *options)
    assert "status" not in made, made
    files = [name for name in SOURCES if name.endswith(".cpp")]
    assert _run("clang-tidy", "-p", build, "--quiet", *files) == ""
