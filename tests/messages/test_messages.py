"""Wrong calls of every public function raise what JAX raises, but for a list with reasons."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.messages.comparison import HERE, differences, groups
from tests.messages.reasons import (
    MISSING,
    NO_ERROR,
    OTHER_CLASS,
    OTHER_NAME,
    OTHER_WORDS,
    REFUSED,
)

KNOWN: dict[str, dict[str, dict[str, str]]] = json.loads((HERE / "differences.json").read_text())
GROUPS = groups()


def known(names: list[str]) -> set[tuple[str, str, str, str]]:
    wanted = set(names)
    return {
        (kind, said, name, label)
        for kind, rows in KNOWN.items()
        for said, functions in rows.items()
        for name, labels in functions.items()
        if name in wanted
        for label in labels.split()
    }


@pytest.mark.parametrize("group", GROUPS)
def test_errors_are_those_of_jax(group: str) -> None:
    """A new difference fails, and so does a known one that is gone: write the list anew."""
    found = {d[:4]: d.found for d in differences(GROUPS[group])}
    new = {d: text for d, text in found.items() if d not in known(GROUPS[group])}
    assert new == {}
    assert known(GROUPS[group]) - set(found) == set()


def test_every_difference_has_a_reason() -> None:
    tables: dict[str, dict[str, str]] = {
        "class": OTHER_CLASS,
        "accepted": NO_ERROR,
        "missing": MISSING,
    }
    without: list[Any] = []
    for kind, rows in KNOWN.items():
        for said, functions in rows.items():
            for name, labels in functions.items():
                if kind in ("name", "words"):
                    assert OTHER_NAME
                    assert OTHER_WORDS
                elif kind == "refused":
                    without += [
                        (name, label)
                        for label in labels.split()
                        if not any(re.search(p, f"{name} {label}") for p in REFUSED)
                    ]
                else:
                    text = name if kind == "missing" else said
                    if not any(re.search(p, text) for p in tables[kind]):
                        without.append((kind, said, name, labels))
    assert without == []
