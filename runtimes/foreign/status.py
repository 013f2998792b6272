"""What goes wrong in a foreign function: a code, which XLA's interface numbers, and words."""

from __future__ import annotations

CODES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)


class ForeignError(RuntimeError):
    """A foreign function failed, or cannot be called; the text begins with the code's name."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message

    @classmethod
    def numbered(cls, number: int, message: str) -> ForeignError:
        """The error that a handler has made with the code of that number."""
        if number == 0:
            return cls("INTERNAL", f"a handler returned an error whose code is OK: {message}")
        return cls(CODES[number] if 0 < number < len(CODES) else f"code {number}", message)

    @property
    def number(self) -> int:
        return CODES.index(self.code) if self.code in CODES else CODES.index("UNKNOWN")
