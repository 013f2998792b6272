"""minimize on functions whose minima are known, against SciPy's, compiled and vectorised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize

import xpr
from tests.numpy.cases import jnp
from xpr.scipy.optimize import OptimizeResults, minimize
from xpr.scipy.optimize._line_search import line_search

BFGS, LBFGS = "BFGS", "l-bfgs-experimental-do-not-rely-on-this"


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def himmelblau(p: Any) -> Any:
    x, y = p
    return (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2


def matyas(p: Any) -> Any:
    x, y = p
    return 0.26 * (x**2 + y**2) - 0.48 * x * y


def quartic(x: Any) -> Any:
    return ((x - 1) ** 4).sum() + x[0] ** 2


FUNCTIONS = (
    (rosenbrock, [0.0, 0.0]),
    (rosenbrock, [-1.2, 1.0, -1.2, 1.0, 2.0]),
    (himmelblau, [0.0, 0.0]),
    (himmelblau, [92.0, 0.001]),
    (matyas, [1.0, -6.0]),
    (quartic, [3.0]),
)


@pytest.mark.parametrize("method", [BFGS, LBFGS])
@pytest.mark.parametrize(("fun", "x0"), FUNCTIONS)
def test_minima_are_found_as_exactly_as_by_scipy(method: str, fun: Any, x0: Any) -> None:
    with xpr.enable_x64(True):
        options = {} if method == BFGS else {"ftol": 0.0}
        found = minimize(fun, jnp.array(x0), method=method, options=options)
        assert isinstance(found, OptimizeResults)
        assert bool(found.success)
        assert int(found.status) == 0
        assert float(jnp.abs(found.jac).max()) < 1e-5
        np.testing.assert_allclose(found.fun, fun(np.asarray(found.x)), rtol=1e-12, atol=1e-15)
        # A minimum that SciPy, started there, does not leave.
        again = scipy.optimize.minimize(fun, np.asarray(found.x), method="BFGS", tol=1e-9)
        np.testing.assert_allclose(found.x, again.x, atol=2e-5)
        assert found.nfev == found.njev >= found.nit > 0


def test_single_precision() -> None:
    for fun, x0 in FUNCTIONS[1:3]:
        found = minimize(fun, jnp.array(x0), method=BFGS)
        assert bool(found.success)
        assert found.x.dtype == found.fun.dtype == found.hess_inv.dtype == np.float32
        assert float(jnp.abs(xpr.grad(fun)(found.x)).max()) < 1e-4


def test_inverse_hessian_of_a_quadratic() -> None:
    with xpr.enable_x64(True):
        matrix = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])
        b = np.array([1.0, -2.0, 0.3])
        found = minimize(
            lambda x: x @ (matrix @ x) / 2 - b @ x, jnp.zeros(3), method=BFGS, tol=1e-9
        )
        np.testing.assert_allclose(found.x, np.linalg.solve(matrix, b), rtol=1e-7)
        np.testing.assert_allclose(found.hess_inv, np.linalg.inv(matrix), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("method", [BFGS, LBFGS])
def test_jit_and_vmap(method: str) -> None:
    def find(x0: Any, centre: Any) -> Any:
        found = minimize(
            lambda x, c: ((x - c) ** 4 + (x - c) ** 2).sum(), x0, (centre,), method=method
        )
        return found.x, found.success, found.nit

    starts = jnp.array([[5.0, -3.0], [1.0, 2.0], [0.1, 0.2]])
    centres = jnp.array([0.0, 1.0, -4.0])
    x, success, steps = xpr.jit(xpr.vmap(find))(starts, centres)
    assert np.all(success)
    np.testing.assert_allclose(x, np.repeat(centres[:, None], 2, axis=1), atol=1e-4)
    alone = [find(s, c) for s, c in zip(starts, centres, strict=True)]
    np.testing.assert_allclose(x, np.stack([a[0] for a in alone]), atol=1e-5)
    assert len({int(s) for s in steps}) > 1


def test_complex_variables() -> None:
    with xpr.enable_x64(True):
        matrix = np.array([[2.0, 1j], [0.5, 1 - 1j]])
        b = np.array([1.0 + 2j, -1.0])

        def square(z: Any) -> Any:
            return (jnp.abs(matrix @ z - b) ** 2).sum()

        found = minimize(square, jnp.zeros(2, "complex128"), method=LBFGS, options={"ftol": 0.0})
        assert bool(found.success)
        np.testing.assert_allclose(found.x, np.linalg.solve(matrix, b), atol=1e-5)
        np.testing.assert_allclose(found.jac, xpr.grad(square)(found.x), atol=1e-12)


def test_many_variables() -> None:
    # More than are kept in registers.
    target = np.sin(np.arange(600)).astype("f4")
    for method in (BFGS, LBFGS):
        found = minimize(lambda x: (jnp.cosh(x - target)).sum(), jnp.zeros(600), method=method)
        np.testing.assert_allclose(found.x, target, atol=2e-3)


def test_ends_of_searches() -> None:
    start = jnp.array([-1.2, 1.0])
    found = minimize(rosenbrock, start, method=BFGS, options={"maxiter": 3})
    assert (bool(found.success), int(found.status), int(found.nit)) == (False, 1, 3)
    endings = {"maxiter": 1, "maxfun": 2, "maxgrad": 3}
    for option, status in endings.items():
        found = minimize(rosenbrock, start, method=LBFGS, options={option: 3})
        assert (bool(found.success), int(found.status)) == (False, status)
    found = minimize(rosenbrock, start, method=LBFGS, options={"ftol": 1e3})
    assert int(found.status) == 4
    # A function without minimum: steps double until none are left.
    found = minimize(lambda x: -x.sum(), start, method=BFGS)
    assert (bool(found.success), int(found.status)) == (False, 5)
    assert int(minimize(lambda x: -x.sum(), start, method=LBFGS).status) == 5


def test_minima_and_saddles_to_start_from() -> None:
    for method in (BFGS, LBFGS):
        found = minimize(lambda x: (x**2).sum(), jnp.zeros(2), method=method)
        assert (bool(found.success), int(found.nit)) == (True, 0)
        np.testing.assert_array_equal(found.x, [0, 0])


def test_values_that_are_nan_end_the_search_where_they_are_not() -> None:
    found = minimize(lambda x: -jnp.sqrt(1 - x[0]), jnp.array([-3.0]), method=BFGS)
    assert np.isfinite(found.fun)
    assert np.isfinite(found.x).all()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_line_search_meets_the_strong_wolfe_conditions(scale: float) -> None:
    with xpr.enable_x64(True):

        def search(x: Any, p: Any) -> Any:
            value, gradient = xpr.value_and_grad(himmelblau)(x)
            found = line_search(himmelblau, x, p, value, gradient)
            return found, value, jnp.dot(gradient, p)

        points = jnp.asarray(np.random.default_rng(2).uniform(-4, 4, (12, 2)))
        directions = xpr.vmap(lambda x: -scale * xpr.grad(himmelblau)(x))(points)
        found, values, slopes = xpr.vmap(search)(points, directions)
        assert not np.any(found.failed)
        step = found.best.step
        assert np.all(found.best.value <= values + 1e-4 * step * slopes)
        assert np.all(np.abs(found.best.slope) <= -0.9 * slopes)
        there = xpr.vmap(himmelblau)(points + step[:, None] * directions)
        np.testing.assert_allclose(found.best.value, there, rtol=1e-10)


def test_errors() -> None:
    def fun(x: Any) -> Any:
        return (x**2).sum()

    x0 = jnp.ones(2)
    wrong: Any = [1.0]
    with pytest.raises(ValueError, match="Method newton-cg not recognized"):
        minimize(fun, x0, method="newton-cg")
    with pytest.raises(TypeError, match=r"requires a tuple of args, got \[1.0\]"):
        minimize(fun, x0, wrong, method=BFGS)
    with pytest.raises(ValueError, match=r"requires a vector x0, got shape \(2, 2\)"):
        minimize(fun, jnp.ones((2, 2)), method=BFGS)
    with pytest.raises(TypeError, match="requires floating x0, got int32"):
        minimize(fun, jnp.arange(2), method=BFGS)
    with pytest.raises(TypeError, match="requires floating x0, got complex64"):
        minimize(fun, 1j * x0, method=BFGS)
    with pytest.raises(TypeError, match="minimize requires ndarray"):
        minimize(fun, wrong, method=BFGS)
    with pytest.raises(TypeError, match="step_size"):
        minimize(fun, x0, method=BFGS, options={"step_size": 1})
