"""What goes wrong on the command line, and how it is told."""

from __future__ import annotations

import os
import sysconfig
import traceback

import xpr

_LONGEST = 400


class CommandError(Exception):
    """A failure whose message says all there is to say."""


class UsageError(CommandError):
    """A command line that asks for what cannot be."""


def one_line(error: BaseException) -> str:
    """An exception as one line; messages of xpr's own speak for themselves.

    >>> one_line(KeyError("weights"))
    "KeyError: 'weights'"
    >>> one_line(CommandError("no such device"))
    'no such device'
    """
    if isinstance(error, OSError) and error.strerror:
        named = "" if error.filename is None else f"{error.filename}: "
        return f"{named}{error.strerror}"
    text = " ".join([*str(error).split(), *_place(error).split()])
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}... (--traceback shows all)"
    if type(error).__module__.startswith("xpr."):
        return text
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _place(error: BaseException) -> str:
    """Where in the user's code an error arose, as it says itself, else from its traceback."""
    notes: list[str] = getattr(error, "__notes__", [])
    if notes:
        return notes[0]
    if type(error).__module__.startswith("xpr."):
        return ""
    libraries = (sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    not_users = ("<", os.path.dirname(xpr.__file__), *libraries)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(not_users):
            return f"(at {frame.filename}:{frame.lineno})"
    return ""
