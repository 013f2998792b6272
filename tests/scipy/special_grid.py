"""All special functions on a grid of signs and magnitudes, with mpmath's functions as the oracle.

A row says what may be less accurate than 1e-6 (float32) or 1e-12 (float64), and why: `by_log` for
values that are exponentials of a logarithm, whose relative error is that of the logarithm times its
size; `near_zero` for functions with zeros between the grid's points, where the error is relative to
the function's size nearby.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

from xpr.scipy import special

INF, NAN = np.inf, np.nan
Arrays = tuple[np.ndarray[Any, Any], ...]

_SIZES = (
    *(0.0, 1e-30, 1e-8, 1e-3, 0.1, 0.25, 0.5, 0.75, 0.999, 1.0, 1.001, 1.25, 1.5, 2.0, 2.001),
    *(2.5, 3.0, 3.5, 4.75, 6.0, 7.25, 9.5, 12.3, 20.0, 33.3, 50.0, 88.0, 170.5, 500.0, 1000.5),
    *(100000.25, 1e7, 1e10, 1e20, 1e30),
)
_WIDE_SIZES = (1e-300, 1e-100, 1e-16, 1.0000000001, 1e100, 1e300)
_NARROW_SIZES = (2e-38,)


@dataclass(frozen=True)
class Row:
    """A function of arrays, its oracle on mpmath's numbers, and the points for a dtype."""

    name: str
    function: Callable[..., Any]
    oracle: Callable[..., Any]
    points: Callable[[np.dtype[Any]], Arrays]
    by_log: bool = False
    near_zero: float = 0.0
    only_float64: bool = False


def _signed(sizes: Sequence[float]) -> list[float]:
    return [s * x for x in sizes for s in (1.0, -1.0)]


def _line(dtype: np.dtype[Any]) -> Arrays:
    sizes = _SIZES + (_WIDE_SIZES if dtype == np.float64 else _NARROW_SIZES)
    return (np.array([*_signed(sizes), INF, -INF, NAN], dtype),)


def _moderate(dtype: np.dtype[Any]) -> Arrays:
    return (np.array([*_signed([x for x in _SIZES if x < 1e6]), INF, -INF, NAN], dtype),)


def _shares(dtype: np.dtype[Any]) -> Arrays:
    some = [0.0, 1e-30, 1e-10, 1e-5, 0.01, 0.1, 0.3, 0.49, 0.5, 0.51, 0.75, 0.9, 0.99, 0.999]
    wide = [1e-300, 1 - 1e-14] if dtype == np.float64 else []
    return (np.array([*some, 1 - 1e-6, 1.0, 1.5, -0.5, NAN, *wide], dtype),)


def _product(*columns: Sequence[float]) -> Callable[[np.dtype[Any]], Arrays]:
    def points(dtype: np.dtype[Any]) -> Arrays:
        return tuple(np.array(list(itertools.product(*columns)), dtype).T)

    return points


def _list(*values: float) -> Callable[[np.dtype[Any]], Arrays]:
    return lambda dtype: (np.array(values, dtype),)


_POSITIVE = (0.0, 1e-10, 0.1, 0.5, 1.0, 1.5, 2.0, 3.5, 10.0, 30.25, 100.0, 1e3, 1e6)
_BOTH = _signed((1e-10, 0.1, 0.5, 1.0, 1.5, 2.5, 7.25, 20.0, 100.5))
_SHAPES = (0.1, 0.5, 1.0, 2.5, 10.0, 100.0)


# ---- oracles, where mpmath has no function or raises an error at a pole


def _at_pole(function: Callable[[Any], Any], *values: float) -> Callable[[Any], Any]:
    """`function`, and at 0, -0 and negative whole numbers these three values."""

    def oracle(x: Any) -> Any:
        if x <= 0 and x == mp.floor(x) and mp.isfinite(x):
            return values[2] if x else values[0]
        return function(x)

    return oracle


def _log_gamma(x: Any) -> Any:
    return mp.inf if mp.isinf(x) else mp.re(mp.loggamma(x))


def _scaled_bessel(order: int, scaled: bool) -> Callable[[Any], Any]:
    def oracle(x: Any) -> Any:
        size = abs(x)
        if size > 1e8:
            series = (1 - (4 * order * order - 1) / (8 * size)) / mp.sqrt(2 * mp.pi * size)
            value = series if scaled else mp.inf
        else:
            value = mp.besseli(order, size) * (mp.exp(-size) if scaled else 1)
        return -value if order and x < 0 else value

    return oracle


