"""custom_root and custom_linear_solve: NumPy's solutions, and derivatives by finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.test_util import check_grads

RNG = np.random.default_rng(11)
# Diagonally dominant, so that Jacobi's iteration converges; and not symmetric.
A = RNG.standard_normal((3, 3)) * 0.3 + 3 * np.eye(3)
B = RNG.standard_normal(3)


@pytest.fixture(autouse=True)
def double():
    with xpr.enable_x64(True):
        yield


def jacobi(matvec, b):
    """Jacobi's iteration, by products with the matrix only; how often is known when it has run."""
    n = b.shape[0]
    diagonal = jnp.stack([matvec(jnp.eye(n, dtype=b.dtype)[i])[i] for i in range(n)])

    def unfinished(state):
        i, x = state
        return (i < 200) & (jnp.abs(matvec(x) - b).max() > 1e-13)

    def step(state):
        i, x = state
        return i + 1, x + (b - matvec(x)) / diagonal

    return lax.while_loop(unfinished, step, (0, jnp.zeros_like(b)))[1]


def solved(a, b, **options):
    return lax.custom_linear_solve(lambda x: a @ x, b, jacobi, **options)


def general(a, b):
    return solved(a, b, transpose_solve=jacobi)


def close(found, expected, rtol=1e-9):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=rtol, atol=1e-11)


# ---- linear systems


def test_solutions_are_those_of_numpy() -> None:
    expected = np.linalg.solve(A, B)
    close(general(A, B), expected)
    close(xpr.jit(general)(A, B), expected)
    close(xpr.jit(solved)(A, B), expected)
    assert isinstance(general(A, B), xpr.Array)


def test_derivatives_are_those_of_the_solution() -> None:
    """x = A^-1 b: the cotangent of b is A^-T ct, that of A is -(A^-T ct) x^T."""
    ct = RNG.standard_normal(3)
    back = np.linalg.solve(A.T, ct)
    expected = (-np.outer(back, np.linalg.solve(A, B)), back)
    for f in (general, xpr.jit(general)):
        for found, want in zip(xpr.vjp(f, A, B)[1](ct), expected, strict=True):
            close(found, want)
    da, db = RNG.standard_normal((3, 3)), RNG.standard_normal(3)
    moved = np.linalg.solve(A, db - da @ np.linalg.solve(A, B))
    close(xpr.jvp(solved, (A, B), (da, db))[1], moved)
    close(xpr.jit(lambda *xs: xpr.jvp(solved, xs, (da, db))[1])(A, B), moved)


@pytest.mark.parametrize("wrap", [lambda f: f, xpr.jit], ids=["eager", "jit"])
def test_derivatives_of_all_orders(wrap) -> None:
    check_grads(wrap(general), (A, B), order=2, rtol=1e-4)
    check_grads(wrap(lambda a, b: solved(a @ a.T, b, symmetric=True)), (A, B), order=1, rtol=1e-4)


def test_batches_of_matrices_and_of_right_hand_sides() -> None:
    many_a = np.stack([A, A.T, A + np.eye(3)])
    many_b = RNG.standard_normal((3, 3))  # its last axis is the batch's

    def gradient(a, b):
        return xpr.grad(lambda *xs: jnp.sum(general(*xs) ** 2), argnums=(0, 1))(a, b)

    for in_axes, args in (
        ((0, None), (many_a, B)),
        ((None, 1), (A, many_b)),
        ((0, 1), (many_a, many_b)),
    ):
        found = xpr.vmap(general, in_axes)(*args)
        found_gradient = xpr.jit(xpr.vmap(gradient, in_axes))(*args)
        for i in range(3):
            each = [
                x if d is None else np.take(x, i, d) for x, d in zip(args, in_axes, strict=True)
            ]
            close(found[i], np.linalg.solve(*each))
            for part, want in zip(found_gradient, gradient(*each), strict=True):
                close(part[i], want)
    assert xpr.vmap(general, (None, 0))(A, np.zeros((0, 3))).shape == (0, 3)
    close(xpr.jacrev(lambda b: general(A, b))(B), np.linalg.inv(A))  # a batch of cotangents


