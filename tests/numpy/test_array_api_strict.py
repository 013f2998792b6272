"""Calls of the array API standard: xpr.numpy against array-api-strict, with 64 bits.

array-api-strict is the standard's reference, made of NumPy. Each call is compared in dtype, shape
and values; `docs/array_api.md` has the departures in words.
"""

from __future__ import annotations

import itertools
import operator
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp

strict = pytest.importorskip("array_api_strict", reason="array-api-strict is an extra of tests")

SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
FLOATS, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
INTEGERS = (*SIGNED, *UNSIGNED)
REAL, NUMERIC = (*INTEGERS, *FLOATS), (*INTEGERS, *FLOATS, *COMPLEX)
INEXACT, EVERY = (*FLOATS, *COMPLEX), ("bool", *NUMERIC)
TOLERANCE = {"float32": 2e-6, "complex64": 1e-5, "float64": 1e-13, "complex128": 1e-12}

# Names of elementwise functions by the dtypes that the standard gives them.
UNARY: dict[tuple[str, ...], str] = {
    NUMERIC: "abs negative positive round sign square isfinite isinf isnan",
    INEXACT: "acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 reciprocal "
    "sin sinh sqrt tan tanh",
    REAL: "ceil floor trunc",
    COMPLEX: "conj imag real",
    FLOATS: "signbit",
    ("bool", *INTEGERS): "bitwise_invert",
    ("bool",): "logical_not",
}
BINARY: dict[tuple[str, ...], str] = {
    NUMERIC: "add multiply subtract",
    INEXACT: "divide",
    FLOATS: "atan2 copysign hypot logaddexp nextafter pow",
    ("bool", *INTEGERS): "bitwise_and bitwise_or bitwise_xor",
    EVERY: "equal not_equal",
    REAL: "floor_divide greater greater_equal less less_equal maximum minimum remainder",
    ("bool",): "logical_and logical_or logical_xor",
}
# Where xpr, like JAX, gives another answer, and why that is let be.
DEPARTURES = {
    ("expm1", "c"): "array-api-strict is wrong at inf + 0j, where the standard says inf + 0j",
    ("reciprocal", "c"): "1 / 0 has an infinite part, as in C99; the standard is silent",
    ("divide", "c"): "infinite operands are divided as in C99; the standard is silent",
    ("sign", "c"): "x / |x| has one NaN where an infinite x has",
    ("sign", "f"): "-0.0 keeps its sign",
    ("floor_divide", "f"): "the standard lets NaN and infinity stand for inf // x",
}


