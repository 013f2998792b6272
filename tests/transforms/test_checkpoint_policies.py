"""Policies of `checkpoint` inside loops, branches and calls; traces and what is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.jaxpr import sub_jaxprs
from xpr.core.trace import Trace

X = np.linspace(0.1, 0.5, 4, dtype="f4")
W = np.linspace(-0.5, 0.5, 16, dtype="f4").reshape(4, 4)


def _step(w: Any, x: Any) -> Any:
    return jnp.sin(jnp.dot(w, jnp.sin(jnp.dot(w, x))))


def _in_scan(w: Any, x: Any) -> Any:
    return lax.scan(lambda c, _: (_step(w, c), jnp.cos(c)), x, None, length=3)


def _in_branch(w: Any, x: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda y: _step(w, y), lambda y: 2 * y, x)


def _in_switch_in_scan(w: Any, x: Any) -> Any:
    branches = [lambda y: y, lambda y: _step(w, y), lambda y: jnp.cos(jnp.dot(w, y))]
    return lax.scan(lambda c, i: (lax.switch(i, branches, c), None), x, jnp.arange(3))[0]


def _in_calls(w: Any, x: Any) -> Any:
    inner = xpr.jit(_step)
    return lax.scan(lambda c, _: (xpr.jit(inner)(w, c), None), x, None, length=2, reverse=True)


def _as_it_stands(w: Any, x: Any) -> Any:
    return _step(w, x)


FUNCTIONS = (_in_scan, _in_branch, _in_switch_in_scan, _in_calls, _as_it_stands)


def _only(name: str) -> Callable[..., bool]:
    return lambda primitive, *_, **__: primitive.name == name


POLICIES: dict[str, Any] = {
    "nothing": xpr.checkpoint_policies.nothing_saveable,
    "everything": xpr.checkpoint_policies.everything_saveable,
    "dots": xpr.checkpoint_policies.dots_saveable,
    "sin": _only("sin"),
    "cos": _only("cos"),
}


def _loss(function: Any) -> Any:
    return lambda w, x: sum(jnp.sum(y * y) for y in xpr.tree.leaves(function(w, x)))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_derivatives_are_those_without_checkpoint(function: Any) -> None:
    def answers(loss: Any) -> Any:
        first = xpr.grad(loss, argnums=(0, 1))
        second = xpr.grad(lambda w, x: jnp.sum(first(w, x)[0] * W), argnums=1)
        both = xpr.vmap(first, in_axes=(None, 0))
        return first(W, X), second(W, X), both(W, np.stack([X, -X]))

    expected = xpr.jit(lambda: answers(_loss(function)))()
    found = xpr.jit(
        lambda: [answers(_loss(xpr.checkpoint(function, policy=p))) for p in POLICIES.values()]
    )()
    for one in found:
        xpr.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-5), one, expected)


def _count(jaxpr: Any, name: str) -> int:
    own = sum(e.primitive.name == name for e in jaxpr.eqns)
    return own + sum(_count(sub, name) for e in jaxpr.eqns for sub in sub_jaxprs(e.params))


@pytest.mark.parametrize(
    ("function", "policy", "sines", "cosines", "dots"),
    [
        # A product has two in the derivative, if its operand depends on w. In a loop the carry is
        # computed again, too, from the products; what is returned besides needs another sine.
        (_in_branch, "dots", 1, 2, 3),
        (_in_branch, "cos", 1, 0, 4),
        (_in_branch, "nothing", 1, 2, 5),
        (_in_branch, "everything", 0, 0, 3),
        (_in_scan, "dots", 3, 2, 4),
        (_in_scan, "everything", 0, 0, 4),
        (_in_calls, "dots", 2, 2, 4),
    ],
)
def test_what_is_kept_is_not_computed_again(
    function: Any, policy: str, sines: int, cosines: int, dots: int
) -> None:
    run = xpr.checkpoint(lambda w: function(w, X), policy=POLICIES[policy])
    out, pull = xpr.vjp(run, W)
    jaxpr = xpr.make_jaxpr(pull)(out).jaxpr
    found = tuple(_count(jaxpr, name) for name in ("sin", "cos", "dot_general"))
    assert found == (sines, cosines, dots), jaxpr


def test_functions_are_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Once a process has made a high type, which other tests do, functions are traced each time.
    monkeypatch.setattr(Trace, "any_high", False)
    count = 0

    def counted(flag: bool, x: Any) -> Any:
        nonlocal count
        count += 1
        return jnp.sin(x) if flag else x

    run = xpr.checkpoint(counted, static_argnums=0)
    for _ in range(3):
        run(True, X)
    assert count == 1
    run(False, X)
    run(True, X[:2])
    assert count == 3
    xpr.clear_caches()
    run(True, X)
    assert count == 4

    @xpr.jit
    def closes_over_a_tracer(x: Any) -> Any:
        inner = xpr.checkpoint(lambda y: x * y)
        return inner(2.0) + inner(3.0)

    np.testing.assert_allclose(closes_over_a_tracer(X), 5 * X, rtol=1e-6)


def test_kept_values_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    def f(x: Any) -> Any:
        return jnp.cos(jnp.sin(x).sum())

    cases = {
        None: ("saving inputs with shapes:\n  f32[4]", None),
        POLICIES["everything"]: (None, "saving these intermediates:\n  f32[4] of cos at"),
        POLICIES["sin"]: ("saving inputs with shapes:", "\nand saving these intermediates:"),
    }
    for policy, wanted in cases.items():
        caplog.clear()
        with caplog.at_level(logging.DEBUG, logger="xpr.compile"):
            xpr.grad(xpr.checkpoint(f, policy=policy))(X)
        [text] = [m for m in caplog.messages if m.startswith("remat-decorated function")]
        for part, word in zip(wanted, ("inputs", "intermediates"), strict=True):
            assert (word in text) == (part is not None), text
            assert part is None or part in text, text


def test_the_program_of_a_linear_function() -> None:
    _, pushed = xpr.linearize(jnp.sin, 1.0)
    jaxpr = pushed.func.args[0]
    assert "mul" in str(jaxpr)
    [found] = pushed.func(2.0)
    assert float(found) == float(pushed(2.0))
