"""Messages of frequent mistakes name the operation and the values, and say what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import xpr
import xpr.numpy as jnp


def _assign_at() -> None:
    jnp.arange(3).at[0] = 5  # pyright: ignore[reportIndexIssue]


def _branch(x: Any) -> Any:
    return x if x < 0 else -x


def _loop(x: Any) -> Any:
    while x < 3:
        x = x + 1
    return x


def _donate() -> Any:
    x = jnp.ones(3)
    xpr.jit(lambda x: x + 1, donate_argnums=0)(x)
    return x + 1


CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "broadcasting": (
        lambda: jnp.ones((3, 4)) * jnp.ones(3),
        ValueError,
        r"shapes=\[\(3, 4\), \(3,\)\] in multiply$",
    ),
    "assignment to at": (_assign_at, TypeError, r"write x = x\.at\[0\]\.set\(\.\.\.\)$"),
    "call of at": (
        lambda: jnp.arange(3).at[0](5),  # pyright: ignore[reportCallIssue]
        TypeError,
        r"x\.at\[0\]\(\.\.\.\) is not an update: write x\.at\[0\]\.set\(\.\.\.\)",
    ),
    "branch in jit": (
        lambda: xpr.jit(_branch)(1.0),
        xpr.errors.TracerBoolConversionError,
        r"lax\.while_loop in place of `while`, or mark the argument static with static_argnums\.\n",
    ),
    "loop in vmap": (
        lambda: xpr.vmap(_loop)(jnp.ones(3)),
        xpr.errors.TracerBoolConversionError,
        r"xpr\.lax\.while_loop in place of `while`\.\n",
    ),
    "scalar in vmap": (
        lambda: xpr.vmap(lambda a, b: a + b)(jnp.ones(3), 2.0),
        ValueError,
        r"shape is \(\)\)\. It is argument b: pass None in its place in in_axes",
    ),
    "keyword in vmap": (
        lambda: xpr.vmap(lambda a, *, b: a + b["c"])(jnp.ones(3), b={"c": 2.0}),
        ValueError,
        r"It is kwargs\['b'\]\['c'\]: pass None",
    ),
    "donated array": (_donate, RuntimeError, r"It was donated to a jitted function"),
    "einsum": (
        lambda: jnp.einsum("ij,jk->ik", jnp.ones((3, 4)), jnp.ones((5, 6))),
        ValueError,
        r"The operands have the shapes \(3, 4\), \(5, 6\)\.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_message_says_what_to_do(name: str) -> None:
    call, error, message = CASES[name]
    with pytest.raises(error, match=message):
        call()
