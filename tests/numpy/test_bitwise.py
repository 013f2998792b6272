"""Bitwise functions and divisors against NumPy and Python's integers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import xpr
from tests.numpy.cases import Case, check, jnp
from xpr.core.config import override

DTYPES = ("i1", "u1", "i2", "u2", "i4", "u4")


def extremes(dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    values = {0, 1, 2, 3, 7, 12, info.max, info.max - 1, info.min, info.min + 1, info.max // 3}
    return np.array(sorted(values), dtype)


def pairs(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.meshgrid(a, a)
    return x.ravel(), y.ravel()


def test_bits_of_every_integer_type() -> None:
    cases = []
    for dtype in DTYPES:
        x = extremes(dtype)
        width = 8 * x.dtype.itemsize
        shifts = np.arange(len(x)).astype(dtype) % width
        cases += [Case(n, pairs(x)) for n in ("bitwise_and", "bitwise_or", "bitwise_xor")]
        cases += [Case(n, (x,)) for n in ("bitwise_not", "invert", "bitwise_invert")]
        cases += [Case("bitwise_count", (x[x != np.iinfo(dtype).min] if dtype[0] == "i" else x,))]
        cases += [Case(n, (x, shifts)) for n in ("left_shift", "right_shift")]
    cases += [Case("bitwise_not", (np.array([True, False]),))]
    cases += [Case("bitwise_and", (extremes("i1"), np.array([1000], "i4")))]
    cases += [Case(n, (np.array([3], "u1"), np.array([2], "i4"))) for n in ("bitwise_left_shift",)]
    check(cases)


def test_shifts_by_too_many_bits_are_defined() -> None:
    x = jnp.array([1, -8, 2**30], jnp.int32)
    by = jnp.array([32, 40, -1], jnp.int32)
    for f in (lambda a: a, xpr.jit):
        left, right = f(lambda x, y: (jnp.left_shift(x, y), jnp.right_shift(x, y)))(x, by)
        assert left.tolist() == [0, 0, 0]
        assert right.tolist() == [0, -1, 0]


@pytest.mark.parametrize("dtype", [*DTYPES, "i8", "u8"])
def test_divisors_are_exact(dtype: str) -> None:
    x, y = pairs(extremes(dtype))
    rng = np.random.default_rng(1)
    info = np.iinfo(dtype)
    more = rng.integers(info.min, info.max, (2, 200), dtype, endpoint=True)
    x, y = np.r_[x, more[0]], np.r_[y, more[1] // 3 * 2]
    with override("enable_x64", True):
        gcd, lcm = xpr.jit(lambda x, y: (jnp.gcd(x, y), jnp.lcm(x, y)))(x, y)
        eager = jnp.gcd(x, y)
    width = 8 * x.dtype.itemsize

    def wrapped(v: int) -> int:
        v %= 2**width
        return v - 2**width if dtype[0] == "i" and v >= 2 ** (width - 1) else v

    expected = [wrapped(math.gcd(int(a), int(b))) for a, b in zip(x, y, strict=True)]
    assert gcd.tolist() == expected
    assert eager.tolist() == expected
    assert lcm.tolist() == [wrapped(math.lcm(int(a), int(b))) for a, b in zip(x, y, strict=True)]


def test_consecutive_fibonacci_and_pell_numbers_need_the_most_steps() -> None:
    for step in ((1, 1), (2, 1)):
        a, b = 1, 1
        while a * step[0] + b * step[1] < 2**31:
            a, b = a * step[0] + b * step[1], a
        found = xpr.jit(jnp.gcd)(np.array([a, b], "i4"), np.array([b, a], "i4"))
        assert found.tolist() == [1, 1]


def test_gcd_needs_integers() -> None:
    for f in (jnp.gcd, jnp.lcm):
        with pytest.raises(ValueError, match="must be integers"):
            f(True, 2.0)
    with pytest.raises(TypeError, match="does not accept dtype float32"):
        jnp.bitwise_count(jnp.ones(2))


def test_divisors_of_constants_in_programs() -> None:
    """An array that a program closes over is no tracer, and what is asked of it may be traced."""
    seven = jnp.asarray([7, 0, 12], "uint32")
    found = xpr.jit(lambda x: (jnp.gcd(x, seven), jnp.lcm(seven, x), jnp.gcd(seven, 4)))(
        np.array([14, 5, 8], "u4")
    )
    assert [f.tolist() for f in found] == [[7, 5, 4], [14, 0, 24], [1, 4, 4]]
