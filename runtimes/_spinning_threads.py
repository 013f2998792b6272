"""The threads with which IREE waits for a software Vulkan device.

They wait for any of several semaphores. Drivers of GPUs sleep meanwhile; Mesa's software device has
no way to, and asks again and again for as long as the device is open: two threads at full load,
also when nothing runs. They cannot be stopped, but they can give way to all other work.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

# Ten steps are a tenth of the share of time that others get. With less, a result would be noticed
# late on a busy machine.
_NICENESS = 10
_SAMPLES, _PAUSE = 6, 0.002  # seconds between two samples
_TASKS = Path("/proc/self/task")


@contextmanager
def giving_way() -> Generator[None]:
    """Lowers the priority of threads that start meanwhile and are never at rest.

    Python's own threads keep theirs. Has no effect where the system does not tell of threads.
    """
    before = set(_states())
    yield
    busy = _running() - before
    for _ in range(_SAMPLES):
        time.sleep(_PAUSE)
        busy &= _running()
    for thread in busy - {t.native_id for t in threading.enumerate()}:
        try:
            os.setpriority(os.PRIO_PROCESS, thread, _NICENESS)
        except OSError:
            continue  # it has ended


def _running() -> set[int]:
    """The threads of this process that run, or would if a core were free."""
    return {thread for thread, state in _states().items() if state == "R"}


def _states() -> dict[int, str]:
    """The state of each thread of this process, as one letter."""
    found = {}
    for task in _TASKS.iterdir() if _TASKS.is_dir() else ():
        try:
            text = (task / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # the thread has ended
        found[int(task.name)] = text.rpartition(")")[2].split()[0]
    return found
