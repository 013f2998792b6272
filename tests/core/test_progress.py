"""The line that says what takes so long, in a notebook; terminals are with the commands."""

from __future__ import annotations

from typing import Any

import pytest

CELL = """
import threading
from xpr.core.progress import phase

shown = threading.Event()

def name():
    shown.set()
    return "compiling f"

with phase(name, patience=0):
    assert shown.wait(60)
"""


def test_a_notebook_has_the_line_until_the_work_is_done() -> None:
    nbclient = pytest.importorskip("nbclient", reason="no nbclient to run a notebook with")
    nbformat = pytest.importorskip("nbformat", reason="no nbformat to make a notebook with")
    pytest.importorskip("ipykernel", reason="no kernel to run a notebook")
    seen: list[str] = []

    class Client(nbclient.NotebookClient):
        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            if msg["msg_type"] in ("display_data", "update_display_data"):
                seen.append(msg["content"]["data"]["text/plain"])
            return super().process_message(msg, cell, cell_index)

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    Client(notebook, timeout=120, kernel_name="python3").execute()
    assert seen[0].startswith("compiling f ... ")
    assert seen[-1] == ""
    assert [output["data"] for output in notebook.cells[0].outputs] == [{"text/plain": ""}]
