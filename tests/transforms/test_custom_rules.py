"""`custom_jvp`, `custom_vjp`, `custom_vmap`, `custom_gradient`, `closure_convert`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6)


# ---- custom_jvp


def _double_sin():
    """sin with twice its derivative, so that the rule shows."""

    @xpr.custom_jvp
    def f(x):
        """Sine."""
        return jnp.sin(x)

    @f.defjvp
    def f_jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), 2 * jnp.cos(x) * t

    return f


def test_custom_jvp_under_every_transformation() -> None:
    f = _double_sin()
    assert f.__doc__ == "Sine."
    x, xs = 0.3, jnp.array([0.1, 0.2])
    close(f(x), np.sin(x))
    close(xpr.jit(f)(x), np.sin(x))
    close(xpr.jvp(f, (x,), (1.0,))[1], 2 * np.cos(x))
    for g in (xpr.grad(f), xpr.jit(xpr.grad(f)), xpr.grad(xpr.jit(f)), xpr.grad(xpr.checkpoint(f))):
        close(g(x), 2 * np.cos(x))
    close(xpr.vmap(f)(xs), np.sin(xs))
    close(xpr.vmap(xpr.grad(f))(xs), 2 * np.cos(xs))
    close(xpr.grad(lambda xs: xpr.vmap(f)(xs).sum())(xs), 2 * np.cos(xs))
    close(xpr.grad(lambda xs: xpr.vmap(xpr.jit(f))(xs).sum())(xs), 2 * np.cos(xs))
    # The rule is differentiated in turn: its own f uses the rule again.
    close(xpr.grad(xpr.grad(f))(x), -2 * np.sin(x))
    close(xpr.jacfwd(f)(xs), np.diag(2 * np.cos(xs)))
    close(xpr.hessian(f)(x), -2 * np.sin(x))


def test_custom_jvp_with_several_arguments() -> None:
    @xpr.custom_jvp
    def f(x, y):
        return {"p": x * y, "q": x}

    @f.defjvp
    def f_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), {"p": 10 * dx * y + dy * x, "q": dx}

    close(xpr.grad(lambda x, y: f(x, y)["p"], argnums=(0, 1))(2.0, 3.0), (30.0, 2.0))
    close(xpr.grad(lambda x: f(x, y=3.0)["p"])(2.0), 30.0)


def test_defjvps_and_nondiff_arguments() -> None:
    @xpr.custom_jvp
    def f(x, y):
        return x * y

    f.defjvps(lambda t, out, x, y: 5 * t * y, None)
    close(xpr.grad(f, argnums=(0, 1))(2.0, 3.0), (15.0, 0.0))

    @partial(xpr.custom_jvp, nondiff_argnums=(0, 2))
    def apply(g, x, n):
        return g(x) * n

    @apply.defjvp
    def apply_jvp(g, n, primals, tangents):
        return apply(g, *primals, n), 100 * n * tangents[0]

    close(xpr.grad(apply, argnums=1)(jnp.sin, 0.5, 3), 300.0)
    close(xpr.jit(xpr.grad(lambda x: apply(jnp.sin, x, 3)))(0.5), 300.0)
    with pytest.raises(TypeError, match="Can't use ``defjvps`` with"):
        apply.defjvps(None)


def test_custom_jvp_symbolic_zeros() -> None:
    seen = []

    @xpr.custom_jvp
    def f(x, y):
        return x * y

    def f_jvp(primals, tangents):
        seen.append(type(tangents[1]).__name__)
        return primals[0] * primals[1], tangents[0] * primals[1]

    f.defjvp(f_jvp, symbolic_zeros=True)
    close(xpr.grad(f)(2.0, 3.0), 3.0)
    assert seen == ["SymbolicZero"]


def test_python_control_flow_in_a_custom_function() -> None:
    @xpr.custom_jvp
    def f(x):
        return x if x > 0 else -x

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 7))
    close(f(-2.0), 2.0)
    close(xpr.grad(f)(-2.0), 7.0)


def test_errors_of_custom_jvp() -> None:
    f = xpr.custom_jvp(lambda x: x)
    with pytest.raises(AttributeError, match="No JVP defined"):
        f(1.0)
    f.defjvp(lambda p, t: (p[0], (t[0], t[0])))
    with pytest.raises(TypeError, match=r"equal container .* structures"):
        xpr.grad(f)(1.0)
    f.defjvp(lambda p, t: p[0])
    with pytest.raises(TypeError, match="must produce a pair"):
        xpr.grad(f)(1.0)
    f.defjvp(lambda p, t: (p[0], jnp.ones(3)))
    with pytest.raises(TypeError, match=r"Expected float32\[\] .* but got float32\[3\]"):
        xpr.grad(f)(1.0)
    f.defjvp(lambda p, t: (p[0], jnp.sin(t[0])))
    with pytest.raises(NotImplementedError, match="Transpose rule"):
        xpr.grad(f)(1.0)


# ---- custom_vjp


def _scaled(factor):
    @xpr.custom_vjp
    def f(x, w):
        return jnp.sin(x) * w

    def fwd(x, w):
        return f(x, w), (x, w)

    def bwd(residuals, ct):
        x, w = residuals
        return factor * ct * jnp.cos(x) * w, ct * jnp.sin(x)

    f.defvjp(fwd, bwd)
    return f


def test_custom_vjp_under_every_transformation() -> None:
    f = _scaled(2.0)
    x, w, xs = 0.3, 1.5, jnp.array([0.1, 0.2])
    close(f(x, w), np.sin(x) * w)
    both = (2 * np.cos(x) * w, np.sin(x))
    for g in (f, xpr.jit(f), xpr.checkpoint(f)):
        close(xpr.grad(g, argnums=(0, 1))(x, w), both)
        close(xpr.jit(xpr.grad(g, argnums=(0, 1)))(x, w), both)
    each = 2 * np.cos(xs) * w
    close(xpr.vmap(xpr.grad(f), in_axes=(0, None))(xs, w), each)

    def total(xs, w):
        return xpr.vmap(f, in_axes=(0, None))(xs, w).sum()

    for g in (total, xpr.jit(total)):
        found = xpr.grad(g, argnums=(0, 1))(xs, w)
        close(found[0], each)
        close(found[1], np.sin(xs).sum())
    mapped = xpr.vmap(f, in_axes=(0, None))
    close(xpr.jacrev(mapped)(xs, w), np.diag(each))
    close(xpr.grad(xpr.grad(f))(x, w), -2 * np.sin(x) * w)


def test_custom_vjp_cotangents_may_be_none() -> None:
    @xpr.custom_vjp
    def f(x, tree, n):
        return x * tree["a"] * n

    f.defvjp(
        lambda x, tree, n: (f(x, tree, n), tree), lambda tree, ct: (ct * tree["a"], None, None)
    )
    gx, gtree = xpr.grad(f, argnums=(0, 1))(2.0, {"a": 3.0}, 4)
    close(gx, 3.0)
    close(gtree["a"], 0.0)
    assert xpr.grad(f, argnums=2, allow_int=True)(2.0, {"a": 3.0}, 4).dtype == xpr.float0


def test_custom_vjp_nondiff_and_defaults() -> None:
    @partial(xpr.custom_vjp, nondiff_argnums=(0,))
    def f(g, x, scale=2.0):
        return g(x) * scale

    f.defvjp(
        lambda g, x, scale: (f(g, x, scale), x),
        lambda g, x, ct: (ct * g(x) * 100, jnp.zeros_like(ct)),
    )
    close(xpr.grad(f, argnums=1)(jnp.sin, 0.5), 100 * np.sin(0.5))
    with pytest.raises(xpr.errors.UnexpectedTracerError, match="nondiff_argnums"):
        xpr.jit(lambda y: f(y, 1.0))(2.0)


def test_custom_vjp_symbolic_zeros() -> None:
    seen = {}

    @xpr.custom_vjp
    def f(x, y):
        return x * y, x

    def fwd(x, y):
        seen["perturbed"] = (x.perturbed, y.perturbed)
        return (x.value * y.value, x.value), y.value

    def bwd(y, cts):
        seen["second"] = type(cts[1]).__name__
        return cts[0] * y, None

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    close(xpr.grad(lambda x: f(x, 3.0)[0])(2.0), 3.0)
    assert seen == {"perturbed": (True, False), "second": "SymbolicZero"}


def test_integers_pass_through_custom_vjp() -> None:
    @xpr.custom_vjp
    def f(x, n):
        return x * n, n + 1

    f.defvjp(lambda x, n: (f(x, n), n), lambda n, cts: (cts[0] * n, None))
    close(xpr.grad(lambda x: f(x, 3)[0])(2.0), 3.0)


def test_errors_of_custom_vjp() -> None:
    def make(bwd, fwd=lambda x: (x, None)):
        f = xpr.custom_vjp(lambda x: x * 1.0)
        f.defvjp(fwd, bwd)
        return xpr.grad(f)

    with pytest.raises(AttributeError, match="No VJP defined"):
        xpr.custom_vjp(lambda x: x)(1.0)
    for wrong in (lambda r, ct: ct, lambda r, ct: (ct, ct), lambda r, ct: ((ct, ct),)):
        with pytest.raises(
            TypeError, match="bwd rule must produce an output with the same container"
        ):
            make(wrong)(1.0)
    with pytest.raises(ValueError, match=r"output\[0\] .* type f32\[3\] .* shapes do not match"):
        make(lambda r, ct: (jnp.ones(3),))(1.0)
    with pytest.raises(TypeError, match="must produce a pair"):
        make(lambda r, ct: (ct,), fwd=lambda x: x)(1.0)
    f = _scaled(1.0)
    for forward in (
        lambda: xpr.jvp(f, (1.0, 1.0), (1.0, 1.0)),
        lambda: xpr.jacfwd(f)(1.0, 1.0),
        lambda: xpr.jit(lambda x: xpr.jvp(f, (x, x), (x, x)))(1.0),
    ):
        with pytest.raises(TypeError, match="can't apply forward-mode autodiff"):
            forward()


# ---- custom_gradient, closure_convert, custom_vmap


def test_custom_gradient() -> None:
    @xpr.custom_gradient
    def f(x, y):
        z = jnp.sin(x)
        return z * y, lambda ct: (ct * z, 10 * ct)

    close(f(0.5, 2.0), np.sin(0.5) * 2)
    close(xpr.grad(f, argnums=(0, 1))(0.5, 2.0), (np.sin(0.5), 10.0))
    close(xpr.jit(xpr.grad(f))(0.5, 2.0), np.sin(0.5))


def test_closure_convert() -> None:
    def outer(x):
        converted, consts = xpr.closure_convert(lambda y: x * y, 1.0)
        assert len(consts) == 1
        return converted(3.0, *[2 * c for c in consts])

    close(xpr.grad(outer)(5.0), 6.0)


def test_custom_vmap() -> None:
    f = xpr.custom_batching.custom_vmap(lambda x, y: (x + y, y))

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        assert in_batched == [True, False]
        return (x + y + 100 * axis_size, y), (True, False)

    close(f(1.0, 2.0)[0], 3.0)
    found = xpr.vmap(f, in_axes=(0, None), out_axes=(0, None))(jnp.arange(2.0), 1.0)
    close(found[0], [201.0, 202.0])
    close(found[1], 1.0)
    close(xpr.jit(xpr.vmap(f, in_axes=(0, None)))(jnp.arange(2.0), 1.0)[0], [201.0, 202.0])
    close(xpr.grad(lambda x: f(x, 1.0)[0] * x)(3.0), 7.0)
    with pytest.raises(AttributeError, match="No batching rule defined"):
        xpr.custom_batching.custom_vmap(lambda x: x)(1.0)
    bad = xpr.custom_batching.custom_vmap(lambda x: x)
    bad.def_vmap(lambda size, batched, x: x)
    with pytest.raises(TypeError, match="must return a pair"):
        xpr.vmap(bad)(jnp.ones(2))


def test_sequential_vmap() -> None:
    f = xpr.custom_batching.sequential_vmap(lambda x, y: {"r": x * y})
    close(xpr.vmap(f, in_axes=(0, None))(jnp.arange(3.0), 2.0)["r"], [0, 2, 4])


def test_stop_gradient() -> None:
    close(xpr.grad(lambda x: xpr.lax.stop_gradient(x) * x)(3.0), 3.0)
    tree = xpr.lax.stop_gradient({"a": jnp.ones(2), "n": 3})
    assert tree["n"] == 3
    close(xpr.jit(xpr.vmap(xpr.lax.stop_gradient))(jnp.arange(3.0)), [0, 1, 2])


def test_numbers_among_residuals_stay_numbers() -> None:
    seen: list[Any] = []

    @xpr.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    def bwd(residuals: Any, ct: Any) -> Any:
        flag, x, scale = residuals
        seen.append((flag, scale))
        return (ct * jnp.cos(x) * scale if flag else ct,)

    f.defvjp(lambda x: (jnp.sin(x), (True, x, 3)), bwd)
    x = np.float32([0.3, -2.0])
    expected = 3 * np.cos(x)
    np.testing.assert_allclose(xpr.jit(xpr.grad(lambda x: xpr.jit(f)(x).sum()))(x), expected, 1e-6)
    np.testing.assert_allclose(xpr.vmap(xpr.grad(f))(x), expected, 1e-6)
    np.testing.assert_allclose(xpr.grad(lambda x: f(x).sum())(x), expected, 1e-6)
    assert seen == [(True, 3)] * 3
    assert {type(flag) for flag, _ in seen} == {bool}
