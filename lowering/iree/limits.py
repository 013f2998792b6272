"""How long a compile may take in a helper process, where the setting leaves that open.

Some programs keep the compiler busy for ever, and the next such program is not known. So a compile
that takes many times as long as others of its size is given up. The compiles of the benchmarks
(`python -m benchmarks --only compile:`), of 8 to 10 000 lines of StableHLO, took between 0.05 s and
0.2 s + 3 ms for each line of processor time on a core of an x86-64 server; one, a convolution of 15
lines, took 0.4 s. Compiled one by one, operations take 25 ms each. The limit is 60 times as much:
enough for a processor that is six times as slow, on which ten programs share each core.
"""

from __future__ import annotations

from typing import Literal

Timeout = float | Literal["auto"] | None
"""Seconds, or none for any time."""

_LEAST = 60.0
_TIMES = 60.0
_EACH_PROGRAM = 0.2
_EACH_LINE = 0.003
_EACH_ALONE = 0.025
"""The same where operations are compiled one by one."""

_TO_BEGIN = 900.0


def seconds(timeout: Timeout, text: str, *, separate: bool = False) -> float | None:
    """The seconds that a compile of a program may take; None for any time.

    >>> seconds("auto", "module {}"), seconds("auto", "line\\n" * 10_000), seconds(7.0, "")
    (60.0, 1812.0, 7.0)
    """
    if timeout != "auto":
        return timeout
    each = _EACH_ALONE if separate else _EACH_LINE
    return max(_LEAST, _TIMES * (_EACH_PROGRAM + each * text.count("\n")))


def seconds_to_begin(timeout: Timeout) -> float | None:
    """The seconds that may pass until a compile begins: others may be under way before."""
    return _TO_BEGIN if timeout == "auto" else timeout
