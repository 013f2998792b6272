"""Values of the special functions against mpmath and SciPy, in both widths."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import scipy.special as sp

from tests.scipy.special_rows import Row, by_mpmath, check, grid

INF, NAN = np.inf, np.nan
# Around the places where the approximations change, far out, and close to 0.
SIZES = np.concatenate(
    [
        np.geomspace(1e-6, 30, 24),
        [0.3, 0.49, 0.51, 0.99, 1.01, 1.49, 1.51, 2.01, 3.9, 4.1, 5.9, 6.01, 6.2, 7.3, 8.1, 11.9],
    ]
)
SIGNED = np.concatenate([-SIZES, SIZES])
BORDERS = np.array([0.0, -0.0, INF, -INF, NAN])
PROBABILITIES = np.concatenate(
    [np.geomspace(1e-30, 0.1, 12), [0.12, 0.13, 0.3, 0.4999, 0.5, 0.6, 0.87, 0.88, 0.999, 0.99999]]
)
BESIDE = np.array([-1.0, 2.0, NAN])
SHAPES = (0.1, 0.7, 1.0, 2.5, 7.0, 11.9, 12.1, 15.3)


def _at(oracle, values):
    """`oracle`, and these values after its results: those at borders, written by hand."""

    def both(*args):
        count = len(values)
        inner = oracle(*(a[: a.size - count] for a in args))
        return np.concatenate([inner, values])

    return both


def _with(points, *borders):
    return np.concatenate([points, *borders])


def _normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _log_normal(x):
    return mp.log(_normal(x)) if x < 5 else mp.log1p(-_normal(-x))


def _quantile(p):
    start = mp.mpf(float(sp.ndtri(float(p))))
    return mp.findroot(lambda x: mp.log(_normal(x)) - mp.log(p), start) if p != 0.5 else mp.mpf(0)


def _owens(h, a):
    ends = [0, a / 4, a / 2, a]
    inner = mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), ends)
    return inner / (2 * mp.pi)


def test_error_functions() -> None:
    faddeeva = by_mpmath(lambda z: mp.mpc(mp.exp(-z * z) * mp.erfc(-1j * z)))
    x, y = grid((-7.9, -3.0, -0.26, 1e-3, 0.5, 1.3, 6.3, 20.0), (-2.0, 1e-4, 0.4, 6.1, 6.2, 30.0))
    plane = x + 1j * y
    scaled = by_mpmath(lambda x: mp.exp(x * x) * mp.erfc(x))
    dawson = by_mpmath(lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x))
    limits = [0.0, 0.0, 0.5, -0.5, NAN]
    check(
        [
            Row("erf", (_with(SIGNED, BORDERS),), sp.erf),
            Row("erfc", (_with(SIGNED[np.abs(SIGNED) < 9], BORDERS),), by_erfc, (10, 200)),
            Row("erfinv", (np.array([-1.0, -0.9, 0.0, 0.3, 0.99, 1.0, 1.5]),), sp.erfinv),
            Row("erfcx", (_with(SIZES, -SIZES[SIZES < 9], [1e3, 1e9, 1e30]),), by_erfcx(scaled)),
            Row("erfcx", (BORDERS,), lambda x: np.array([1.0, 1.0, 0.0, INF, NAN])),
            Row("dawsn", (_with(SIGNED, BORDERS),), _at(dawson, [0.0, -0.0, 0.0, -0.0, NAN])),
            Row("wofz", (plane[y > 0],), faddeeva, (10, 20)),
            Row("wofz", (plane[(y < 0) & (abs(x) < 4)],), faddeeva, (40, 60)),
            Row("wofz", (np.array([1e30 + 1j, 1e8 + 1e9j, -3e4 + 1e-3j]),), sp.wofz),
            Row("erfcx", (plane[x > 0],), by_mpmath(lambda z: scaled_complex(z)), (10, 20)),
            Row("fresnel", (_with(SIGNED, BORDERS),), _at(by_mpmath(mp.fresnels), limits), pick=0),
            Row("fresnel", (_with(SIGNED, BORDERS),), _at(by_mpmath(mp.fresnelc), limits), pick=1),
        ]
    )


def by_erfc(x):
    return np.where(
        np.isfinite(x), by_mpmath(mp.erfc)(np.where(np.isfinite(x), x, 0.0)), sp.erfc(x)
    )


def by_erfcx(exact):
    """mpmath where exp(x**2) can be computed, the limit 1 / (x sqrt(pi)) beyond."""
    return lambda x: np.where(x < 500, exact(np.minimum(x, 500)), sp.erfcx(x))


def scaled_complex(z):
    return mp.mpc(mp.exp(z * z) * mp.erfc(z))


def test_gamma_functions() -> None:
    poles = np.array([0.0, -0.0, -1.0, -7.0, INF, -INF, NAN])
    at_poles = [INF, -INF, NAN, NAN, INF, NAN, NAN]
    points = np.concatenate([np.linspace(-33.3, 34.7, 80), np.geomspace(1e-30, 1, 8)])
    large = grid((20.0, 100.0, 1e4, 1e6), (0.1, 1.0, 7.0, 40.0, 1e5))
    x, y = grid((-7.3, -0.5, 0.4, 3.3, 12.0), (-9.0, -0.7, 0.7, 3.0))
    plane = x + 1j * y
    check(
        [
            Row("gamma", (_with(points, poles),), _at(by_mpmath(mp.gamma), at_poles)),
            Row("gamma", (plane,), by_mpmath(lambda z: mp.mpc(mp.gamma(z))), (80, 120)),
            Row("gammasgn", (np.array([3.0, 0.5, -0.5, -1.5, INF]),), lambda x: sp.gammasgn(x)),
            Row("gammaln", (SIZES[abs(SIZES - 1.5) > 0.6],), sp.gammaln),
            Row("loggamma", (plane,), by_mpmath(lambda z: mp.mpc(mp.loggamma(z))), (40, 60)),
            Row("loggamma", (np.array([0.5, 7.0, -0.5, 0.0, INF]),), one_sided_loggamma),
            Row("beta", grid(SHAPES, SHAPES), by_mpmath(mp.beta), (20, 20)),
            Row("beta", grid((-1.5, -0.3), (0.4, 2.7)), by_mpmath(mp.beta), (20, 20)),
            Row("betaln", grid(SHAPES, SHAPES), log_beta, atol=8),
            Row("betaln", large, log_beta, atol=8),
            Row(
                "poch", grid((-3.5, 0.3, 1.0, 5.5, 20.0), (-2.5, -2.0, 0.0, 1.0, 3.0, 4.7)), rising
            ),
            Row("poch", grid((-3.0, 2.0), (0.0, 1.0, 2.0, 5.0)), rising),
            Row("poch", grid((200.0, 1e4), (0.5, 3.0)), rising, (40, 40)),
            Row("digamma", (SIZES[abs(SIZES - 1.46) > 0.1],), sp.digamma),
            Row("gammainc", grid((0.5, 3.0, 20.0), (0.1, 2.0, 15.0)), sp.gammainc, (20, 40)),
            Row("gammaincc", grid((0.5, 3.0, 20.0), (0.1, 2.0, 15.0)), sp.gammaincc, (20, 40)),
            Row("betainc", (np.array([0.5, 3.0]), np.array([2.0, 4.0]), np.array([0.1, 0.8])), cdf),
            Row("zeta", grid((1.5, 3.0, 12.0), (0.3, 1.0, 7.5)), by_mpmath(mp.zeta)),
            Row("polygamma", (np.array([1, 2, 5]), np.array([0.3, 2.0, 9.0])), derivative_of_psi),
        ]
    )


def one_sided_loggamma(x):
    return np.where(x > 0, sp.gammaln(x), NAN)


def log_beta(a, b):
    return by_mpmath(lambda a, b: mp.log(mp.beta(a, b)))(a, b)


def rising(z, m):
    return by_mpmath(mp.rf)(z, m)


def cdf(a, b, x):
    return sp.betainc(a, b, x)


def derivative_of_psi(n, x):
    return by_mpmath(lambda n, x: mp.psi(int(n), x))(n, x)


def test_exponential_integrals() -> None:
    near_root = np.linspace(0.3724, 0.3727, 4)
    orders, points = (0.0, 1.0, 2.0, 3.0, 10.0, 100.0), (1e-3, 0.5, 0.99, 1.01, 2.0, 10.0, 50.0)
    positive = SIZES[SIZES > 1e-3]
    check(
        [
            Row("exp1", (_with(SIZES, BORDERS),), _at(by_mpmath(mp.e1), [INF, INF, 0, NAN, NAN])),
            Row("expi", (_with(SIGNED, [12.1, 23.9, 24.1, 80.0]),), by_mpmath(mp.ei)),
            Row("expi", (near_root,), by_mpmath(mp.ei), (10, 10)),
            Row("expi", (BORDERS,), lambda x: np.array([-INF, -INF, INF, 0.0, NAN])),
            Row("expn", grid(orders, points), by_mpmath(mp.expint)),
            Row("expn", grid((-1.0, 2.5, NAN), (1.0,)), lambda n, x: np.full(3, NAN)),
            Row("expn", grid((0.0, 1.0, 2.0, 3.0), (0.0,)), lambda n, x: [INF, INF, 1.0, 0.5]),
            Row("expn", grid((0.0, 3.0), (INF, -1.0)), lambda n, x: [0.0, 0.0, NAN, NAN]),
            Row("sici", (SIGNED,), by_mpmath(mp.si), pick=0),
            Row("sici", (positive,), by_mpmath(mp.ci), atol=2, pick=1),
            Row("sici", (BORDERS,), lambda x: sp.sici(x)[0], pick=0),
            Row("sici", (BORDERS,), lambda x: sp.sici(x)[1], pick=1),
            Row(
                "spence", (np.geomspace(1e-6, 1e6, 40),), by_mpmath(lambda x: mp.polylog(2, 1 - x))
            ),
            Row("spence", (np.array([0.0, 1.0, -1.0, NAN]),), sp.spence),
        ]
    )


def test_statistical() -> None:
    x = np.linspace(-12.3, 9.1, 40)
    borders = np.array([INF, -INF, NAN])
    transforms = grid((0.01, 0.5, 0.99, 1.001, 3.0, 50.0), (-3.0, -1e-3, 0.0, 1e-6, 0.5, 2.0))
    rows = [
        Row("ndtr", (_with(x, borders),), _at(by_mpmath(_normal), [1.0, 0.0, NAN])),
        Row("log_ndtr", (_with(x, [-35.0, -1e3], borders),), _log_table),
        Row("ndtri", (PROBABILITIES,), by_mpmath(_quantile)),
        Row("ndtri", (_with(BESIDE, [0.0, 1.0]),), lambda p: np.array([NAN, NAN, NAN, -INF, INF])),
        Row(
            "owens_t",
            grid((0.0, 0.1, 1.0, 4.0, 7.0), (0.3, 1.0, 1.1, 10.0, -3.0)),
            _owens_t(),
            (10, 40),
        ),
        Row(
            "owens_t",
            (np.array([INF, 1.0, -1.0, NAN]), np.array([1.0, INF, -INF, 1.0])),
            sp.owens_t,
        ),
        Row("logit", (PROBABILITIES,), by_mpmath(lambda p: mp.log(p / (1 - p)))),
        Row("logit", (_with(BESIDE, [0.0, 1.0]),), sp.logit),
        Row("expit", (_with(SIGNED, borders),), sp.expit),
        Row("boxcox", transforms, by_mpmath(lambda x, k: (x**k - 1) / k if k else mp.log(x))),
        Row("boxcox", grid((0.0, -1.0, INF), (-2.0, 0.0, 2.0)), sp.boxcox),
        Row("boxcox1p", grid((-0.9, 1e-8, 3.0), (-2.0, 0.0, 2.0)), sp.boxcox1p),
    ]
    check(rows)


def _owens_t():
    return by_mpmath(_owens)


def _log_table(x):
    finite = np.where(np.isfinite(x), x, 0.0)
    return np.where(np.isfinite(x), by_mpmath(_log_normal)(finite), sp.log_ndtr(x))


def test_information() -> None:
    values = (0.0, 0.01, 0.5, 1.1, 3.0, INF, -1.0, NAN)
    pairs = grid(values, values)
    check(
        [
            Row("entr", (np.array(values),), sp.entr),
            Row("rel_entr", pairs, sp.rel_entr),
            Row("kl_div", grid(values[:5], (0.1, 0.7, 2.0)), sp.kl_div, atol=4),
            Row("xlogy", pairs, sp.xlogy),
            Row("xlog1py", pairs, sp.xlog1py),
            Row("xlogy", (np.array([0j, 1j]), np.array([0j, 2 + 1j])), sp.xlogy),
        ]
    )


def _gauss(*args):
    # Without zeroprec, mpmath looks for digits of an exact 0 until it gives up.
    return mp.hyp2f1(*args, zeroprec=200)


def test_hypergeometric() -> None:
    # Exact in both widths: mpmath fails where a sum of rounded parameters is almost whole.
    a, c = (-2.5, -1.0, 0.25, 1.0, 2.5), (0.75, 1.5, 4.0)
    inner = (-30.0, -1.5, -0.125, 0.25, 0.625, 0.953125, 0.984375)
    confluent = (-80.0, -35.0, -5.0, -0.1, 0.2, 1.0, 20.0, 50.0)
    degenerate = (np.array([1.0, 1.0, 0.5, 2.0]), np.array([1.0, 2.0, 0.5, 1.5]))
    whole = (*degenerate, np.array([2.0, 5.0, 1.0, 1.5]), np.full(4, 0.97))
    at_one = (np.array([0.5, 1.0, 1.0]), np.array([1.0, 1.0, 2.0]), np.array([3.0, 2.5, 3.0]))
    check(
        [
            Row(
                "hyp1f1", grid(a, (0.5, 1.5, 4.0, 10.0), confluent), by_mpmath(mp.hyp1f1), (60, 200)
            ),
            Row(
                "hyp1f1",
                (np.array([1.0, 1.0, NAN]), np.array([-1.0, 2.0, 1.0]), np.array([1.0, INF, 1.0])),
                lambda a, b, x: [INF, INF, NAN],
            ),
            Row("hyp2f1", grid(a, (-1.75, 0.5, 3.0), c, inner), by_mpmath(_gauss), (100, 100)),
            Row("hyp2f1", whole, by_mpmath(_gauss), (20, 20)),
            Row("hyp2f1", (*at_one, np.ones(3)), lambda *args: [sp.hyp2f1(0.5, 1, 3, 1), 3.0, INF]),
            Row("hyp2f1", (*at_one, np.full(3, NAN)), lambda *args: np.full(3, NAN)),
        ]
    )


def test_combinatorial_and_bessel() -> None:
    n, k = grid((5.0, 10.0, 33.0, 60.0, 100.0), (0.0, 1.0, 2.0, 4.0, 20.0))
    few = np.where(k <= n, by_mpmath(mp.binomial)(n, k), 0.0)
    check(
        [
            Row("factorial", (np.arange(34.0),), by_mpmath(mp.factorial)),
            Row("factorial", (np.array([-1.0, -2.5, INF, NAN]),), lambda n: [0.0, 0.0, INF, NAN]),
            Row("comb", (n, k), lambda n, k: few),
            Row("comb", grid((5.5, 9.3), (2.5, 4.1)), by_mpmath(mp.binomial), (20, 30)),
            Row("comb", grid((60.0, 100.0), (30.0, 31.0)), sp.comb, (80, 60)),
            Row("comb", grid((-2.0, 2.0), (-1.0, 5.0)), lambda n, k: np.zeros(4)),
            Row("i0", (_with(SIGNED, BORDERS),), _at(sp.i0, [1.0, 1.0, INF, INF, NAN])),
            Row("i1", (_with(SIGNED, BORDERS),), _at(sp.i1, [0.0, -0.0, INF, -INF, NAN]), (10, 15)),
            Row("i0e", (SIGNED,), sp.i0e),
            Row("i1e", (SIGNED,), sp.i1e),
        ]
    )
