"""`xpr launch`: a program in several processes, by MPI's own launcher."""

from __future__ import annotations

import argparse
import importlib.util
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from xpr.cli import launched
from xpr.cli.errors import CommandError, UsageError
from xpr.distributed import environment, launchers

_PATIENCE = 5.0
"""Seconds that the launcher gets to end all processes before it is killed."""

_TERMINATED = 128 + signal.SIGTERM


def run(options: argparse.Namespace) -> int:
    """Starts the processes, shows what they write and ends them all when one fails."""
    count = options.processes
    if count < 1:
        raise UsageError(f"-n must be at least 1, got {count}")
    if options.devices is not None and options.devices < 1:
        raise UsageError(f"--devices must be at least 1, got {options.devices}")
    if not options.grace >= 0:
        raise UsageError(f"--grace must be a number of seconds, got {options.grace:g}")
    command = [sys.executable, *_program(options)]
    inside = environment.detect(os.environ)
    if inside is not None and inside.count > 1:
        raise UsageError(
            f"this is already process {inside.index} of {inside.count} that {inside.name} started: "
            "start the program itself there"
        )
    if importlib.util.find_spec("mpi4py") is None:
        raise CommandError("the package mpi4py is not installed: pip install 'xpr[mpi]'")
    try:
        launcher = launchers.find(os.environ, options.launcher)
    except launchers.LauncherMissingError as error:
        raise CommandError(str(error)) from error
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if options.devices is not None:
        variables["XPR_NUM_CPU_DEVICES"] = str(options.devices)
    hosts = [name for name in (options.hosts or "").split(",") if name]
    _remark(launcher, count, hosts)
    token = f"\x1e{secrets.token_hex(8)}"
    words = [
        *launcher.command(count, hosts, variables),
        *(sys.executable, "-I", launched.__file__, token, *command),
    ]
    return _Job(words, launcher.environment(variables), token, count, options.grace).run()


def _program(options: argparse.Namespace) -> list[str]:
    given = [o for o in (options.module, options.code, options.program) if o]
    if not given:
        raise UsageError("which program? `xpr launch -n 4 train.py`, or -m module, or -c code")
    if options.module:
        return ["-m", *options.module]
    if options.code:
        return ["-c", *options.code]
    script = options.program[0]
    if not Path(script).exists():
        raise UsageError(f"there is no file {script}")
    return list(options.program)


def _remark(launcher: launchers.MpiLauncher, count: int, hosts: Sequence[str]) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = [launcher.remark()]
    if not hosts and cores is not None and count > cores:
        found.append(f"{count} processes share {cores} cores and take turns")
    for remark in found:
        if remark:
            _say(remark)


def _say(text: str) -> None:
    print(f"xpr launch: {text}", file=sys.stderr, flush=True)


class _Job:
    """The processes of one launch."""

    def __init__(
        self, words: list[str], variables: dict[str, str], token: str, count: int, grace: float
    ) -> None:
        self._words = words
        self._variables = variables
        self._token = token.encode()
        self._count = count
        self._grace = grace
        self._told: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        self._where: dict[int, str] = {}
        self._ended: dict[int, int] = {}
        self._is_ending = False

    def run(self) -> int:
        launcher = subprocess.Popen(
            self._words,
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: launched.die_with_parent(signal.SIGTERM),
        )
        before = signal.signal(signal.SIGTERM, _terminate)
        assert launcher.stdout is not None
        assert launcher.stderr is not None
        readers = [
            threading.Thread(target=self._show, args=(source, target), daemon=True)
            for source, target in ((launcher.stdout, 1), (launcher.stderr, 2))
        ]
        for reader in readers:
            reader.start()
        try:
            status = self._watch(launcher)
        except (KeyboardInterrupt, _Terminated) as error:
            self._is_ending = True
            _say("ending all processes")
            _end(launcher, first=0.0 if isinstance(error, _Terminated) else 1.0)
            if isinstance(error, _Terminated):
                return _TERMINATED
            raise
        finally:
            signal.signal(signal.SIGTERM, before)
            _end(launcher)
            for reader in readers:
                reader.join(_PATIENCE)
        return status

    def _show(self, source: IO[bytes], target: int) -> None:
        """Passes on what the launcher and its processes write, but for what they tell this one."""
        for line in source:
            before, found, told = line.partition(self._token)
            if found:
                self._told.put(told.decode(errors="replace").split())
                line = before
            if line and not (self._is_ending and not line.startswith(b"[")):
                launched.write_all(target, line)

    def _watch(self, launcher: subprocess.Popen[bytes]) -> int:
        """Waits for the end; the exit status of the process that failed first, if one did."""
        failed: int | None = None
        until = float("inf")
        while True:
            try:
                self._take(self._told.get(timeout=0.1))
            except queue.Empty:
                pass
            bad = [p for p, status in self._ended.items() if status]
            if bad and failed is None:
                failed = bad[0]
                until = time.monotonic() + self._grace
            if failed is not None:
                left = self._count - len(self._ended)
                if not left or time.monotonic() > until:
                    self._is_ending = True
                    _say(self._failure(failed, left))
                    _end(launcher)
                    status = self._ended[failed]
                    return status if status >= 0 else 128 - status
            if launcher.poll() is not None and self._told.empty():
                return self._without_failure(launcher.returncode)

    def _take(self, told: list[str]) -> None:
        what, rank, *rest = told
        if what == "start":
            pid, host = rest
            self._where[int(rank)] = f"process {rank} (host {host}, pid {pid})"
        elif what == "end":
            self._ended[int(rank)] = int(rest[0])

    def _failure(self, process: int, left: int) -> str:
        status = self._ended[process]
        if status < 0:
            how = f"was killed by signal {-status} ({_name(-status)})"
        else:
            how = f"ended with status {status}"
        others = sorted(p for p in range(self._count) if p not in self._ended)
        named = f"; ended the others that still ran: {others}" if left else ""
        return f"{self._where.get(process, f'process {process}')} {how}{named}"

    def _without_failure(self, status: int) -> int:
        """The exit status after a launcher that ended by itself."""
        if status == 0 and len(self._ended) == self._count:
            return 0
        _say(
            f"the launcher ended with status {status} after {len(self._where)} of {self._count} "
            f"processes had started: {' '.join(self._words[:8])} ..."
        )
        return status if status > 0 else 1


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


class _Terminated(BaseException):
    """Somebody asked `xpr launch` to end."""


def _terminate(number: int, frame: object) -> None:
    del number, frame
    raise _Terminated


def _end(launcher: subprocess.Popen[bytes], first: float = 0.0) -> None:
    """Ends the launcher and with it all processes; it gets `first` seconds to do so by itself."""
    for seconds, number in ((first, signal.SIGTERM), (_PATIENCE, signal.SIGKILL)):
        try:
            launcher.wait(seconds)
            return
        except subprocess.TimeoutExpired:
            launcher.send_signal(number)
    launcher.wait()
