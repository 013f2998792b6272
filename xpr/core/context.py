"""What is current in each thread: the trace, the place in the user's program, the mapped axes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from xpr.core.source_info import NameStack, SourceInfo, is_internal
from xpr.core.wrapping import wraps

_F = TypeVar("_F", bound=Callable[..., Any])


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
    # Mesh axes over which batches around are cut (`vmap` with spmd_axis_name).
    spmd_names: tuple[Any, ...] = ()
    # The axes of the mesh along which the body of a shard_map varies, in the mesh's order, where
    # it is known along which of them each value does; empty outside.
    manual_axes: tuple[str, ...] = ()


context = Context()


def current_stack() -> NameStack:
    """The names that new equations get."""
    return context.name_stack if context.source is None else context.source.stack


class inside_function:
    """In this block equations belong to the lines of `function`, if a user wrote it.

    A rule is called for an operation, to whose line equations would belong otherwise; those of a
    rule of the library still do.
    """

    __slots__ = ("_function", "_old")

    def __init__(self, function: Any) -> None:
        self._function = function

    def __enter__(self) -> None:
        self._old = context.source, context.name_stack
        if context.source is not None and _is_of_the_user(self._function):
            context.name_stack = context.source.stack
            context.source = None

    def __exit__(self, *_: object) -> None:
        context.source, context.name_stack = self._old


def _is_of_the_user(function: Any) -> bool:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    return code is not None and not is_internal(code.co_filename)


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

    def __call__(self, function: _F) -> _F:
        """As a decorator: each call of `function` is such a block, also those inside of others."""

        @wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with named(self._name):
                return function(*args, **kwargs)

        return inside  # pyright: ignore[reportReturnType]  it has the signature of `function`
