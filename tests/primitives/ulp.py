"""Distances of results from exact values, in units of the last place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import mpmath
import numpy as np

NdArray: TypeAlias = np.ndarray[Any, Any]

# Enough digits to reduce the greatest float64 modulo pi.
DIGITS = 350


def exact_values(function: Callable[..., Any], *operands: NdArray) -> list[Any]:
    """`function`, of mpmath, at the exact values of the operands' elements."""
    with mpmath.workdps(DIGITS):
        rows = zip(*(a.astype(np.float64).tolist() for a in operands), strict=True)
        return [function(*(mpmath.mpf(v) for v in row)) for row in rows]


def ulp_errors(found: NdArray, exact: list[Any]) -> NdArray:
    """|found - exact| in units in the last place of the exact value.

    Results that vanish or overflow where the exact value is beyond the normal numbers count as 0.
    """
    info = np.finfo(found.dtype)
    tiny, greatest = float(info.tiny), float(info.max)
    errors = []
    for value, want in zip(found.astype(np.float64).tolist(), exact, strict=True):
        size = abs(want)
        if size < tiny and abs(value) <= tiny:
            errors.append(0.0)
        elif size > greatest and abs(value) == np.inf:
            errors.append(0.0 if (value > 0) == (want > 0) else np.inf)
        elif not np.isfinite(value):
            errors.append(np.inf)
        else:
            exponent = max(int(mpmath.frexp(size)[1]) - 1, info.minexp) if want else info.minexp
            unit = mpmath.mpf(2) ** (exponent - info.nmant)
            errors.append(float(abs(mpmath.mpf(value) - want) / unit))
    return np.array(errors)


def assert_within(
    found: NdArray, exact: list[Any], bound: float, operands: tuple[NdArray, ...], what: str
) -> None:
    """Fails with the worst operands unless every error is at most `bound` ulp."""
    errors = ulp_errors(found, exact)
    worst = int(np.argmax(errors))
    at = ", ".join(repr(a[worst]) for a in operands)
    assert errors[worst] <= bound, (
        f"{what}({at}) is {found[worst]!r}, {errors[worst]:.3g} ulp from "
        f"{mpmath.nstr(exact[worst], 20)}; the bound is {bound}"
    )