def test_trees_and_auxiliary_values() -> None:
    """A block system in a dict, and a solver that tells how it went."""

    def matvec(v):
        return {"x": 2.0 * v["x"] + v["y"][:2], "y": 4.0 * v["y"]}

    def solve(matvec, b):
        y = b["y"] / 4.0
        return {"x": (b["x"] - y[:2]) / 2.0, "y": y}, {"steps": 2, "residual": b["x"].sum()}

    def transposed(vecmat, b):
        x = b["x"] / 2.0
        y = (b["y"] - jnp.concatenate([x, jnp.zeros(1)])) / 4.0
        assert xpr.tree.structure(vecmat(b)) == xpr.tree.structure(b)
        return {"x": x, "y": y}, None

    def f(b):
        return lax.custom_linear_solve(matvec, b, solve, transposed, has_aux=True)

    b = {"x": np.array([1.0, 2.0]), "y": np.array([4.0, 8.0, 12.0])}
    for g in (f, xpr.jit(f)):
        x, aux = g(b)
        close(x["x"], [0.0, 0.0])
        close(x["y"], [1.0, 2.0, 3.0])
        assert int(aux["steps"]) == 2
        close(aux["residual"], 3.0)
    assert isinstance(f(b)[1]["steps"], xpr.Array)
    many = xpr.tree.map(lambda x: np.stack([x, 2 * x]), b)
    close(xpr.vmap(f)(many)[1]["residual"], [3.0, 6.0])
    close(xpr.vmap(f)(many)[0]["y"][1], [2.0, 4.0, 6.0])
    gradient = xpr.grad(lambda b: f(b)[0]["x"].sum() + f(b)[1]["residual"])(b)
    close(gradient["x"], [0.5, 0.5])
    close(gradient["y"], [-0.125, -0.125, 0.0])


def test_the_transposed_product_is_what_transpose_solve_gets() -> None:
    seen = []

    def back(vecmat, b):
        seen.append(xpr.jacfwd(vecmat)(b))
        return jacobi(vecmat, b)

    xpr.grad(lambda b: solved(A, b, transpose_solve=back).sum())(B)
    assert [x.shape for x in seen] == [(3, 3)]


def test_solves_inside_loops_and_solves() -> None:
    """Implicit Euler for x' = -M x: each step is a linear system, all of it differentiated."""
    m = A - 2 * np.eye(3)

    def integrate(m, x):
        def step(x, _):
            x = lax.custom_linear_solve(
                lambda v: v + 0.1 * (m @ v), x, jacobi, transpose_solve=jacobi
            )
            return x, x.sum()

        return lax.scan(step, x, None, length=4)

    expected = B
    for _ in range(4):
        expected = np.linalg.solve(np.eye(3) + 0.1 * m, expected)
    for f in (integrate, xpr.jit(integrate)):
        close(f(m, B)[0], expected)
    check_grads(lambda *xs: integrate(*xs)[0], (m, B), order=1, rtol=1e-4)

    def outer(a, b):
        """Preconditioned by a solve of its own."""
        return lax.custom_linear_solve(
            lambda x: general(a, a @ (a @ x)),
            b,
            lambda matvec, b: jacobi(matvec, b),
            transpose_solve=jacobi,
        )

    close(xpr.jit(outer)(A, B), np.linalg.solve(A, B))
    check_grads(outer, (A, B), order=1, rtol=1e-4)


def test_on_the_reference_runtime() -> None:
    with xpr.default_device("reference"):
        close(xpr.jit(general)(A, B), np.linalg.solve(A, B))


def test_complex_systems() -> None:
    a, b = A + 0.5j * np.eye(3), B + 1j

    def plain(matvec, b):
        x = jnp.zeros_like(b)
        for _ in range(60):
            x = x + (b - matvec(x)) / 3.0
        return x

    def f(a, b):
        return lax.custom_linear_solve(lambda x: a @ x, b, plain, transpose_solve=plain)

    close(f(a, b), np.linalg.solve(a, b))
    ct = B - 2j
    close(xpr.vjp(lambda b: f(a, b), b)[1](ct)[0], np.linalg.solve(a.T, ct))


