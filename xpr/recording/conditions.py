"""Where a replay is to stop: lines, iterations, expressions on values."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.interpreters.walk import Step
from xpr.recording.names import values_by_name

Condition = str | Callable[[Step], bool]


def matcher(
    at: str | None, iteration: int | None, condition: Condition | None
) -> Callable[[Step], bool]:
    """Whether a step is at a line, in an iteration, and fulfils a condition."""
    file, line = ("", 0) if at is None else _place(at)

    def matches(step: Step) -> bool:
        if at is not None and not is_at(step, file, line):
            return False
        if iteration is not None and all(f.iteration != iteration for f in step.frame.chain()):
            return False
        if condition is None:
            return True
        return condition(step) if callable(condition) else is_true(condition, step)

    return matches


def _place(at: str) -> tuple[str, int]:
    file, _, line = at.rpartition(":")
    if not file or not line.isdigit():
        raise ValueError(f"at must be FILE:LINE, such as model.py:42, got {at!r}")
    return file, int(line)


def is_at(step: Step, file: str, line: int) -> bool:
    """Whether a step belongs to a line; `file` may leave out folders."""
    source = step.eqn.source_info
    path = source.filename
    return source.line == line and (path == file or path.endswith(f"{os.sep}{file}"))


def is_true(expression: str, step: Step) -> bool:
    """The truth of an expression on the values of a step; false where a name has no value yet."""
    try:
        return bool(np.any(evaluated(expression, step)))
    except NameError:
        return False


def evaluated(expression: str, step: Step) -> Any:
    """An expression of the user's on values by name; NumPy's functions need no prefix."""
    values = values_by_name(step.frame)
    return eval(expression, {**vars(np), "np": np, **values})
