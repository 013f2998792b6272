"""scipy.special.erfcinv against mpmath: its values, and the derivatives of the inverse."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
import scipy.special

import xpr
from xpr.scipy.special import erfcinv


def exact(y: Any) -> tuple[Any, Any]:
    """The inverse and its slope, by two steps of Newton's rule from SciPy's value, 40 digits."""
    found, slopes = [], []
    with mpmath.workdps(40):
        for v in np.asarray(y, np.float64):
            target, z = mpmath.mpf(float(v)), mpmath.mpf(float(scipy.special.erfcinv(v)))
            for _ in range(2):
                slope = -2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-z * z)
                z -= (mpmath.erfc(z) - target) / slope
            found.append(float(z))
            slopes.append(float(-mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(z * z)))
    return np.array(found), np.array(slopes)


def points(smallest: int, dtype: Any) -> Any:
    tails = 10.0 ** np.linspace(smallest, -1, 25)
    return np.concatenate(
        [tails, np.linspace(0.11, 1.97, 40), 2 - 2.0 ** -np.arange(4, 12)]
    ).astype(dtype)


@pytest.mark.parametrize(("dtype", "smallest", "ulps"), [("f4", -37, 4), ("f8", -300, 8)])
def test_values_and_derivatives(dtype: str, smallest: int, ulps: int) -> None:
    with xpr.enable_x64(dtype == "f8"):
        y = points(smallest, dtype)
        z, slope = exact(y)
        spacing = np.spacing(np.abs(z).astype(dtype))
        assert np.max(np.abs(np.asarray(erfcinv(y), "f8") - z) / spacing) < ulps
        found = np.asarray(xpr.vmap(xpr.grad(erfcinv))(y), "f8")
        kept = y > (1e-36 if dtype == "f4" else 1e-290)
        np.testing.assert_allclose(found[kept], slope[kept], rtol=16 * float(np.finfo(dtype).eps))
        # Second derivatives are 2 z slope**2.
        middle = y > 1e-15
        second = np.asarray(xpr.vmap(xpr.grad(xpr.grad(erfcinv)))(y), "f8")
        expected = 2 * z[middle] * slope[middle] ** 2
        np.testing.assert_allclose(
            second[middle], expected, rtol=2000 * float(np.finfo(dtype).eps), atol=1e-6
        )


def test_borders() -> None:
    y = np.array([0.0, 1.0, 2.0, -0.5, 2.5, np.nan, np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(erfcinv(y), scipy.special.erfcinv(y))
    slopes = np.asarray(xpr.vmap(xpr.grad(erfcinv))(y[:3]))
    np.testing.assert_allclose(slopes, [-np.inf, -np.sqrt(np.pi) / 2, -np.inf], rtol=1e-6)


def test_other_dtypes() -> None:
    for dtype in (np.float16, ml_dtypes.bfloat16):
        y = np.array([0.01, 0.3, 1.0, 1.9], dtype)
        found = erfcinv(y)
        assert found.dtype == dtype
        expected = scipy.special.erfcinv(y.astype(np.float64)).astype(dtype)
        np.testing.assert_array_equal(found, expected)
    assert erfcinv(np.array([1, 2], np.int32)).dtype == np.float32
    with pytest.raises(ValueError, match="erfcinv does not support complex"):
        erfcinv(np.array([1j], np.complex64))
