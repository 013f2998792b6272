"""`checking_leaks` finds no tracer that the library keeps itself: loops, rules, solvers.

All calls of the table are traced, batched and differentiated, those of a group in one program: each
check of a program goes through all objects.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import xpr
import xpr.numpy as jnp
from tests.settings import table
from tests.weak_types import operands
from xpr import lax
from xpr.experimental.ode import odeint


@pytest.fixture(autouse=True, scope="module")
def few_objects() -> None:
    """Has checks look at what a test makes alone, not at all objects of the tests before."""
    gc.collect()
    gc.freeze()  # for good: the tests have more frozen before


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


def _batch(x: Any) -> Any:
    return jnp.stack([x, x])


TRACED: dict[str, Callable[[Callable[[Any, Any], Any], Any, Any], Any]] = {
    "traced": lambda f, x, y: xpr.make_jaxpr(f)(x, y),
    "batched": lambda f, x, y: xpr.make_jaxpr(xpr.vmap(f))(_batch(x), _batch(y)),
    "differentiated": lambda f, x, y: xpr.make_jaxpr(lambda x, y: xpr.jvp(f, (x, y), (x, y)))(x, y),
}


@pytest.mark.parametrize("how", TRACED)
@pytest.mark.parametrize("group", table.EXPRESSIONS)
def test_public_functions_keep_nothing(group: str, how: str) -> None:
    scope = operands.names(xpr)
    x, y = table.operand_kinds()["half"]

    def function(expression: str) -> Callable[[Any, Any], Any]:
        code = compile(expression, expression, "eval")
        return lambda x, y: eval(code, scope | {"x": x, "y": y})

    refused: set[str] = set()

    def attempted(expression: str) -> Callable[[Any, Any], Any]:
        def attempt(x: Any, y: Any) -> Any:
            try:
                found = xpr.tree.leaves(function(expression)(x, y))
                return [v for v in found if isinstance(v, xpr.Array)]
            except Exception:  # some take no tracers, or no batches: other tests say so
                refused.add(expression)
                return ()

        return attempt

    def leaks(expressions: list[str]) -> bool:
        functions = [attempted(e) for e in expressions]
        try:
            with xpr.checking_leaks():
                TRACED[how](lambda x, y: [f(x, y) for f in functions], x, y)
        except Exception as error:
            if "Leaked" not in str(error):
                raise
            return True
        return False

    with warnings.catch_warnings(), xpr.default_device(xpr.devices("reference")[0]):
        warnings.simplefilter("ignore")
        every = table.EXPRESSIONS[group]
        if leaks(every):
            pytest.fail(f"{group}, {how}: a tracer is kept by {[e for e in every if leaks([e])]}")
    assert len(refused) < 0.8 * len(every), sorted(refused)


def test_a_tracer_that_is_kept_is_found() -> None:
    kept = []
    with xpr.checking_leaks(), pytest.raises(Exception, match="Leaked"):
        xpr.make_jaxpr(lambda x: kept.append(x) or x)(1.0)
