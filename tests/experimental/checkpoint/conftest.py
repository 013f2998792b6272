"""What the tests of checkpoints share."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from xpr.experimental.checkpoint import saving


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Holds writing up until it is set."""
    gate = threading.Event()
    write = saving.write

    def later(*args: Any) -> None:
        assert gate.wait(60)
        write(*args)

    monkeypatch.setattr(saving, "write", later)
    yield gate
    gate.set()
