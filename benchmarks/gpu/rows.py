"""The rows: what is checked and timed on a device, in the order of their worth."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Setting:
    """How rows run."""

    runtime: str
    """The name of the runtime whose first device they run on."""

    quick: bool = False
    """Whether sizes are small, as where a software device takes the card's place."""

    @property
    def computes(self) -> bool:
        """Whether results are worth a look: those of a device that is absent are zeros."""
        return self.runtime != "absent"

    def close(
        self, found: Any, expected: Any, rtol: float, atol: float = 0.0, what: str = ""
    ) -> float:
        """The greatest error; AssertionError where a result is not within the tolerances."""
        a, b = np.asarray(found), np.asarray(expected)
        assert a.shape == b.shape, f"{what}: shape {a.shape}, expected {b.shape}"
        if not self.computes or a.size == 0:
            return 0.0
        if a.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b, err_msg=what)
            return 0.0
        wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
        a, b = a.astype(wide), b.astype(wide)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=what)
        with np.errstate(invalid="ignore"):
            error = np.abs(a - b)
        return float(np.max(error, where=np.isfinite(error), initial=0.0))


Outcome = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One row: its name, and a function that returns facts or raises."""

    name: str
    run: Callable[[Setting], Outcome]
    limit: float = 60.0
    """Seconds that it may take."""

    @property
    def group(self) -> str:
        """What it belongs to, by which the tables are made."""
        return self.name.split("/", 1)[0]


@functools.cache
def all_rows() -> dict[str, Row]:
    """Rows by name, the most important first."""
    return {row.name: row for row in _rows()}


def _rows() -> Iterator[Row]:
    # Each file is loaded when its rows are asked for, and names what it needs.
    from benchmarks.gpu import checks, guards, operations, timings  # noqa: PLC0415

    yield from checks.first_rows()
    yield from guards.rows()
    yield from operations.rows()
    yield from checks.last_rows()
    yield from timings.rows()


def chosen(only: str | None) -> list[str]:
    """The names of the rows that contain one of some words; all without words.

    Raises ValueError for a word that no row has.
    """
    names = list(all_rows())
    if only is None:
        return names
    words = [word for word in only.split(",") if word]
    for word in words:
        if not any(word in name for name in names):
            raise ValueError(f"--only: no row's name contains {word!r}; --list prints them")
    return [name for name in names if any(word in name for word in words)]


_OF_OPERATIONS = 24


def sample(names: list[str]) -> list[str]:
    """These names with one in 24 of the operation table's, for a rehearsal of some minutes."""
    operations = [name for name in names if name.startswith("operations/")]
    kept = set(operations[::_OF_OPERATIONS])
    return [name for name in names if name in kept or not name.startswith("operations/")]
