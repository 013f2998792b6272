"""To start MPI, and to end it: calls that wait for other processes and cannot be interrupted."""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def start(MPI: Any, patience: float) -> tuple[Any, bool]:
    """Starts MPI if nobody has, and tells whether it did.

    Raises RuntimeError where MPI cannot be called by the threads of this program.
    """
    started_here = not MPI.Is_initialized()
    if MPI.Is_finalized():
        raise RuntimeError("MPI has been finalized in this process, and cannot be started again")
    if started_here:
        with bounded(patience):
            MPI.Init_thread(MPI.THREAD_MULTIPLE)
    level = MPI.Query_thread()
    if level < MPI.THREAD_SERIALIZED:
        raise RuntimeError(
            "xpr.distributed needs MPI_THREAD_MULTIPLE, or at least MPI_THREAD_SERIALIZED, but MPI "
            "was started with less: import xpr.distributed and call initialize() before mpi4py "
            "starts MPI, or leave mpi4py.rc.thread_level as it is"
        )
    return MPI, started_here


def finish(MPI: Any, patience: float) -> None:
    """Ends MPI, after all processes have said that they have ended."""
    with bounded(patience):
        MPI.Finalize()


@contextmanager
def bounded(patience: float) -> Iterator[None]:
    """Ends the process, with a trace of where it is, when the block takes longer.

    MPI's calls hold the interpreter's lock, so no thread of Python's could notice the time.
    """
    stream = sys.__stderr__
    try:
        stream = stream if stream is not None and stream.fileno() >= 0 else None
    except (OSError, ValueError):
        stream = None
    if stream is None:
        yield
        return
    faulthandler.dump_traceback_later(patience, exit=True, file=stream)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
