"""The line with a bar that says what takes so long, on a terminal and in a notebook."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from typing import Any

import pytest

from xpr.core import progress

CELL = """
import threading
from xpr.core.progress import phase

shown = threading.Event()

def fraction():
    shown.set()
    return 0.25

with phase("compiling f <g>", patience=0, fraction=fraction):
    assert shown.wait(60)
"""


def test_a_notebook_has_the_line_until_the_work_is_done() -> None:
    nbclient = pytest.importorskip("nbclient", reason="no nbclient to run a notebook with")
    nbformat = pytest.importorskip("nbformat", reason="no nbformat to make a notebook with")
    pytest.importorskip("ipykernel", reason="no kernel to run a notebook")
    seen: list[dict[str, str]] = []

    class Client(nbclient.NotebookClient):
        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            if msg["msg_type"] in ("display_data", "update_display_data"):
                seen.append(msg["content"]["data"])
            return super().process_message(msg, cell, cell_index)

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    Client(notebook, timeout=120, kernel_name="python3").execute()
    assert seen[0]["text/plain"].startswith("compiling f <g> ... ")
    assert seen[0]["text/plain"].endswith(f"[{'#' * 6}{'-' * 18}]")
    assert seen[0]["text/html"].startswith("compiling f &lt;g&gt; ... ")
    assert '<progress value="0.25" max="1">' in seen[0]["text/html"]
    # What is left draws nothing: it has no data of any type.
    assert seen[-1] == {}
    assert [output["data"] for output in notebook.cells[0].outputs] == [{}]


NAME = "train_a_network (/home/a_user/projects/networks/training_of_many_layers.py:12)"
BAR = f"[{'#' * 12}{'-' * 12}]"
FITTING = {
    (200, 0.5): f"{NAME} ... 3 s {BAR}",
    (110, None): f"{NAME} ... 3 s",
    (79, 0.5): f"train_a_networ…raining_of_many_layers.py:12) ... 3 s {BAR}",
    (60, 0.5): "train_a_network (…rks/training_of_many_layers.py:12) ... 3 s",
    (40, 0.5): "train_a_ne…of_many_layers.py:12) ... 3 s",
    (20, 0.5): "3 s",
    (1, None): "3 s",
}


@pytest.mark.parametrize(("columns", "fraction"), FITTING)
def test_the_line_fits_a_terminal(columns: int, fraction: float | None) -> None:
    line = progress._fitting(NAME, 3, fraction, columns)
    assert line == FITTING[columns, fraction]
    assert len(line) <= max(columns, 3)


def test_wide_and_unprintable_characters() -> None:
    assert progress._fitting("損失\n(\x1b[2Jf)", 3, None, 40) == "損失?(?[2Jf) ... 3 s"
    line = progress._fitting("損失関数" * 9, 3, None, 40)
    assert progress._wide(line) <= 40
    assert line.startswith("損失関数損…")
    assert line.endswith("損失関数 ... 3 s")


ON_A_TERMINAL = """
import sys, threading
from xpr.core import progress
drawn = threading.Event()
real = progress._columns
progress._columns = lambda out: (drawn.set(), real(out))[1]
with progress.phase("compiling " + "f" * 200, patience=0):
    drawn.wait(60 if sys.argv[1] == "on" else 0.2)
print("end")
"""


@pytest.mark.parametrize("setting", ["on", "off"])
def test_no_line_is_wider_than_the_terminal(setting: str) -> None:
    pty = pytest.importorskip("pty", reason="terminals are made by pty, which Windows lacks")
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
    done = subprocess.run(
        [sys.executable, "-c", ON_A_TERMINAL, setting],
        env=os.environ | {"XPR_PROGRESS": setting},
        stdout=subprocess.PIPE,
        stderr=follower,
        timeout=120,
        check=False,
    )
    os.close(follower)
    os.set_blocking(leader, False)
    try:
        written = os.read(leader, 1 << 16).decode()
    except (BlockingIOError, OSError):  # nothing was written
        written = ""
    finally:
        os.close(leader)
    assert (done.returncode, done.stdout) == (0, b"end\n")
    lines = [line.removeprefix("\x1b[K") for line in written.split("\r")]
    assert max(map(len, lines)) == (49 if setting == "on" else 0)
