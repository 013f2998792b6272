"""What is told of programs that do not compile as they are: which form was taken in their place."""

from __future__ import annotations

import warnings

SEPARATE = "separate"
HOST = "host"

_WORDS = {
    SEPARATE: "its operations are computed one by one, which is slower",
    HOST: "some of its operations are computed by NumPy, which is slower: {}",
}


def warn(
    program: str, location: tuple[str, int, int] | None, fallback: str, operations: str = ""
) -> None:
    """Gives one warning, at the user's line if it is known."""
    file, line, column = location or ("<unknown>", 1, 0)
    where = f" (at {file}:{line}:{column})" if location else ""
    what = _WORDS[fallback].format(operations)
    warnings.warn_explicit(
        f"the compiler cannot compile {program}{where} as it is: {what}",
        RuntimeWarning,
        file,
        line,
    )