def _normal(x: Any) -> Any:
    return mp.mpf(0) if x < -1e5 else mp.mpf(1) if x > 1e5 else mp.erfc(-x / mp.sqrt(2)) / 2


def _log_normal(x: Any) -> Any:
    if x > 5:
        return mp.log1p(-_normal(-x))
    return -x * x / 2 - mp.log(-x * mp.sqrt(2 * mp.pi)) if x < -1e5 else mp.log(_normal(x))


def _complementary(x: Any) -> Any:
    return mp.mpf(0) if x > 1e5 else mp.erfc(x)


def _scaled_complementary(x: Any) -> Any:
    return 1 / (x * mp.sqrt(mp.pi)) if x > 1e13 else mp.exp(x * x) * mp.erfc(x)


def _dawson(x: Any) -> Any:
    return 1 / (2 * x) if abs(x) > 1e13 else mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def _logit(x: Any) -> Any:
    if not 0 <= x <= 1:
        return mp.nan
    return -mp.inf if x == 0 else mp.inf if x == 1 else mp.log(x / (1 - x))


def _inverse_erf(x: Any) -> Any:
    return mp.erfinv(x) if abs(x) < 1 else x * mp.inf if abs(x) == 1 else mp.nan


def _entropy(x: Any) -> Any:
    return -x * mp.log(x) if x > 0 else 0 if x == 0 else -mp.inf


def _relative_entropy(x: Any, y: Any) -> Any:
    return x * mp.log(x / y) if x > 0 and y > 0 else mp.inf


def _divergence(x: Any, y: Any) -> Any:
    return x * mp.log(x / y) - x + y if x > 0 and y > 0 else mp.inf


def _box_cox(x: Any, power: Any) -> Any:
    return mp.log(x) if power == 0 else (mp.power(x, power) - 1) / power


def _box_cox_1p(x: Any, power: Any) -> Any:
    return mp.log1p(x) if power == 0 else mp.expm1(power * mp.log1p(x)) / power


def _harmonic(part: Callable[[Any], Any]) -> Callable[..., Any]:
    def oracle(n: Any, m: Any, polar: Any, azimuth: Any) -> Any:
        value = mp.spherharm(int(n), abs(int(m)), polar, azimuth)
        return part(value if m >= 0 else (-1) ** int(m) * mp.conj(value))

    return oracle


def _harmonics(n: Any, m: Any, polar: Any, azimuth: Any) -> Any:
    orders = n.astype(np.int32), m.astype(np.int32)
    return special.sph_harm_y(*orders, polar, azimuth, n_max=8)


_SPHERE = tuple(
    zip(
        *(
            (n, m, polar, azimuth)
            for n in (0, 1, 2, 3, 5, 8)
            for m in range(-n, n + 1)
            for polar in (0.1, 0.7, 1.5, 2.5, 3.0)
            for azimuth in (0.0, 0.3, 2.0, 4.5)
        ),
        strict=True,
    )
)


def _on_sphere(dtype: np.dtype[Any]) -> Arrays:
    return tuple(np.array(column, dtype) for column in _SPHERE)


