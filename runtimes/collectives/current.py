"""The rank that a thread runs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType

from xpr.runtimes.collectives.base import Array, Collective, Participant


class _Current(threading.local):
    participant: Participant | None = None


_current = _Current()


def current_participant() -> Participant | None:
    """The rank that this thread runs; None outside of programs whose devices meet."""
    return _current.participant


def perform(
    collective: Collective, arrays: Sequence[Array], out: Sequence[Array] | None = None
) -> list[Array]:
    """`Participant.perform` of the rank that this thread runs; RuntimeError if it runs none."""
    participant = _current.participant
    if participant is None:
        raise RuntimeError(
            f"{collective} needs the other ranks of its program, but this thread runs none: "
            f"collectives happen in programs that run on several devices"
        )
    return participant.perform(collective, arrays, out)


class taking_part:
    """A context in which this thread runs one rank of a program."""

    def __init__(self, participant: Participant) -> None:
        self._participant = participant
        self._before: Participant | None = None

    def __enter__(self) -> Participant:
        self._before = _current.participant
        _current.participant = self._participant
        return self._participant

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _current.participant = self._before
