"""xpr has the names that JAX has, each of them documented.

`tests/surface` lists the public names of JAX 0.10.2 by module.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

LISTS = sorted(Path(__file__).with_name("surface").glob("*.txt"))
NAMES = [
    name.replace("jax", "xpr", 1) for page in LISTS for name in page.read_text().split() if name
]
# What is not offered, and why.
EXCEPTIONS: dict[str, str] = {}
SHARE = 0.99
MIN_LINE = 12


def resolve(name: str) -> Any:
    """The object of that dotted name; AttributeError if there is none."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        module = ".".join(parts[:count])
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            # Another module that is missing is an error of its own.
            if not module.startswith(str(error.name)):
                raise
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def needs_documentation(value: Any) -> bool:
    """Whether Python has a place for documentation, and xpr is who fills it."""
    if value is None or isinstance(value, (bool, int, float, complex)):
        return False  # constants
    if isinstance(value, (types.UnionType, types.GenericAlias)) or typing.get_origin(value):
        return False  # names of types for annotations
    module = getattr(value, "__module__", None) or ""
    return not module.startswith(("numpy", "typing", "collections"))


def documentation(value: Any) -> str:
    """Its own text: a class without one would show its base's."""
    text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    return inspect.cleandoc(text or "")


def resolved() -> Iterator[tuple[str, Any]]:
    """Names and objects, but for what is missing, which has a test of its own."""
    for name in NAMES:
        with contextlib.suppress(AttributeError):
            yield name, resolve(name)


@pytest.mark.parametrize("page", LISTS, ids=lambda page: page.stem)
def test_each_name_is_there(page: Path) -> None:
    names = [n.replace("jax", "xpr", 1) for n in page.read_text().split()]
    missing = []
    for name in names:
        try:
            resolve(name)
        except AttributeError:
            missing.append(name)
    assert names
    assert sorted(missing) == sorted(set(names) & set(EXCEPTIONS))


def test_exceptions_are_few_and_have_reasons() -> None:
    assert set(EXCEPTIONS) <= set(NAMES)
    assert all(len(reason) > MIN_LINE for reason in EXCEPTIONS.values())
    assert len(EXCEPTIONS) <= (1 - SHARE) * len(NAMES)


def test_each_name_is_documented() -> None:
    silent = []
    for name, value in resolved():
        first = documentation(value).split("\n")[0] if needs_documentation(value) else None
        if first is not None and len(first) < MIN_LINE:
            silent.append(name)
    assert silent == []


def test_documentation_is_about_the_thing_itself() -> None:
    """Two names share a text only if they are the same thing.

    Modules of which each is a distribution say so themselves; `norm.cdf` and `t.cdf` may share.
    """
    owners: dict[Any, tuple[str, Any]] = {}
    shared = []
    for name, value in resolved():
        if not needs_documentation(value):
            continue
        module = name.rpartition(".")[0]
        place = module if module.startswith("xpr.scipy.stats.") else ""
        first, owner = owners.setdefault((place, documentation(value)), (name, value))
        if owner is not value:
            shared.append((first, name))
    assert shared == []


def test_nothing_comes_from_another_implementation() -> None:
    """Functions are xpr's own: NumPy's are not handed on, but for how arrays are printed."""
    printing = ("get_printoptions", "set_printoptions", "printoptions")
    foreign = [
        name
        for name, value in resolved()
        if (inspect.isroutine(value) or isinstance(value, np.ufunc))
        and not (value.__module__ or "").startswith("xpr")
        and not name.endswith(printing)
    ]
    assert foreign == []
