"""The commands of the pages on the command line and on deployment, typed as a user types them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def _commands(text: str) -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell in which xpr is installed, at the root of the repository."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    # The tests may run from a checkout where the command has not been installed.
    command = scripts / "xpr"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m xpr "$@"\n')
    command.chmod(0o755)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = [str(scripts), str(Path(sys.executable).parent), os.environ["PATH"]]
    return {
        **os.environ,
        "PATH": os.pathsep.join(path),
        "PYTHONPATH": str(ROOT),
        "XPR_CACHE": "1",
        "XPR_CACHE_DIR": str(tmp_path / "cache"),
    }


def _run(commands: list[str], folder: Path, environment: dict[str, str]) -> str:
    printed = ""
    for line in commands:
        done = subprocess.run(
            line,
            shell=True,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), f"{line}\n{done.stderr}"
        printed += done.stdout
    return printed


def _expected() -> np.ndarray:
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((64, 32), np.float32) / 8
    output = rng.standard_normal((32, 10), np.float32) / 4
    scores = np.maximum(np.ones((8, 64), np.float32) @ hidden, 0) @ output
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.skipif(os.name != "posix", reason="the commands are for a POSIX shell")
def test_the_commands_of_the_command_line(tmp_path: Path, shell: dict[str, str]) -> None:
    commands = _commands((ROOT / "docs" / "command_line.md").read_text(encoding="utf-8"))
    used = {line.split()[1] for line in commands if line.startswith("xpr ")}
    assert used == {"devices", "compile", "inspect", "run", "bench", "cache"}
    printed = _run(commands, tmp_path, shell)
    assert "  input    args[0]: f32[b,64]\n" in printed
    assert "model.vmfb: predict for vulkan, " in printed
    assert printed.endswith(" entries checked, 0 damaged\n")
    found = np.load(tmp_path / "probabilities.npy")
    np.testing.assert_allclose(found, _expected(), rtol=1e-5)
    np.testing.assert_array_equal(np.load(tmp_path / "classes.npy"), found.argmax(1))


@pytest.mark.skipif(os.name != "posix", reason="the commands are for a POSIX shell")
def test_the_commands_for_machines_without_python(tmp_path: Path, shell: dict[str, str]) -> None:
    page = ROOT / "docs" / "deploy_without_python.md"
    commands = _commands(page.read_text(encoding="utf-8"))
    assert sum(line.startswith("iree-run-module ") for line in commands) == 1
    printed = _run(commands, tmp_path, shell)
    assert "main(f32[8,64]) -> (i32[8], f32[8,10])" in printed
    found = np.load(tmp_path / "probabilities.npy")
    np.testing.assert_allclose(found, _expected(), rtol=1e-5)
    np.testing.assert_array_equal(np.load(tmp_path / "classes.npy"), found.argmax(1))
