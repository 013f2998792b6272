"""What processes tell each other about a checkpoint: data, and failures that then all raise."""

from __future__ import annotations

import json
from typing import Any

from xpr.experimental.checkpoint.errors import CheckpointError, DamagedCheckpointError
from xpr.runtimes import processes


class Together:
    """The processes that save or restore together, on a channel of their own.

    Whatever thread of a process saves, it meets the others in the order of its saves.
    """

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._all = processes.current

    @property
    def index(self) -> int:
        """The number of this process."""
        return 0 if self._all is None else self._all.index

    @property
    def count(self) -> int:
        return 1 if self._all is None else self._all.count

    def exchange(
        self, what: str, error: Exception | None = None, data: Any = None, seconds: float = 0.0
    ) -> list[Any]:
        """Everybody's `data`, which must be JSON.

        A process that has an `error` raises it when the others know; they raise one that names that
        process, of the same type if it is one of those that callers tell apart. They wait `seconds`
        longer for each other than otherwise.
        """
        if self._all is None:
            if error is not None:
                raise error
            return [data]
        try:
            found = self._all.gather(
                json.dumps([None if error is None else _told(error), data]).encode(),
                what=what,
                timeout=self._all.limit + seconds,
                channel=self._channel,
            )
        except BaseException as failure:
            # What went wrong here is the cause, that nobody could be told only follows from it.
            if error is not None:
                error.add_note(f"The other processes were not told: {failure}")
                raise error from None
            raise
        if error is not None:
            raise error
        answers = [json.loads(answer) for answer in found]
        for process, (problem, _) in enumerate(answers):
            if problem is not None:
                raise _retold(problem, self._all.describe(process), what)
        return [data for _, data in answers]


_SAME = (
    *(FileExistsError, FileNotFoundError, PermissionError, NotADirectoryError, OSError),
    *(TypeError, ValueError, ImportError, DamagedCheckpointError),
)
"""Errors that have the same type in all processes, so that all go on in the same way."""


def _told(error: Exception) -> list[Any]:
    """An error as JSON: its type, its message, and what belongs to it."""
    own = next((t.__name__ for t in _SAME if isinstance(error, t)), "")
    if isinstance(error, DamagedCheckpointError):
        return [own, str(error), error.leaf]
    if isinstance(error, OSError) and error.errno is not None:
        return [own, error.strerror, error.errno]
    return [own, str(error) if own else f"{type(error).__name__}: {error}", None]


def _retold(problem: list[Any], who: str, what: str) -> Exception:
    """The error that another process has told."""
    name, message, detail = problem
    text = f"{message} (in {who}: {what})"
    kind: type[Exception] | None = next((t for t in _SAME if t.__name__ == name), None)
    if kind is DamagedCheckpointError:
        return DamagedCheckpointError(text, detail)
    if kind is None:
        return CheckpointError(text)
    return kind(detail, text) if issubclass(kind, OSError) and detail is not None else kind(text)
