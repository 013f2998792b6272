"""Polynomials and correlation against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.numpy.cases import Case, check, jnp

P = np.array([2.0, -3.0, 0.5, 1.0], "f4")
Q = np.array([1.0, 4.0], "f4")
INTS = np.array([3, -2, 1], "i4")
COMPLEX = np.array([1 + 2j, 0, -1j], "c8")
SPECIAL = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan], "f4")
EMPTY = np.array([], "f4")


def _divided(m: Any, u: Any, v: Any) -> Any:
    # NumPy trims leading zeros of the remainder, whose number depends on the values.
    if m is np:
        quotient, rest = np.polydiv(u, v)
        return quotient, np.concatenate([np.zeros(len(u) - len(rest), rest.dtype), rest])
    quotient, rest = m.polydiv(u, v)
    return quotient, rest


def _limits(p: Any, x: Any) -> Any:
    # NumPy starts its sum with 0 * x, which is NaN at an infinity.
    out = np.full(x.shape, p[0])
    for coefficient in p[1:]:
        out = out * x + coefficient
    return out


STACKED = np.linspace(-1, 1, 12, dtype="f4").reshape(4, 3)


def cases() -> list[Case]:
    grid = np.linspace(-2, 2, 6).astype("f4").reshape(2, 3)
    out = [
        Case("polyval", (P, grid), rtol=1e-5, atol=1e-6),
        Case("polyval", (P, SPECIAL), expected=_limits),
        Case("polyval", (INTS, np.array([-1, 0, 2], "i4"))),
        Case("polyval", (COMPLEX, grid), atol=1e-6),
        Case("polyval", (EMPTY, grid)),
        Case("polyval", (STACKED, grid), atol=1e-6),
        Case("polyval", (STACKED, np.float32(2)), rtol=1e-5),
        Case("polyval", (P[:1], SPECIAL[:3])),
        Case("polyval", (P, np.float32(2.0))),
        Case("poly", (P,), rtol=1e-5),
        Case("poly", (EMPTY,), expected=lambda z: np.float32(1.0), dtype="float32"),
        Case("poly", (INTS,), dtype="float32"),
    ]
    for a, b in ((P, Q), (Q, P), (INTS, INTS), (P, COMPLEX), (P, P[:1]), (INTS, P)):
        out += [Case(n, (a, b)) for n in ("polyadd", "polysub")]
        dtype = "float32" if a is b is INTS else None  # products are floating, as convolutions are
        out += [Case("polymul", (a, b), atol=1e-6, dtype=dtype)]
    for p in (P, INTS, COMPLEX, Q):
        for m in (0, 1, 2):
            dtype = "complex64" if p is COMPLEX else "float32"
            out.append(Case("polyint", (p,), {"m": m}, dtype=dtype))
            out.append(Case("polyder", (p,), {"m": m}, dtype=dtype))
    out.append(Case("polyint", (P,), {"m": 2, "k": np.array([5.0, -7.0], "f4")}))
    out.append(Case("polyint", (P,), {"m": 3, "k": 2.0}, dtype="float32"))
    out += [
        Case("polydiv", (u, v), call=_divided, dtype="float32", atol=2e-6)
        for u, v in ((P, Q), (P, P[:3]), (P, P[:1]))
    ]
    floating = {id(INTS): "float32"}
    for a, b in ((P, Q), (Q, P), (INTS, INTS[:2]), (COMPLEX, P), (P, COMPLEX)):
        out += [
            Case("correlate", (a, b), {"mode": mode}, atol=2e-6, dtype=floating.get(id(a)))
            for mode in ("valid", "same", "full")
        ]
    return out


def test_polynomials() -> None:
    check(cases())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_integrals_keep_the_dtype(dtype: str) -> None:
    p = jnp.array([4.0, 1.0]).astype(dtype)
    found = jnp.polyint(p)
    assert found.dtype == p.dtype
    np.testing.assert_array_equal(np.asarray(found.astype(jnp.complex64)), [2, 1, 0])


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: jnp.polyint(P, m=-1), ValueError, "Order of integral must be positive, got -1"),
        (lambda: jnp.polyder(P, m=-1), ValueError, "Order of derivative must be positive, got -1"),
        (lambda: jnp.polyint(P, m=2, k=jnp.ones(3)), ValueError, "k must be a scalar or a rank-1"),
        (lambda: jnp.polyval([1, 2], 3.0), TypeError, "polyval requires ndarray or scalar"),
        (lambda: jnp.polyadd([1], P), TypeError, "polyadd requires ndarray or scalar"),
        (lambda: jnp.poly(jnp.ones((2, 3))), ValueError, "poly|square|1d"),
        (lambda: jnp.correlate(P, Q, mode="other"), ValueError, "mode"),
        (lambda: jnp.correlate(EMPTY, Q), ValueError, "empty"),
        (lambda: jnp.correlate(jnp.ones((2, 2)), Q), ValueError, "1|one"),
    ],
)
def test_errors(call: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()
