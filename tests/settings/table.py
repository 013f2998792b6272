"""Calls of all public functions, by group, for the settings that find a program's own mistakes.

They are the calls of `tests/weak_types`, the further ones of `tests/test_strict_promotion.py`, and
the examples of the docstrings.
"""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import xpr
import xpr.numpy as jnp
from tests import test_strict_promotion as strict
from tests.weak_types import operands

EXPRESSIONS = {
    group: [expression for expression, _ in cases] for group, cases in operands.groups().items()
}


class Call(NamedTuple):
    """A call with operands, by a text."""

    text: str
    run: Callable[[], Any]


def operand_kinds() -> dict[str, tuple[Any, Any]]:
    """Pairs of operands that the expressions are evaluated with."""
    return {
        "half": (jnp.full(3, 0.5), jnp.full(3, 0.25)),
        "zero": (jnp.zeros(3), jnp.ones(3)),
        "negative": (jnp.full(3, -1.5), jnp.full(3, 2.0)),
        "large": (jnp.full(3, 1e30), jnp.full(3, 3.0)),
        "nan": (jnp.array([0.5, np.nan, 1.0]), jnp.full(3, 0.5)),
        "inf": (jnp.array([0.5, np.inf, 1.0]), jnp.full(3, 0.5)),
        "minus inf": (jnp.array([-np.inf, 0.5, 1.0]), jnp.full(3, 0.5)),
    }


def expression_calls(group: str, kinds: list[str]) -> Iterator[Call]:
    """The expressions of a group with each of these kinds of operands."""
    scope = operands.names(xpr)
    scope |= {name: unwatched(scope[name]) for name in "CMST"}
    pairs = operand_kinds()
    for expression in EXPRESSIONS[group]:
        compiled = compile(expression, expression, "eval")
        for kind in kinds:
            x, y = pairs[kind]
            names = scope | {"x": x, "y": y}
            yield Call(f"{expression} ({kind})", lambda c=compiled, n=names: eval(c, n))


def unwatched(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that prepares operands, which may be any."""

    def call(x: Any) -> Any:
        with xpr.debug_nans(False), xpr.debug_infs(False):
            return function(x)

    return call


def further_calls() -> Iterator[Call]:
    """The calls that have tables of their own, with ordinary operands."""
    for line in strict.CALLS.split("\n")[1:-1]:
        yield Call(line, lambda line=line: eval(line, dict(strict.NAMES)))


def examples(module: str) -> Iterator[Call]:
    """The examples in the docstrings of a module's public names."""
    for entry in strict.ENTRIES[module]:
        if not callable(entry.value) or ">>>" not in entry.docstring or entry.path in strict.ONCE:
            continue
        yield Call(entry.path, lambda entry=entry: run_example(entry))


def run_example(entry: Any) -> None:
    """Runs an example up to where it raises on purpose; what it prints is tested elsewhere."""
    module = inspect.getmodule(entry.value)
    names = dict(vars(module)) if module else {}
    test = doctest.DocTestParser().get_doctest(entry.docstring, names, entry.path, None, 0)
    for example in test.examples:
        code = compile(example.source, entry.path, "single")
        with contextlib.redirect_stdout(io.StringIO()):
            if example.exc_msg:
                with contextlib.suppress(Exception):
                    exec(code, test.globs)
            else:
                exec(code, test.globs)


def result_of(call: Call) -> Any:
    """The result, or the exception that the call raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return xpr.block_until_ready(call.run())
        except Exception as error:  # whatever it is, it is compared
            return error


def holds(result: Any, test: Callable[[Any], Any]) -> bool:
    """Whether a number of the result passes a test such as `numpy.isnan`."""
    for leaf in xpr.tree.leaves(result):
        try:
            values = np.asarray(leaf)
        except Exception:
            continue
        if values.dtype.kind in "fc" and test(values).any():
            return True
        if values.dtype.name == "bfloat16" and test(values.astype("f4")).any():
            return True
    return False
