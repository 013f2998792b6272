"""The names of `xpr.lax`: JAX's, callable and documented."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from xpr import lax

# What `jax.lax` offers, a name a line: those of version 0.10 and the shape helpers beside them.
SURFACE = Path(__file__).with_name("surface.txt")


def names_of_jax() -> set[str]:
    return set(SURFACE.read_text().split())


def names_here() -> dict[str, Any]:
    return {
        name: getattr(lax, name)
        for name in dir(lax)
        if not name.startswith("_")
        and name != "annotations"
        and not inspect.ismodule(getattr(lax, name))
    }


def missing() -> set[str]:
    """What JAX has and xpr has not yet."""
    return names_of_jax() - set(names_here())


def test_each_name_is_one_of_jax() -> None:
    assert set(names_here()) <= names_of_jax()


def test_what_is_missing_says_so() -> None:
    assert len(missing()) + len(names_here()) == len(names_of_jax())
    for name in sorted(missing()):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(lax, name)


def _is_alias(value: Any) -> bool:
    """Whether `value` is a union of types for annotations, which has no docstring of its own."""
    return not inspect.isclass(value) and not inspect.isroutine(value)


@pytest.mark.parametrize("name", sorted(names_here()))
def test_each_name_is_callable_and_documented(name: str) -> None:
    value = names_here()[name]
    if _is_alias(value):
        return
    assert callable(value)
    text = inspect.getdoc(value) or ""
    first = text.splitlines()[0] if text else ""
    assert len(first) > 10, f"{name} is not documented"
    if inspect.isclass(value):
        return
    assert value.__module__.startswith("xpr."), f"{name} comes from {value.__module__}"
    signature = inspect.signature(value)
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, f"{name}({parameter.name})"


def test_functions_are_spelled_as_they_call_themselves() -> None:
    """`lax.add` is a function called add: tracebacks and help pages show the public name."""
    for name, value in names_here().items():
        if inspect.isfunction(value):
            assert value.__name__ == name
