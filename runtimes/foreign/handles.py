"""What handlers know by numbers: errors, futures and contexts.

Handlers take the numbers for addresses, which they never follow.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

from xpr.runtimes.foreign.status import ForeignError

# Numbers that no address has, so that one that went astray is not found in a table.
_numbers = itertools.count(1 << 52)


class Numbered:
    """Objects by their numbers."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}

    def add(self, x: Any) -> int:
        number = next(_numbers)
        self._objects[number] = x
        return number

    def get(self, number: int | None) -> Any:
        return self._objects.get(number or 0)

    def take(self, number: int | None) -> Any:
        return self._objects.pop(number or 0, None)


class _KeptError:
    """An error, and its text for handlers, which do not own it."""

    def __init__(self, error: ForeignError) -> None:
        self.error = error
        self.text = ctypes.create_string_buffer(error.message.encode())


_errors = Numbered()


def give_error(error: ForeignError) -> int:
    """The number of an error that a handler owns from now on."""
    return _errors.add(_KeptError(error))


def raised(number: int | None) -> ForeignError | None:
    """The error that a handler has returned, which is then no longer kept."""
    if not number:
        return None
    found = _errors.take(number)
    return found.error if found else ForeignError("UNKNOWN", "a handler returned no known error")


def text_address(number: int | None) -> int | None:
    """Where the text of an error lies."""
    found = _errors.get(number)
    return ctypes.addressof(found.text) if found else None
