"""Rules of high primitives that follow from others, against those of a plain function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.compat import modules
from xpr.compat.modules.experimental import hijax

RNG = np.random.default_rng(12)
X = RNG.uniform(0.5, 2, (3, 4)).astype(np.float32)
Y = RNG.uniform(0.5, 2, (3, 4)).astype(np.float32)


def plain(x: Any, y: Any) -> tuple[Any, Any]:
    return jnp.sin(x) * y, x * x


class Waves(hijax.HiPrim):
    """`plain` of a pair; its rules are up to subclasses."""

    def __init__(self, aval: Any) -> None:
        self.in_avals = (aval, aval)
        self.out_aval = (aval, aval)
        self.params = {}
        super().__init__()

    def expand(self, *args: Any) -> Any:
        return plain(*args)

    def batch_dim_rule(self, axis_data: Any, dims: Any) -> Any:
        del axis_data
        found = next(d for d in dims if d is not None)
        return found, dims[0]


class WithJvp(Waves):
    def jvp(self, primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, (hijax.instantiate_zeros(t) for t in tangents)
        return self(x, y), (jnp.cos(x) * y * dx + jnp.sin(x) * dy, 2 * x * dx)


class VjpOfJvp(WithJvp):
    vjp_fwd, vjp_bwd_retval = hijax.vjp_from_jvp


class LinOfJvp(WithJvp):
    lin, linearized = hijax.linearize_from_jvp


class VjpOfLinOfJvp(LinOfJvp):
    vjp_fwd, vjp_bwd_retval = hijax.vjp_from_lin


class WithLin(Waves):
    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        del nzs_in
        x, y = primals
        return self(x, y), (jnp.cos(x) * y, jnp.sin(x), x)

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        by_x, by_y, x = residuals
        dx, dy = (hijax.instantiate_zeros(t) for t in tangents)
        return by_x * dx + by_y * dy, 2 * x * dx


class AllOfLin(WithLin):
    jvp = hijax.jvp_from_lin
    vjp_fwd, vjp_bwd_retval = hijax.vjp_from_lin


CLASSES: list[Any] = [VjpOfJvp, LinOfJvp, VjpOfLinOfJvp, AllOfLin]


def total(function: Any) -> Any:
    def run(x: Any, y: Any) -> Any:
        first, second = function(x, y)
        return (first * jnp.arange(4.0)).sum() + (second * second).sum()

    return run


@pytest.mark.parametrize("cls", CLASSES)
def test_derivatives_are_those_of_the_function(cls: Any) -> None:
    def close(a: Any, b: Any) -> None:
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)

    def high(x: Any, y: Any) -> Any:
        return cls(modules.typeof(x))(x, y)

    for argnums in (0, 1, (0, 1)):
        for wrap in (lambda f: f, xpr.jit):
            found = wrap(xpr.grad(total(high), argnums))(X, Y)
            xpr.tree.map(close, found, xpr.grad(total(plain), argnums)(X, Y))
    found = xpr.vmap(xpr.grad(total(high), (0, 1)))(X, Y)
    xpr.tree.map(close, found, xpr.vmap(xpr.grad(total(plain), (0, 1)))(X, Y))
    xpr.tree.map(close, xpr.jvp(high, (X, Y), (Y, X)), xpr.jvp(plain, (X, Y), (Y, X)))


def test_linearized_programs() -> None:
    found = xpr.linearize(LinOfJvp(modules.typeof(X)), X, Y)[1](Y, X)
    expected = xpr.linearize(plain, X, Y)[1](Y, X)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6)


def test_rules_that_would_be_made_from_each_other() -> None:
    class Circle(Waves):
        jvp = hijax.jvp_from_lin
        lin, linearized = hijax.linearize_from_jvp

    with pytest.raises(TypeError, match="each would be defined in terms of the other"):
        xpr.jvp(Circle(modules.typeof(X)), (X, Y), (X, Y))


@pytest.mark.parametrize("name", ["linearize_from_jvp", "vjp_from_jvp", "vjp_from_lin"])
def test_pairs_are_no_rules(name: str) -> None:
    with pytest.raises(TypeError, match=f"`{name}` is a pair of rules.*unpack it"):
        getattr(hijax, name)(1)


def test_helpers_of_rules_for_batches() -> None:
    seen: list[Any] = []

    class Batched(Waves):
        def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
            x, y = hijax.bdims_at_front(axis_data, args, dims)
            seen.append(hijax.unmap_avals(axis_data, self.in_avals, dims))
            return plain(x, y), (0, 0)

    def f(x: Any, y: Any) -> Any:
        return Batched(modules.typeof(x))(x, y)

    found = xpr.vmap(f, in_axes=(1, None))(X, Y[:, 0])
    expected = xpr.vmap(plain, in_axes=(1, None))(X, Y[:, 0])
    xpr.tree.map(np.testing.assert_array_equal, found, (expected[0], expected[1]))
    assert [a.shape for a in seen[0]] == [(3, 4), (3,)]
