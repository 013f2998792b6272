"""Functions with rules of their own that close over values of outer transformations.

A program is named by four parts: how the function with a rule gets the outer value `k`, the
transformations that bind `k`, how the function is applied to `x`, and the transformation around all
of it, of which `x` is the argument. All are built with the module that they are given, which has
JAX's names.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[[Any], Any]


class Forms:
    """Functions of `x` with rules of their own that read `k`; the rules' derivatives are marked."""

    def __init__(self, jax: Any) -> None:
        self.jax = jax
        self.jnp = jax.numpy
        self.lax = jax.lax

    # ---- custom_jvp

    def _jvp(self, fun: Any, rule: Any, **options: Any) -> Function:
        f = self.jax.custom_jvp(fun)
        f.defjvp(rule, **options)
        return f

    def jvp_function(self, k: Any) -> Function:
        f = self._jvp(
            lambda x: self.jnp.sin(x) * k,
            lambda p, t: (f(*p), 10.0 * p[0] * t[0]),
        )
        return f

    def jvp_rule(self, k: Any) -> Function:
        return self._jvp(
            lambda x: self.jnp.sin(x),
            lambda p, t: (self.jnp.sin(p[0]), 10.0 * p[0] * t[0] * k),
        )

    def jvp_both(self, k: Any) -> Function:
        f = self._jvp(
            lambda x: self.jnp.sin(x) * k,
            lambda p, t: (f(*p), 10.0 * p[0] * t[0] * k),
        )
        return f

    def jvp_symbolic(self, k: Any) -> Function:
        return self._jvp(
            lambda x: self.jnp.sin(x) * k,
            lambda p, t: (self.jnp.sin(p[0]) * k, 10.0 * p[0] * t[0] * k),
            symbolic_zeros=True,
        )

    def jvp_fixed(self, k: Any) -> Function:
        def fun(x: Any, factor: Any) -> Any:
            return self.jnp.sin(x) * factor

        f = self.jax.custom_jvp(fun, nondiff_argnums=(1,))
        f.defjvp(lambda factor, p, t: (f(p[0], factor), 10.0 * p[0] * t[0] * factor))
        return lambda x: f(x, k)

    def jvp_fixed_function(self, k: Any) -> Function:
        def fun(scale: Any, x: Any) -> Any:
            return self.jnp.sin(scale(x))

        f = self.jax.custom_jvp(fun, nondiff_argnums=(0,))
        f.defjvp(lambda scale, p, t: (f(scale, p[0]), 10.0 * scale(p[0]) * t[0]))
        return lambda x: f(lambda y: y * k, x)

    # ---- custom_vjp

    def _vjp(self, fun: Any, fwd: Any, bwd: Any, **options: Any) -> Function:
        f = self.jax.custom_vjp(fun)
        f.defvjp(fwd, bwd, **options)
        return f

    def vjp_function(self, k: Any) -> Function:
        f = self._vjp(
            lambda x: self.jnp.sin(x) * k,
            lambda x: (self.jnp.sin(x), x),
            lambda x, ct: (10.0 * x * ct,),
        )
        return f

    def vjp_fwd(self, k: Any) -> Function:
        return self._vjp(
            lambda x: self.jnp.sin(x),
            lambda x: (self.jnp.sin(x) * k, (x, k)),
            lambda r, ct: (10.0 * r[0] * r[1] * ct,),
        )

    def vjp_bwd(self, k: Any) -> Function:
        return self._vjp(
            lambda x: self.jnp.sin(x),
            lambda x: (self.jnp.sin(x), x),
            lambda x, ct: (10.0 * x * ct * k,),
        )

    def vjp_all(self, k: Any) -> Function:
        return self._vjp(
            lambda x: self.jnp.sin(x) * k,
            lambda x: (self.jnp.sin(x) * k, None),
            lambda r, ct: (10.0 * ct * k,),
        )

    def vjp_fixed(self, k: Any) -> Function:
        def fun(x: Any, factor: Any) -> Any:
            return self.jnp.sin(x) * factor

        f = self.jax.custom_vjp(fun, nondiff_argnums=(1,))
        f.defvjp(
            lambda x, factor: (self.jnp.sin(x) * factor, x),
            lambda factor, x, ct: (10.0 * x * ct * factor,),
        )
        return lambda x: f(x, k)

    def vjp_fixed_function(self, k: Any) -> Function:
        def fun(scale: Any, x: Any) -> Any:
            return self.jnp.sin(scale(x))

        f = self.jax.custom_vjp(fun, nondiff_argnums=(0,))
        f.defvjp(
            lambda scale, x: (self.jnp.sin(scale(x)), x),
            lambda scale, x, ct: (10.0 * scale(x) * ct,),
        )
        return lambda x: f(lambda y: y * k, x)

    def vjp_symbolic(self, k: Any) -> Function:
        return self._vjp(
            lambda x: self.jnp.sin(x) * k,
            lambda x: (self.jnp.sin(x.value) * k, x.value),
            lambda x, ct: (10.0 * x * ct * k,),
            symbolic_zeros=True,
        )

    def vjp_remat(self, k: Any) -> Function:
        return self._vjp(
            lambda x: self.jnp.sin(x) * k,
            lambda x: (self.jnp.sin(x) * k, x),
            lambda x, ct: (10.0 * x * ct,),
            optimize_remat=True,
        )

    # ---- the others

    def gradient(self, k: Any) -> Function:
        return self.jax.custom_gradient(
            lambda x: (self.jnp.sin(x) * k, lambda ct: (10.0 * x * k * ct,))
        )

    def vmap_function(self, k: Any) -> Function:
        f = self.jax.custom_batching.custom_vmap(lambda x: self.jnp.sin(x) * k)
        f.def_vmap(lambda size, batched, x: (self.jnp.sin(x) * 10.0, batched[0]))
        return f

    def vmap_rule(self, k: Any) -> Function:
        f = self.jax.custom_batching.custom_vmap(lambda x: self.jnp.sin(x))
        f.def_vmap(lambda size, batched, x: (self.jnp.sin(x) * k, batched[0]))
        return f

    def sequential(self, k: Any) -> Function:
        return self.jax.custom_batching.sequential_vmap(lambda x: self.jnp.sin(x) * k)

    def linear_call(self, k: Any) -> Function:
        call = self.jax.custom_derivatives.linear_call
        return lambda x: call(lambda r, y: r * y * k, lambda r, ct: r * ct * k * 10.0, 3.0, x)

    def linear_solve(self, k: Any) -> Function:
        def solve(matvec: Any, b: Any) -> Any:
            return b / matvec(self.jnp.ones_like(b))

        return lambda x: self.lax.custom_linear_solve(
            lambda y: k * y, self.jnp.sin(x), solve, symmetric=True
        )

    def root(self, k: Any) -> Function:
        def steps(f: Any, x0: Any) -> Any:
            slope = self.jax.jvp(f, (x0,), (self.jnp.ones_like(x0),))[1]
            return x0 - f(x0) / slope

        return lambda x: self.lax.custom_root(
            lambda y: k * y - self.jnp.sin(x), 0.5, steps, lambda g, y: y / g(1.0)
        )

    def converted(self, k: Any) -> Function:
        def fun(x: Any) -> Any:
            inner, consts = self.jax.closure_convert(lambda y: self.jnp.sin(y) * k, x)
            return inner(x, *consts)

        return fun


