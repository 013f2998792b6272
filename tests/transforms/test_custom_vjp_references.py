"""Functions with derivative rules of their own that read and write references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax

X = np.array([0.5, 1.0, 2.0], np.float32)


@xpr.custom_vjp
def stash(ref: Any, x: Any) -> Any:
    """`x`, whose cotangent is written to a reference."""
    del ref
    return x


def _stash_fwd(ref: Any, x: Any) -> Any:
    return x, ref


def _stash_bwd(ref: Any, g: Any) -> Any:
    ref[...] = g
    return None, g


stash.defvjp(_stash_fwd, _stash_bwd)


@xpr.custom_vjp
def counted(x: Any, ref: Any) -> Any:
    """`x ** 2`, which adds to a reference; its rule adds ten times as much."""
    ref[...] += x
    return x**2


def _counted_fwd(x: Any, ref: Any) -> Any:
    ref[...] += 10 * x
    return x**2, x


def _counted_bwd(x: Any, g: Any) -> Any:
    return 2 * x * g + 1, None


counted.defvjp(_counted_fwd, _counted_bwd)


def _closing(ref: Any) -> Callable[[Any], Any]:
    return lambda x: jnp.sin(stash(ref, x)).sum()


# Functions of an array and a reference to three zeros, after which the reference holds the cosines.
_GRADIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "as it is": lambda x, ref: xpr.grad(_closing(ref))(x),
    "of jit": lambda x, ref: xpr.grad(xpr.jit(_closing(ref)))(x),
    "of jit in jit": lambda x, ref: xpr.grad(xpr.jit(xpr.jit(_closing(ref))))(x),
    "in jit": lambda x, ref: xpr.jit(lambda r, x: xpr.grad(_closing(r))(x))(ref, x),
    "in jit of jit": lambda x, ref: xpr.jit(xpr.grad(xpr.jit(_closing(ref))))(x),
    "of checkpoint": lambda x, ref: xpr.grad(xpr.checkpoint(_closing(ref)))(x),
    "of vmap": lambda x, ref: xpr.vmap(lambda r, x: xpr.grad(xpr.jit(_closing(r)))(x))(ref, x),
    "by vjp": lambda x, ref: xpr.vjp(xpr.jit(_closing(ref)), x)[1](jnp.float32(1))[0],
    "beside values": lambda x, ref: xpr.jit(xpr.value_and_grad(_closing(ref)))(x)[1],
}


@pytest.mark.parametrize("name", _GRADIENTS)
def test_a_rule_writes_cotangents_to_a_reference(name: str) -> None:
    ref = xpr.new_ref(jnp.zeros(3))
    np.testing.assert_allclose(_GRADIENTS[name](X, ref), np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(ref[...], np.cos(X), rtol=1e-6)


def test_a_function_that_runs_leaves_its_rules_alone() -> None:
    def loop(ref: Any, x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, c: counted(c, ref), x)

    for run, times in ((counted, 1), (xpr.jit(counted), 1), (xpr.jit(xpr.vmap(counted)), 1)):
        ref = xpr.new_ref(jnp.zeros(3))
        np.testing.assert_allclose(run(jnp.array(X), ref), X**2)
        np.testing.assert_allclose(ref[...], times * X)
    ref = xpr.new_ref(jnp.zeros(3))
    np.testing.assert_allclose(xpr.jit(loop)(ref, X), X**8, rtol=1e-6)
    np.testing.assert_allclose(ref[...], X + X**2 + X**4, rtol=1e-6)


def test_the_forward_rule_writes_once() -> None:
    for transform in (lambda f: f, xpr.jit):
        ref = xpr.new_ref(jnp.zeros(3))
        inner = transform(lambda x, ref=ref: counted(x, ref).sum())
        np.testing.assert_allclose(transform(xpr.grad(inner))(X), 2 * X + 1)
        np.testing.assert_allclose(ref[...], 10 * X)
        ref = xpr.new_ref(jnp.zeros(3))
        inner = transform(lambda x, ref=ref: xpr.vmap(counted)(x, ref).sum())
        np.testing.assert_allclose(transform(xpr.grad(inner))(X), 2 * X + 1)
        np.testing.assert_allclose(ref[...], 10 * X)


def test_a_scan_around_is_written_out() -> None:
    def loss(x: Any, ref: Any, reverse: bool, length: int) -> Any:
        def step(c: Any, s: Any) -> Any:
            c = jnp.sin(stash(ref, c) * s)
            return c, c[0] * s

        scales = jnp.arange(1.0, 1.0 + length)
        end, ys = lax.scan(step, x, scales, reverse=reverse)
        return end.sum() + ys.sum()

    def loop(x: Any, reverse: bool, length: int) -> tuple[Any, Any]:
        scales = np.arange(1.0, 1.0 + length)
        carries, ys = [x], []
        for s in scales[::-1] if reverse else scales:
            carries.append(jnp.sin(carries[-1] * s))
            ys.append(carries[-1][0] * s)
        return carries[-1].sum() + sum(ys)

    for transform in (lambda f: f, xpr.jit):
        for reverse, length in ((False, 3), (True, 3), (False, 0)):
            ref = xpr.new_ref(jnp.zeros(3))
            inner = transform(lambda x, r=ref, b=reverse, n=length: loss(x, r, b, n))
            expected = xpr.grad(lambda x, b=reverse, n=length: loop(x, b, n))(jnp.array(X))
            np.testing.assert_allclose(transform(xpr.grad(inner))(X), expected, rtol=1e-5)
            # The first step is the last one backwards.
            if length:
                np.testing.assert_allclose(ref[...], expected, rtol=1e-5)


def test_a_reference_is_given_once_and_not_returned() -> None:
    def f(x_ref: Any, y_ref: Any) -> Any:
        return x_ref[...] + y_ref[...]

    custom = xpr.custom_vjp(f)
    custom.defvjp(lambda x_ref, y_ref: (f(x_ref, y_ref), None), lambda _, g: (None, None))
    ref = xpr.new_ref(jnp.zeros(3))
    both = "appeared at both x_ref and y_ref"
    for run in (custom, xpr.jit(custom), xpr.vmap(f)):
        with pytest.raises(ValueError, match=both):
            run(ref, ref)
    with pytest.raises(ValueError, match="for cond.*" + both):
        lax.cond(True, f, f, ref, ref)
    with pytest.raises(ValueError, match="closed over and passed as the argument y_ref"):
        lax.cond(True, lambda y_ref: f(ref, y_ref), lambda y_ref: f(ref, y_ref), ref)
    with pytest.raises(ValueError, match=r"for scan.*appeared at both c\[0\] and c\[1\]"):
        lax.scan(lambda c, _: (None, None), (ref, ref), None, length=1)

    same = xpr.custom_vjp(lambda ref: ref)
    same.defvjp(lambda ref: (ref, None), lambda _, g: (None,))
    with pytest.raises(ValueError, match="primal function <lambda> returned a mutable array ref"):
        same(ref)
    made = xpr.custom_vjp(lambda x: x)
    made.defvjp(lambda x: (x, xpr.new_ref(x)), lambda _, g: (g,))
    with pytest.raises(ValueError, match=r"fwd function <lambda> returned .* was not an argument"):
        xpr.grad(lambda x: made(x).sum())(X)


def test_loops_and_branches_around_are_not_differentiated() -> None:
    ref = xpr.new_ref(jnp.zeros(3))

    def step(c: Any, _: Any) -> Any:
        return stash(ref, c), None

    message = "{} cannot be transformed when a custom_vjp function inside takes references"
    with pytest.raises(NotImplementedError, match=message.format("scan")):
        xpr.grad(lambda x: lax.scan(step, x, None, length=1000)[0].sum())(X)
    with pytest.raises(NotImplementedError, match="a mapped reference as a residual"):
        xpr.grad(lambda x: xpr.vmap(stash)(ref, x).sum())(X)
    with pytest.raises(NotImplementedError, match=message.format("cond")):
        xpr.grad(lambda x: lax.cond(x[0] > 0, _closing(ref), lambda x: x.sum(), x))(X)


def test_a_rule_for_forward_mode_takes_no_references() -> None:
    @xpr.custom_jvp
    def f(x: Any, ref: Any) -> Any:
        return x * ref[...]

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    with pytest.raises(NotImplementedError, match="a function with a rule for forward mode cannot"):
        xpr.jit(f)(X, xpr.new_ref(jnp.zeros(3)))
