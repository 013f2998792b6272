"""The dtypes and weak types of results are JAX's, for all kinds of operands.

`golden.json` has what JAX 0.10.2 gives. Only types are compared, so hardly a program is compiled.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

import xpr
import xpr.numpy
from tests.weak_types import operands

# The same with 64-bit types only.
_WIDENED = "JAX computes with constants of 64 bits on the way; the type is that of the operands"
WIDE_DIFFERENT: dict[str, str] = {
    "special.sph_harm_y(n, n, C(x), C(x), n_max=3)": _WIDENED,
    "special.owens_t(x, y)": _WIDENED,
    "scipy.signal.istft(M(x))": _WIDENED,
    "lax.dot(x, y)": "unsigned and signed integers have a common type, as in jnp.dot",
    "lax.dot(C(x), C(y))": "unsigned and signed integers have a common type, as in jnp.dot",
    "scipy.linalg.pascal(2)": "JAX's are float32 numbers, which larger ones do not fit",
    "scipy.linalg.toeplitz(C(x), v)": "a weak type is left aside before the vectors are joined",
}


def _golden(name: str) -> dict[str, list[str]]:
    rows = json.loads(Path(__file__).with_name(name).read_text())
    return {expression: row.split(" ") for row, same in rows.items() for expression in same}


GOLDEN, GROUPS = _golden("golden.json"), operands.groups()
WIDE_GOLDEN, WIDE_GROUPS = _golden("golden_x64.json"), operands.wide_groups()
# Groups of calls that compute without compiling much.
AT_ONCE = ("creation", "lax", "methods", "nn", "numpy", "operators", "two arrays")
WIDE_AT_ONCE = ("creation", "numpy", "operators")
# What is different, and why.
_SORTED = "sorting complex numbers keeps the weak type that sorting other numbers keeps"
_DROPPED = "JAX drops the weak type of an operand with axes on the way, for no rule that it states"
DIFFERENT = {
    "jnp.logspace(0, 1, 4, base=x)": "a complex base is not cut to its real part",
    "jnp.interp(v, v, v, left=x)": "the result has the dtype of the samples",
    "jnp.unwrap(C(x), period=6)": "booleans count as floats",
    "jnp.ravel_multi_index((x, x), (2, 2), mode='clip')": "always of the default integers",
    "jnp.unique(x, size=2)": _SORTED,
    "jnp.setdiff1d(C(x), v, size=2)": _SORTED,
    "jnp.union1d(C(x), C(y), size=2)": _SORTED,
    "scipy.stats.mode(C(x))": _SORTED,
    **{f"jnp.unique{end}(x)": _SORTED for end in ("", "_all", "_counts", "_inverse", "_values")},
    "lax.random_gamma_grad(x, y)": _DROPPED,
    "top.value_and_grad(lambda a: jnp.sum(a ** 2))(x)": _DROPPED,
    "scipy.stats.multivariate_normal.logpdf(x, 0, 1)": "weakly typed only for an x without axes",
    "jnp.argpartition(C(x), 1)": "indices are never weakly typed here",
    "lax.linalg.lu(S(x))": "pivots are never weakly typed here",
    "lax.linalg.qdwh(S(x))": "the number of steps is never weakly typed here",
    "scipy.linalg.lu_factor(S(x))": "pivots are never weakly typed here",
    "scipy.linalg.lu(S(x))": "the permutation matrix has the dtype of the factors, as in SciPy",
}


def compare(group: str, found: list[list[str]], known_values: bool, *, wide: bool = False) -> None:
    """Of calls that only one of the libraries takes nothing is said: their tests are elsewhere."""
    wrong = []
    groups, golden = (WIDE_GROUPS, WIDE_GOLDEN) if wide else (GROUPS, GOLDEN)
    different = DIFFERENT | WIDE_DIFFERENT if wide else DIFFERENT
    for (expression, places), row in zip(groups[group], found, strict=True):
        for kinds, have, want in zip(places, row, golden[expression], strict=True):
            if want.startswith("@") and not known_values:
                continue
            want = want.removeprefix("@").replace("-", "")
            if "!" in have + want or have == want or expression in different:
                continue
            wrong.append(f"{expression} with {', '.join(kinds)}: {have}, expected {want}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("group", AT_ONCE)
def test_at_once(group: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = operands.at_once(xpr, GROUPS[group])
    compare(group, found, known_values=True)


@pytest.mark.parametrize("group", GROUPS)
def test_traced(group: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = operands.traced(xpr, GROUPS[group])
    compare(group, found, known_values=False)


@pytest.mark.parametrize("group", WIDE_AT_ONCE)
def test_at_once_with_64_bits(group: str) -> None:
    with warnings.catch_warnings(), xpr.enable_x64():
        warnings.simplefilter("ignore")
        found = operands.at_once(xpr, WIDE_GROUPS[group])
    compare(group, found, known_values=True, wide=True)


@pytest.mark.parametrize("group", WIDE_GROUPS)
def test_traced_with_64_bits(group: str) -> None:
    with warnings.catch_warnings(), xpr.enable_x64():
        warnings.simplefilter("ignore")
        found = operands.traced(xpr, WIDE_GROUPS[group])
    compare(group, found, known_values=False, wide=True)


def test_golden_data_are_of_these_calls() -> None:
    assert {e for cases in GROUPS.values() for e, _ in cases} == set(GOLDEN)
    assert set(DIFFERENT) <= set(GOLDEN)
    assert {e for cases in WIDE_GROUPS.values() for e, _ in cases} == set(WIDE_GOLDEN)
    assert set(WIDE_DIFFERENT) <= set(WIDE_GOLDEN)
