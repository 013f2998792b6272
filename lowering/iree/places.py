"""Places in the user's files, as MLIR writes them with the operations of a program."""

from __future__ import annotations

import re

_PLACE = r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)'
_ANY = re.compile(_PLACE)
_OF_OPERATION = re.compile(rf" loc\({_PLACE}\)")

Line = tuple[str, int]
"""A file's name and a line in it."""


def first_location(text: str) -> tuple[str, int, int] | None:
    """The user's line and column of a program's first operation."""
    found = _OF_OPERATION.search(text)
    return (found[1], int(found[2]), int(found[3])) if found else None


def lines_in(location: str) -> set[Line]:
    """The lines that a location names: one, or several where operations were fused.

    >>> sorted(lines_in('loc(fused["model.py":3:5, "model.py":4:9])'))
    [('model.py', 3), ('model.py', 4)]
    """
    return {(file, int(line)) for file, line, _ in _ANY.findall(location)}
