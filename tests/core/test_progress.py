"""The line with a bar that says what takes so long, in a notebook; terminals are elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

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
    assert seen[-1] == {"text/plain": ""}
    assert [output["data"] for output in notebook.cells[0].outputs] == [{"text/plain": ""}]
