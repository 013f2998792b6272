"""Has the helper process compile, which is started if there is none."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from xpr.core.config import state
from xpr.lowering.cache import CompileCache
from xpr.lowering.iree import compiler_library, shortcuts
from xpr.lowering.iree.dispatches import Nowhere
from xpr.lowering.iree.interruption import Interruption
from xpr.lowering.iree.invocation import Diagnostic
from xpr.lowering.iree.post_passes import Change
from xpr.lowering.iree.process import address, messages
from xpr.lowering.iree.process.address import UnavailableError
from xpr.lowering.iree.process.messages import NOWHERE, Place
from xpr.lowering.iree.stopwatch import Stopwatch
from xpr.runtimes import fork

_PATIENCE = 20.0
"""Seconds that a helper may take to greet; what a compile may take is a setting."""

_ATTEMPTS = 3
_SCRIPT = Path(__file__).with_name("start.py")
_BACKLOG = 128

_given_up: dict[str, str] = {}
"""Why this process asks a helper no more, by its kind."""


class CompilerDiedError(Exception):
    """The process of a compile has ended before its answer."""

    def __init__(self, signal: int | None) -> None:
        how = f" by signal {signal}" if signal else ""
        super().__init__(f"the compiler's process ended{how}")


class CompilerTimeoutError(TimeoutError):
    """A compile has taken longer than the setting ``compiler_timeout`` allows."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the compiler took longer than {seconds:g} seconds (XPR_COMPILER_TIMEOUT)"
        )


class _HelperGoneError(Exception):
    """The helper has ended; of the compile nothing is known."""


def compile_module(
    text: str,
    flags: Sequence[str],
    *,
    name: str,
    verify: bool,
    parallel: bool,
    changes: Sequence[Change] = (),
    dispatches: CompileCache | Nowhere | None = None,
    watch: Stopwatch | None = None,
    allowed: Collection[str] = shortcuts.ALL,
    timeout: float | None = None,
    begins_within: float | None = None,
    interruption: Interruption | None = None,
    tell: Callable[[str], None] | None = None,
) -> tuple[bytes | None, list[Diagnostic]]:
    """As `driver.compile_module`, in another process; `tell` is told of stages that have passed.

    Raises `CompilerDiedError` if that ends, `CompilerTimeoutError` if it takes longer than
    `timeout` seconds, `InterruptedCompileError` if `interruption` is requested meanwhile, and
    `UnavailableError` if there is no helper to be had, or if no worker begins with the program
    within `begins_within` seconds.
    """
    times = begins_within or timeout, timeout
    request = {
        "flags": list(flags),
        "name": name,
        "verify": verify,
        "parallel": parallel,
        "shortcuts": sorted(allowed),
        "changes": [change.key for change in changes],
        "dispatches": _place(dispatches),
        "watched": watch is not None,
        "tmpdir": os.environ.get("TMPDIR"),
        "processors": sorted(os.sched_getaffinity(0)),
    }
    interruption = interruption or Interruption()
    try:
        answer, module = _connect_and_ask(request, text, times, interruption, tell)
    except _HelperGoneError:
        # That may have to do with another compile, or with none.
        try:
            answer, module = _connect_and_ask(request, text, times, interruption, tell)
        except _HelperGoneError as error:
            raise CompilerDiedError(None) from error
    if "died" in answer:
        raise CompilerDiedError(answer["died"])
    if "error" in answer:
        raise RuntimeError(answer["error"])
    for names, reason in answer["declined"]:
        shortcuts.record(shortcuts.DeclinedError(names, reason))
    if watch is not None:
        watch.add(answer["watched"])
    said = [Diagnostic(*one) for one in answer["said"]]
    return (module if answer["module"] else None), said


def _place(dispatches: CompileCache | Nowhere | None) -> Place:
    """Where a worker keeps dispatches."""
    if isinstance(dispatches, CompileCache):
        return os.fspath(dispatches.directory.absolute()), dispatches.max_bytes
    return None if dispatches is None else NOWHERE


def _connect_and_ask(
    request: dict[str, Any],
    text: str,
    times: tuple[float | None, float | None],
    interruption: Interruption,
    tell: Callable[[str], None] | None,
) -> tuple[dict[str, Any], bytes]:
    connection = _connection(request["flags"], request["shortcuts"])
    with connection, interruption.calls(partial(_close, connection)):
        try:
            return _ask(connection, request, text, times, tell)
        except _HelperGoneError:
            interruption.check()
            raise


