"""Solutions of differential equations agree with SciPy's, and their gradients with differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate
from scipy.integrate import RK45

import xpr
import xpr.numpy as jnp
from xpr.experimental.ode import _dormand_prince as method
from xpr.experimental.ode import odeint
from xpr.flatten_util import ravel_pytree

TIMES = np.array([0.0, 0.3, 1.0, 2.5])
TIGHT = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture
def x64():
    with xpr.enable_x64(True):
        yield


def hunt(y, t, a, b, of=jnp):
    """Predators and prey, in a year."""
    prey, hunters = y
    growth = a * prey * (1 + 0.3 * of.sin(t))
    return of.stack([growth - prey * hunters, prey * hunters - b * hunters])


def by_scipy(y0, times, a, b):
    found = scipy.integrate.solve_ivp(
        lambda t, y: hunt(y, t, a, b, of=np),
        (times[0], times[-1]),
        y0,
        method="DOP853",
        t_eval=times,
        rtol=1e-12,
        atol=1e-12,
    )
    return found.y.T


def test_the_coefficients_are_those_of_the_published_method():
    """SciPy's copy of the tables, of which the last row is the method itself."""
    for i, row in enumerate(method.WEIGHTS[:-1]):
        np.testing.assert_allclose(row, RK45.A[i + 1][: i + 1], rtol=1e-15)
    np.testing.assert_allclose(method.WEIGHTS[-1], RK45.B, rtol=1e-15)
    np.testing.assert_allclose(method.DENSE, RK45.P, rtol=1e-15)
    np.testing.assert_allclose(np.abs(method.ERROR), np.abs(RK45.E), rtol=1e-15)
    np.testing.assert_allclose([sum(w) for w in method.WEIGHTS], method.NODES, rtol=1e-14)


@pytest.mark.usefixtures("x64")
def test_values_agree_with_scipy():
    y0 = np.array([1.0, 0.5])
    found = odeint(hunt, jnp.asarray(y0), jnp.asarray(TIMES), 1.2, 0.7, **TIGHT)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, by_scipy(y0, TIMES, 1.2, 0.7), rtol=1e-8)


@pytest.mark.usefixtures("x64")
def test_the_error_follows_the_tolerance():
    exact = np.exp(-TIMES)
    errors = [
        np.abs(odeint(lambda y, t: -y, 1.0, jnp.asarray(TIMES), rtol=tol, atol=tol) - exact).max()
        for tol in (1e-4, 1e-7, 1e-10)
    ]
    assert errors[0] < 1e-3
    assert errors[1] < 1e-6
    assert errors[2] < 1e-9
    assert errors[0] > errors[1] > errors[2]


def test_float32_and_the_default_tolerance():
    y0 = np.array([1.0, 0.5], np.float32)
    found = odeint(hunt, jnp.asarray(y0), jnp.asarray(TIMES, jnp.float32), 1.2, 0.7)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, by_scipy(y0, TIMES, 1.2, 0.7), rtol=2e-5)


@pytest.mark.usefixtures("x64")
def test_trees_complex_numbers_and_late_times():
    times = jnp.asarray(TIMES + 100)
    found = odeint(
        lambda y, t: {"a": 1j * y["a"], "b": (-y["b"][0] * (t - 100),)},
        {"a": jnp.ones((2, 1), complex), "b": (2.0,)},
        times,
        **TIGHT,
    )
    assert found["a"].shape == (4, 2, 1)
    np.testing.assert_allclose(found["a"][:, 1, 0], np.exp(1j * TIMES), rtol=1e-8)
    np.testing.assert_allclose(found["b"][0], 2 * np.exp(-(TIMES**2) / 2), rtol=1e-8)


@pytest.mark.usefixtures("x64")
def test_under_jit_and_vmap():
    starts = np.array([[1.0, 0.5], [0.2, 2.0], [3.0, 3.0]])
    rates = np.array([0.5, 1.0, 1.5])
    solve = xpr.jit(xpr.vmap(lambda y, a: odeint(hunt, y, jnp.asarray(TIMES), a, 0.7, **TIGHT)))
    found = solve(starts, rates)
    for i in range(3):
        wanted = by_scipy(starts[i], TIMES, rates[i], 0.7)
        np.testing.assert_allclose(found[i], wanted, rtol=1e-7)


