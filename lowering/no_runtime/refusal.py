"""What a program without a runtime cannot be."""

from __future__ import annotations


class RefusedError(NotImplementedError):
    """A compiled module holds something that the printers of schedules do not know."""


def require(condition: object, message: str) -> None:
    """Raises `RefusedError` unless the condition holds."""
    if not condition:
        raise RefusedError(message)
