"""The far end of a `WorkerSession`: ``python -m benchmarks.worker``.

Reads one JSON object a line and answers each with one: ``{"value": ...}`` or ``{"error": text}``.
Requests: ``{"do": "prepare", "case", "mode", "quick", "results": path}`` saves the results and
answers how many there are; ``{"do": "seconds", "loops"}`` answers seconds. The end of the input
ends the worker.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

import numpy

from benchmarks.sessions import CORES, LocalSession


def _answer(session: LocalSession, request: dict[str, Any]) -> Any:
    if request["do"] == "prepare":
        results = session.prepare(request["case"], request["mode"], request["quick"])
        if results:
            numpy.savez(request["results"], *results)
        return len(results)
    if request["do"] == "seconds":
        return session.seconds(request["loops"])
    raise ValueError(f"expected 'prepare' or 'seconds', got {request['do']!r}")


def main() -> None:
    # Whatever a library prints must not land between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    cores = int(os.environ.get(CORES, "0"))
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    session = LocalSession()
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"value": _answer(session, json.loads(line))}
        except Exception:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
