"""vq and trapezoid against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.integrate

import xpr
from tests.numpy.cases import Case, check, jnp
from xpr.scipy.cluster.vq import vq
from xpr.test_util import check_grads

RNG = np.random.default_rng(4)


def pair(rows: int, codes: int, size: int, dtype: str = "f4") -> Any:
    return RNG.normal(size=(rows, size)).astype(dtype), RNG.normal(size=(codes, size)).astype(dtype)


def nearest(rows: Any, codes: Any) -> Any:
    code, distance = scipy.cluster.vq.vq(rows.astype("f8"), codes.astype("f8"))
    return code.astype("i4"), distance.astype(rows.dtype if rows.dtype.kind == "f" else "f4")


def test_vq_against_scipy() -> None:
    whole = (RNG.integers(-9, 9, (6, 2)), RNG.integers(-9, 9, (3, 2)))
    row = RNG.normal(size=9).astype("f4")
    operands = [pair(9, 4, 3), pair(1, 1, 1), pair(5, 8, 2, "f2"), whole, (row, row[:3] + 1)]
    cases = [
        Case("vq", args, call=lambda _, a, b: vq(a, b), expected=nearest, atol=1e-6)
        for args in operands
    ]
    check(cases)


def test_vq_of_equally_near_rows_is_the_first() -> None:
    code, distance = vq(jnp.zeros((1, 2)), jnp.array([[3.0, 4.0], [0.0, 2.0], [2.0, 0.0]]))
    assert (int(code[0]), float(distance[0])) == (1, 2.0)
    code, distance = vq(jnp.zeros((0, 2)), jnp.ones((3, 2)))
    assert code.shape == distance.shape == (0,)


def test_vq_distances_have_derivatives() -> None:
    with xpr.enable_x64(True):
        rows, codes = (jnp.asarray(x) for x in pair(4, 3, 2, "f8"))
        check_grads(lambda a, b: vq(a, b)[1], (rows, codes), order=1)


def test_vq_errors() -> None:
    with pytest.raises(ValueError, match="should have the same rank"):
        vq(jnp.ones((2, 2)), jnp.ones(2))
    with pytest.raises(ValueError, match="requires arrays of rank 1 or 2"):
        vq(jnp.ones((2, 2, 2)), jnp.ones((2, 2, 2)))
    listed: Any = [1.0]
    with pytest.raises(TypeError, match="requires ndarray"):
        vq(listed, jnp.ones(1))


def test_trapezoid() -> None:
    y, x = RNG.normal(size=(3, 5)).astype("f4"), np.sort(RNG.normal(size=5)).astype("f4")
    ours = xpr.scipy.integrate.trapezoid
    for args, kwargs in (((y,), {}), ((y, x), {}), ((y,), {"dx": 0.3, "axis": 0})):
        expected = scipy.integrate.trapezoid(*args, **kwargs)
        np.testing.assert_allclose(ours(*args, **kwargs), expected, rtol=1e-5, atol=1e-6)
