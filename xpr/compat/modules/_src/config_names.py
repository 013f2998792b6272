"""`jax._src.config`: settings as objects with a `value`, which are also contexts when called."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from xpr.core.config import config as config
from xpr.core.config import override

__all__ = ["State", "config"]


class State:
    """A setting of that name: its value, for this thread, and a context that changes it."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def value(self) -> Any:
        """The value that is current."""
        return config.read(self._name)

    def __call__(self, value: Any = True) -> AbstractContextManager[None]:
        """A context with that value."""
        return override(self._name, value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __repr__(self) -> str:
        return f"<setting {self._name}: {self.value!r}>"


def update(name: str, value: Any) -> None:
    """Changes a setting for the process."""
    config.update(name, value)


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for known in (name, f"jax_{name}"):
            try:
                config.read(known)
            except AttributeError:
                continue
            return State(known)
    raise AttributeError(f"module 'jax._src.config' has no attribute {name!r} in xpr")
