"""Iterative solvers against direct ones, and against SciPy's after a given number of steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg

import xpr
from tests.numpy.cases import jnp
from xpr.scipy.sparse.linalg import bicgstab, cg, gmres
from xpr.test_util import check_grads

RNG = np.random.default_rng(12)
SIZE = 7


def incremental(*args: Any, **kwargs: Any) -> Any:
    return gmres(*args, solve_method="incremental", **kwargs)


SOLVERS = {"cg": cg, "bicgstab": bicgstab, "gmres": gmres, "incremental": incremental}


def matrix_for(name: str, dtype: str = "f8", size: int = SIZE) -> np.ndarray[Any, Any]:
    """A positive definite matrix, or one that is only far from singular."""
    a = RNG.normal(size=(size, size))
    if dtype.startswith("c"):
        a = a + 1j * RNG.normal(size=(size, size))
    a = a @ a.conj().T + 2 * np.eye(size) if name == "cg" else a + 4 * np.eye(size)
    return a.astype(dtype)


def vector(dtype: str = "f8", size: int = SIZE) -> np.ndarray[Any, Any]:
    b = RNG.normal(size=size) + (1j * RNG.normal(size=size) if dtype.startswith("c") else 0)
    return b.astype(dtype)


@pytest.mark.parametrize("name", list(SOLVERS))
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
def test_solutions(name: str, dtype: str) -> None:
    with xpr.enable_x64(dtype == "f8"):
        a, b = matrix_for(name, dtype), vector(dtype)
        exact = dtype == "f8"
        x, info = SOLVERS[name](a, b, tol=1e-12 if exact else 1e-6)
        assert x.dtype == dtype
        assert info is None or int(info) == 0
        np.testing.assert_allclose(a @ np.asarray(x), b, atol=1e-10 if exact else 2e-5)


@pytest.mark.parametrize("name", list(SOLVERS))
def test_every_argument(name: str) -> None:
    solve = SOLVERS[name]
    with xpr.enable_x64(True):
        a, b = matrix_for(name), vector()
        exact = np.linalg.solve(a, b)
        rough = np.linalg.inv(a + 0.05 * np.diag(np.diag(a)))
        rough = (rough + rough.T) / 2 if name == "cg" else rough
        function = solve(
            lambda x: a @ x, b, jnp.asarray(exact + 0.1), tol=1e-10, M=lambda r: rough @ r
        )
        np.testing.assert_allclose(function[0], exact, atol=1e-8)
        # Nothing to do: the start is good enough.
        start = exact + 1e-9
        np.testing.assert_array_equal(solve(a, b, start, tol=1e-3)[0], start)
        np.testing.assert_array_equal(solve(a, b, atol=1e3)[0], np.zeros(SIZE))
        np.testing.assert_array_equal(solve(a, 0 * b, atol=1e3)[0], np.zeros(SIZE))


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_steps_are_those_of_scipy(name: str) -> None:
    with xpr.enable_x64(True):
        a, b = matrix_for(name, size=12), vector(size=12)
        kwargs = {"restart": 3} if name == "gmres" else {}
        for steps in (2,) if name == "gmres" else (1, 4):
            # SciPy counts steps inside cycles of gmres.
            count = 3 * steps if name == "gmres" else steps
            theirs = getattr(scipy.sparse.linalg, name)(
                a, b, x0=np.zeros(12), rtol=1e-14, maxiter=steps, **kwargs
            )
            ours = SOLVERS[name](a, b, tol=1e-14, maxiter=steps, **kwargs)
            assert theirs[1] in (0, steps, count)
            np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-8, atol=1e-10)


def test_both_methods_of_gmres_take_the_same_cycles() -> None:
    with xpr.enable_x64(True):
        a, b = matrix_for("gmres", size=10), vector(size=10)
        found = [s(a, b, tol=1e-14, restart=4, maxiter=2)[0] for s in (gmres, incremental)]
        np.testing.assert_allclose(*found, rtol=1e-8, atol=1e-10)
        # Two eigenvalues: the space is invariant after two steps, and the solution is in it.
        two = np.diag([1.0, 1.0, 3.0, 3.0])
        np.testing.assert_allclose(gmres(two, b[:4])[0], b[:4] / np.diag(two), rtol=1e-12)


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_trees_and_derivatives(name: str) -> None:
    with xpr.enable_x64(True):
        a = matrix_for(name, size=5)
        b = {"u": jnp.asarray(vector(size=2)), "v": jnp.asarray(vector(size=3).reshape(3, 1))}

        def product(a: Any, x: Any) -> Any:
            flat = a @ jnp.concatenate([x["u"], x["v"][:, 0]])
            return {"u": flat[:2], "v": flat[2:, None]}

        def solution(a: Any, b: Any) -> Any:
            both = a + a.T if name == "cg" else a
            return SOLVERS[name](lambda x: product(both, x), b, tol=1e-13)[0]

        x = solution(jnp.asarray(a), b)
        assert x["v"].shape == (3, 1)
        back = product(a + a.T if name == "cg" else a, x)
        xpr.tree_util.tree_map(lambda p, q: np.testing.assert_allclose(p, q, atol=1e-9), back, b)
        check_grads(solution, (jnp.asarray(a), b), order=1, atol=1e-5, rtol=1e-5)
        # The start is no part of the solution.
        g = xpr.grad(lambda x0: SOLVERS[name](a + a.T, b["u"].sum() * jnp.ones(5), x0)[0].sum())
        np.testing.assert_array_equal(g(jnp.zeros(5)), np.zeros(5))


@pytest.mark.parametrize("name", ["cg", "bicgstab", "incremental"])
def test_jit_and_vmap(name: str) -> None:
    matrices = np.stack([matrix_for(name, "f4", 4) for _ in range(3)])
    sides = np.stack([vector("f4", 4) for _ in range(3)])
    found = xpr.jit(xpr.vmap(lambda a, b: SOLVERS[name](a, b, tol=1e-6)[0]))(matrices, sides)
    np.testing.assert_allclose(
        found, np.linalg.solve(matrices, sides[..., None])[..., 0], rtol=1e-3, atol=1e-4
    )


def test_integers_and_objects_with_products() -> None:
    class Twice:
        shape = (2, 2)

        def __matmul__(self, x: Any) -> Any:
            return 2 * x

    x, _ = cg(Twice(), jnp.array([2, 4]))
    assert x.dtype == np.float32
    np.testing.assert_allclose(x, [1, 2], rtol=1e-6)


def test_systems_without_solution() -> None:
    assert not np.any(cg(jnp.eye(2), jnp.ones(2), maxiter=0)[0])
    x, info = gmres(jnp.zeros((2, 2)), jnp.ones(2), maxiter=2)
    assert int(info) == (-1 if np.isnan(x).any() else 0)
    x, _ = bicgstab(jnp.array([[0.0, 1.0], [-1.0, 0.0]]), jnp.array([1.0, 0.0]), maxiter=5)
    assert x.shape == (2,)
    empty, info = gmres(jnp.zeros((0, 0)), jnp.zeros(0))
    assert (empty.shape, int(info)) == ((0,), 0)


def test_errors() -> None:
    b = jnp.ones(3)
    wrong: Any = "matrix"
    with pytest.raises(ValueError, match=r"square matrix, but has shape: \(3, 2\)"):
        cg(jnp.ones((3, 2)), b)
    with pytest.raises(TypeError, match="must be either a function or ndarray, got 'matrix'"):
        cg(wrong, b)
    with pytest.raises(ValueError, match="x0 and b must have matching tree structure"):
        bicgstab(lambda x: x, b, (b,))
    with pytest.raises(ValueError, match=r"x0 and b must have matching shapes: \[\(2,\)\]"):
        gmres(lambda x: x, b, b[:2])
    with pytest.raises(ValueError, match=r"A\(x\) and x must have matching shapes"):
        cg(lambda x: x[:2], b)
    with pytest.raises(ValueError, match=r"M\(x\) and x must have matching tree structure"):
        cg(lambda x: x, b, M=lambda x: (x,))
    with pytest.raises(ValueError, match="invalid solve_method qr"):
        gmres(lambda x: x, b, solve_method="qr")
