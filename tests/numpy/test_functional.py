"""Functions of the caller along axes and on each element, against NumPy's loops."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import xpr
from tests.numpy.cases import jnp

RNG = np.random.default_rng(5)
X = RNG.normal(size=(2, 3, 4)).astype("f4")


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("jitted", [False, True])
def test_apply_along_axis(axis: int, jitted: bool) -> None:
    for mine, theirs in (
        (jnp.sort, np.sort),
        (jnp.sum, np.sum),
        (lambda v: jnp.outer(v, v[:2]), lambda v: np.outer(v, v[:2])),
    ):
        run = partial(jnp.apply_along_axis, mine, axis)
        found = (xpr.jit(run) if jitted else run)(X)
        np.testing.assert_allclose(found, np.apply_along_axis(theirs, axis, X), rtol=1e-5)


def test_apply_along_axis_of_arguments_trees_vectors_and_nothing() -> None:
    found = jnp.apply_along_axis(lambda v, power, scale: scale * v**power, 0, X, 2, scale=3)
    np.testing.assert_allclose(found, 3 * X**2, rtol=1e-6)
    tree = jnp.apply_along_axis(lambda v: {"sum": v.sum(), "all": v}, 1, X)
    np.testing.assert_allclose(tree["sum"], X.sum(1), rtol=1e-5)
    np.testing.assert_array_equal(tree["all"], X)
    assert jnp.apply_along_axis(jnp.sum, 0, np.arange(4)) == 6
    assert jnp.apply_along_axis(jnp.sum, 0, np.zeros((3, 0, 2))).shape == (0, 2)
    np.testing.assert_allclose(
        xpr.grad(lambda a: jnp.apply_along_axis(jnp.max, 2, a).sum())(X),
        X == X.max(2, keepdims=True),
    )
    with pytest.raises(ValueError, match="axis 3 is out of bounds"):
        jnp.apply_along_axis(jnp.sum, 3, X)
    with pytest.raises(TypeError, match="apply_along_axis requires ndarray or scalar"):
        jnp.apply_along_axis(jnp.sum, 0, [1, 2])


SHAPES = [((), ()), ((3,), ()), ((2, 1), (3,)), ((2, 3), (1, 3)), ((1,), (1, 1)), ((0,), (2, 1))]


@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("jitted", [False, True])
def test_vectorize_over_elements(a: Any, b: Any, jitted: bool) -> None:
    x, y = np.ones(a, "f4") * 2, np.arange(np.prod(b), dtype="f4").reshape(b)

    def f(u: Any, v: Any) -> Any:
        assert u.shape == v.shape == ()
        return u * v + 1, v

    mapped = jnp.vectorize(f)
    found = (xpr.jit(mapped) if jitted else mapped)(x, y)
    np.testing.assert_array_equal(found[0], x * y + 1)
    np.testing.assert_array_equal(np.broadcast_to(found[1], (x * y).shape), y + 0 * x)
    assert found[1].shape == (x * y).shape


@pytest.mark.parametrize(
    ("signature", "shapes", "mine", "theirs"),
    [
        ("(m,n),(n)->(m)", ((5, 2, 3), (3,)), jnp.dot, np.dot),
        ("(m,n),(n)->(m)", ((2, 3), (4, 1, 3)), jnp.dot, np.dot),
        ("(n),(n)->()", ((4, 1, 3), (2, 3)), jnp.dot, np.dot),
        (" (n), () -> (n, n)", ((4, 2), (3, 1)), lambda a, b: jnp.outer(a, a) * b, None),
        ("(n)->(),(n)", ((4, 3),), lambda a: (a.sum(), a * 2), lambda a: (a.sum(), a * 2)),
        ("(n)->(k)", ((2, 3),), lambda a: a[:2], lambda a: a[:2]),
        ("()->(n)", ((1, 2),), lambda a: a * jnp.ones(3), lambda a: a * np.ones(3)),
    ],
)
def test_vectorize_with_a_signature(signature: str, shapes: Any, mine: Any, theirs: Any) -> None:
    theirs = theirs or (lambda a, b: np.outer(a, a) * b)
    args = [RNG.normal(size=s).astype("f4") for s in shapes]
    found = jnp.vectorize(mine, signature=signature)(*args)
    expected = np.vectorize(theirs, signature=signature)(*args)
    for f, e in zip(
        *([r if isinstance(r, tuple) else (r,) for r in (found, expected)]), strict=True
    ):
        np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-6)
    assert isinstance(found, tuple) == isinstance(expected, tuple)


def test_vectorize_leaves_some_arguments_alone() -> None:
    def f(x: Any, names: Any, y: Any = 0, *, mode: str = "add") -> Any:
        assert names == ["a"]
        return x + y if mode == "add" else x * y

    mapped = jnp.vectorize(f, excluded={1, "mode"})
    column, row = np.arange(3.0)[:, None], np.arange(2.0)
    np.testing.assert_array_equal(mapped(column, ["a"], row), column + row)
    np.testing.assert_array_equal(mapped(column, ["a"], y=row, mode="mul"), column * row)
    optional = jnp.vectorize(lambda x, bias: x if bias is None else x + bias)
    np.testing.assert_array_equal(optional(row, None), row)
    np.testing.assert_array_equal(optional(row, column), column + row)
    optional = jnp.vectorize(lambda x, b: x if b is None else b, signature="(n),()->(n)")
    np.testing.assert_array_equal(optional(column, None), column)
    assert jnp.vectorize(jnp.sin).__name__ == "sin"


def test_vectorize_transforms() -> None:
    dot = jnp.vectorize(jnp.dot, signature="(n),(n)->()")
    a, b = RNG.normal(size=(4, 3)).astype("f4"), RNG.normal(size=(2, 4, 3)).astype("f4")
    np.testing.assert_allclose(xpr.vmap(dot, (None, 0))(a, b), (a * b).sum(-1), rtol=1e-5)
    gradient = xpr.grad(lambda u: dot(u, b).sum())(a)
    np.testing.assert_allclose(gradient, b.sum(0), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: jnp.vectorize(jnp.add, excluded={1.5}), TypeError, "can only exclude integer"),
        (lambda: jnp.vectorize(jnp.add, excluded={-1}), ValueError, "contains negative numbers"),
        (lambda: jnp.vectorize(jnp.add, signature="(n)")(X), ValueError, r"signature: \(n\)"),
        (lambda: jnp.vectorize(jnp.add, signature="(n),->()")(X), ValueError, "not a valid gufunc"),
        (
            lambda: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(X),
            TypeError,
            "number of positional arguments: expected 2, got 1 on vectorized",
        ),
        (
            lambda: jnp.vectorize(jnp.dot, signature="(n,m),(m)->(n)")(X[0, 0], X),
            ValueError,
            r"input with shape \(4,\) does not have enough dimensions .*\('n', 'm'\)",
        ),
        (
            lambda: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(X, X[..., :3]),
            ValueError,
            "inconsistent size for core dimension 'n': 3 vs 4",
        ),
        (
            lambda: jnp.vectorize(lambda a: a, signature="(n)->()")(X),
            ValueError,
            r"output shape \(4,\) does not match core dimensions \(\)",
        ),
        (
            lambda: jnp.vectorize(lambda a: a[1:], signature="(n)->(n)")(X),
            ValueError,
            "inconsistent size for core dimension 'n': 3 vs 4",
        ),
        (
            lambda: jnp.vectorize(lambda a: a, signature="(n)->(n),(n)")(X),
            TypeError,
            "output must be a tuple",
        ),
        (
            lambda: jnp.vectorize(lambda a: (a, a), signature="(n)->(n)")(X),
            TypeError,
            "wrong number of output arguments: expected 1, got 2",
        ),
        (lambda: jnp.vectorize(jnp.add)(X, X[:, :2]), ValueError, "ncompatible shapes"),
        (
            lambda: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(X, None),
            ValueError,
            "None stands for an operand with axes",
        ),
    ],
)
def test_errors_of_vectorize(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_vectorize_minds_rank_promotion() -> None:
    with (
        xpr.numpy_rank_promotion("raise"),
        pytest.raises(ValueError, match="numpy_rank_promotion='raise'"),
    ):
        jnp.vectorize(jnp.add)(X, X[0])
