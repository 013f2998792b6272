"""What is current in each thread: the trace, the place in the user's program, the mapped axes."""

from __future__ import annotations

import threading
from typing import Any

from xpr.core.source_info import NameStack, SourceInfo


class Context(threading.local):
    """The class attributes are what every thread starts with."""

    trace: Any = None
    eager: Any = None
    # The named scopes and transformations that are current.
    name_stack: NameStack = ()
    # The place in the user's program that new equations belong to; None means the caller's.
    source: SourceInfo | None = None
    # Names and sizes of the axes that are mapped at present, the innermost last.
    axis_env: tuple[tuple[Any, int], ...] = ()
    # The axes of the mesh along which the body of a shard_map varies, in the mesh's order, where
    # it is known along which of them each value does; empty outside.
    manual_axes: tuple[str, ...] = ()


context = Context()


def current_stack() -> NameStack:
    """The names that new equations get."""
    return context.name_stack if context.source is None else context.source.stack


class named:
    """Puts equations in a `with` block under one more name; a transformation ends in a bracket."""

    __slots__ = ("_name", "_old")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._old = context.name_stack
        context.name_stack = (*self._old, self._name)

    def __exit__(self, *_: object) -> None:
        context.name_stack = self._old
