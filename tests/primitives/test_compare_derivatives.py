"""Derivatives of choices at ties, and which operands their batching leaves alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ((0.0, 0.5, 1.0), (0, 1, 0)),
        ((0.0, -1.0, 1.0), (1, 0, 0)),
        ((0.0, 2.0, 1.0), (0, 0, 1)),
        # Zero where the value is equal to a bound, or the bounds are equal and it is below.
        ((0.0, 0.0, 1.0), (0, 0, 0)),
        ((0.0, 1.0, 1.0), (0, 0, 0)),
        ((1.0, 1.0, 1.0), (0, 0, 0)),
        ((1.0, 0.0, 1.0), (0, 0, 0)),
        ((1.0, 2.0, 1.0), (0, 0, 1)),
        # The upper bound wins where the bounds have changed places.
        ((3.0, 0.0, 1.0), (0, 0, 1)),
        ((3.0, 2.0, 1.0), (0, 0, 1)),
        ((3.0, 5.0, 1.0), (0, 0, 1)),
        ((0.0, np.nan, 1.0), (0, 0, 0)),
    ],
)
def test_clamp(operands: Sequence[float], expected: Sequence[float]) -> None:
    found = xpr.grad(lax.clamp, (0, 1, 2))(*operands)
    assert [float(x) for x in found] == list(expected)
    assert all(x.weak_type for x in found)


def test_scalar_bounds_collect_the_cotangents_of_all_elements() -> None:
    x = jnp.array([[-1.0, 0.5, 3.0], [-2.0, 4.0, 5.0]])
    low, middle, high = xpr.grad(lambda *a: lax.clamp(*a).sum(), (0, 1, 2))(0.0, x, 1.0)
    assert (float(low), float(high)) == (2.0, 3.0)
    np.testing.assert_array_equal(np.asarray(middle), [[0, 1, 0], [0, 0, 0]])


def test_select_n_transposes_to_selections_from_zeros() -> None:
    which = jnp.array([0, 2, 1, 2])
    cases = [jnp.arange(4.0) + i for i in range(3)]
    found = xpr.grad(lambda *c: (lax.select_n(which, *c) * jnp.arange(1.0, 5.0)).sum(), (0, 1, 2))(
        *cases
    )
    np.testing.assert_array_equal(np.asarray(found), [[1, 0, 0, 0], [0, 0, 3, 0], [0, 2, 0, 4]])
    # One case only needs no zeros.
    program = xpr.make_jaxpr(xpr.grad(lambda x: lax.select_n(False, x)))(1.0)
    assert str(program).count("select_n") == 1


def _shapes(function: Any, in_axes: Any, *args: Any) -> list[tuple[int, ...]]:
    """The shapes of the operands of `function`, one primitive, in its batched program."""
    program = xpr.make_jaxpr(xpr.vmap(function, in_axes))(*args)
    (eqn,) = (e for e in program.jaxpr.eqns if e.primitive.name == function.__name__)
    return [v.aval.shape for v in eqn.invars]


def test_batching_keeps_scalars() -> None:
    x, yes = jnp.ones((2, 3)), jnp.array(True)
    # An unbatched scalar predicate stays a scalar; a batched one is repeated for each element.
    assert _shapes(lax.select_n, (None, 0, 0), yes, x, x) == [(), (2, 3), (2, 3)]
    assert _shapes(lax.select_n, (0, 0, None), jnp.ones(2, bool), x, x[0]) == [(2, 3)] * 3
    assert _shapes(lax.select_n, (0, 0, 0), jnp.ones(2, bool), x[:, 0], x[:, 0]) == [(2,)] * 3
    assert _shapes(lax.clamp, (None, 1, None), 0.0, x, 1.0) == [(), (2, 3), ()]
    assert _shapes(lax.clamp, (0, 0, None), x[:, 0], x, 1.0) == [(2, 3), (2, 3), ()]


def test_comparisons_have_no_tangent() -> None:
    out, tangent = xpr.jvp(lax.lt, (1.0, 2.0), (1.0, 1.0))
    assert bool(out)
    assert tangent.dtype == xpr.float0