def _regularized(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def _regularized_upper(a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, mp.inf, regularized=True)


def _incomplete_beta(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


def _log_beta(a: Any, b: Any) -> Any:
    value = mp.beta(a, b)
    return mp.log(abs(value)) if value else -mp.inf


def _exponential_integral(x: Any) -> Any:
    return mp.e1(x) if x > 0 else mp.inf if x == 0 else mp.nan


def _cosine_integral(x: Any) -> Any:
    return NAN if x == -mp.inf else -mp.inf if x == 0 else mp.re(mp.ci(x))


def _of_whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with whole numbers as its first operand."""
    return lambda n, *rest: function(n.astype(np.int32), *rest)


LINES = (
    Row("gamma", special.gamma, _at_pole(mp.gamma, INF, -INF, NAN), _line),
    Row("gammaln", special.gammaln, _at_pole(_log_gamma, INF, INF, INF), _line, near_zero=0.1),
    Row("digamma", special.digamma, _at_pole(mp.digamma, -INF, INF, NAN), _line, near_zero=0.1),
    Row("erf", special.erf, mp.erf, _line),
    Row("erfc", special.erfc, _complementary, _line),
    Row("erfcx", special.erfcx, _scaled_complementary, _line),
    Row("dawsn", special.dawsn, _dawson, _line),
    Row("ndtr", special.ndtr, _normal, _line),
    Row("log_ndtr", special.log_ndtr, _log_normal, _line),
    Row("expit", special.expit, lambda x: 1 / (1 + mp.exp(-x)), _line),
    Row("entr", special.entr, _entropy, _line),
    Row("i0", special.i0, _scaled_bessel(0, False), _line),
    Row("i1", special.i1, _scaled_bessel(1, False), _line),
    Row("i0e", special.i0e, _scaled_bessel(0, True), _line),
    Row("i1e", special.i1e, _scaled_bessel(1, True), _line),
    Row("exp1", special.exp1, _exponential_integral, _line),
    Row("expi", special.expi, mp.ei, _line),
    Row("sici", lambda x: special.sici(x)[0], mp.si, _line),
    Row("sici, ci", lambda x: special.sici(x)[1], _cosine_integral, _line),
    Row("fresnel", lambda x: special.fresnel(x)[0], mp.fresnels, _moderate),
    Row("fresnel, c", lambda x: special.fresnel(x)[1], mp.fresnelc, _moderate),
    Row("logit", special.logit, _logit, _shares),
    Row("erfinv", special.erfinv, _inverse_erf, _shares),
    Row(
        "spence",
        special.spence,
        lambda x: mp.re(mp.polylog(2, 1 - x)),
        _list(0.0, 0.1, 0.25, 0.5, 0.75, 0.999, 1.0, 1.001, 1.5, 2.0, 2.5, 10.0, 1e3, 1e10, 1e30),
    ),
    Row(
        "factorial",
        special.factorial,
        lambda x: mp.gamma(x + 1) if x >= 0 else mp.mpf(0),
        _list(0, 1, 2, 3, 10, 20, 30, 33.5, 34, 0.5, -0.5, -3, 100, 170, 171),
    ),
    Row(
        "multigammaln",
        lambda x: special.multigammaln(x, 3),
        lambda x: 1.5 * mp.log(mp.pi) + sum(mp.loggamma(x - mp.mpf(j) / 2) for j in range(3)),
        _list(1.001, 1.1, 1.5, 2.0, 2.5, 3.5, 10.0, 100.0, 1e5, 1e10),
    ),
)
PAIRS = (
    Row("beta", special.beta, mp.beta, _product(_BOTH, _BOTH), by_log=True),
    Row("betaln", special.betaln, _log_beta, _product(_BOTH, _BOTH), near_zero=0.5),
    Row("betaln, zeros", special.betaln, _log_beta, _product(_POSITIVE, _POSITIVE), near_zero=0.5),
    Row(
        "gammainc",
        special.gammainc,
        _regularized,
        _product(_POSITIVE[1:-1], _POSITIVE),
        by_log=True,
    ),
    Row(
        "gammaincc",
        special.gammaincc,
        _regularized_upper,
        _product(_POSITIVE[1:-1], _POSITIVE),
        by_log=True,
    ),
    Row("boxcox", special.boxcox, _box_cox, _product(_POSITIVE[1:], (0.0, *_BOTH))),
    Row(
        "boxcox1p",
        special.boxcox1p,
        _box_cox_1p,
        _product((*_POSITIVE[:-1], -0.5, -1e-8), (0.0, *_BOTH)),
    ),
    Row("rel_entr", special.rel_entr, _relative_entropy, _product(_BOTH, _BOTH)),
    Row("kl_div", special.kl_div, _divergence, _product(_BOTH, _BOTH), near_zero=1e-2),
    Row("xlogy", special.xlogy, lambda x, y: x * mp.log(y), _product(_BOTH, _POSITIVE[1:])),
    Row("xlog1py", special.xlog1py, lambda x, y: x * mp.log1p(y), _product(_BOTH, _POSITIVE)),
    Row(
        "zeta",
        special.zeta,
        mp.zeta,
        _product((1.001, 1.1, 1.5, 2.0, 3.5, 10.0, 30.0), (1e-3, 0.1, 0.5, 1.0, 2.5, 100.0, 1e5)),
        by_log=True,
    ),
    Row(
        "poch",
        special.poch,
        mp.rf,
        _product((*_SHAPES, -0.5, -1.0, -2.5, -3.0, -10.25), (0.0, 0.5, 1.0, 2.0, 3.0, 10.0)),
        by_log=True,
    ),
    Row("comb", special.comb, mp.binomial, _product((0, 1, 5, 10, 30, 50), (0, 1, 2, 5, 10))),
)
OTHERS = (
    Row(
        "betainc",
        special.betainc,
        _incomplete_beta,
        _product(_SHAPES, _SHAPES, (0.0, 1e-10, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)),
        by_log=True,
    ),
    Row(
        "polygamma",
        _of_whole(special.polygamma),
        lambda n, x: mp.polygamma(int(n), x),
        _product((0, 1, 2, 3, 5), (1e-3, 0.1, 0.5, 1.5, 3.5, 100.0, 1e5, -0.1, -0.5, -2.25)),
    ),
    Row(
        "expn",
        _of_whole(special.expn),
        mp.expint,
        _product((0, 1, 2, 3, 10, 50), (1e-10, 1e-3, 0.1, 0.5, 1.0, 1.5, 2.0, 5.0, 10.0, 50.0)),
    ),
    Row(
        "sph_harm_y",
        lambda *args: _harmonics(*args).real,
        _harmonic(mp.re),
        _on_sphere,
        near_zero=1.0,
    ),
    Row(
        "sph_harm_y, imaginary",
        lambda *args: _harmonics(*args).imag,
        _harmonic(mp.im),
        _on_sphere,
        near_zero=1.0,
    ),
    Row(
        "hyp1f1",
        special.hyp1f1,
        mp.hyp1f1,
        _product((-2.5, -1.0, 0.0, 0.5, 3.25), (0.25, 1.0, 2.5), (-20.0, -0.5, 1e-5, 5.0, 50.0)),
        near_zero=0.5,
    ),
    Row(
        "hyp2f1",
        special.hyp2f1,
        mp.hyp2f1,
        _product((-3.0, 0.5, 2.25), (0.5, 1.5), (0.5, 3.25), (-5.0, -0.5, 0.0, 0.5, 0.9)),
        near_zero=0.1,
        only_float64=True,
    ),
)
ROWS = LINES + PAIRS + OTHERS


def expected(row: Row, points: Arrays) -> np.ndarray[Any, Any]:
    """The oracle's values, rounded to float64; NaN where an operand is NaN."""
    out = []
    with mp.workdps(50):
        for values in zip(*points, strict=True):
            if any(math.isnan(v) for v in values):
                out.append(NAN)
                continue
            signed_zero = len(values) == 1 and values[0] == 0 and math.copysign(1, values[0]) < 0
            if signed_zero and row.oracle.__qualname__.startswith("_at_pole"):
                out.append(_at_negative_zero(row))
                continue
            value = row.oracle(*(mp.mpf(float(v)) for v in values))
            out.append(_float(value))
    return np.array(out)


def _at_negative_zero(row: Row) -> float:
    """mpmath has no negative zero."""
    return {"gamma": -INF, "gammaln": INF, "digamma": INF}[row.name]


def _float(value: Any) -> float:
    if isinstance(value, mp.mpc):
        value = value.real if value.imag == 0 else mp.nan
    try:
        return float(value)
    except OverflowError:
        return math.copysign(INF, value)


def failures(row: Row, found: Any, points: Arrays, wanted: np.ndarray[Any, Any]) -> list[str]:
    """A line for each result that is farther from the oracle's than the row allows."""
    dtype = points[0].dtype
    found = np.asarray(found).astype(np.float64)
    limits = np.finfo(dtype)
    tolerance = 1e-6 if dtype == np.float32 else 1e-12
    with np.errstate(all="ignore"):
        size = np.abs(wanted)
        scale = np.maximum(size, max(float(limits.tiny) / tolerance, row.near_zero))
        if row.by_log:
            scale = scale * np.maximum(1.0, np.abs(np.log(size + (size == 0))) / 4)
            # One of two complements is computed, the other one is 1 less it.
            scale = np.maximum(scale, 0.5 if row.name == "betainc" else 0.0)
        near = np.abs(found - wanted) <= tolerance * scale
        infinite = ~np.isfinite(wanted.astype(dtype))
        rounded = wanted.astype(dtype).astype(np.float64)
        same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
        right = np.where(infinite, same, near)
    where = np.flatnonzero(~right)
    return [
        f"{row.name}{tuple(float(p[i]) for p in points)} {dtype}: {found[i]}, not {wanted[i]}"
        for i in where[:5]
    ]