@pytest.mark.parametrize(
    ("kind", "message", "options"),
    [
        (
            ValueError,
            r"matvec\(\) output shapes must match b, got \[\(1,\)\] and \[\(3,\)\]",
            {"matvec": lambda x: x[:1]},
        ),
        (
            ValueError,
            r"matvec\(\) output shapes must match b, got \[\(3,\), \(3,\)\] and \[\(3,\)\]",
            {"matvec": lambda x: (x, x)},
        ),
        (
            ValueError,
            r"solve\(\) output shapes must match b, got \[\(\)\] and \[\(3,\)\]",
            {"solve": lambda matvec, b: b[0]},
        ),
        (
            ValueError,
            r"transpose_solve\(\) output shapes must match b, got \[\(2,\)\]",
            {"transpose_solve": lambda vecmat, b: b[1:]},
        ),
        (
            ValueError,
            r"solve\(\) produced a pytree with structure PyTreeDef\(\*\), but a pytree tuple",
            {"has_aux": True},
        ),
        (
            NotImplementedError,
            "Transpose rule .* for 'sin' not implemented",
            {"matvec": jnp.sin, "transpose_solve": jacobi},
        ),
        (TypeError, "Expected a callable value, got 3 .*matvec", {"matvec": 3}),
        (TypeError, "Expected a callable value, got 3 .*: solve", {"solve": 3}),
        (TypeError, "type <class 'str'> is not a valid JAX type", {"b": "b"}),
    ],
)
def test_what_linear_solves_refuse(kind, message, options) -> None:
    given = {"matvec": lambda x: A @ x, "b": B, "solve": jacobi} | options
    with pytest.raises(kind, match=message):
        lax.custom_linear_solve(**given)


def test_reverse_mode_needs_a_transposed_solver() -> None:
    with pytest.raises(TypeError, match="transpose_solve required for backwards mode automatic"):
        xpr.grad(lambda b: solved(A, b).sum())(B)


# ---- roots


def newton(f, x):
    """Newton's method for a scalar."""
    return lax.while_loop(lambda x: jnp.abs(f(x)) > 1e-13, lambda x: x - f(x) / xpr.grad(f)(x), x)


def scalar_solve(g, y):
    return y / g(jnp.ones_like(y))


def cube_root(a):
    return lax.custom_root(lambda x: x**3 - a, 1.5, newton, scalar_solve)


def test_roots_and_their_derivatives() -> None:
    for wrap in (lambda f: f, xpr.jit):
        close(wrap(cube_root)(5.0), 5.0 ** (1 / 3))
        close(wrap(xpr.grad(cube_root))(5.0), 5.0 ** (-2 / 3) / 3)
        close(wrap(xpr.grad(xpr.grad(cube_root)))(5.0), -2 * 5.0 ** (-5 / 3) / 9)
        close(wrap(lambda a: xpr.jvp(cube_root, (a,), (2.0,))[1])(5.0), 2 * 5.0 ** (-2 / 3) / 3)
    check_grads(cube_root, (5.0,), order=2, rtol=1e-4)
    values = np.linspace(1.0, 9.0, 5)
    close(xpr.vmap(cube_root)(values), np.cbrt(values))
    close(xpr.vmap(xpr.grad(cube_root))(values), np.cbrt(values) ** -2 / 3)
    close(xpr.jit(xpr.vmap(xpr.grad(cube_root)))(values), np.cbrt(values) ** -2 / 3)


def test_the_guess_has_no_derivative() -> None:
    def f(guess, a):
        return lax.custom_root(lambda x: x * x - a, guess, newton, scalar_solve)

    found = xpr.grad(f, argnums=(0, 1))(1.0, 9.0)
    close(found[0], 0.0)
    close(found[1], 1 / 6)


def test_systems_of_equations_in_trees() -> None:
    """Where a circle meets a line: x^2 + y^2 = r^2 and y = k x, so x = r / sqrt(1 + k^2)."""

    def crossing(r, k):
        def f(p):
            x, y = p["circle"], p["line"]
            return {"circle": x**2 + y**2 - r * r, "line": y - k * x}

        def direct(g, y):
            """Cramer's rule, with the columns of the matrix by products with unit vectors."""
            one, zero = jnp.ones(()), jnp.zeros(())
            a = g({"circle": one, "line": zero})
            b = g({"circle": zero, "line": one})
            det = a["circle"] * b["line"] - b["circle"] * a["line"]
            return {
                "circle": (y["circle"] * b["line"] - b["circle"] * y["line"]) / det,
                "line": (a["circle"] * y["line"] - y["circle"] * a["line"]) / det,
            }

        def solve(f, p):
            def step(p, _):
                y, g = xpr.linearize(f, p)
                return xpr.tree.map(lambda a, b: a - b, p, direct(g, y)), None

            return lax.scan(step, p, None, length=8)[0]

        start = {"circle": jnp.asarray(1.0), "line": jnp.asarray(1.0)}
        return lax.custom_root(f, start, solve, direct)

    r, k = 2.0, 0.75
    for f in (crossing, xpr.jit(crossing)):
        close(f(r, k)["circle"], r / np.sqrt(1 + k * k))
        close(f(r, k)["line"], k * r / np.sqrt(1 + k * k))
    expected = (1 / np.sqrt(1 + k * k), -r * k * (1 + k * k) ** -1.5)
    for g in (xpr.grad, lambda f, argnums: xpr.jit(xpr.grad(f, argnums))):
        found = g(lambda *xs: crossing(*xs)["circle"], argnums=(0, 1))(r, k)
        for a, b in zip(found, expected, strict=True):
            close(a, b)


