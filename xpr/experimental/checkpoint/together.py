"""What processes tell each other about a checkpoint: data, and failures that then all raise."""

from __future__ import annotations

import json
from typing import Any

from xpr.experimental.checkpoint.errors import CheckpointError
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
        self, what: str, error: BaseException | None = None, data: Any = None, seconds: float = 0.0
    ) -> list[Any]:
        """Everybody's `data`, which must be JSON.

        A process that has an `error` raises it when the others know; they raise CheckpointError,
        naming that process. They wait `seconds` longer for each other than otherwise.
        """
        if self._all is None:
            if error is not None:
                raise error
            return [data]
        text = None if error is None else f"{type(error).__name__}: {error}"
        try:
            found = self._all.gather(
                json.dumps([text, data]).encode(),
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
                who = self._all.describe(process)
                raise CheckpointError(f"{what} failed in {who}: {problem}")
        return [data for _, data in answers]
