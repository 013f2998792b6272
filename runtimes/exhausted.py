"""Out of memory: which exceptions mean it, how much was asked for, and the error that users get."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from xpr.runtimes.base import Device, Executable

# IREE's own word, and what drivers say.
_WORDS = re.compile(r"RESOURCE_EXHAUSTED|OUT_OF_MEMORY|OUT_OF_DEVICE_MEMORY|OUT_OF_HOST_MEMORY")
# What the native part says (`runtimes/native/memory.cpp`).
_ASKED = re.compile(r"allocating (\d+) bytes")


class Shortage(NamedTuple):
    """Memory that was asked for in vain."""

    nbytes: int | None
    """How much; None where it is not known."""

    device: Device | None
    executable: Executable | None
    """The program that asked."""

    said: str
    """The words of whoever refused."""


_error_of: Callable[[Shortage], BaseException] | None = None


def on_shortage(function: Callable[[Shortage], BaseException]) -> None:
    """Has a function make the errors of this process."""
    global _error_of
    _error_of = function


def reraise(
    error: BaseException,
    device: Device | None = None,
    nbytes: int | None = None,
    executable: Executable | None = None,
) -> None:
    """Raises the error for a shortage of memory, if that is what an exception means.

    `nbytes` is what was asked for, where the caller knows and the exception does not say.
    """
    said = str(error)
    found = _ASKED.search(said)
    if type(error) is MemoryError:
        is_shortage = found is not None or said in ("", "std::bad_alloc")
    elif isinstance(error, MemoryError):
        # NumPy's has the array's type; one that was made here is as it should be.
        is_shortage = hasattr(error, "_total_size")
        nbytes = getattr(error, "_total_size", nbytes)
    else:
        is_shortage = isinstance(error, RuntimeError) and _WORDS.search(said) is not None
    if is_shortage and _error_of is not None:
        asked = int(found[1]) if found is not None else nbytes
        raise _error_of(Shortage(asked, device, executable, said)) from error