def test_tangents_by_an_iterative_solver() -> None:
    """A fixed point x = tanh(W x + b), whose tangents are found by Jacobi's iteration."""
    w = A / 9

    def fixed_point(w, b):
        def f(x):
            return x - jnp.tanh(w @ x + b)

        def iterate(f, x):
            return lax.while_loop(lambda x: jnp.abs(f(x)).max() > 1e-14, lambda x: x - f(x), x)

        def tangent_solve(g, y):
            return lax.custom_linear_solve(g, y, jacobi, transpose_solve=jacobi)

        return lax.custom_root(f, jnp.zeros(3), iterate, tangent_solve)

    x = np.asarray(fixed_point(w, B))
    close(x, np.tanh(w @ x + B))
    check_grads(fixed_point, (w, B), order=2, rtol=1e-4)
    found = xpr.jit(xpr.vmap(xpr.jacrev(fixed_point, 1), (None, 0)))(w, np.stack([B, -B]))
    slope = 1 - x**2
    close(found[0], np.linalg.solve(np.eye(3) - slope[:, None] * w, np.diag(slope)))
    close(found[1], found[0])  # tanh is odd


def test_auxiliary_values_of_roots() -> None:
    def counted(f, x):
        n, x = lax.while_loop(
            lambda s: jnp.abs(f(s[1])) > 1e-13,
            lambda s: (s[0] + 1, s[1] - f(s[1]) / xpr.grad(f)(s[1])),
            (0, x),
        )
        return x, {"steps": n, "value": f(x)}

    def f(a):
        return lax.custom_root(lambda x: x * x - a, 1.0, counted, scalar_solve, has_aux=True)

    x, aux = xpr.jit(f)(2.0)
    close(x, np.sqrt(2))
    assert 3 <= int(aux["steps"]) <= 8
    (x, aux), (dx, daux) = xpr.jvp(f, (2.0,), (1.0,))
    close(dx, 0.5 / np.sqrt(2))
    close(daux["value"], 0.0)
    assert daux["steps"].dtype == xpr.float0
    close(xpr.grad(lambda a: f(a)[0], has_aux=False)(2.0), 0.5 / np.sqrt(2))
    close(xpr.grad(f, has_aux=True)(2.0)[0], 0.5 / np.sqrt(2))
    assert xpr.vmap(f)(jnp.array([2.0, 3.0]))[1]["steps"].shape == (2,)


@pytest.mark.parametrize(
    ("kind", "message", "options"),
    [
        (
            TypeError,
            r"f\(\) output pytree structure must match initial_guess, got PyTreeDef\(\(\*, \*\)\)",
            {"f": lambda x: (x, x)},
        ),
        (
            TypeError,
            r"solve\(\) output pytree structure must match initial_guess",
            {"solve": lambda f, x: [x]},
        ),
        (
            TypeError,
            r"solve\(\) output shapes must match initial_guess, got \[\(2,\)\] and \[\(\)\]",
            {"solve": lambda f, x: jnp.stack([x, x])},
        ),
        (
            TypeError,
            r"tangent_solve\(\) output pytree structure must match x",
            {"tangent_solve": lambda g, y: (y, y)},
        ),
        (
            TypeError,
            r"tangent_solve\(\) output shapes must match x, got \[\(2,\)\] and \[\(\)\]",
            {"tangent_solve": lambda g, y: jnp.stack([y, y])},
        ),
        (
            ValueError,
            r"solve\(\) produced a pytree with structure PyTreeDef\(\*\), but a pytree tuple",
            {"has_aux": True},
        ),
        (
            TypeError,
            "Expected a callable value.*custom_root: tangent_solve",
            {"tangent_solve": None},
        ),
        (TypeError, "type <class 'str'> is not a valid JAX type", {"initial_guess": "x"}),
    ],
)
def test_what_roots_refuse(kind, message, options) -> None:
    given = {
        "f": lambda x: x * x - 2.0,
        "initial_guess": 1.0,
        "solve": newton,
        "tangent_solve": scalar_solve,
    }
    with pytest.raises(kind, match=message):
        lax.custom_root(**given | options)