def _close(connection: socket.socket) -> None:
    """Has the other side give up; whoever reads here finds the end."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _ask(
    connection: socket.socket,
    request: dict[str, Any],
    text: str,
    times: tuple[float | None, float | None],
    tell: Callable[[str], None] | None,
) -> tuple[dict[str, Any], bytes]:
    begins_within, seconds = times
    connection.settimeout(begins_within)
    try:
        try:
            messages.send(connection, request, text.encode())
            begun, _ = messages.receive(connection)
        except TimeoutError:
            raise UnavailableError(f"no compile began within {begins_within:g} seconds") from None
        if "begun" not in begun:
            return begun, b""
        try:
            return _answer(connection, seconds, tell)
        except TimeoutError:
            raise CompilerTimeoutError(seconds or 0.0) from None
    except (EOFError, ConnectionError) as error:
        raise _HelperGoneError from error


def _answer(
    connection: socket.socket, seconds: float | None, tell: Callable[[str], None] | None
) -> tuple[dict[str, Any], bytes]:
    """What came of a compile, behind what is said of its stages; TimeoutError after `seconds`."""
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        if end is not None:
            connection.settimeout(max(end - time.monotonic(), 1e-3))
        header, payload = messages.receive(connection)
        if "passed" not in header:
            return header, payload
        if tell is not None:
            tell(header["passed"])


def _connection(flags: Sequence[str], allowed: Collection[str]) -> socket.socket:
    """A connection to a helper that has said that it is of this version."""
    kind = address.kind(flags, allowed)
    if kind in _given_up:
        raise UnavailableError(_given_up[kind])
    try:
        path = address.socket_path(flags, allowed)
        for _ in range(_ATTEMPTS):
            connection = _connect(path)
            if connection is None:
                connection = _start(path, flags, allowed)
            try:
                if _check(connection) and _can_start():
                    connection.close()
                    _retire(path)
                    continue
            except (EOFError, ConnectionError):
                connection.close()  # it was about to end, being idle
                continue
            except BaseException:
                connection.close()
                raise
            return connection
        raise UnavailableError("the helper process ends as soon as it is asked")
    except TimeoutError:
        why = f"the helper process did not answer for {_PATIENCE:g} seconds"
        _given_up[kind] = why
        warnings.warn(
            f"{why}: this process compiles by itself from now on. XPR_COMPILER=inline has it "
            "do so from the beginning.",
            RuntimeWarning,
            stacklevel=2,
        )
        raise UnavailableError(why) from None
    except UnavailableError as error:
        _given_up[kind] = f"{error}"
        raise
    except OSError as error:
        raise UnavailableError(f"{error}") from error


def _check(connection: socket.socket) -> bool:
    """Reads a helper's greeting; whether its installation is not there any more."""
    if not address.is_own_user(connection):
        raise UnavailableError("the helper process is another user's")
    hello, _ = messages.receive(connection)
    if hello.get("digest") != address.digest():
        raise UnavailableError("the helper process is of another version")
    return hello.get("removed", False)


def _can_start() -> bool:
    """Whether this process could start a helper: its own installation is there."""
    return all(map(os.path.exists, (sys.executable, _SCRIPT, compiler_library.library_path())))


def _retire(path: Path) -> None:
    """Has nobody ask a helper any more whose installation was removed; another one is started.

    It ends when it has been idle. While its installation is gone it may lack files that a compile
    reads when it first needs them, but goes on for a process that cannot start another one.
    """
    with address.locked(path.parent):
        connection = _connect(path)
        if connection is None:
            return
        with connection:
            if _check(connection):
                path.unlink(missing_ok=True)


def _connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_PATIENCE)
    try:
        connection.connect(os.fspath(path))
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


def _start(path: Path, flags: Sequence[str], allowed: Collection[str]) -> socket.socket:
    """Starts a helper, unless another process has done so by now, and connects to it.

    It gets a socket that listens already, so that nobody has to wait until it has started.
    """
    with address.locked(path.parent):
        connection = _connect(path)
        if connection is not None:
            return connection
        with contextlib.suppress(FileNotFoundError):
            path.unlink()  # of one that has ended in another way than by itself
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.fspath(path))
            listener.listen(_BACKLOG)
            _launch(listener, path, flags, allowed)
        connection = _connect(path)
    if connection is None:
        raise UnavailableError("the helper process cannot be connected to")
    return connection


def _launch(
    listener: socket.socket, path: Path, flags: Sequence[str], allowed: Collection[str]
) -> None:
    if not sys.executable or getattr(sys, "frozen", False):
        raise UnavailableError("there is no interpreter to start the helper process with")
    root = _SCRIPT.parents[3]
    descriptor = listener.fileno()
    process = subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", os.fspath(_SCRIPT), os.fspath(root)),
            *(
                str(descriptor),
                os.fspath(path),
                os.fspath(compiler_library.library_path()),
                address.digest(),
            ),
            *(str(state.compiler_idle), json.dumps(list(flags)), json.dumps(sorted(allowed))),
        ],
        pass_fds=(descriptor,),
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )
    # It forks first of all, so that this ends at once and leaves no child process behind.
    process.wait(_PATIENCE)


@fork.in_child
def _try_again() -> None:
    _given_up.clear()
