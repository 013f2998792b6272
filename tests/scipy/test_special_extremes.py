"""Special functions of very large arguments, at once and compiled, against mpmath and limits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import xpr
from xpr.scipy import special


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_incomplete_gamma_functions_of_numbers_that_lie_far_apart(dtype: str) -> None:
    most = float(np.finfo(dtype).max)
    great = 1e25 if dtype == "float32" else 1e40
    a = np.array([most, most, most / 2, great, great, 1.0, most, great], dtype)
    x = np.array([most, most / 2, most, great, great * 1.5, most, 1.0, great / 2], dtype)
    lower = np.array([0.5, 0, 1, 0.5, 1, 1, 0, 0])
    with xpr.enable_x64(dtype == "float64"):
        for run in (lambda f: f, xpr.jit):
            np.testing.assert_allclose(run(special.gammainc)(a, x), lower, atol=1e-12)
            np.testing.assert_allclose(run(special.gammaincc)(a, x), 1 - lower, atol=1e-12)
            assert np.isnan(run(special.gammainc)(-a, x)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dilogarithms_of_great_numbers(dtype: str) -> None:
    x = np.array([1e29, 1e31, 1e37, 1e38, 3e38, float(np.finfo(dtype).max)], dtype)
    expected = [float(mpmath.polylog(2, 1 - mpmath.mpf(float(v)))) for v in x]
    rtol = 1e-6 if dtype == "float32" else 1e-12
    with xpr.enable_x64(dtype == "float64"):
        np.testing.assert_allclose(special.spence(x), expected, rtol)
        np.testing.assert_allclose(xpr.jit(special.spence)(x), expected, rtol)


def test_confluent_functions_whose_expansion_begins_with_growing_terms() -> None:
    cases = [(10, 0.25, -100), (7, 1.25, -65), (12, 0.5, -150), (9, 3, -80), (3, 0.5, -70)]
    a, b, x = (np.array(v, np.float64) for v in zip(*cases, strict=True))
    expected = [float(mpmath.hyp1f1(*case)) for case in cases]
    with xpr.enable_x64(True):
        np.testing.assert_allclose(special.hyp1f1(a, b, x), expected, rtol=1e-12)
    narrow = [v.astype(np.float32) for v in (a, b, x)]
    np.testing.assert_allclose(special.hyp1f1(*narrow), expected, rtol=1e-4)
