"""What is current in each thread: the trace, the place in the user's program, the mapped axes."""

from __future__ import annotations

import threading
from typing import Any

from xpr.core.source_info import SourceInfo


class Context(threading.local):
    """The class attributes are what every thread starts with."""

    trace: Any = None
    eager: Any = None
    name_stack: str = ""
    # The place in the user's program that new equations belong to; None means the caller's.
    source: SourceInfo | None = None
    # Names and sizes of the axes that are mapped at present, the innermost last.
    axis_env: tuple[tuple[Any, int], ...] = ()
    # The axes of the mesh along which the body of a shard_map varies, in the mesh's order, where
    # it is known along which of them each value does; empty outside.
    manual_axes: tuple[str, ...] = ()


context = Context()
