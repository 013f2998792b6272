"""Traces of this process and of another one that is registered."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import xpr

WORKER = """
import os, sys, xpr, xpr.numpy as jnp
server = xpr.profiler.start_server(0)
print(os.getpid(), server.server_port, flush=True)
for line in sys.stdin:
    with xpr.profiler.TraceAnnotation("work of the worker"):
        jnp.ones(3).sum()
    print("done", flush=True)
"""


def test_a_trace_of_two_processes(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen(
        [sys.executable, "-c", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        pid, port = map(int, worker.stdout.readline().split())
        with pytest.raises(RuntimeError, match=rf"is that of process {pid}, not of {pid + 1}"):
            xpr.profiler.register_subprocess(pid + 1, port)
        unregister = xpr.profiler.register_subprocess(pid, port)
        with pytest.raises(RuntimeError, match=f"process {pid} is registered already"):
            xpr.profiler.register_subprocess(pid, port)
        for folder in ("both", "alone"):
            with xpr.profiler.trace(tmp_path / folder):
                with xpr.profiler.TraceAnnotation("work of this one"):
                    worker.stdin.write("go\n")
                    worker.stdin.flush()
                    assert worker.stdout.readline() == "done\n"
            unregister()
        worker.stdin.close()
        assert worker.wait(60) == 0
    named: dict[str, set[tuple[str, int]]] = {}
    for folder in ("both", "alone"):
        (file,) = (tmp_path / folder).rglob("*.trace.json.gz")
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
        named[folder] = {(e["name"], e["pid"]) for e in events if e["name"].startswith("work")}
    own = ("work of this one", os.getpid())
    assert named == {"both": {own, ("work of the worker", pid)}, "alone": {own}}


def test_a_process_that_has_ended_is_left_out(tmp_path: Path) -> None:
    server = xpr.profiler.start_server(0)
    unregister = xpr.profiler.register_subprocess(os.getpid(), server.server_port)
    xpr.profiler.stop_server()
    with xpr.profiler.trace(tmp_path):
        pass
    unregister()
    unregister()
    assert len(list(tmp_path.rglob("*.trace.json.gz"))) == 1
    with pytest.raises(RuntimeError, match=r"answers at port .*start it there with"):
        xpr.profiler.register_subprocess(os.getpid(), server.server_port)
