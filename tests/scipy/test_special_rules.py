"""Derivatives, transformations, dtypes and errors of the special functions."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sp

import xpr
import xpr.numpy as jnp
from xpr.core.config import override
from xpr.scipy import special
from xpr.test_util import check_grads

# Functions with the places where their derivatives are compared with finite differences.
DERIVATIVES: list[tuple[str, tuple[Any, ...]]] = [
    ("beta", (1.3, 2.4)),
    ("betaln", (14.0, 2.4)),
    ("boxcox", (2.3, 0.7)),
    ("boxcox1p", (2.3, -1.2)),
    ("comb", (9.3, 2.4)),
    ("dawsn", (np.array([-9.0, -0.3, 0.3, 2.0, 7.9, 8.1]),)),
    ("entr", (0.4,)),
    ("erfcx", (np.array([-1.0, 0.3, 6.9, 7.1, 30.0]),)),
    ("exp1", (np.array([0.3, 1.7]),)),
    ("expi", (np.array([-0.7, 0.3, 7.0, 13.0]),)),
    ("expit", (0.3,)),
    ("gamma", (np.array([-1.4, 0.3, 2.6, 13.4]),)),
    ("i0", (np.array([-0.7, 1.4]),)),
    ("i1", (np.array([-0.7, 1.4]),)),
    ("kl_div", (1.3, 0.4)),
    ("log_ndtr", (np.array([-40.0, -3.0, 0.4, 2.0]),)),
    ("logit", (np.array([0.1, 0.45, 0.9]),)),
    ("ndtr", (np.array([-3.0, 0.4]),)),
    ("ndtri", (np.array([0.01, 0.4, 0.97]),)),
    ("owens_t", (np.array([0.3, -1.2]), np.array([0.4, 2.1]))),
    ("poch", (2.3, 1.4)),
    ("rel_entr", (1.3, 0.4)),
    ("spence", (np.array([0.3, 0.9995, 1.7, 3.0]),)),
    ("xlog1py", (1.3, 0.4)),
    ("xlogy", (1.3, 0.4)),
    ("zeta", (np.array([1.7, 4.2]), np.array([0.7, 2.3]))),
]
PAIRS = ["fresnel", "sici"]


def test_derivatives() -> None:
    with override("enable_x64", True):
        for name, args in DERIVATIVES:
            operands = [jnp.asarray(a, np.float64) for a in args]
            check_grads(getattr(special, name), operands, 1, rtol=1e-5, atol=1e-7)
        for name in PAIRS:
            for pick in (0, 1):
                x = jnp.asarray([0.7, 2.3, 5.1])
                function = getattr(special, name)
                check_grads(lambda x, f=function, i=pick: f(x)[i], (x,), 1, rtol=1e-5, atol=1e-7)


def test_derivatives_of_functions_with_fixed_arguments() -> None:
    with override("enable_x64", True):
        x = jnp.asarray([0.7, 2.3])
        for order in (0, 1, 3):
            check_grads(lambda x, n=order: special.expn(n, x), (x,), 1, rtol=1e-5)
        check_grads(lambda a: special.multigammaln(a, 3), (x + 2,), 1, rtol=1e-5)
        z = jnp.asarray([0.7 + 0.3j, -1.2 + 0.4j])
        step = 1e-6
        for name in ("wofz", "loggamma", "gamma", "erfcx"):
            function = getattr(special, name)
            slope = (function(z + step) - function(z - step)) / (2 * step)
            found = xpr.jvp(function, (z,), (jnp.ones_like(z),))[1]
            np.testing.assert_allclose(found, slope, rtol=1e-7)


def test_derivatives_of_hypergeometric_functions() -> None:
    # One direction for each argument: the series is a compiled loop.
    step = 1e-5
    with override("enable_x64", True):
        for function, args in (
            (special.hyp1f1, (0.7, 1.6, np.array([-2.0, 1.5]))),
            (special.hyp2f1, (0.7, 1.6, 2.75, np.array([-2.0, 0.4, 0.95]))),
        ):
            operands = jnp.broadcast_arrays(*(jnp.asarray(a) for a in args))
            for i in range(len(operands)):
                move = [jnp.full_like(a, float(i == j)) for j, a in enumerate(operands)]
                above = function(*(a + step * m for a, m in zip(operands, move, strict=True)))
                below = function(*(a - step * m for a, m in zip(operands, move, strict=True)))
                found = xpr.jvp(function, operands, move)[1]
                np.testing.assert_allclose(found, (above - below) / (2 * step), rtol=1e-6)


def test_derivatives_at_limits_are_not_nan() -> None:
    assert xpr.grad(special.xlogy, 1)(0.0, 0.0) == 0
    assert xpr.grad(special.xlog1py, 1)(0.0, -1.0) == 0
    # What does not move adds nothing, though the derivative is infinite there.
    assert xpr.jvp(lambda y: special.xlogy(0.0, y), (0.0,), (1.0,))[1] == 0
    assert xpr.grad(special.xlogy)(0.0, 2.0) == np.float32(math.log(2))
    assert xpr.grad(special.entr)(0.0) == np.inf
    assert xpr.grad(special.rel_entr, (0, 1))(0.0, 1.0)[1] == 0
    np.testing.assert_allclose(xpr.grad(special.boxcox, 1)(2.0, 0.0), math.log(2) ** 2 / 2, 1e-6)
    assert xpr.grad(special.spence)(1.0) == -1
    assert xpr.grad(special.i1)(0.0) == 0.5


def test_compiled_and_batched() -> None:
    x = jnp.linspace(0.2, 3.0, 5)

    @xpr.jit
    @xpr.vmap
    def both(x: Any) -> Any:
        one = (special.exp1(x), special.spence(x), special.ndtri(x / 4), *special.sici(x))
        return *one, xpr.grad(special.log_ndtr)(-x), special.xlogy(x, x)

    slope = np.exp(-np.square(x) / 2 - sp.log_ndtr(-np.asarray(x))) / math.sqrt(2 * math.pi)
    wanted = (sp.exp1(x), sp.spence(x), sp.ndtri(x / 4), *sp.sici(x), slope, sp.xlogy(x, x))
    for found, value in zip(both(x), wanted, strict=True):
        np.testing.assert_allclose(found, value, rtol=3e-6, atol=1e-7)


def test_dtypes() -> None:
    for name in ("dawsn", "erfcx", "exp1", "gamma", "sici", "fresnel", "entr", "digamma"):
        for dtype, result in (
            ("int32", "float32"),
            ("bool", "float32"),
            ("float16", "float16"),
            ("bfloat16", "bfloat16"),
        ):
            out = getattr(special, name)(jnp.ones(2, dtype))
            out = out[0] if isinstance(out, tuple) else out
            assert out.dtype == getattr(jnp, result), name
    half = special.erfcx(jnp.asarray([2.5], jnp.float16))
    assert half[0] == np.float16(sp.erfcx(2.5))
    assert special.owens_t(jnp.ones(1, jnp.float16), 0.5).dtype == np.float32
    assert special.beta(jnp.ones(1, jnp.float16), jnp.ones(1, int)).dtype == np.float16
    assert special.erf(0.5).weak_type
    assert special.comb(5, 2).weak_type
    assert not special.gamma(0.5).weak_type
    assert special.wofz(1.0).dtype == np.complex64
    assert special.gamma(jnp.zeros((0, 3))).shape == (0, 3)
    assert special.beta(jnp.ones((2, 1)), jnp.ones(3)).shape == (2, 3)


def test_spherical_harmonics() -> None:
    n, m = (v.ravel() for v in np.meshgrid(np.arange(6), np.arange(-5, 6)))
    n, m = n[np.abs(m) <= n], m[np.abs(m) <= n]
    theta = np.linspace(0.0, 3.1, n.size)
    with override("enable_x64", True):
        found = special.sph_harm_y(n, m, theta, 0.7, n_max=5)
        np.testing.assert_allclose(found, sp.sph_harm_y(n, m, theta, 0.7), atol=1e-14)
        high = special.sph_harm_y(80, 41, np.array([0.4, 1.3]), 0.7)
        np.testing.assert_allclose(high, sp.sph_harm_y(80, 41, np.array([0.4, 1.3]), 0.7), 1e-11)
    assert special.sph_harm_y(1, 2, 0.5, 0.5) == 0
    assert np.isnan(special.sph_harm_y(3, 2, 0.5, 0.5, n_max=2))


def test_bessel_and_bernoulli() -> None:
    z = np.array([-3.0, 0.0, 0.2, 7.5])
    with override("enable_x64", True):
        found = special.bessel_jn(jnp.asarray(z), v=4)
        wanted = [sp.jv(k, z) for k in range(5)]
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
        # mpmath's, since SciPy's are not accurate to the last digits.
        exact = [float(mp.bernoulli(k)) for k in range(61)]
        np.testing.assert_allclose(special.bernoulli(60), exact, rtol=1e-15)
    assert np.isinf(special.bernoulli(70)[-1])
    assert special.bernoulli(0).shape == (1,)


@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
def test_softmax(axis: Any) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("f4")
    np.testing.assert_allclose(special.softmax(x, axis=axis), sp.softmax(x, axis), rtol=1e-5)
    found = special.log_softmax(x, axis=axis)
    np.testing.assert_allclose(found, sp.log_softmax(x, axis), rtol=1e-5)
    np.testing.assert_allclose(special.logsumexp(x, axis), sp.logsumexp(x, axis), rtol=1e-5)


def test_multigammaln() -> None:
    a = np.array([2.3, 9.1], "f4")
    np.testing.assert_allclose(special.multigammaln(a, 3), sp.multigammaln(a, 3), rtol=1e-6)


def test_errors() -> None:
    for name in ("dawsn", "entr", "exp1", "expi", "gammasgn"):
        with pytest.raises(ValueError, match=f"{name} does not support complex"):
            getattr(special, name)(1j)
    for name in ("ndtr", "ndtri", "log_ndtr", "spence"):
        with pytest.raises(TypeError, match=f"{name}: dtype=int32 is not supported"):
            getattr(special, name)(jnp.arange(3))
    with pytest.raises(TypeError, match="gamma requires ndarray or scalar"):
        special.gamma([1.0])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="series_order must be from 0 to 30"):
        special.log_ndtr(1.0, 31)
    with pytest.raises(TypeError, match="series_order must be a Python integer"):
        special.log_ndtr(1.0, 2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be of integer type"):
        special.polygamma(1.0, 2.0)
    with pytest.raises(ValueError, match="non-negative integer"):
        special.bernoulli(-1)
    with pytest.raises(NotImplementedError, match="exact"):
        special.factorial(3, exact=True)
    with pytest.raises(NotImplementedError, match="Riemann"):
        special.zeta(2.0)
    with pytest.raises(TypeError, match="d to be a Python integer"):
        special.multigammaln(3.0, jnp.arange(2))
    with pytest.raises(ValueError, match="0 <= v < n_iter"):
        special.bessel_jn(1.0, v=-1)
    with pytest.raises(NotImplementedError, match="diff_n"):
        special.sph_harm_y(1, 1, 0.5, 0.5, diff_n=1)
    with pytest.raises(TypeError, match="requires integer n"):
        special.sph_harm_y(1.0, 1, 0.5, 0.5)
    with pytest.raises(TypeError, match="requires n_max"):
        xpr.jit(special.sph_harm_y)(1, 1, 0.5, 0.5)
