"""`checking_leaks` finds no tracer that the library keeps itself: loops, rules, solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.experimental.ode import odeint


def squared(x: Any, scale: float) -> Any:
    return scale * x**2


with_rules = xpr.custom_vjp(squared, nondiff_argnums=(1,))
with_rules.defvjp(lambda x, s: (squared(x, s), x), lambda s, x, ct: (2 * s * x * ct,))

CALLS: dict[str, Callable[[], Any]] = {
    "odeint": lambda: odeint(lambda y, t: -y, jnp.ones(2), jnp.arange(3.0)),
    "gradient of odeint": lambda: xpr.grad(
        lambda k: odeint(lambda y, t: -k * y, jnp.ones(2), jnp.arange(3.0)).sum()
    )(1.0),
    "custom_vjp": lambda: xpr.jit(xpr.grad(lambda x: with_rules(x, 3.0)))(1.0),
    "jitted custom_vjp": lambda: xpr.grad(xpr.jit(lambda x: with_rules(x, 3.0)))(1.0),
    "scan": lambda: xpr.grad(lambda k: lax.scan(lambda c, x: (c * k, x), 1.0, jnp.ones(3))[0])(2.0),
    "while": lambda: lax.while_loop(lambda c: c < 3, lambda c: c + 1, 0),
    "cond": lambda: xpr.grad(lambda k: lax.cond(k > 0, lambda x: x * k, lambda x: x, 2.0))(2.0),
    "switch": lambda: xpr.vmap(lambda i: lax.switch(i, [jnp.sin, jnp.cos], 1.0))(jnp.arange(2)),
    "checkpoint": lambda: xpr.grad(xpr.checkpoint(lambda x: jnp.sin(jnp.sin(x))))(1.0),
}


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_kept(name: str) -> None:
    with xpr.default_device(xpr.devices("reference")[0]):
        expected = CALLS[name]()
        with xpr.checking_leaks():
            found = CALLS[name]()
    assert jnp.array_equal(found, expected)