def test_times_without_a_step():
    decay = lambda y, t: -y  # noqa: E731
    assert odeint(decay, 1.0, jnp.array([3.0])).tolist() == [1.0]
    found = odeint(decay, 1.0, jnp.array([0.0, 0.0, 1.0, 1.0]), rtol=1e-6, atol=1e-6)
    assert found[:2].tolist() == [1.0, 1.0]
    np.testing.assert_allclose(found[2:], np.exp(-1), rtol=1e-5)


def test_integers_and_lists_of_times():
    found = odeint(
        lambda y, t: 2.0 * jnp.ones_like(y), np.array([1, 2]), [0.0, 1.0], rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(found, [[1, 2], [3, 4]], rtol=1e-6)


def test_hmax_bounds_the_steps():
    """A short bump between the output times, which long steps do not see."""
    bump = lambda y, t: jnp.exp(-(((t - 5.0) / 0.05) ** 2)) + 0 * y  # noqa: E731
    times = jnp.array([0.0, 10.0])
    wanted = 0.05 * np.sqrt(np.pi)
    assert odeint(bump, 0.0, times, rtol=1e-5, atol=1e-5)[-1] < 1e-3
    found = odeint(bump, 0.0, times, rtol=1e-5, atol=1e-5, hmax=0.05)[-1]
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


def test_hmax_bounds_the_steps_of_gradients():
    """The adjoint equation goes back over the bump in short steps too."""

    def last(a: Any) -> Any:
        bump = lambda y, t, a: a * jnp.exp(-(((t - 5.0) / 0.05) ** 2))  # noqa: E731
        times = jnp.array([0.0, 10.0])
        return odeint(bump, 0.0, times, a, rtol=1e-5, atol=1e-5, hmax=0.05)[-1]

    wanted = 0.05 * np.sqrt(np.pi)
    np.testing.assert_allclose(xpr.grad(last)(2.0), wanted, rtol=1e-3)


@pytest.mark.parametrize(
    ("derivative", "y0"),
    [
        (lambda y, t: [y[1], -y[0]], jnp.array([1.0, 0.0])),
        (lambda y, t: (y[1], -y[0]), [1.0, 0.0]),
        (lambda y, t: [y["b"], -y["a"]], {"a": 1.0, "b": 0.0}),
        (lambda y, t: jnp.stack([y[1], -y[0]])[:, None], jnp.array([1.0, 0.0])),
    ],
    ids=["list for array", "tuple for list", "list for dict", "other shape"],
)
def test_derivatives_of_other_structures(derivative: Any, y0: Any):
    """The elements of the derivative count in their order, as SciPy takes a list for a vector."""
    times = jnp.array([0.0, 0.5, 1.0])

    def last(y0: Any) -> Any:
        ys = odeint(derivative, y0, times, rtol=1e-5, atol=1e-5)
        return ravel_pytree(xpr.tree.map(lambda y: y[-1], ys))[0]

    np.testing.assert_allclose(last(y0), [np.cos(1.0), -np.sin(1.0)], rtol=1e-4)
    slope = ravel_pytree(xpr.grad(lambda y0: last(y0)[0])(y0))[0]
    np.testing.assert_allclose(slope, [np.cos(1.0), np.sin(1.0)], rtol=1e-4)


def test_derivatives_of_numbers():
    found = odeint(lambda y, t: [1, 2.0], jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]), rtol=1e-5)
    np.testing.assert_allclose(found[-1], [2.0, 2.0], rtol=1e-4)


