"""The functions that run in a forked child, and those that run in its parent before.

A child has one thread, the one that forked. A lock that another thread held stays locked there, and
threads, queues and files that it took over are the parent's. Each file that holds such a thing
registers a function that makes it new. Where processes are not forked nothing is registered.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

_Function = TypeVar("_Function", bound=Callable[[], object])

_before: list[Callable[[], object]] = []
_in_child: list[Callable[[], object]] = []


def before(function: _Function) -> _Function:
    """Run a function in the parent before each fork. It can be used as a decorator."""
    _before.append(function)
    return function


def in_child(function: _Function) -> _Function:
    """Run a function in each child, in the order of registration. Also as a decorator."""
    _in_child.append(function)
    return function


def _run(functions: list[Callable[[], object]]) -> None:
    for function in tuple(functions):
        function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lambda: _run(_before[::-1]), after_in_child=lambda: _run(_in_child))