def values(dtype: str) -> np.ndarray:
    """Ordinary and special values of a dtype."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        few = [0, 1, 2, 7, info.max, info.max - 1]
        return np.array(few + ([-1, -7, info.min] if info.min else []), dtype)
    if dtype in COMPLEX:
        parts = (0.0, -0.0, 1, -2.5, np.inf, -np.inf, np.nan)
        return np.array([complex(a, b) for a in parts for b in parts], dtype)
    ordinary = [0.5, -0.5, 1, -1, 1.5, 2.5, -2.5, 7.3, 100.25, -1e-3]
    return np.array([0.0, -0.0, np.inf, -np.inf, np.nan, *ordinary], dtype)


def same(found: Any, wanted: Any, signs: bool = True) -> None:
    """Equal in dtype and shape, in values up to rounding, and in the signs of zeros."""
    if isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            same(a, b, signs)
        return
    a, b = np.asarray(found), np.asarray(wanted)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    tolerance = TOLERANCE.get(a.dtype.name, 0)
    if a.dtype.kind == "c":
        finite = np.isfinite(b)
        np.testing.assert_allclose(a[finite], b[finite], tolerance, tolerance)
        for part in ("real", "imag"):
            np.testing.assert_allclose(
                getattr(a, part)[~finite], getattr(b, part)[~finite], tolerance
            )
        return
    np.testing.assert_allclose(a, b, tolerance, tolerance * 1e-3)
    if signs and a.dtype.kind == "f":
        number = ~np.isnan(b)
        np.testing.assert_array_equal(np.signbit(a[number]), np.signbit(b[number]))


def rows(table: dict[tuple[str, ...], str]) -> list[tuple[str, str]]:
    return [(name, d) for kinds, names in table.items() for name in names.split() for d in kinds]


@pytest.fixture(autouse=True)
def _standard() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"), xpr.enable_x64(True):
        warnings.simplefilter("ignore")
        strict.set_array_api_strict_flags(api_version="2025.12")
        yield


def departs(name: str, dtype: str) -> bool:
    return (name, np.dtype(dtype).kind) in DEPARTURES


@pytest.mark.parametrize("table", [UNARY, BINARY], ids=["unary", "binary"])
def test_elementwise_functions(table: dict[tuple[str, ...], str]) -> None:
    wrong = []
    for name, dtype in rows(table):
        x = values(dtype)
        operands = [x] if table is UNARY else list(map(np.ravel, np.meshgrid(x, x)))
        if name in ("floor_divide", "remainder") and dtype in INTEGERS:
            # A division by 0, and one whose quotient is too large, have no result.
            defined = (operands[1] != 0) & ~((operands[0] == x.min()) & (operands[1] + 1 == 0))
            operands = [operand[defined] for operand in operands]
        found = getattr(jnp, name)(*map(jnp.asarray, operands))
        wanted = getattr(strict, name)(*map(strict.asarray, operands))
        try:
            same(found, wanted)
        except AssertionError as error:
            if not departs(name, dtype):
                wrong.append((name, dtype, str(error)))
    assert wrong == []


def test_integer_powers_and_shifts() -> None:
    for dtype in INTEGERS:
        x, y = np.array([0, 1, 2, 3, 3], dtype), np.array([0, 5, 3, 0, 4], dtype)
        for name in ("pow", "bitwise_left_shift", "bitwise_right_shift"):
            found = getattr(jnp, name)(jnp.asarray(x), jnp.asarray(y))
            same(found, getattr(strict, name)(strict.asarray(x), strict.asarray(y)))


def test_operators_with_numbers() -> None:
    names = "add sub mul truediv floordiv mod pow and_ or_ xor eq ne lt le gt ge".split()
    compared = 0
    for dtype, name in itertools.product(EVERY, names):
        x = values(dtype)[1:2] if dtype == "bool" else np.array([1, 2, 5], dtype)
        kinds = {"b": (True,), "i": (2,), "u": (2,), "f": (2, 2.5), "c": (2, 2.5, 1j)}
        for number in kinds[x.dtype.kind]:
            for flip in (False, True):
                f = getattr(operator, name)
                try:
                    a = strict.asarray(x)
                    wanted = f(number, a) if flip else f(a, number)
                except TypeError:
                    continue  # the standard has no such operation
                b = jnp.asarray(x)
                same(f(number, b) if flip else f(b, number), wanted)
                compared += 1
    assert compared > 300


# ---- everything else: a name, the dtypes, and the arguments for an array of each shape

SHAPES = ((), (4,), (0,), (2, 3), (2, 0, 3), (3, 1, 2))


def calls(x: np.ndarray) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Calls that the standard allows for `x`: those that array-api-strict refuses are left out."""
    kept = ({}, {"keepdims": True}, {"axis": 0}, {"axis": -1, "keepdims": True})
    for name in "all any count_nonzero max min argmax argmin sum prod mean std var".split():
        yield from ((name, (x,), options) for options in kept)
    for name in ("max", "sum", "any", "mean", "flip"):
        yield name, (x,), {"axis": (0, 1)} if x.ndim > 1 else {}
    for name in ("std", "var"):
        yield name, (x,), {"correction": 0.5}
    for options in ({"axis": 0}, {"axis": -1, "include_initial": True}):
        yield "cumulative_sum", (x,), options
    for options in ({"axis": -1}, {"axis": -1, "descending": True}, {"axis": 0}):
        yield "sort", (x,), options
        yield "argsort", (x,), options
    for name in "nonzero unique_all unique_counts unique_inverse unique_values flip tril".split():
        yield name, (x,), {}
    for name in "matrix_transpose zeros_like ones_like unstack".split():
        yield name, (x,), {}
    yield "isin", (x, x.ravel()[:2]), {}
    yield "reshape", (x, (x.size, 1)), {"copy": True}
    yield "roll", (x, -2), {}
    yield "roll", (x, (1, 2)), {"axis": (0, -1)}
    yield "permute_dims", (x, tuple(range(x.ndim))[::-1]), {}
    yield "expand_dims", (x, -1), {}
    yield "expand_dims", (x, (0, -1)), {}
    yield "squeeze", (x, 1), {}
    yield "moveaxis", (x, 0, -1), {}
    yield "broadcast_to", (x, (2, *x.shape)), {}
    yield "broadcast_arrays", (x, np.zeros((2, *x.shape), x.dtype)), {}
    yield "tile", (x, (2, 1, 2)), {}
    yield "repeat", (x, 3), {"axis": 0}
    yield "take", (x, np.array([-1, 0, 1])), {"axis": -1}
    yield "take_along_axis", (x, np.zeros((*x.shape[:-1], 2), np.int64)), {"axis": -1}
    yield "triu", (x,), {"k": 1}
    yield "diff", (x,), {"axis": 0}
    yield "clip", (x, 1, 3), {}
    yield "where", (x == x, x, x[::-1] if x.ndim else x), {}
    yield "searchsorted", (np.sort(x.ravel()), x), {"side": "right"}
    yield "searchsorted", (x, x), {"sorter": np.argsort(x.ravel())}
    yield "vecdot", (x, x), {}
    yield "matmul", (x, np.swapaxes(x, -1, -2) if x.ndim > 1 else x), {}
    yield "tensordot", (x, x), {"axes": x.ndim}
    yield "full_like", (x, 1), {}
    yield "meshgrid", (x.ravel(), x.ravel()), {"indexing": "ij"}
    yield "result_type", (x, x), {}
    yield "concat", ([x, x],), {"axis": None}
    yield "stack", ([x, x],), {"axis": -1}