def test_times_that_are_not_reached_get_nan():
    decay = lambda y, t: -y  # noqa: E731
    times = jnp.array([0.0, 0.5, 1.0])
    few = odeint(decay, 1.0, times, mxstep=1)
    assert few[0] == 1
    assert np.isnan(few[1:]).all()
    enough = odeint(decay, 1.0, times, rtol=1e-5, atol=1e-5, mxstep=50)
    np.testing.assert_allclose(enough, np.exp([0, -0.5, -1]), rtol=1e-4)
    # y = 1 / (1 - t) has a pole at 1.
    pole = odeint(lambda y, t: y * y, 1.0, jnp.array([0.0, 0.5, 2.0]), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(pole[:2], [1, 2], rtol=1e-3)
    assert np.isnan(pole[2])
    broken = odeint(lambda y, t: y * jnp.nan, 1.0, times)
    assert broken[0] == 1
    assert np.isnan(broken[1:]).all()


@pytest.mark.usefixtures("x64")
def test_gradients_agree_with_differences_of_scipy():
    y0, times, a, b = np.array([1.0, 0.5]), TIMES + 0.2, 1.2, 0.7
    weights = np.random.default_rng(0).normal(size=(4, 2))

    def loss(y0, times, a, b):
        return jnp.sum(weights * odeint(hunt, y0, times, a, b, **TIGHT))

    def scipy_loss(y0, times, a, b):
        return np.sum(weights * by_scipy(y0, times, a, b))

    found = xpr.grad(loss, argnums=(0, 1, 2, 3))(y0, times, a, b)
    for place, gradient in enumerate(found):
        value = (y0, times, a, b)[place]
        for index in np.ndindex(np.shape(value)):
            ends = []
            for sign in (1, -1):
                moved = [np.array(v, float) for v in (y0, times, a, b)]
                moved[place][index] += sign * 1e-4
                ends.append(scipy_loss(*moved))
            difference = (ends[0] - ends[1]) / 2e-4
            np.testing.assert_allclose(gradient[index], difference, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("x64")
def test_gradients_of_what_the_function_closes_over():
    times = jnp.asarray(TIMES)

    def last(rate):
        return odeint(lambda y, t: -rate * y, 2.0, times, **TIGHT)[-1]

    rate = 0.4
    value, gradient = xpr.jit(xpr.value_and_grad(last))(rate)
    np.testing.assert_allclose(value, 2 * np.exp(-2.5 * rate), rtol=1e-8)
    np.testing.assert_allclose(gradient, -2.5 * 2 * np.exp(-2.5 * rate), rtol=1e-7)


@pytest.mark.usefixtures("x64")
def test_second_derivatives_and_batches_of_gradients():
    times = jnp.asarray(TIMES)

    def last(rate):
        return odeint(lambda y, t, r: -r * y, 1.0, times, rate, **TIGHT)[-1]

    rates = np.array([0.4, 1.0])
    first = xpr.vmap(xpr.grad(last))(rates)
    np.testing.assert_allclose(first, -2.5 * np.exp(-2.5 * rates), rtol=1e-7)
    second = xpr.grad(xpr.grad(last))(0.4)
    np.testing.assert_allclose(second, 2.5**2 * np.exp(-1.0), rtol=1e-6)


@pytest.mark.usefixtures("x64")
def test_gradients_of_complex_values_and_with_integers_among_the_arguments():
    """The real part of y0 exp(i w t), with w an integer times a float."""
    times = jnp.asarray(TIMES)

    def last(w):
        def turn(y, t, w, options):
            return 1j * w * options["times"] * y

        return odeint(turn, 1.0 + 0j, times, w, {"times": 2}, **TIGHT)[-1].real

    np.testing.assert_allclose(xpr.grad(last)(0.3), -5 * np.sin(5 * 0.3), rtol=1e-6)


def test_forward_mode_is_refused():
    def last(y):
        return odeint(lambda y, t: -y, y, jnp.array([0.0, 1.0]))[-1]

    with pytest.raises(TypeError, match="forward-mode"):
        xpr.jvp(last, (1.0,), (1.0,))


def test_errors_say_what_is_wrong():
    times = jnp.array([0.0, 1.0])
    decay = lambda y, t, *args: -y  # noqa: E731
    with pytest.raises(TypeError, match=r"t must be an array of floats, but got \[0 1 2\]"):
        odeint(decay, 1.0, jnp.arange(3))
    with pytest.raises(ValueError, match=r"vector of one time or more, got shape \(1, 2\)"):
        odeint(decay, 1.0, times[None])
    with pytest.raises(ValueError, match=r"t must increase, but 0\.0 comes after 1\.0"):
        odeint(decay, 1.0, times[::-1])
    with pytest.raises(TypeError, match="must be arrays or scalars, but got 'x'"):
        odeint(decay, 1.0, times, "x")
    with pytest.raises(TypeError, match=r"gives 3 in PyTreeDef\(\*\), and y0 has 1 in"):
        odeint(lambda y, t: jnp.ones(3), 1.0, times)
    with pytest.raises(TypeError, match=r"gives complex64 for float32"):
        odeint(lambda y, t: 1j * y, 1.0, times)
    with pytest.raises(TypeError, match=r"it gives 2 in PyTreeDef\(\(\*, \*\)\), and y0 has 1 in"):
        odeint(lambda y, t: (y, y), 1.0, times)
    with pytest.raises(TypeError, match=r"it gives 0 in PyTreeDef\(None\), and y0 has 1 in"):
        odeint(lambda y, t: None, 1.0, times)
