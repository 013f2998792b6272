"""Runs rows in child processes, and keeps one line of JSON for each in a file."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.rows import Outcome, all_rows

ABSENT = Path(__file__).parent / "absent"
_ROOT = Path(__file__).parents[2]
_START_SECONDS = 120.0


class Worker:
    """A child process that runs one row after the other, until one fails."""

    def __init__(
        self,
        runtime: str,
        options: Sequence[str],
        environment: dict[str, str],
        module: str = "benchmarks.gpu.worker",
    ) -> None:
        paths = [str(_ROOT), str(ABSENT), os.environ.get("PYTHONPATH", "")]
        self._child = subprocess.Popen(
            [sys.executable, "-m", module, "--runtime", runtime, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **environment},
        )
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._child.stdout, selectors.EVENT_READ, "out")
        self._ready.register(self._child.stderr, selectors.EVENT_READ, "said")
        self._out = b""
        self._said = b""
        self._is_new = True

    def run(self, name: str, limit: float) -> tuple[Outcome, bool]:
        """The outcome of a row, and whether the process may run another one."""
        start = time.monotonic()
        deadline = start + limit + (_START_SECONDS if self._is_new else 0.0)
        self._is_new = False
        child = self._child
        assert child.stdin is not None
        try:
            child.stdin.write(f"{name}\n".encode())
            child.stdin.flush()
        except BrokenPipeError:
            pass  # its end is told below
        while b"\n" not in self._out:
            left = deadline - time.monotonic()
            if left <= 0:
                self.end()
                return self._lost(name, f"took more than {limit:g} s", start), False
            for key, _ in self._ready.select(left):
                data = os.read(key.fd, 1 << 16)
                if not data:
                    self._ready.unregister(key.fileobj)
                    if key.data == "out":
                        status = child.wait()
                        assert child.stderr is not None
                        # Processes that it has started may keep it open.
                        os.set_blocking(child.stderr.fileno(), False)
                        self._said = (self._said + (child.stderr.read() or b""))[-4000:]
                        how = f"signal {-status}" if status < 0 else f"status {status}"
                        return self._lost(name, f"the process ended by {how}", start), False
                elif key.data == "out":
                    self._out += data
                else:
                    self._said = (self._said + data)[-4000:]
        line, self._out = self._out.split(b"\n", 1)
        outcome: Outcome = json.loads(line)
        return outcome, bool(outcome["ok"])

    def _lost(self, name: str, why: str, start: float) -> Outcome:
        said = self._said.decode(errors="replace")[-1500:]
        seconds = round(time.monotonic() - start, 3)
        return {"row": name, "ok": False, "failure": why, "said": said, "seconds": seconds}

    def end(self) -> None:
        """Ends the process."""
        if self._child.stdin is not None:
            try:
                self._child.stdin.close()
            except BrokenPipeError:
                pass
        try:
            self._child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._ready.close()
        for stream in (self._child.stdout, self._child.stderr):
            if stream is not None:
                stream.close()


def run_rows(
    names: Sequence[str],
    runtime: str,
    file: Path,
    *,
    options: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    minutes: float | None = None,
    patience: float = 1.0,
    tell: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """The outcomes of rows, those of an earlier run that the file has among them.

    The rows' limits are those of rows that compile nothing, times `patience`.

    Each is written to the file as soon as it is there. Rows for which no time is left are left out.
    """
    wanted = set(names)
    found = {o["row"]: o for o in read_lines(file) if o.get("runtime") == runtime}
    found = {name: o for name, o in found.items() if name in wanted}
    _drop_cut_line(file)
    end = None if minutes is None else time.monotonic() + 60 * minutes
    worker: Worker | None = None
    rows = all_rows()
    try:
        with file.open("a", encoding="utf-8") as lines:
            for name in names:
                if name in found:
                    continue
                if end is not None and time.monotonic() >= end:
                    break
                limit = rows[name].limit * patience
                left = limit if end is None else max(1.0, end - time.monotonic())
                if worker is None:
                    worker = Worker(runtime, options, environment or {})
                outcome, goes_on = worker.run(name, min(limit, left))
                outcome["runtime"] = runtime
                if not goes_on:
                    # What a device was left in by a row that failed is not the next one's.
                    worker.end()
                    worker = None
                found[name] = outcome
                lines.write(json.dumps(outcome) + "\n")
                lines.flush()
                os.fsync(lines.fileno())
                if tell is not None:
                    tell(outcome)
    finally:
        if worker is not None:
            worker.end()
    return [found[name] for name in names if name in found]


def _drop_cut_line(file: Path) -> None:
    """Removes what was written of a last line when the run was ended."""
    if file.exists():
        whole = file.read_bytes()
        if not whole.endswith(b"\n"):
            file.write_bytes(whole[: whole.rfind(b"\n") + 1])


def read_lines(file: Path) -> list[Outcome]:
    """The outcomes in a file; a last line that was cut off counts for nothing.

    Raises ValueError for a file of another kind.
    """
    if not file.exists():
        return []
    found: list[Outcome] = []
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    for i, line in enumerate(lines):
        try:
            outcome: Any = json.loads(line)
            if not {"row", "ok"}.issubset(outcome):
                raise ValueError("it has no row")
        except (ValueError, TypeError) as error:
            if i == len(lines) - 1:
                break
            raise ValueError(f"{file}, line {i + 1}: not the outcome of a row: {error}") from None
        found.append(outcome)
    return found