FORMS = tuple(
    "jvp_function jvp_rule jvp_both jvp_symbolic jvp_fixed jvp_fixed_function "
    "vjp_function vjp_fwd vjp_bwd vjp_all vjp_fixed vjp_fixed_function vjp_symbolic vjp_remat "
    "gradient vmap_function vmap_rule sequential linear_call linear_solve root converted".split()
)


class Binders:
    """Transformations that bind `k` in `body(k)`, each a function of `body` and a value."""

    def __init__(self, jax: Any) -> None:
        self.jax = jax
        self.jnp = jax.numpy
        self.lax = jax.lax

    def plain(self, body: Function, k: Any) -> Any:
        return body(k)

    def vmap(self, body: Function, k: Any) -> Any:
        return self.jax.vmap(lambda a: body(k * a))(self.jnp.array([1.0, 2.0]))

    def named(self, body: Function, k: Any) -> Any:
        return self.jax.vmap(lambda a: body(k * a), axis_name="i")(self.jnp.array([1.0, 2.0]))

    def jvp(self, body: Function, k: Any) -> Any:
        return self.jax.jvp(body, (k,), (k * 0.0 + 1.0,))

    def linearize(self, body: Function, k: Any) -> Any:
        out, pushforward = self.jax.linearize(body, k)
        return out, pushforward(k * 0.0 + 1.0)

    def grad(self, body: Function, k: Any) -> Any:
        return self.jax.grad(lambda a: self.jnp.sum(self.total(body(a))))(k)

    def jit(self, body: Function, k: Any) -> Any:
        return self.jax.jit(body)(k)

    def scan(self, body: Function, k: Any) -> Any:
        return self.lax.scan(lambda c, a: (c, body(a * c)), k, self.jnp.array([1.0, 2.0]))

    def fori(self, body: Function, k: Any) -> Any:
        return self.lax.fori_loop(0, 2, lambda i, a: self.total(body(a)), k)

    def loop(self, body: Function, k: Any) -> Any:
        def step(state: Any) -> Any:
            i, a = state
            return i + 1, self.total(body(a))

        return self.lax.while_loop(lambda state: state[0] < 2, step, (0, k))

    def cond(self, body: Function, k: Any) -> Any:
        return self.lax.cond(
            self.jnp.sum(k) > 0.0, lambda a: self.total(body(a)), lambda a: a * 2.0, k
        )

    def checkpoint(self, body: Function, k: Any) -> Any:
        return self.jax.checkpoint(body)(k)

    def total(self, out: Any) -> Any:
        """The sum of all numbers of a result."""
        return sum(self.jnp.sum(x) for x in self.jax.tree.leaves(out))


BINDERS = tuple("plain vmap named jvp linearize grad jit scan fori loop cond checkpoint".split())


