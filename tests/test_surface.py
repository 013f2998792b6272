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

import xpr

LISTS = sorted(Path(__file__).with_name("surface").glob("*.txt"))
NAMES = [
    name.replace("jax", "xpr", 1) for page in LISTS for name in page.read_text().split() if name
]
# What is not offered, and why.
EXCEPTIONS: dict[str, str] = {}
# The parameters of their functions, a function a line, as `spelled` writes them.
SIGNATURES = Path(__file__).with_name("surface") / "signatures" / "functions.txt"
_NAMED = "a ufunc: the call takes what JAX's takes, but its signature shows the operands' names"
_WIDER = "takes all that JAX takes, and more"
OTHER_PARAMETERS: dict[str, str] = {
    **dict.fromkeys(
        (
            f"jax.numpy.{name}"
            for name in "add bitwise_and bitwise_or bitwise_xor logaddexp logaddexp2 logical_and "
            "logical_or logical_xor maximum minimum multiply negative subtract".split()
        ),
        _NAMED,
    ),
    "jax.numpy.array": "JAX's own takes its old positional arguments by *args; NumPy's are named",
    "jax.numpy.empty_like": _WIDER,
    "jax.numpy.float_power": "positional parameters of other names, as those of `power`",
    "jax.numpy.set_printoptions": "NumPy's own parameters, by name",
    "jax.numpy.linalg.matmul": _WIDER,
    "jax.numpy.linalg.tensordot": _WIDER,
    "jax.lax.cond": "takes both of JAX's orders of arguments, so they have no names of their own",
    "jax.lax.random_gamma_grad": "parameters that JAX leaves without names have names",
}
SHARE = 0.99
MIN_LINE = 12


def resolve(name: str) -> Any:
    """The object of that dotted name; AttributeError if there is none.

    Attributes come first: some functions have the names of the files that they are in.
    """
    found: Any = xpr
    path = "xpr"
    for part in name.split(".")[1:]:
        path += "." + part
        if inspect.ismodule(found) and not hasattr(found, part):
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(path)
        found = getattr(found, part)
    return found


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


def spelled(function: Any) -> str:
    """The parameters: "=" marks a default, "/" and "*" stand where they do in a definition."""
    words: list[str] = []
    parameters = list(inspect.signature(function).parameters.values())
    kinds = [p.kind for p in parameters]
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    for i, p in enumerate(parameters):
        before = kinds[i - 1] if i else None
        if p.kind is p.KEYWORD_ONLY and before not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            words.append("*")
        words.append(marks.get(p.kind, "") + p.name + ("" if p.default is p.empty else "="))
        if p.kind is p.POSITIONAL_ONLY and p.kind not in kinds[i + 1 : i + 2]:
            words.append("/")
    return " ".join(words)


def test_parameters_are_those_of_jax() -> None:
    """Names, order, kinds and which ones may be left out."""
    different = {}
    for line in SIGNATURES.read_text().splitlines():
        name, _, wanted = line.partition(" ")
        found = spelled(resolve(name.replace("jax", "xpr", 1)))
        if found != wanted and name not in OTHER_PARAMETERS:
            different[name] = (found, wanted)
    assert different == {}


def test_other_parameters_take_more() -> None:
    """What differs from JAX differs in fact, and says why."""
    lines = dict(line.split(" ", 1) for line in SIGNATURES.read_text().splitlines() if " " in line)
    for name, reason in OTHER_PARAMETERS.items():
        assert len(reason) > MIN_LINE
        assert spelled(resolve(name.replace("jax", "xpr", 1))) != lines[name]


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
