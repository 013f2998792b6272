"""Texts of programs: equal for the same program, in each process, and for no other."""

from __future__ import annotations

import enum
import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.harness import trace_cases
from tests.op_runs import cases_of, one_of_alike
from tests.op_table import all_rows
from xpr import lax
from xpr.core.canonical import NoTextError, canonical_text, canonical_value
from xpr.core.config import override
from xpr.core.jaxpr import ClosedJaxpr
from xpr.dispatch.known_programs import UNREAD
from xpr.primitives.call import jit_p

X = np.arange(12, dtype=np.float32).reshape(3, 4)
INDICES = np.arange(3)


def text(function: Callable[..., Any], *args: Any) -> str:
    """The text of a function at the types of arguments."""
    return canonical_text(xpr.make_jaxpr(function)(*args), UNREAD)


def _holding(table: Any) -> Callable[[Any], Any]:
    """A call of a program with a constant of its own."""
    inner = xpr.make_jaxpr(lambda x: x + table)(X)
    assert len(inner.consts) == 1
    params = {"donated_invars": (False,), "inline": False, "keep_unused": False}
    return lambda x: jit_p.bind(x, jaxpr=inner, name="inner", **params)


def _calls(again: bool) -> Callable[[Any], Any]:
    """Two calls of one program, or of two that are the same."""
    f = xpr.jit(lambda x: x * 2, inline=False)
    g = f if again else xpr.jit(lambda x: x * 2, inline=False)
    return lambda x: g(f(x))


# Programs that differ in one thing; those that share an object are lowered once.
PAIRS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "operation": ((lambda x: jnp.sin(x), X), (lambda x: jnp.cos(x), X)),
    "operands": ((lambda x, y: x - y, X, X), (lambda x, y: y - x, X, X)),
    "results": ((lambda x: (x, x * 2), X), (lambda x: (x * 2, x), X)),
    "literal": ((lambda x: x + 1.5, X), (lambda x: x + 1.25, X)),
    "last bit": ((lambda x: x + 1.0, X), (lambda x: x + np.nextafter(1, 2, dtype="f"), X)),
    "sign of zero": ((lambda x: x * 0.0, X), (lambda x: x * -0.0, X)),
    "sign of NaN": (
        (lambda x: x + np.float32("nan"), X),
        (lambda x: x + -np.float32("nan"), X),
    ),
    "dtype": ((lambda x: x + x, X), (lambda x: x + x, X.astype("int32"))),
    "bfloat16": ((lambda x: x * x, X.astype("float16")), (lambda x: x * x, X.astype(jnp.bfloat16))),
    "weak type": ((lambda x: x * x, 1.0), (lambda x: x * x, np.float32(1))),
    "shape": ((lambda x: x + x, X), (lambda x: x + x, X.T)),
    "axis": ((lambda x: jnp.sum(x, 0), X), (lambda x: jnp.sum(x, 1), X)),
    "order": ((lambda x: jnp.transpose(x, (0, 1)), X[None][0]), (lambda x: x.T, X)),
    "slice": ((lambda x: x[0:2], X), (lambda x: x[1:3], X)),
    "steps": ((lambda x: x[::2][:1], X), (lambda x: x[:1], X)),
    "converted to": ((lambda x: x.astype("int32"), X), (lambda x: x.astype("int16"), X)),
    "precision": (
        (lambda x: jnp.dot(x, x.T), X),
        (lambda x: jnp.dot(x, x.T, precision="highest"), X),
    ),
    "length of a loop": (
        (lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x), X),
        (lambda x: lax.fori_loop(0, 4, lambda i, c: c * 2, x), X),
    ),
    "body": (
        (lambda x: lax.while_loop(lambda c: c[0, 0] < 5, lambda c: c + 1, x), X),
        (lambda x: lax.while_loop(lambda c: c[0, 0] < 5, lambda c: c + 2, x), X),
    ),
    "branches": (
        (lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), X),
        (lambda x: lax.cond(x[0, 0] > 0, jnp.cos, jnp.sin, x), X),
    ),
    "reverse": (
        (lambda x: lax.scan(lambda c, y: (c + y, c), x[0], x), X),
        (lambda x: lax.scan(lambda c, y: (c + y, c), x[0], x, reverse=True), X),
    ),
    "constant inside": ((_holding(X), X), (_holding(X + 1), X)),
    "its last bit": ((_holding(X), X), (_holding(np.nextafter(X, 99)), X)),
    "shared programs": ((_calls(True), X), (_calls(False), X)),
    "derivative": ((xpr.grad(lambda x: jnp.sum(x * x)), X), (xpr.grad(lambda x: jnp.sum(x)), X)),
    "sort keys": (
        (lambda x, y: lax.sort((x, y), num_keys=1), X, X),
        (lambda x, y: lax.sort((x, y), num_keys=2), X, X),
    ),
    "gather": (
        (lambda x, i: x.at[i].get(mode="clip"), X, INDICES),
        (lambda x, i: x.at[i].get(mode="fill"), X, INDICES),
    ),
    "scatter": (
        (lambda x, i: x.at[i].add(1.0), X, INDICES),
        (lambda x, i: x.at[i].add(1.0, unique_indices=True), X, INDICES),
    ),
    "padding": (
        (lambda x: lax.pad(x, 0.0, ((1, 0, 0), (0, 0, 0))), X),
        (lambda x: lax.pad(x, 0.0, ((0, 1, 0), (0, 0, 0))), X),
    ),
    "name": ((xpr.jit(lambda x: x), X), (xpr.jit(jnp.negative), X)),
}


