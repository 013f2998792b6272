"""The reference of the site: every public name is found, documented, and has an example."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "docs" / "_ext"))

import foreign
from docstrings import escape, signature, to_markdown
from public_names import MODULES, find_entries

ENTRIES = [entry for entries in find_entries().values() for entry in entries]


def test_every_module_offers_names() -> None:
    assert {entry.offered_by for entry in ENTRIES} == set(MODULES)
    assert len(ENTRIES) > 1200


def test_every_function_and_class_is_documented() -> None:
    assert [e.path for e in ENTRIES if callable(e.value) and not e.documented] == []


def test_every_function_and_class_has_an_example() -> None:
    assert [e.path for e in ENTRIES if callable(e.value) and ">>>" not in e.docstring] == []


@pytest.mark.parametrize("path", foreign.DESCRIBED)
def test_examples_of_names_that_come_from_elsewhere_are_true(path: str) -> None:
    assert path in {e.path for e in ENTRIES}
    test = doctest.DocTestParser().get_doctest(foreign.DESCRIBED[path], {}, path, None, None)
    assert test.examples
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_docstrings_become_markdown() -> None:
    text = to_markdown("The power x**2 of `a*b`.\n\n    >>> 1 + 1\n    2\n\n    Then text.\n    ")
    assert text == "The power x\\*\\*2 of `a*b`.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nThen text."
    assert escape("[lo, hi)") == "\\[lo, hi)"


def test_signatures_have_defaults_and_no_types() -> None:
    def function(x: int, /, y: float = 1.0, *, by: object = object(), **rest: int) -> None:
        raise AssertionError((x, y, by, rest))

    assert signature(function) == "(x, /, y=1.0, *, by=..., **rest)"
    assert signature(lambda *xs, n=(1, 2): xs) == "(*xs, n=(1, 2))"
