"""How far a compile has come: for the bar that is shown of long ones, and for profiles."""

from __future__ import annotations

import time

from xpr.core.events import record, recorders

# The part of a compile's time that has passed at the end of each stage, of programs of middling
# size on a CPU. `host` is the part of `hal` that remains where dispatches are compiled one by one.
_PASSED = {
    "parse": 0.03,
    "input": 0.10,
    "abi": 0.11,
    "preprocessing": 0.13,
    "global-optimization": 0.27,
    "dispatch-creation": 0.40,
    "flow": 0.43,
    "stream": 0.53,
    "executable-sources": 0.55,
    "executable-configurations": 0.57,
    "executable-targets": 0.73,
    "hal": 0.93,
    "host": 0.95,
    "vm": 0.99,
    "end": 1.0,
}


class Advance:
    """The stages of a compile that have passed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = 0
        self.fraction: float | None = None
        """Which part of the time has passed, an estimate; None before the compile begins."""

    def begin(self) -> None:
        """A compile begins, or begins anew in another form."""
        self.fraction = 0.0
        self._last = time.perf_counter_ns()

    def passed(self, stage: str) -> None:
        """A stage has come to its end."""
        self.fraction = max(self.fraction or 0.0, _PASSED.get(stage, 0.0))
        if recorders:
            record("compile phase", stage, self._last, {"program": self._name})
        self._last = time.perf_counter_ns()
