"""Where the compiler checks the program that its fusion has made.

IREE's aggressive fusion sometimes forms dispatches that need each other's results: a cycle, in
which an operation stands before what it reads ("operand #0 does not dominate this use"). Unless
the program is checked between passes, the search for constants that comes next then goes on for
ever, or not, by the addresses at which the compiler's objects happen to lie. So the passes of this
one phase are checked, which makes such a program one that these flags do not compile.
"""

from __future__ import annotations

from collections.abc import Sequence

BEFORE, PHASE = "global-optimization", "dispatch-creation"
"""The phase in which dispatches are formed, and the one before it."""

_AGGRESSIVE = "--iree-dispatch-creation-enable-aggressive-fusion=true"


def is_needed(flags: Sequence[str]) -> bool:
    """Whether a program compiled with these flags is to be checked."""
    return _AGGRESSIVE in flags
