"""One process for a long time: its memory, files and threads stay as they are."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.reliability.scripts import LONG, run

SECONDS = 3600

pytestmark = pytest.mark.skipif(
    not LONG or sys.platform != "linux", reason="one hour, with XPR_LONG_TESTS=1 on Linux"
)


def test_an_hour_of_work_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "figures"
    run(
        "import runpy, sys; sys.argv = ['soak', *sys.argv[1:]]\n"
        "runpy.run_module('tests.reliability.soak', run_name='__main__')",
        SECONDS,
        out,
        20,
    )
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    # A fifth of the time fills the caches: programs of all shapes have been compiled then.
    warm, last = lines[len(lines) // 5], lines[-1]
    assert last["rounds"] > 2 * warm["rounds"]
    assert last["megabytes"] < warm["megabytes"] + 64, lines
    assert last["files"] <= warm["files"] + 2, lines
    assert last["threads"] <= warm["threads"] + 2, lines
    assert last["objects"] < warm["objects"] + 20_000, lines
