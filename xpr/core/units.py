"""Amounts for people."""

from __future__ import annotations

from collections.abc import Iterable

from xpr.core.aval import ShapedArray


def shown_bytes(count: float) -> str:
    """A number of bytes.

    >>> shown_bytes(24), shown_bytes(1500), shown_bytes(2e9)
    ('24 B', '1.5 kB', '2 GB')
    """
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.4g} {unit}"
        count /= 1000
    return f"{count:.4g} GB"


def count_text(count: int, what: str) -> str:
    """A number of things.

    >>> count_text(1, "equation"), count_text(2000, "dispatch")
    ('1 equation', '2,000 dispatches')
    """
    ending = "es" if what.endswith("ch") else "s"
    return f"{count:,} {what}{'' if count == 1 else ending}"


def size_text(avals: Iterable[ShapedArray]) -> str:
    """The bytes that arrays of these types take together, which may be a symbolic size."""
    total = sum(a.nbytes for a in avals)
    return shown_bytes(total) if isinstance(total, (int, float)) else f"{total} B"