class Uses:
    """How a function `g` is applied to `x`."""

    def __init__(self, jax: Any) -> None:
        self.jax = jax
        self.jnp = jax.numpy
        self.lax = jax.lax

    def call(self, g: Function, x: Any) -> Any:
        return g(x)

    def grad(self, g: Function, x: Any) -> Any:
        return self.jax.value_and_grad(g)(x)

    def jvp(self, g: Function, x: Any) -> Any:
        return self.jax.jvp(g, (x,), (x * 0.0 + 2.0,))

    def vmap(self, g: Function, x: Any) -> Any:
        return self.jax.vmap(lambda a: g(x * a))(self.jnp.array([1.0, 3.0]))

    def jit(self, g: Function, x: Any) -> Any:
        return self.jax.jit(g)(x)

    def scan(self, g: Function, x: Any) -> Any:
        return self.lax.scan(lambda c, a: (c, g(c * a)), x, self.jnp.array([1.0, 3.0]))

    def second(self, g: Function, x: Any) -> Any:
        return self.jax.grad(self.jax.grad(g))(x)

    def vmap_grad(self, g: Function, x: Any) -> Any:
        return self.jax.vmap(self.jax.grad(lambda a: g(x * a)))(self.jnp.array([1.0, 3.0]))

    def grad_vmap(self, g: Function, x: Any) -> Any:
        xs = x * self.jnp.array([1.0, 3.0])
        return self.jax.grad(lambda v: self.jnp.sum(self.jax.vmap(g)(v)))(xs)

    def grad_jit(self, g: Function, x: Any) -> Any:
        return self.jax.grad(self.jax.jit(g))(x)

    def grad_checkpoint(self, g: Function, x: Any) -> Any:
        return self.jax.grad(self.jax.checkpoint(g))(x)

    def linearize(self, g: Function, x: Any) -> Any:
        out, pushforward = self.jax.linearize(g, x)
        return out, pushforward(x * 0.0 + 1.0)

    def cond(self, g: Function, x: Any) -> Any:
        return self.lax.cond(x > 0.0, g, lambda a: a, x)


USES = tuple(
    "call grad jvp vmap jit scan second vmap_grad grad_vmap grad_jit grad_checkpoint linearize "
    "cond".split()
)


class Outsides:
    """The transformation around all, of a function of `x`."""

    def __init__(self, jax: Any) -> None:
        self.jax = jax
        self.jnp = jax.numpy

    def none(self, f: Function) -> Any:
        return f(0.7)

    def grad(self, f: Function) -> Any:
        total = Binders(self.jax).total
        return self.jax.value_and_grad(lambda x: total(f(x)))(0.7)

    def jvp(self, f: Function) -> Any:
        return self.jax.jvp(f, (0.7,), (2.0,))

    def vmap(self, f: Function) -> Any:
        return self.jax.vmap(f)(self.jnp.array([0.7, 0.2]))

    def jit(self, f: Function) -> Any:
        return self.jax.jit(f)(0.7)

    def vmap_grad(self, f: Function) -> Any:
        total = Binders(self.jax).total
        return self.jax.vmap(self.jax.grad(lambda x: total(f(x))))(self.jnp.array([0.7, 0.2]))

    def jit_grad(self, f: Function) -> Any:
        total = Binders(self.jax).total
        return self.jax.jit(self.jax.grad(lambda x: total(f(x))))(0.7)


OUTSIDES = tuple("none grad jvp vmap jit vmap_grad jit_grad".split())


def run(jax: Any, name: str) -> list[float]:
    """All numbers of the result of the program `form binder[+binder] use outside`."""
    form, binders, use, outside = name.split()

    def of_x(x: Any) -> Any:
        def body(k: Any) -> Any:
            return getattr(Uses(jax), use)(getattr(Forms(jax), form)(k), x)

        for binder in reversed(binders.split("+")):
            body = _bound(getattr(Binders(jax), binder), body)
        return body(1.3)

    out = getattr(Outsides(jax), outside)(of_x)
    numbers: list[float] = []
    for leaf in map(np.asarray, jax.tree.leaves(out)):
        if leaf.dtype != jax.dtypes.float0:
            numbers += leaf.ravel().tolist()
    return numbers


def _bound(binder: Any, body: Function) -> Function:
    return lambda k: binder(body, k)


def names(pairs: int = 700) -> list[str]:
    """All programs of one binder with the simplest uses, and samples of all others."""
    rng = random.Random(0)
    every = [
        f"{form} {binder} {use} {outside}"
        for form in FORMS
        for binder in BINDERS
        for use in USES
        for outside in OUTSIDES
    ]
    first = [
        n
        for n in every
        if n.split()[2] in ("call", "grad", "vmap") and n.split()[3] in ("none", "grad")
    ]
    rest = rng.sample(sorted(set(every) - set(first)), pairs)
    nested = [
        f"{rng.choice(FORMS)} {rng.choice(BINDERS[1:])}+{rng.choice(BINDERS[1:])} "
        f"{rng.choice(USES)} {rng.choice(OUTSIDES)}"
        for _ in range(pairs)
    ]
    return [*first, *rest, *dict.fromkeys(nested)]
