"""Trees as one vector and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.flatten_util import ravel_pytree

TREE = {"b": jnp.arange(2, dtype=jnp.int32), "w": [jnp.ones((2, 2)), jnp.float16(3)]}


def test_leaves_in_order_and_back_with_their_dtypes() -> None:
    flat, unravel = ravel_pytree(TREE)
    assert flat.dtype == jnp.float32
    np.testing.assert_array_equal(np.asarray(flat), [0, 1, 1, 1, 1, 1, 3])
    back = unravel(flat)
    assert xpr.tree.structure(back) == xpr.tree.structure(TREE)
    for a, b in zip(xpr.tree.leaves(back), xpr.tree.leaves(TREE), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize(
    ("tree", "dtype", "values"),
    [
        ((), "float32", []),
        (None, "float32", []),
        (1.5, "float32", [1.5]),
        ((True, jnp.float16(3)), "float16", [1, 3]),
        ((jnp.arange(2), jnp.complex64(2)), "complex64", [0, 1, 2]),
        ((np.arange(2, dtype="i1"), np.zeros((0, 3), "u1")), "int16", [0, 1]),
    ],
)
def test_dtypes_of_vectors(tree, dtype: str, values) -> None:
    flat, unravel = ravel_pytree(tree)
    assert flat.dtype == dtype
    assert flat.tolist() == values
    assert xpr.tree.structure(unravel(flat)) == xpr.tree.structure(tree)


def test_leaves_of_one_dtype_get_that_of_the_vector() -> None:
    _, unravel = ravel_pytree((jnp.zeros(2), jnp.zeros(())))
    assert [x.dtype for x in unravel(np.arange(3))] == [jnp.int32, jnp.int32]


def test_under_transformations() -> None:
    tree = {"w": jnp.array([[1.0, 2.0]]), "b": jnp.array(0.5)}
    flat, unravel = ravel_pytree(tree)

    def loss(p):
        return jnp.sum(jnp.sin(p["w"]) * p["b"])

    gradient = ravel_pytree(xpr.grad(loss)(tree))[0]
    for f in (xpr.grad(lambda v: loss(unravel(v))), xpr.jit(xpr.grad(lambda v: loss(unravel(v))))):
        np.testing.assert_allclose(np.asarray(f(flat)), np.asarray(gradient), rtol=1e-6)
    many = xpr.tree.map(lambda x: jnp.stack([x, 2 * x]), tree)
    rows = xpr.vmap(lambda t: ravel_pytree(t)[0])(many)
    np.testing.assert_array_equal(np.asarray(rows), [[0.5, 1, 2], [1, 2, 4]])
    again = xpr.jit(xpr.vmap(unravel))(rows)
    np.testing.assert_array_equal(np.asarray(again["w"]), np.asarray(many["w"]))
    hessian = xpr.hessian(lambda v: loss(unravel(v)))(flat)
    assert hessian.shape == (3, 3)
    doubled = xpr.jit(lambda t: ravel_pytree(t)[1](2 * ravel_pytree(t)[0]))(TREE)
    assert doubled["b"].dtype == jnp.int32
    assert doubled["b"].tolist() == [0, 2]


def test_what_is_refused() -> None:
    _, unravel = ravel_pytree(TREE)
    with pytest.raises(ValueError, match=r"should have shape \(7,\).* got \(6,\)"):
        unravel(jnp.zeros(6))
    with pytest.raises(TypeError, match="given array of dtype int32, but expected dtype float32"):
        unravel(jnp.zeros(7, jnp.int32))
    with pytest.raises(TypeError, match="type <class 'str'>"):
        ravel_pytree(["a"])


def test_unravel_functions_of_equal_trees_are_equal() -> None:
    traced = []

    def run(vector: Any, unravel: Any) -> Any:
        traced.append(vector)
        return unravel(vector + 1)

    jitted = xpr.jit(run, static_argnums=1)
    one, two = {"a": jnp.zeros(2), "b": jnp.ones(3)}, {"a": jnp.ones(2), "b": jnp.zeros(3)}
    for tree in (one, two):
        flat, unravel = ravel_pytree(tree)
        result = jitted(flat, unravel)
        np.testing.assert_array_equal(result["b"], np.asarray(tree["b"]) + 1)
    assert len(traced) == 1
    unravels = [ravel_pytree(t)[1] for t in (one, two, {"a": jnp.zeros(2), "b": jnp.zeros((3, 1))})]
    assert unravels[0] == unravels[1] != unravels[2]
    assert hash(unravels[0]) == hash(unravels[1])
