"""What may be found: the exceptions, and the reports that programs name by a number.

A compiled program knows numbers only. A report is what is known of a failure when the program is
traced; its code is what the program computes, and what the message tells besides (values of arrays)
is the payload. Equal reports have one code, so that tracing again gives the same program.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xpr.core.context import context
from xpr.core.source_info import current
from xpr.tree_util import PyTreeDef, tree_unflatten


class JaxRuntimeError(ValueError):
    """An error that a program found when it ran; its cause is the exception of its category."""


class JaxException(Exception):
    """An error that a program found, of the category that its class is."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class FailedCheckError(JaxException):
    """The predicate of a `check` was false."""


class NaNError(JaxException):
    """An operation gave a NaN."""


class OOBError(JaxException):
    """An index was out of bounds."""


class DivisionByZeroError(JaxException):
    """A divisor was zero."""


class BatchedError(JaxException):
    """The errors of a batch's examples, by their places."""

    def __init__(self, error_mapping: dict[tuple[int, ...], JaxException]) -> None:
        super().__init__(
            "\n".join(
                f"at mapped index {', '.join(map(str, place))}: {error}"
                for place, error in error_mapping.items()
            )
        )
        self.error_mapping = error_mapping


ErrorCategory = type[JaxException]
Categories = frozenset[ErrorCategory]

# The category of a code is its remainder by this list's length.
CATEGORIES: tuple[ErrorCategory, ...] = (
    FailedCheckError,
    NaNError,
    OOBError,
    DivisionByZeroError,
)


def number_of(category: ErrorCategory) -> int:
    """The remainder that codes of a category have."""
    return CATEGORIES.index(category)


Types = tuple[tuple[tuple[int, ...], Any], ...]
"""Shapes and dtypes of arrays."""


@dataclass(frozen=True)
class Report:
    """What is known of a failure when its program is traced.

    `text` is a format that takes the payload: a pair of positional and keyword arguments, whose
    structure is `tree` and whose arrays have `types`. `place` is the user's line.
    """

    category: ErrorCategory
    text: str
    tree: PyTreeDef
    types: Types
    place: str

    def exception(self, payload: Sequence[Any]) -> JaxException:
        args, kwargs = tree_unflatten(self.tree, payload)
        error = self.category(self.text.format(*args, **kwargs))
        error.add_note(f"found at {self.place}")
        return error


_lock = threading.Lock()
_codes: dict[Report, int] = {}
_reports: dict[int, Report] = {}


def code_of(report: Report) -> int:
    """The number, greater than zero, that programs give for a report."""
    with _lock:
        code = _codes.get(report)
        if code is None:
            code = (len(_codes) + 1) * len(CATEGORIES) + number_of(report.category)
            _codes[report], _reports[code] = code, report
        return code


def report_of(code: int) -> Report:
    """The report that has a number."""
    return _reports[code]


def user_place() -> str:
    """The line of the user's program that is being traced or checked."""
    return str(context.source or current())