@pytest.mark.parametrize("what", PAIRS)
def test_programs_that_differ_have_different_texts(what: str) -> None:
    one, other = PAIRS[what]
    assert text(*one) != text(*other)


@pytest.mark.parametrize("what", PAIRS)
def test_a_program_has_one_text(what: str) -> None:
    for function, *args in PAIRS[what]:
        # Two traces: other variables, and other objects inside.
        assert text(lambda *xs: function(*xs), *args) == text(lambda *xs: function(*xs), *args)  # noqa: B023


def test_the_text_is_that_of_each_process() -> None:
    """Orders of sets and addresses differ from process to process."""
    code = (
        "import hashlib; from tests.core.test_canonical import PAIRS, text; "
        "print(hashlib.sha256(''.join(text(*p) for ps in PAIRS.values() for p in ps).encode())"
        ".hexdigest())"
    )
    root = Path(__file__).parents[2]
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_every_operation_of_the_table_has_a_text_of_its_own() -> None:
    """Each row, at each of its dtypes, and no two the same unless their programs are."""
    seen: dict[str, str] = {}
    pairs = [(row, d) for rows in all_rows().values() for row in rows for d in row.dtypes[:2]]
    with override("enable_x64", True):
        for row, dtype in one_of_alike(pairs):
            closed: ClosedJaxpr = trace_cases(cases_of([(row, dtype)]))[0]
            found = canonical_text(closed, UNREAD)
            printed = str(closed.jaxpr.pretty_print(custom_pp_eqn_rules=False))
            assert seen.setdefault(found, printed) == printed


class Colour(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    a: int
    b: int


def _local() -> Any:
    return lambda x: x


UNKNOWN = (
    (lambda x: x),
    _local(),
    functools.partial(np.sin),
    np.sin,
    object(),
    Colour.RED,
    Pair(1, 2),
    np.array([None]),
    os.environ,
    (1, [object()]),
    type("Made", (int,), {})(3),
)


@pytest.mark.parametrize("value", UNKNOWN, ids=lambda v: type(v).__name__)
def test_what_only_this_process_knows_has_no_text(value: Any) -> None:
    with pytest.raises(NoTextError, match=r"parameter of type|the program's own|objects|is made"):
        canonical_value(value)


DIFFERENT: tuple[Any, ...] = (
    *(0, 0.0, -0.0, 0j, complex(0, -0.0), False, None, "", b"", "0", (), [], {}, frozenset()),
    *((0,), [0], (0, 0), ((0,), 0), (0, (0,)), ("a", "b"), ("a,b",), ("a','b",), {0: 0}, {0: 0.0}),
    *(float("nan"), -float("nan"), float("inf"), 1, True, 1.0, np.float32(1), np.float64(1)),
    *(np.int32(1), np.bool_(True), np.zeros(0), np.zeros((0, 1)), np.zeros((1, 0)), np.zeros(1)),
    *(np.zeros(1, "f"), np.zeros(1, ">f8"), -np.zeros(1), np.zeros(1, "i8"), np.zeros(1, "u8")),
    *(np.dtype("f4"), np.dtype(">f4"), np.dtype("f8"), np.float32, np.dtype(ml_dtypes.bfloat16)),
    *(np.dtype("V2"), ml_dtypes.bfloat16, ml_dtypes.bfloat16(0), np.float16(0), slice(0), slice(1)),
    *(slice(0, 1), slice(None), {1: 2, 3: 4}, {3: 4, 1: 2}, frozenset({1, 2}), (1, 2)),
    *(lax.GatherScatterMode.CLIP, lax.Precision.HIGHEST, lax.Precision.DEFAULT, jnp.ndarray),
)


def test_values_that_differ_have_different_texts() -> None:
    texts = [canonical_value(v) for v in DIFFERENT]
    assert len(set(texts)) == len(texts)


def test_a_program_with_effects_has_no_text() -> None:
    def printing(x: Any) -> Any:
        xpr.debug.print("{}", x)
        return x

    with pytest.raises(NoTextError, match="effects"):
        text(printing, X)
    with pytest.raises(NoTextError, match="effects"):
        text(lambda x: lax.fori_loop(0, 2, lambda i, c: printing(c), x), X)
    with pytest.raises(NoTextError, match="ufunc"):
        text(lambda x: xpr.pure_callback(np.sin, x, x), X)
