"""Times for people."""

from __future__ import annotations


def time_text(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> time_text(0.0123), time_text(2.0), time_text(4.2e-6)
    ('12.3 ms', '2 s', '4.2 us')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError("the last unit holds every time")