def converted(module: Any, argument: Any) -> Any:
    if isinstance(argument, (np.ndarray, np.generic)):
        return module.asarray(np.asarray(argument))
    if isinstance(argument, list):
        return [converted(module, a) for a in argument]
    return argument


def run(module: Any, name: str, arguments: Any, options: Any) -> Any:
    given = {key: converted(module, value) for key, value in options.items()}
    return getattr(module, name)(*(converted(module, a) for a in arguments), **given)


@pytest.mark.parametrize("dtype", EVERY)
def test_functions_of_arrays(dtype: str) -> None:
    rng = np.random.default_rng(2)
    compared, wrong = 0, []
    for shape in SHAPES:
        x = rng.integers(0, 6, shape)
        x = (x > 2) if dtype == "bool" else (x + (1j if dtype in COMPLEX else 0)).astype(dtype)
        for name, arguments, options in calls(x):
            if not x.ndim and "axis" in options:
                continue  # NumPy has an axis 0 where there is none
            try:
                wanted = run(strict, name, arguments, options)
            except (TypeError, ValueError, IndexError):
                continue
            compared += 1
            try:
                found = run(jnp, name, arguments, options)
                if name == "result_type":
                    assert found == str(wanted).rsplit(".", 1)[-1]
                elif name == "searchsorted":
                    # JAX's dtype for places in arrays of fewer than 2**31 elements.
                    assert found.dtype == np.int32
                    same(found.astype(np.int64), wanted)
                else:
                    same(found, wanted)
            except Exception as error:
                wrong.append((name, x.shape, options, repr(error)[:200]))
    assert wrong == []
    assert compared > 150
