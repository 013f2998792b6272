"""Functions in place of others: `functools.wraps` for callables of any kind."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

_W = TypeVar("_W")


def _usable(fun: Any, attribute: str) -> bool:
    """Whether a wrapper can have this attribute of `fun`: names must be strings."""
    if attribute not in ("__name__", "__qualname__"):
        return True
    return isinstance(getattr(fun, attribute, None), str)


def like(wrapper: _W, fun: Callable[..., Any]) -> _W:
    """`wrapper` with the name, the documentation and the signature of `fun`.

    Unlike `functools.update_wrapper` it leaves out names that are not strings, as callable objects
    may have.

    >>> like(lambda *args: sum(args), sum).__name__
    'sum'
    """
    assigned = [a for a in functools.WRAPPER_ASSIGNMENTS if _usable(fun, a)]
    return functools.update_wrapper(wrapper, fun, assigned)  # type: ignore[return-value]


def wraps(fun: Callable[..., Any]) -> Callable[[_W], _W]:
    """`like`, as a decorator."""
    return functools.partial(like, fun=fun)
