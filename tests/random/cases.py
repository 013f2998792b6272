"""What is compared with JAX: one draw a line, as a function of the two libraries' common names.

`tests/random/make_golden.py` runs the cases with JAX and keeps the results in `data/`; the tests
run them with xpr.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """`draw(random, key)` by the module `jax.random` or `xpr.random`.

    `rtol` is how far results may lie apart, in multiples of their dtype's spacing; 0 asks for equal
    bits. Where the formula cancels, `atol` multiples of it are allowed at any size.
    """

    name: str
    draw: Callable[[Any, Any], Any]
    rtol: float = 0
    atol: float = 0
    x64: bool = False


SEEDS = (0, 42, 2**31 - 1)
_P = np.array([0.1, 0.5, 0.0, 0.4], np.float32)
_TABLE = np.arange(12, dtype=np.int32).reshape(3, 4)
_LOGITS = np.linspace(-1, 2, 15, dtype=np.float32).reshape(3, 5)
_POSITIVE = np.array([0.3, 1.0, 2.5, 40.0], np.float32)

# Draws of a float dtype, with no more arguments: rtol and atol. They allow for JAX's log1p, off by
# 75 units in float64 near -0.4, and its erf_inv, off by 25 in the tails.
_PLAIN: dict[str, tuple[float, float]] = {
    "uniform": (0, 0),
    "normal": (32, 8),
    "exponential": (128, 1),
    "laplace": (64, 8),
    "logistic": (64, 64),
    "cauchy": (64, 8),
    "gumbel": (16, 16),
    "maxwell": (16, 0),
}


def _plain_cases() -> list[Case]:
    found = []
    for name, (rtol, atol) in _PLAIN.items():
        for dtype in ("float32", "float16", "bfloat16", "float64"):

            def draw(r: Any, k: Any, name: str = name, dtype: str = dtype) -> Any:
                return getattr(r, name)(k, (2, 7), dtype)

            found.append(Case(f"{name}-{dtype}", draw, rtol, atol, dtype == "float64"))
    return found


def _key_cases() -> list[Case]:
    return [
        Case("split", lambda r, k: r.key_data(r.split(k))),
        Case("split-5", lambda r, k: r.key_data(r.split(k, 5))),
        Case("split-2-3", lambda r, k: r.key_data(r.split(k, (2, 3)))),
        Case("split-0", lambda r, k: r.key_data(r.split(k, 0))),
        Case("fold_in-0", lambda r, k: r.key_data(r.fold_in(k, 0))),
        Case("fold_in-7", lambda r, k: r.key_data(r.fold_in(k, 7))),
        Case("fold_in-max", lambda r, k: r.key_data(r.fold_in(k, 2**32 - 1))),
        Case("fold_in-negative", lambda r, k: r.key_data(r.fold_in(k, np.int32(-3)))),
        Case("key-negative", lambda r, k: r.key_data(r.key(-1))),
        Case("key-negative-x64", lambda r, k: r.key_data(r.key(-1)), x64=True),
        Case("key-large-x64", lambda r, k: r.key_data(r.key(2**40 + 5)), x64=True),
        Case("key-large", lambda r, k: r.key_data(r.key(2**40 + 5))),
        Case("key-int8", lambda r, k: r.key_data(r.key(np.int8(-3)))),
        Case("key-int8-x64", lambda r, k: r.key_data(r.key(np.int8(-3))), x64=True),
        Case("key-uint32", lambda r, k: r.key_data(r.key(np.uint32(2**32 - 2)))),
        Case("key-int64-x64", lambda r, k: r.key_data(r.key(np.int64(-(2**40)))), x64=True),
    ]


def _integer_cases() -> list[Case]:
    found = [
        Case(f"bits-uint{w}", lambda r, k, w=w: r.bits(k, (3, 5), f"uint{w}"), x64=w == 64)
        for w in (8, 16, 32, 64)
    ]
    found += [
        Case("bits-default", lambda r, k: r.bits(k)),
        Case("bits-default-x64", lambda r, k: r.bits(k), x64=True),
        Case("bits-empty", lambda r, k: r.bits(k, (0, 3))),
    ]
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        x64 = dtype.endswith("64")
        found += [
            Case(
                f"randint-{dtype}", lambda r, k, d=dtype: r.randint(k, (3, 4), 3, 100, d), x64=x64
            ),
            Case(
                f"randint-{dtype}-beyond",
                lambda r, k, d=dtype: r.randint(k, (11,), -(2**31), 2**31 - 1, d),
                x64=x64,
            ),
        ]
    found += [
        Case("randint-negative", lambda r, k: r.randint(k, (9,), -70000, 90000)),
        Case("randint-crossed", lambda r, k: r.randint(k, (3,), 5, 3)),
        Case("randint-floats", lambda r, k: r.randint(k, (5,), 0.7, 9.9)),
        Case("randint-int8-whole", lambda r, k: r.randint(k, (40,), -128, 128, "int8")),
        Case(
            "randint-arrays",
            lambda r, k: r.randint(k, (2, 3), np.array([0, 5, 10]), np.array([[3], [20]])),
        ),
        Case(
            "randint-uint32-whole",
            lambda r, k: r.randint(k, (7,), 0, np.uint32(2**32 - 1), "uint32"),
        ),
        Case("randint-int64-whole", lambda r, k: r.randint(k, (7,), -(2**63), 2**63 - 1), x64=True),
        Case("bernoulli", lambda r, k: r.bernoulli(k, shape=(20,))),
        Case("bernoulli-p", lambda r, k: r.bernoulli(k, _P)),
        Case("bernoulli-shape", lambda r, k: r.bernoulli(k, _P, (3, 4))),
        Case("bernoulli-high", lambda r, k: r.bernoulli(k, 0.3, (20,), mode="high")),
        Case("bernoulli-x64", lambda r, k: r.bernoulli(k, 0.3, (20,)), x64=True),
        Case("bernoulli-nan", lambda r, k: r.bernoulli(k, np.float32([np.nan, 2, -1]))),
        Case("rademacher", lambda r, k: r.rademacher(k, (3, 4))),
        Case("rademacher-float", lambda r, k: r.rademacher(k, (9,), "float32")),
        Case("rademacher-x64", lambda r, k: r.rademacher(k, (9,)), x64=True),
        Case("geometric", lambda r, k: r.geometric(k, np.float32([0.9, 0.5, 0.03]), (4, 3))),
        Case("geometric-int8", lambda r, k: r.geometric(k, 0.3, (9,), "int8")),
    ]
    return found


def _selection_cases() -> list[Case]:
    floats = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    return [
        Case("permutation-int", lambda r, k: r.permutation(k, 17)),
        Case("permutation-two-rounds", lambda r, k: r.permutation(k, 2000)),
        Case("permutation-array", lambda r, k: r.permutation(k, _TABLE)),
        Case("permutation-axis", lambda r, k: r.permutation(k, _TABLE, 1)),
        Case("permutation-negative", lambda r, k: r.permutation(k, floats, -1)),
        Case("permutation-independent", lambda r, k: r.permutation(k, _TABLE, 1, independent=True)),
        Case("permutation-0", lambda r, k: r.permutation(k, 0)),
        Case("choice", lambda r, k: r.choice(k, 7, (3, 4))),
        Case("choice-array", lambda r, k: r.choice(k, _TABLE, (5,), axis=1)),
        Case("choice-subset", lambda r, k: r.choice(k, 7, (2, 3), replace=False)),
        Case("choice-rows", lambda r, k: r.choice(k, _TABLE, (2,), replace=False)),
        Case("choice-p", lambda r, k: r.choice(k, 4, (30,), p=_P)),
        Case("choice-p-array", lambda r, k: r.choice(k, _TABLE, (2, 2), p=_P, axis=1)),
        Case("choice-p-subset", lambda r, k: r.choice(k, 4, (3,), replace=False, p=_P)),
        Case("choice-one", lambda r, k: r.choice(k, np.float32([3, 4, 5]))),
        Case("categorical", lambda r, k: r.categorical(k, _LOGITS)),
        Case("categorical-axis", lambda r, k: r.categorical(k, _LOGITS, 0)),
        Case("categorical-shape", lambda r, k: r.categorical(k, _LOGITS, shape=(4, 3))),
        Case("categorical-stretched", lambda r, k: r.categorical(k, _LOGITS[:1], shape=(4, 3))),
        Case("categorical-high", lambda r, k: r.categorical(k, _LOGITS, mode="high")),
        Case(
            "categorical-subset",
            lambda r, k: r.categorical(k, _LOGITS, shape=(4, 3), replace=False),
        ),
        Case(
            "categorical-subset-axis",
            lambda r, k: r.categorical(k, _LOGITS, 0, shape=(2, 5), replace=False),
        ),
    ]


def _float_cases() -> list[Case]:
    bounds = np.float32([[-3.0], [0.0]]), np.float32([1.0, 2.0, 100.0])
    return [
        Case("uniform-scalar", lambda r, k: r.uniform(k)),
        Case("uniform-default-x64", lambda r, k: r.uniform(k, (3,)), x64=True),
        Case("uniform-bounds", lambda r, k: r.uniform(k, (9,), minval=-2.0, maxval=7), 2, 4),
        Case("uniform-arrays", lambda r, k: r.uniform(k, (2, 3), "float32", *bounds), 2, 16),
        Case("uniform-empty", lambda r, k: r.uniform(k, (0,))),
        Case("normal-complex64", lambda r, k: r.normal(k, (5,), "complex64"), 8, 8),
        Case("normal-complex128", lambda r, k: r.normal(k, (5,), "complex128"), 8, 8, True),
        Case("normal-large", lambda r, k: r.normal(k, (1000,)), 32, 8),
        Case("gumbel-high", lambda r, k: r.gumbel(k, (9,), mode="high"), 16, 16),
        Case("gumbel-highest", lambda r, k: r.gumbel(k, (50,), mode="highest"), 16, 16),
        Case("truncated_normal", lambda r, k: r.truncated_normal(k, -1.0, 2.0, (9,)), 16, 16),
        Case("truncated_normal-tail", lambda r, k: r.truncated_normal(k, *bounds), 64, 64),
        Case("lognormal", lambda r, k: r.lognormal(k, 0.5, (9,)), 16),
        Case("lognormal-sigmas", lambda r, k: r.lognormal(k, _POSITIVE[:3], (2, 3)), 64),
        Case(
            "double_sided_maxwell",
            lambda r, k: r.double_sided_maxwell(k, 1.0, _POSITIVE, (2,)),
            16,
            64,
        ),
        Case("rayleigh", lambda r, k: r.rayleigh(k, _POSITIVE, (2, 4)), 16),
        Case("wald", lambda r, k: r.wald(k, _POSITIVE[:3], (5, 3)), 512, 512),
        Case("wald-x64", lambda r, k: r.wald(k, _POSITIVE[:3], (5, 3), "float64"), 512, 512, True),
        Case("pareto", lambda r, k: r.pareto(k, _POSITIVE, (2, 4)), 64),
        Case("weibull_min", lambda r, k: r.weibull_min(k, 2.0, 1.5, (9,)), 16),
        Case(
            "triangular",
            lambda r, k: r.triangular(k, 0.0, np.float32([0.5, 1.0, 2.5]), 3.0, (4, 3)),
            16,
            16,
        ),
    ]


def _loop_cases() -> list[Case]:
    """Samplers that reject: one wrong rounding could change a number altogether.

    Beta numbers are exponentials of logarithms down to -450, which multiply its rounding.
    """
    shapes = np.float32([1e-3, 0.3, 1.0, 2.5, 1e4])
    found = []
    for x64 in (False, True):
        dtype, end = ("float64", "-x64") if x64 else ("float32", "")
        found += [
            Case(f"gamma{end}", lambda r, k, d=dtype: r.gamma(k, shapes, (4, 5), d), 64, 0, x64),
            Case(f"gamma-scalar{end}", lambda r, k, d=dtype: r.gamma(k, 2.5, dtype=d), 64, 0, x64),
            Case(
                f"loggamma{end}",
                lambda r, k, d=dtype: r.loggamma(k, shapes, (4, 5), d),
                64,
                64,
                x64,
            ),
            Case(
                f"beta{end}", lambda r, k, d=dtype: r.beta(k, shapes, 0.7, (4, 5), d), 1024, 0, x64
            ),
            Case(
                f"dirichlet{end}",
                lambda r, k, d=dtype: r.dirichlet(k, shapes[1:4], (4,), d),
                256,
                0,
                x64,
            ),
            Case(
                f"chisquare{end}", lambda r, k, d=dtype: r.chisquare(k, 3.0, (9,), d), 256, 0, x64
            ),
            Case(f"f{end}", lambda r, k, d=dtype: r.f(k, 3.0, 5.0, (9,), d), 512, 0, x64),
            Case(f"t{end}", lambda r, k, d=dtype: r.t(k, shapes[2:], (4, 3), d), 256, 32, x64),
            Case(
                f"generalized_normal{end}",
                lambda r, k, d=dtype: r.generalized_normal(k, 3.0, (9,), d),
                256,
                0,
                x64,
            ),
            Case(f"ball{end}", lambda r, k, d=dtype: r.ball(k, 3, 1.5, (4,), d), 256, 0, x64),
            Case(
                f"binomial{end}",
                lambda r, k, d=dtype: r.binomial(k, 60, np.array([0.1, 0.4, 0.9], d), (6, 3), d),
                x64=x64,
            ),
        ]
    rates = np.float32([0.0, 0.1, 3.0, 9.9, 10.1, 250.0])
    odd = np.float32([np.nan, np.inf, -1.0, 1e5]), np.float32([0.3, 0.5, 0.2, 0.01])
    return [
        *found,
        Case(
            "gamma-float16", lambda r, k: r.gamma(k, np.float16([0.5, 3.0]), (3, 2), "float16"), 16
        ),
        Case("gamma-empty", lambda r, k: r.gamma(k, 2.0, (0, 3))),
        Case("ball-2", lambda r, k: r.ball(k, 2, shape=(5,)), 256),
        Case("poisson", lambda r, k: r.poisson(k, rates, (5, 6))),
        Case("poisson-nan", lambda r, k: r.poisson(k, np.float32(np.nan))),
        Case("poisson-int16", lambda r, k: r.poisson(k, 50.0, (7,), "int16")),
        Case("poisson-x64", lambda r, k: r.poisson(k, rates, (5, 6)), x64=True),
        Case("binomial-odd", lambda r, k: r.binomial(k, *odd)),
        Case("binomial-p", lambda r, k: r.binomial(k, 5.0, np.float32([0, 1, -0.1, 1.1, np.nan]))),
        Case("multinomial", lambda r, k: r.multinomial(k, 40, _P, dtype="float32")),
        Case(
            "multinomial-batch",
            lambda r, k: r.multinomial(k, np.float32([3, 100]), _P, shape=(2, 4), dtype="int32"),
        ),
    ]


def _matrix_cases() -> list[Case]:
    """Samplers that factor matrices, whose rounding is that of LAPACK.

    Vectors by "eigh" and "svd" have signs that depend on its version: they are tested otherwise.
    """
    cov = np.array([[2, 0.5, 0.1], [0.5, 1, 0.2], [0.1, 0.2, 1.5]], np.float32)
    covs = np.stack([cov, 4 * np.eye(3, dtype=np.float32)])
    mean = np.array([1, -2, 3], np.float32)
    return [
        Case(
            "multivariate_normal",
            lambda r, k: r.multivariate_normal(k, mean, cov, (4,)),
            atol=256,
        ),
        Case(
            "multivariate_normal-batch",
            lambda r, k: r.multivariate_normal(k, mean, covs, (5, 2)),
            atol=256,
        ),
        Case(
            "multivariate_normal-x64",
            lambda r, k: r.multivariate_normal(k, mean.astype("f8"), cov.astype("f8")),
            atol=512,
            x64=True,
        ),
        Case(
            "multivariate_normal-indefinite",
            lambda r, k: r.multivariate_normal(k, mean, -cov, (2,)),
        ),
        Case("orthogonal", lambda r, k: r.orthogonal(k, 4), atol=256),
        Case("orthogonal-wide", lambda r, k: r.orthogonal(k, 2, (3,), m=5), atol=256),
        Case("orthogonal-tall", lambda r, k: r.orthogonal(k, 5, (2, 1), m=2), atol=256),
        Case("orthogonal-x64", lambda r, k: r.orthogonal(k, 3, dtype="float64"), 0, 512, True),
        Case("orthogonal-complex64", lambda r, k: r.orthogonal(k, 3, (), "complex64"), atol=256),
        Case("orthogonal-empty", lambda r, k: r.orthogonal(k, 0, (2,))),
    ]


CASES: list[Case] = [
    *_key_cases(),
    *_integer_cases(),
    *_selection_cases(),
    *_plain_cases(),
    *_float_cases(),
    *_loop_cases(),
    *_matrix_cases(),
]

# Samplers with loops are compiled in any case.
LOOPS = frozenset(case.name for case in _loop_cases())


ORIGINAL_SEED = 42


def _original_cases() -> list[Case]:
    """Sizes at which the older layout has words left over, or halves of another length."""
    shapes: list[tuple[int, ...]] = [(), (0,), (1,), (2,), (3,), (5,), (7, 3), (2, 0, 3), (4, 4)]
    found = [
        Case(
            f"original bits {dtype} {shape}",
            lambda r, k, dtype=dtype, shape=shape: r.bits(k, shape, dtype),
            x64=dtype == "uint64",
        )
        for dtype in ("uint8", "uint16", "uint32", "uint64")
        for shape in shapes
    ]
    found += [
        Case(
            f"original split {impl} {num}",
            lambda r, _, impl=impl, num=num: r.key_data(
                r.split(r.key(ORIGINAL_SEED, impl=impl), num)
            ),
        )
        for impl in ("threefry2x32", "rbg", "unsafe_rbg")
        for num in (1, 3, (2, 3))
    ]
    return found


ORIGINAL_CASES: list[Case] = [*_original_cases(), *[c for c in CASES if c.name not in LOOPS][::3]]
"""Cases for the setting `threefry_partitionable=False`."""
