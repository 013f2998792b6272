"""The process that checks the calls which a sentinel wrote down: `python -m xpr.recording.checker`.

It runs at low priority, until its standard input is closed and nothing is left to check.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from xpr.recording.calls import Recording
from xpr.recording.files import RecordingError
from xpr.recording.recorder import SUFFIX
from xpr.recording.verdicts import UNKNOWN, WRONG, Verdict, judged

_PAUSE = 0.2


def check_waiting(folder: Path) -> int:
    """Checks all calls that wait; returns how many there were."""
    files = sorted((folder / "waiting").glob(f"*{SUFFIX}"))
    for file in files:
        try:
            recording = Recording.load(file)
            verdict = judged(recording)
        except RecordingError as error:
            recording, verdict = None, Verdict(UNKNOWN, str(error))
        if recording is not None and verdict.kind == WRONG:
            _alarm(folder, file, recording, verdict)
        file.unlink(missing_ok=True)
        _count(folder, verdict)
    return len(files)


def _alarm(folder: Path, file: Path, recording: Recording, verdict: Verdict) -> None:
    """Keeps a call, once for each program."""
    alarms = folder / "alarms"
    alarms.mkdir(parents=True, exist_ok=True)
    name = _key(recording)
    if not (alarms / f"{name}.txt").exists():
        os.replace(file, alarms / f"{name}{SUFFIX}")
        text = f"{recording}\nwrong: {verdict.reason}\n"
        (alarms / f"{name}.txt").write_text(text, encoding="utf-8")


def _key(recording: Recording) -> str:
    data = json.dumps(recording.document["program"], sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def _count(folder: Path, verdict: Verdict) -> None:
    """Adds to the summary of the day."""
    path = folder / f"summary-{time.strftime('%Y-%m-%d')}.json"
    counts: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    counts[verdict.kind] = counts.get(verdict.kind, 0) + 1
    if verdict.kind == UNKNOWN:
        reasons = counts.setdefault("reasons", {})
        if len(reasons) < 100 or verdict.reason in reasons:
            reasons[verdict.reason] = reasons.get(verdict.reason, 0) + 1
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(counts, indent=1))
    os.replace(part, path)


def main(folder: Path) -> None:
    """Checks until standard input ends and nothing waits."""
    if hasattr(os, "nice"):
        os.nice(19)
    ended = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    while True:
        last = ended.is_set()
        if not check_waiting(folder):
            if last:
                return
            time.sleep(_PAUSE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
