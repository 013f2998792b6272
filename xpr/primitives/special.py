"""Special functions: error functions, gamma and related functions, Bessel functions.

They take floating arrays of one dtype and equal shapes (rank-0 operands go with any), and raise
TypeError for others. 16-bit floats are computed in float32 and rounded once. Where a function has
a limit at a border of its domain that limit is its value there, as in SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.primitive import Primitive, Rule
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives.families import FLOATING, in_float32, nary
from xpr.primitives.rules import Partials, broadcast_to, const_like, full_like, shape_of

__all__ = [
    "bessel_i0e",
    "bessel_i1e",
    "betainc",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "igamma",
    "igamma_grad_a",
    "igammac",
    "lgamma",
    "polygamma",
    "random_gamma_grad",
    "zeta",
]

_FAMILY = "special"
_NdArray = np.ndarray[Any, Any]


def _special(name: str, doc: str, reference: Callable[..., Any], *tangents: Rule) -> Primitive:
    """The primitive, to whose tangent each operand adds `tangent(t, result, *operands)`."""
    return nary(
        name,
        len(tangents),
        family=_FAMILY,
        kinds=FLOATING,
        doc=doc,
        reference=in_float32(reference),
        jvp=Partials(*tangents),
    )


def _no_derivative(name: str, operand: str, reason: str) -> Rule:
    """The term of an operand in which the function cannot be differentiated."""

    def term(*_: Any) -> Any:
        raise NotImplementedError(
            f"Differentiation rule for '{name}' with respect to {operand} not implemented: {reason}"
        )

    return term


def _scipy(name: str) -> Callable[..., Any]:
    """The reference `scipy.special.<name>`; SciPy is loaded when it is first needed."""

    def reference(*arrays: _NdArray) -> Any:
        import scipy.special  # noqa: PLC0415  loading it takes longer than all of xpr

        return getattr(scipy.special, name)(*arrays)

    return reference


def _odd(name: str) -> Callable[..., Any]:
    """As `_scipy`, for an odd function whose value at -0.0 should be -0.0."""
    function = _scipy(name)
    return lambda x: np.where(x == 0, x, function(x))


# ---- error functions


def _erf_tangent(sign: float) -> Rule:
    def tangent(t: Any, out: Any, x: Any) -> Any:
        bell = ops.bind("exp", ops.neg(ops.bind("square", x)))
        return ops.mul(t, ops.mul(const_like(x, sign * 2 / math.sqrt(math.pi)), bell))

    return tangent


def _erf_inv_tangent(t: Any, out: Any, x: Any) -> Any:
    slope = ops.bind("exp", ops.bind("square", out))
    return ops.mul(t, ops.mul(const_like(x, math.sqrt(math.pi) / 2), slope))


erf_p = _special("erf", "The error function of x.", _scipy("erf"), _erf_tangent(1.0))
erfc_p = _special("erfc", "1 - erf(x).", _scipy("erfc"), _erf_tangent(-1.0))
erf_inv_p = _special(
    "erf_inv", "The number whose error function is x.", _odd("erfinv"), _erf_inv_tangent
)


def erf(x: Any) -> Array:
    """The error function `2 / sqrt(pi)` times the integral of `exp(-t**2)` from 0 to `x`.

    >>> from xpr import lax
    >>> lax.erf(0.5)
    Array(0.5204999, dtype=float32, weak_type=True)
    """
    return erf_p.bind(x)


def erfc(x: Any) -> Array:
    """The complementary error function `1 - erf(x)`, accurate for large `x` too.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.erfc(jnp.array([0.0, jnp.inf]))
    Array([1., 0.], dtype=float32)
    """
    return erfc_p.bind(x)


def erf_inv(x: Any) -> Array:
    """The inverse of `erf`: infinite at -1 and 1, NaN beyond.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.erf_inv(jnp.array([0.0, 1.0, 2.0]))
    Array([ 0., inf, nan], dtype=float32)
    """
    return erf_inv_p.bind(x)


# ---- gamma functions


_EULER = 0.57721566490153286061


def _lgamma_reference(x: _NdArray) -> Any:
    value = np.where(np.isinf(x), x.dtype.type(np.inf), _scipy("gammaln")(x))
    if x.dtype != np.float64:
        return value
    # Where it vanishes SciPy's is accurate to an absolute error only.
    at_one, at_two = np.abs(x - 1.0) < 0.2, np.abs(x - 2.0) < 0.2
    if not (at_one.any() or at_two.any()):
        return value
    rest = np.where(at_one, x - 1.0, np.where(at_two, x - 2.0, 0.0))
    by_series = _lgamma_from_two(rest)
    return np.where(at_two, by_series, np.where(at_one, by_series - np.log1p(rest), value))


def _lgamma_from_two(x: _NdArray) -> Any:
    """lgamma(2 + x) for |x| < 0.2: DLMF 5.7.3."""
    total = np.zeros_like(x)
    for k in range(20, 1, -1):
        total = total * x + (-1) ** k * _scipy("zetac")(float(k)) / k
    return x * ((1.0 - _EULER) + x * total)


def _polygamma_reference(m: _NdArray, x: _NdArray) -> Any:
    digamma_value = _scipy("psi")(x)
    m, x = m.astype(np.float64), x.astype(np.float64)
    sign = np.where(m % 2 == 0, -1.0, 1.0)
    value = sign * _scipy("gamma")(m + 1) * _zeta_reference(m + 1, x)
    value = np.where((m >= 1) & (m == np.floor(m)) & np.isfinite(m), value, np.nan)
    return np.where(m == 0, digamma_value, value).astype(digamma_value.dtype)


def _zeta_reference(x: _NdArray, q: _NdArray) -> Any:
    value = np.where(np.isposinf(x) & (q > 1), x.dtype.type(0), _scipy("zeta")(x, q))
    return np.where(np.isnan(x) | np.isnan(q), x.dtype.type(np.nan), value)


def _zeta_by_offset(t: Any, out: Any, x: Any, q: Any) -> Any:
    return ops.mul(t, ops.mul(ops.neg(x), zeta_p.bind(ops.add(x, const_like(x, 1)), q)))


lgamma_p = _special(
    "lgamma",
    "The logarithm of |gamma(x)|.",
    _lgamma_reference,
    lambda t, out, x: ops.mul(t, digamma_p.bind(x)),
)
digamma_p = _special(
    "digamma",
    "The derivative of lgamma at x.",
    _scipy("psi"),
    lambda t, out, x: ops.mul(t, polygamma_p.bind(const_like(x, 1), x)),
)
polygamma_p = _special(
    "polygamma",
    "The derivative of order m of digamma at x.",
    _polygamma_reference,
    _no_derivative("polygamma", "m", "m counts derivatives and is whole"),
    lambda t, out, m, x: ops.mul(t, polygamma_p.bind(ops.add(m, const_like(m, 1)), x)),
)
zeta_p = _special(
    "zeta",
    "The Hurwitz zeta function, sum of (q + k)**-x.",
    _zeta_reference,
    _no_derivative("zeta", "x", "no primitive computes it"),
    _zeta_by_offset,
)


def lgamma(x: Any) -> Array:
    """The natural logarithm of the absolute value of the gamma function; inf at its poles.

    >>> from xpr import lax
    >>> lax.lgamma(5.0)
    Array(3.1780539, dtype=float32, weak_type=True)
    """
    return lgamma_p.bind(x)


def digamma(x: Any) -> Array:
    """The derivative of `lgamma`: NaN at negative whole numbers, infinite at 0.

    At 1 it is the negative of Euler's constant:

    >>> from xpr import lax
    >>> lax.digamma(1.0)
    Array(-0.5772157, dtype=float32, weak_type=True)
    """
    return digamma_p.bind(x)


def polygamma(m: Any, x: Any) -> Array:
    """The derivative of order `m` of `digamma` at `x`; NaN unless `m` is a whole number >= 0.

    At m = x = 1 it is pi**2 / 6:

    >>> from xpr import lax
    >>> lax.polygamma(1.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    return polygamma_p.bind(m, x)


def zeta(x: Any, q: Any) -> Array:
    """The Hurwitz zeta function: the sum of `(q + k) ** -x` over k = 0, 1, 2, ...

    Infinite for `x == 1` and where a term is; NaN for `x < 1`, and for `q < 0` unless `x` is whole.

    At x = 2, q = 1 it is pi**2 / 6:

    >>> from xpr import lax
    >>> lax.zeta(2.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    return zeta_p.bind(x, q)


# ---- incomplete gamma and beta functions


def _stepped(value: Any, a: _NdArray, x: _NdArray, low: float, high: float) -> Any:
    """The values where operands are so large that all but the one at x = a rounds to 0 or 1."""
    regular = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    great = regular & (np.maximum(a, x) > (40.0 / np.finfo(x.dtype).eps) ** 2)
    stepped = np.where(x == a, 0.5, np.where(x < a, low, high)).astype(x.dtype)
    return np.where(great, stepped, value)


def _igamma_reference(a: _NdArray, x: _NdArray) -> Any:
    value = _stepped(_scipy("gammainc")(a, x), a, x, 0.0, 1.0)
    return np.where((a < 0) | (x < 0) | np.isnan(a) | np.isnan(x), x.dtype.type(np.nan), value)


def _igammac_reference(a: _NdArray, x: _NdArray) -> Any:
    value = _stepped(_scipy("gammaincc")(a, x), a, x, 1.0, 0.0)
    return np.where((a < 0) | (x < 0) | np.isnan(a) | np.isnan(x), x.dtype.type(np.nan), value)


def _gamma_series(a: _NdArray, x: _NdArray) -> tuple[_NdArray, _NdArray]:
    """S = sum of x**n / ((a + 1) ... (a + n)) and its derivative in a."""
    term, total = np.ones_like(x), np.ones_like(x)
    slope, slope_total = np.zeros_like(x), np.zeros_like(x)
    for n in range(1, 100_000):
        ratio = x / (a + n)
        slope = slope * ratio - term * ratio / (a + n)
        term = term * ratio
        total, slope_total = total + term, slope_total + slope
        if not np.any((term > 1e-17 * total) | (np.abs(slope) > 1e-17 * np.abs(slope_total))):
            break
    return total, slope_total


def _gamma_fraction(a: _NdArray, x: _NdArray) -> tuple[_NdArray, _NdArray]:
    """Legendre's continued fraction of Q(a, x) e**x x**-a gamma(a), and its derivative in a.

    Evaluated from its tail, where its value hardly matters any more.
    """
    value, slope = np.zeros_like(x), np.zeros_like(x)
    for n in range(2000, 0, -1):
        denominator = x + 2 * n + 1 - a + value
        value_next = -n * (n - a) / denominator
        slope = (n - value_next * (slope - 1)) / denominator
        value = value_next
    result = 1 / (x + 1 - a + value)
    return result, -result * result * (slope - 1)


def _gamma_derivative_parts(a: _NdArray, x: _NdArray) -> tuple[Any, Any]:
    """The derivative of igamma in `a` over x**(a-1) e**-x / gamma(a), and that density's log."""
    import scipy.special  # noqa: PLC0415  loading it takes longer than all of xpr

    a, x = (v.astype(np.float64) for v in np.broadcast_arrays(a, x))
    valid = (a > 0) & np.isfinite(a) & (x > 0) & np.isfinite(x)
    a, x = np.where(valid, a, 1.0), np.where(valid, x, 1.0)
    by_series = (x <= 1) | (x <= a)
    s, ds = _gamma_series(np.where(by_series, a, 1.0), np.where(by_series, x, 0.5))
    f, df = _gamma_fraction(np.where(by_series, 1.0, a), np.where(by_series, 2.0, x))
    series = (x / a) * (ds + s * (np.log(x) - scipy.special.psi(a + 1)))
    fraction = -x * (df + f * (np.log(x) - scipy.special.psi(a)))
    ratio = np.where(by_series, series, fraction)
    return np.where(valid, ratio, np.nan), (a - 1) * np.log(x) - x - scipy.special.gammaln(a)


def _igamma_grad_a_reference(a: _NdArray, x: _NdArray) -> Any:
    ratio, log_density = _gamma_derivative_parts(a, x)
    limit = (a > 0) & ((x == 0) | (np.isposinf(x) & np.isfinite(a)))
    return np.where(limit, 0.0, ratio * np.exp(log_density)).astype(x.dtype)


def _random_gamma_grad_reference(a: _NdArray, x: _NdArray) -> Any:
    ratio, _ = _gamma_derivative_parts(a, x)
    return np.where((a > 0) & (x == 0), 0.0, -ratio).astype(x.dtype)


def _times_log(factor: Any, log: str, x: Any, pole: float) -> Any:
    """`factor` times the logarithm of `x`; 0 where the factor is 0 and the logarithm infinite."""
    nothing = ops.bind("and", ops.eq(factor, const_like(x, 0)), ops.eq(x, const_like(x, pole)))
    x = broadcast_to(x, shape_of(nothing))
    return ops.mul(factor, ops.bind(log, ops.select(nothing, full_like(x, 0.5), x)))


def _gamma_density(a: Any, x: Any) -> Any:
    """The derivative of igamma in `x`, which is the density of the gamma distribution."""
    power = _times_log(ops.sub(a, const_like(a, 1)), "log", x, 0)
    return ops.bind("exp", ops.sub(ops.sub(power, x), lgamma_p.bind(a)))


def _log_less_digamma(a: Any, x: Any) -> Any:
    """The derivative in `a` of the logarithm of that density."""
    return ops.sub(ops.bind("log", x), digamma_p.bind(a))


def _random_gamma_grad_by_sample(t: Any, out: Any, a: Any, x: Any) -> Any:
    # With p the density and G the derivative of igamma in a, the result is r = -G/p; since G' is
    # p (log x - digamma(a)), r' = -(log x - digamma(a)) - r p'/p.
    log_slope = ops.sub(ops.div(ops.sub(a, const_like(a, 1)), x), const_like(x, 1))
    return ops.neg(ops.mul(t, ops.add(_log_less_digamma(a, x), ops.mul(out, log_slope))))


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    """The derivative of the regularized incomplete beta function in `x`."""
    log_beta = ops.sub(ops.add(lgamma_p.bind(a), lgamma_p.bind(b)), lgamma_p.bind(ops.add(a, b)))
    upper = _times_log(ops.sub(b, const_like(b, 1)), "log1p", ops.neg(x), -1)
    lower = _times_log(ops.sub(a, const_like(a, 1)), "log", x, 0)
    return ops.bind("exp", ops.sub(ops.add(upper, lower), log_beta))


_NO_SECOND = "no primitive computes the second derivative of igamma in a"
_NO_BETA_SHAPE = "no primitive computes it"

igamma_p = _special(
    "igamma",
    "The regularized lower incomplete gamma function.",
    _igamma_reference,
    lambda t, out, a, x: ops.mul(t, igamma_grad_a_p.bind(a, x)),
    lambda t, out, a, x: ops.mul(t, _gamma_density(a, x)),
)
igammac_p = _special(
    "igammac",
    "The regularized upper incomplete gamma function.",
    _igammac_reference,
    lambda t, out, a, x: ops.neg(ops.mul(t, igamma_grad_a_p.bind(a, x))),
    lambda t, out, a, x: ops.neg(ops.mul(t, _gamma_density(a, x))),
)
igamma_grad_a_p = _special(
    "igamma_grad_a",
    "The derivative of igamma in its first argument.",
    _igamma_grad_a_reference,
    _no_derivative("igamma_grad_a", "a", _NO_SECOND),
    lambda t, out, a, x: ops.mul(t, ops.mul(_gamma_density(a, x), _log_less_digamma(a, x))),
)


def _betainc_reference(a: _NdArray, b: _NdArray, x: _NdArray) -> Any:
    # SciPy's loop over float32 loses some of its digits.
    wide = (v.astype(np.float64) for v in (a, b, x))
    return np.asarray(_scipy("betainc")(*wide)).astype(x.dtype)


random_gamma_grad_p = _special(
    "random_gamma_grad",
    "The derivative of a gamma-distributed sample in its shape parameter.",
    _random_gamma_grad_reference,
    _no_derivative("random_gamma_grad", "a", _NO_SECOND),
    _random_gamma_grad_by_sample,
)
regularized_incomplete_beta_p = _special(
    "regularized_incomplete_beta",
    "The regularized incomplete beta function.",
    _betainc_reference,
    _no_derivative("regularized_incomplete_beta", "a", _NO_BETA_SHAPE),
    _no_derivative("regularized_incomplete_beta", "b", _NO_BETA_SHAPE),
    lambda t, out, a, b, x: ops.mul(t, _beta_density(a, b, x)),
)


def igamma(a: Any, x: Any) -> Array:
    """The regularized lower incomplete gamma function P(a, x), for `a >= 0` and `x >= 0`.

    It is the integral of `t**(a-1) exp(-t) / gamma(a)` from 0 to `x`; NaN outside its domain.

    >>> from xpr import lax
    >>> lax.igamma(1.0, 1.0)
    Array(0.63212055, dtype=float32, weak_type=True)
    """
    return igamma_p.bind(a, x)


def igammac(a: Any, x: Any) -> Array:
    """The regularized upper incomplete gamma function `1 - igamma(a, x)`, accurate near 0 too.

    Of `a` = 1 it is exp(-x):

    >>> from xpr import lax
    >>> lax.igammac(1.0, 2.0)
    Array(0.13533528, dtype=float32, weak_type=True)
    """
    return igammac_p.bind(a, x)


def igamma_grad_a(a: Any, x: Any) -> Array:
    """The derivative of `igamma(a, x)` with respect to `a`.

    >>> from xpr import lax
    >>> lax.igamma_grad_a(1.0, 2.0)
    Array(-0.22082542, dtype=float32, weak_type=True)
    """
    return igamma_grad_a_p.bind(a, x)


def random_gamma_grad(a: Any, x: Any) -> Array:
    """The derivative of a sample `x` of the gamma distribution with respect to its shape `a`.

    It is `-igamma_grad_a(a, x)` over the density at `x`, which is how a sample moves when the
    shape changes and its quantile does not (implicit reparameterization).

    Here the density is exp(-2):

    >>> from xpr import lax
    >>> lax.random_gamma_grad(1.0, 2.0)
    Array(1.6316915, dtype=float32, weak_type=True)
    """
    return random_gamma_grad_p.bind(a, x)


def betainc(a: Any, b: Any, x: Any) -> Array:
    """The regularized incomplete beta function I_x(a, b), for `a, b >= 0` and `0 <= x <= 1`.

    It is the integral of `t**(a-1) (1-t)**(b-1) / B(a, b)` from 0 to `x`; NaN outside its domain.

    >>> from xpr import lax
    >>> lax.betainc(1.0, 1.0, 0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return regularized_incomplete_beta_p.bind(a, b, x)


# ---- Bessel functions


def _i0e_tangent(t: Any, out: Any, x: Any) -> Any:
    return ops.mul(t, ops.sub(bessel_i1e_p.bind(x), ops.mul(ops.bind("sign", x), out)))


def _i1e_tangent(t: Any, out: Any, x: Any) -> Any:
    # I1(x)/x tends to 1/2 at 0, where the quotient would not.
    eps = float(dtypes.finfo(get_aval(x).dtype).eps)
    tiny = ops.lt(ops.bind("abs", x), full_like(x, eps))
    divisor = ops.select(tiny, full_like(x, 1), x)
    slope = ops.sub(
        ops.sub(bessel_i0e_p.bind(x), ops.mul(ops.bind("sign", x), out)), ops.div(out, divisor)
    )
    return ops.mul(t, ops.select(tiny, full_like(x, 0.5), slope))


bessel_i0e_p = _special("bessel_i0e", "exp(-|x|) I0(x).", _scipy("i0e"), _i0e_tangent)
bessel_i1e_p = _special("bessel_i1e", "exp(-|x|) I1(x).", _odd("i1e"), _i1e_tangent)


def bessel_i0e(x: Any) -> Array:
    """The modified Bessel function of order 0, scaled: `exp(-abs(x)) * I0(x)`.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.bessel_i0e(jnp.array([0.0, 1.0]))
    Array([1.       , 0.4657596], dtype=float32)
    """
    return bessel_i0e_p.bind(x)


def bessel_i1e(x: Any) -> Array:
    """The modified Bessel function of order 1, scaled: `exp(-abs(x)) * I1(x)`.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.bessel_i1e(jnp.array([0.0, 1.0]))
    Array([0.        , 0.20791042], dtype=float32)
    """
    return bessel_i1e_p.bind(x)
