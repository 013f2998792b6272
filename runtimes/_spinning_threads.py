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
_PAUSE = 0.01  # seconds
_TASKS = Path("/proc/self/task")


@contextmanager
def giving_way() -> Generator[None]:
    """Lowers the priority of threads that start meanwhile and are never at rest.

    Python's own threads keep theirs. Has no effect where the system does not tell of threads.
    """
    before = _times()
    yield
    started = _times()
    time.sleep(_PAUSE)
    python = {t.native_id for t in threading.enumerate()}
    for thread, nanoseconds in _times().items():
        busy = nanoseconds - started.get(thread, nanoseconds) > _PAUSE / 2 * 1e9
        if busy and thread not in before and thread not in python:
            try:
                os.setpriority(os.PRIO_PROCESS, thread, _NICENESS)
            except OSError:
                continue  # it has ended


def _times() -> dict[int, int]:
    """For how many nanoseconds each thread of this process ran, or could have run."""
    found = {}
    for task in _TASKS.iterdir() if _TASKS.is_dir() else ():
        try:
            ran, waited, _ = (task / "schedstat").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            continue  # the thread has ended, or the system does not count
        found[int(task.name)] = int(ran) + int(waited)
    return found
