"""The page of hazards names what exists: the pass of each row, its tests, and every pass."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from xpr.lowering.passes import GUARDS, hazards_page
from xpr.lowering.passes.hazards_elsewhere import HAZARDS

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "hazards.md"


class Row(NamedTuple):
    number: int
    hazard: str
    guard: str
    tests: str


def _rows() -> list[Row]:
    found = []
    for number, line in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("| ") and not line.startswith(("| hazard |", "| --- |")):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if len(cells) == 3:  # the table of the order has four
                found.append(Row(number, *cells))
    return found


ROWS = _rows()


def _quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]*)`", cell)


def _passes(row: Row) -> list[str]:
    return [m[1] for q in _quoted(row.guard) if (m := re.match(r"lowering/passes/(\w+)\.py", q))]


def test_the_page_is_current() -> None:
    """`python -m xpr.lowering.passes.hazards_page` writes it."""
    assert PAGE.read_text(encoding="utf-8") == hazards_page.page()


def test_a_row_of_a_pass_names_its_file() -> None:
    for name, guard in GUARDS.items():
        assert guard.hazards, f"{name} guards against nothing"
        for hazard in guard.hazards:
            assert f"`lowering/passes/{name}.py`" in hazard.guard
    assert all("`lowering/passes/" not in hazard.guard for hazard in HAZARDS)


def test_rows_have_three_cells() -> None:
    assert len(ROWS) > 80
    assert all(row.hazard and row.guard and row.tests for row in ROWS)


def test_a_row_names_one_pass_at_most() -> None:
    assert [row.number for row in ROWS if len(_passes(row)) > 1] == []


def test_each_pass_has_a_row() -> None:
    assert {name for row in ROWS for name in _passes(row)} == set(GUARDS)


def test_each_pass_is_switched_off_by_a_test() -> None:
    off = re.compile(r"delitem\(\s*passes\.PASSES, \"(\w+)\"")
    found = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in off.findall(path.read_text(encoding="utf-8"))
    }
    assert set(GUARDS) - found == set()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"line {row.number}")
def test_what_a_row_names_exists(row: Row) -> None:
    for cell in (row.guard, row.tests):
        missing = [q for q in _quoted(cell) if "/" in q and not (ROOT / q).exists()]
        assert missing == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"line {row.number}")
def test_the_tests_of_a_row_exist(row: Row) -> None:
    for pattern, path in _named_tests(row):
        where = [path] if path else (ROOT / "tests").rglob("test_*.py")
        names = (name for file in where for name in _names_in(file))
        assert any(fnmatch.fnmatch(name, pattern) for name in names), f"{pattern} in {path}"


def _named_tests(row: Row) -> Iterator[tuple[str, Path | None]]:
    """The patterns of tests, and the files that they are said to be in, if they are."""
    for part in re.split(r"[,;] (?=`tests/|`benchmarks/)|(?<=\.py`), ", row.tests):
        quoted = _quoted(part)
        path = ROOT / quoted[-1] if "` in `" in part and "there" not in part else None
        yield from ((q, path) for q in quoted if re.fullmatch(r"test_[\w*]+", q))


_NAMES: dict[Path, list[str]] = {}


def _names_in(path: Path) -> list[str]:
    if path not in _NAMES:
        _NAMES[path] = re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.M)
    return _NAMES[path]
