"""The pages on programs without a runtime, followed word for word in a fresh folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
_BLOCK = re.compile(r"^```(\{literalinclude\} )?(\S+)\n(.*?)^```$", re.S | re.M)
_NAME = re.compile(r"(?:#|//|/\*|<!--) ([\w.]+\.\w+)")


def _follow(page: str, folder: Path) -> str:
    """Saves the files and runs the commands of a page, in their order; what is printed."""
    text, out = (DOCS / page).read_text(encoding="utf-8"), ""
    scripts = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    for include, head, body in _BLOCK.findall(text):
        if include:
            shutil.copy(DOCS / head, folder)
        elif head == "sh":
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", body],
                cwd=folder,
                capture_output=True,
                text=True,
                env=environment,
            )
            assert done.returncode == 0, f"{body}\n{done.stdout}{done.stderr}"
            out += done.stdout + done.stderr
        elif head != "text":  # what is shown, and not a part of the walk
            name = _NAME.match(body)
            assert name is not None, f"{page} does not name the file of a block: {body[:80]}"
            (folder / name[1]).write_text(body, encoding="utf-8")
    return out


def _missing(*tools: str) -> str:
    return ", ".join(t for t in tools if shutil.which(t) is None)


@pytest.mark.skipif(bool(_missing("gcc", "bash")), reason="gcc or bash is not installed")
def test_the_page_on_c(tmp_path: Path) -> None:
    out = _follow("deploy_c.md", tmp_path)
    assert out.count("the expected results") == 2
    assert "step 2000: loss 0.00" in out
    assert (tmp_path / "other" / "other.c").exists()


@pytest.mark.skipif(bool(_missing("node", "bash")), reason="Node.js or bash is not installed")
def test_the_page_on_browsers(tmp_path: Path) -> None:
    out = _follow("deploy_browser.md", tmp_path)
    assert "step 2000: loss 0.00" in out
    assert "application/wasm" in out


@pytest.mark.skipif(
    bool(_missing("arm-none-eabi-gcc", "qemu-system-arm", "bash")),
    reason="a compiler or an emulator for Cortex-M is not installed",
)
def test_the_page_on_microcontrollers(tmp_path: Path) -> None:
    assert "digits: the expected results" in _follow("deploy_microcontroller.md", tmp_path)
