"""Functions that run around a fork: one registry for all of xpr."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")

PROGRAM = """
import os
from xpr.runtimes import fork

said = []

@fork.before
def first():
    said.append("first, before")

@fork.before
def second():
    said.append("second, before")

@fork.in_child
def third():
    said.append("third, in the child")

fork.in_child(lambda: said.append("fourth, in the child"))
child = os.fork()
if child == 0:
    print(said, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(said)
"""


def test_functions_run_before_a_fork_and_in_the_child() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    before = ["second, before", "first, before"]
    child, parent = done.stdout.splitlines()
    assert child == str([*before, "third, in the child", "fourth, in the child"])
    assert parent == str(before)


def test_nothing_else_registers_functions() -> None:
    found = [
        path.name
        for folder in ("xpr", "lowering", "runtimes")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "register_at_fork" in path.read_text(encoding="utf-8")
    ]
    assert set(found) == {"fork.py"}
