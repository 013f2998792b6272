"""The tutorial about a model of JAX's runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_cells_run(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "tutorials" / "from_jax.md").read_text(encoding="utf-8")
    cells = re.findall(r"^```\{code-cell\}\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert len(cells) > 8
    monkeypatch.chdir(ROOT / "docs" / "tutorials")
    names: dict[str, object] = {}
    for cell in cells:
        exec(compile(cell, "from_jax.md", "exec"), names)
    folder = names["folder"]
    assert isinstance(folder, Path)
    assert (folder / "spirals.vmfb").stat().st_size < 1 << 20
    assert (folder / "either.jax").stat().st_size < 1 << 16
