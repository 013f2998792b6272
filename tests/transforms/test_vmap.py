"""`vmap`: axes in and out, nesting, names and collectives, and what bad input gets."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6)


X = np.arange(24, dtype="f4").reshape(2, 3, 4)


# ---- axes


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("out", [0, 1, -1])
def test_axes_in_and_out(axis: int, out: int) -> None:
    found = xpr.vmap(lambda x: jnp.cumsum(x, axis=0), in_axes=axis, out_axes=out)(X)
    rows = [np.cumsum(np.take(X, i, axis), axis=0) for i in range(X.shape[axis])]
    close(found, np.stack(rows, axis=out))


def test_prefix_trees() -> None:
    def f(p, y, *, k):
        return {"s": p["a"] + p["b"][0] * y, "t": (p["a"] * k, y)}

    p = {"a": X[0], "b": [X[0, 0], np.float32(7)]}
    found = xpr.vmap(
        f, in_axes=({"a": 0, "b": [None, None]}, None), out_axes={"s": 0, "t": (1, None)}
    )(p, X[0, 1], k=np.ones(3, "f4"))
    close(found["s"], X[0] + X[0, 0] * X[0, 1])
    close(found["t"][0], X[0].T)
    close(found["t"][1], X[0, 1])
    close(xpr.vmap(lambda a, b: a + b, in_axes=[0, None])(X[0], X[0, 0]), X[0] + X[0, 0])


def test_results_that_do_not_depend_on_the_batch() -> None:
    found = xpr.vmap(lambda x: (x, 3.0, jnp.ones(2)), out_axes=(0, 0, None))(jnp.zeros(3))
    close(found[1], [3.0, 3.0, 3.0])
    assert found[2].shape == (2,)


def test_nesting_and_negative_axes() -> None:
    f = xpr.vmap(xpr.vmap(jnp.dot, in_axes=(None, 0)), in_axes=(0, None))
    a, b = X[0], X[1]
    close(f(a, b), a @ b.T)
    g = xpr.vmap(xpr.vmap(lambda x, y: x * y, in_axes=(0, -1), out_axes=-1), in_axes=(-1, 0))
    x, y = np.arange(6.0, dtype="f4").reshape(3, 2), np.ones((2, 3), "f4")
    close(g(x, y), (x.T * y))


def test_batches_of_none_and_axis_size() -> None:
    assert xpr.vmap(jnp.sin)(jnp.zeros((0, 3))).shape == (0, 3)
    assert xpr.vmap(lambda x: jnp.dot(x, x))(jnp.zeros((0, 3))).shape == (0,)
    close(xpr.vmap(lambda x: x + 1, in_axes=None, axis_size=3, out_axes=0)(2.0), [3, 3, 3])


def test_decorated_with_options() -> None:
    @partial(xpr.vmap, in_axes=(0, None))
    def f(x, y):
        """Adds."""
        return x + y

    assert f.__doc__ == "Adds."
    close(f(jnp.arange(3.0), 1.0), [1, 2, 3])


def test_random_programs_equal_their_loops() -> None:
    rng = np.random.default_rng(5)

    def f(x, w):
        y = jnp.tanh(x @ w)
        z = jnp.where(y > 0, y, jnp.exp(y) - 1)
        order = jnp.argsort(z)
        return jnp.take(z, order)[::-1], jnp.max(z), z.at[order[0]].add(1.0)

    xs, w = rng.standard_normal((6, 4)).astype("f4"), rng.standard_normal((4, 5)).astype("f4")
    for g in (xpr.vmap(f, in_axes=(0, None)), xpr.jit(xpr.vmap(f, in_axes=(0, None)))):
        found = g(xs, w)
        each = [f(jnp.asarray(x), jnp.asarray(w)) for x in xs]
        for i in range(3):
            close(found[i], np.stack([np.asarray(e[i]) for e in each]))


# ---- names


def _named(f, *args, **options):
    return xpr.vmap(f, axis_name="i", **options)(*args)


A = np.arange(9, dtype="f4").reshape(3, 3)


def test_reductions_over_a_named_axis() -> None:
    close(_named(lambda x: lax.psum(x, "i"), A), np.tile(A.sum(0), (3, 1)))
    close(_named(lambda x: lax.pmean(x, "i"), A), np.tile(A.mean(0), (3, 1)))
    close(_named(lambda x: lax.pmax(x, "i"), A), np.tile(A.max(0), (3, 1)))
    close(_named(lambda x: lax.pmin(x, "i"), A), np.tile(A.min(0), (3, 1)))
    assert _named(lambda x: x * lax.psum(1, "i"), A).tolist() == (A * 3).tolist()
    close(_named(lambda x: lax.psum({"a": x, "b": 2.0}, "i")["a"], A, out_axes=None), A.sum(0))
    # What is the same for all counts as often as there are examples.
    close(_named(lambda x: lax.psum(jnp.float32(2.0), "i") + x, A), A + 6)


def test_index_and_size() -> None:
    assert _named(lambda x: lax.axis_index("i"), A).tolist() == [0, 1, 2]
    assert lax.axis_size.__doc__
    assert _named(lambda x: x[0] * 0 + lax.axis_size("i"), A).tolist() == [3, 3, 3]
    grid = xpr.vmap(
        lambda r: xpr.vmap(lambda c: lax.axis_index(("r", "c")), axis_name="c")(r), axis_name="r"
    )(np.zeros((2, 3), "f4"))
    assert grid.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_gather_scatter_and_exchange() -> None:
    close(_named(lambda x: lax.all_gather(x, "i"), A, out_axes=None), A)
    close(_named(lambda x: lax.all_gather(x, "i", axis=1), A, out_axes=None), A.T)
    close(_named(lambda x: lax.all_gather(x, "i", tiled=True), A, out_axes=None), A.ravel())
    close(_named(lambda x: lax.psum_scatter(x, "i"), A), A.sum(0))
    b = np.arange(18, dtype="f4").reshape(3, 6)
    close(_named(lambda x: lax.psum_scatter(x, "i", tiled=True), b), b.sum(0).reshape(3, 2))
    close(_named(lambda x: lax.all_to_all(x, "i", 0, 0), A), A.T)
    close(_named(lambda x: lax.pswapaxes(x, "i", 0), A), A.T)
    c = np.arange(36, dtype="f4").reshape(3, 3, 4)
    close(_named(lambda x: lax.all_to_all(x, "i", 0, 1), c), np.transpose(c, (1, 2, 0)))
    d = np.arange(36, dtype="f4").reshape(3, 6, 2)
    expected = np.concatenate(np.split(d, 3, axis=1), axis=2).reshape(3, 2, 3, 2)
    tiled = _named(lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True), d)
    loop = np.stack(
        [np.concatenate([d[j, 2 * i : 2 * i + 2] for j in range(3)], axis=1) for i in range(3)]
    )
    assert expected.size == loop.size
    close(tiled, loop)


def test_permutations() -> None:
    close(_named(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]), A), A[[2, 0, 1]])
    close(_named(lambda x: lax.ppermute(x, "i", [(2, 0)]), A), [A[2], 0 * A[0], 0 * A[0]])
    close(_named(lambda x: lax.pshuffle(x, "i", [1, 2, 0]), A), A[[1, 2, 0]])


def test_collectives_inside_jit_and_of_two_axes() -> None:
    f = xpr.jit(lambda x: x - lax.pmean(x, "i"))
    close(_named(f, A), A - A.mean(0))
    close(xpr.jit(xpr.vmap(f, axis_name="i"))(A), A - A.mean(0))
    # Another size must be traced anew.
    close(_named(xpr.jit(lambda x: x * lax.axis_size("i")), A[:2]), A[:2] * 2)
    g = xpr.vmap(
        lambda r: xpr.vmap(lambda c: lax.psum(c, ("r", "c")), axis_name="c")(r), axis_name="r"
    )
    close(g(A), np.full((3, 3), A.sum()))
    h = xpr.vmap(lambda r: xpr.vmap(lambda c: lax.psum(c, "r"))(r), axis_name="r")
    close(h(A), np.tile(A.sum(0), (3, 1)))


def test_derivatives_of_collectives() -> None:
    """Each against the derivative of the same sum written on the whole batch."""
    w = np.arange(9, dtype="f4").reshape(3, 3) / 10

    def total(f):
        return lambda x: jnp.sum(w * xpr.vmap(f, axis_name="i")(x))

    close(xpr.grad(total(lambda x: lax.psum(jnp.sin(x), "i")))(A), np.cos(A) * w.sum(0))
    close(xpr.grad(total(lambda x: lax.all_to_all(x, "i", 0, 0)))(A), w.T)
    close(
        xpr.grad(total(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)])))(A), [w[1], w[2], 0 * w[0]]
    )
    v = np.arange(27, dtype="f4").reshape(3, 3, 3)
    found = xpr.grad(
        lambda x: jnp.sum(v * xpr.vmap(lambda r: lax.all_gather(r, "i"), axis_name="i")(x))
    )(A)
    close(found, v.sum(0))
    found = xpr.grad(
        lambda x: jnp.sum(w[0] * xpr.vmap(lambda r: lax.psum_scatter(r, "i"), axis_name="i")(x))
    )(A)
    close(found, np.tile(w[0], (3, 1)))
    close(
        xpr.vmap(xpr.grad(lambda x: jnp.sum(lax.psum(x, "i") ** 2)), axis_name="i")(A),
        np.tile(3 * 2 * A.sum(0), (3, 1)),
    )


# ---- bad input


def test_errors() -> None:
    with pytest.raises(
        ValueError, match=r"(?s)inconsistent sizes.*axis 0 of argument a .*float32\[3\].*argument b"
    ):
        xpr.vmap(lambda a, b: a)(jnp.ones(3), jnp.ones(4))
    with pytest.raises(ValueError, match="the `axis_size` argument was 5"):
        xpr.vmap(lambda a: a, axis_size=5)(jnp.ones(3))
    with pytest.raises(ValueError, match=r"len\(in_axes\)=2, len\(args\)=1"):
        xpr.vmap(lambda a: a, in_axes=(0, 0))(jnp.ones(3))
    with pytest.raises(ValueError, match="got axis spec None but output was batched"):
        xpr.vmap(lambda a: a, out_axes=None)(jnp.ones(3))
    with pytest.raises(ValueError, match="rank should be at least 1, but is only 0"):
        xpr.vmap(lambda a: a)(1.0)
    with pytest.raises(ValueError, match="rank should be at least 2, but is only 1"):
        xpr.vmap(lambda a: a, in_axes=-2)(jnp.ones(3))
    with pytest.raises(ValueError, match="must be a tree prefix"):
        xpr.vmap(lambda a: a, in_axes=({"x": 0},))(jnp.ones(3))
    with pytest.raises(ValueError, match="at least one non-None value"):
        xpr.vmap(lambda a: a, in_axes=(None,))(1.0)
    with pytest.raises(ValueError, match="must be passed at least one argument"):
        xpr.vmap(lambda: 1.0)()
    with pytest.raises(TypeError, match="in_axes must be an int, None"):
        xpr.vmap(lambda a: a, in_axes="0")
    with pytest.raises(TypeError, match="out_axes must be an int, None"):
        xpr.vmap(lambda a: a, out_axes="0")
    with pytest.raises(
        ValueError, match="axis 3 is out of bounds for array of dimension 1: vmap out_axes"
    ):
        xpr.vmap(lambda a: a, out_axes=3)(jnp.ones(3))
    with pytest.raises(TypeError, match="not a valid JAX type"):
        xpr.vmap(lambda a: a)("text")


def test_errors_of_collectives() -> None:
    with pytest.raises(NameError, match="unbound axis name: j"):
        _named(lambda x: lax.psum(x, "j"), A)
    with pytest.raises(NameError, match="unbound axis name"):
        lax.axis_index("i")
    with pytest.raises(ValueError, match="size of the mapped axis"):
        _named(lambda x: lax.all_to_all(x, "i", 0, 0), np.ones((3, 4), "f4"))
    with pytest.raises(ValueError, match="unique"):
        _named(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 1)]), A)
    with pytest.raises(ValueError, match="outside the axis"):
        _named(lambda x: lax.ppermute(x, "i", [(0, 3)]), A)
    with pytest.raises(ValueError, match="permutation"):
        _named(lambda x: lax.pshuffle(x, "i", [0, 0, 1]), A)
    with pytest.raises(NotImplementedError, match="axis_index_groups"):
        _named(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2]]), A)
    with pytest.raises(NotImplementedError, match="'pmax' not implemented"):
        _named(xpr.grad(lambda r: jnp.sum(lax.pmax(r, "i"))), A)


def test_bool_of_a_batched_value_is_an_error() -> None:
    with pytest.raises(xpr.errors.TracerBoolConversionError):
        xpr.vmap(lambda x: x if x > 0 else -x)(jnp.ones(3))
