"""Every narrowing conversion rounds, whatever made its operand and whatever reads its result.

A compiler that computes a narrow type in a wider one likes to remove a rounding whose result is
widened again. Programs here make numbers that need all of float32's digits, by elementwise
operations, products, sums, gathers, loops, branches and updates, and narrow and widen them. The
numbers are exact sums of powers of two, so that the results are those of the reference rules to the
last bit in whatever order they are added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import skip_unless_usable
from tests.harness import Case, assert_same, run_compiled, run_reference
from tests.lowering.iree_util import MENDED
from xpr import lax
from xpr.core.config import override
from xpr.lowering import passes

FLOATS = ("bfloat16", "float16")
FLOATS_8 = ("float8_e4m3fn", "float8_e5m2", "float8_e3m4", "float8_e4m3b11fnuz")
INTEGERS = ("int8", "uint8", "int16", "int4")
WIDE = ("float32", "float16", "bfloat16")

N = 48
RNG = np.random.default_rng(12)


def exact(*shape: int, bits: int = 10) -> np.ndarray[Any, Any]:
    """Float32 numbers of a few bits: products of two, and sums of these, are exact."""
    return (RNG.integers(-(1 << bits), 1 << bits, shape) / 64).astype(np.float32)


X, Y = exact(N), exact(N)
A, B = exact(N, 8, bits=9), exact(8, bits=9)
PLACES = RNG.integers(0, N, N)

# Each makes an array of N float32 numbers of up to 24 bits.
PRODUCERS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "multiply": lambda x, y, a, b: x * y,
    "multiply and add": lambda x, y, a, b: x * y + x,
    "product": lambda x, y, a, b: a @ b,
    "sum": lambda x, y, a, b: (a * a).sum(1),
    "maximum": lambda x, y, a, b: (a * b).max(1),
    "cumulative": lambda x, y, a, b: jnp.cumsum(x * 0.125),
    "gather": lambda x, y, a, b: (x * y)[PLACES],
    "select": lambda x, y, a, b: jnp.where(x > y, x * y, y * y),
    "update": lambda x, y, a, b: (x * y).at[PLACES[:9]].set(y[:9] * y[1:10]),
    "sum of updates": lambda x, y, a, b: (x * y).at[PLACES[:9]].add(y[:9]),
    "fori": lambda x, y, a, b: lax.fori_loop(0, 3, lambda i, c: c + x * y, x),
    "scan": lambda x, y, a, b: lax.scan(lambda c, v: (c + v, c * v), x[0], y)[1],
    "cond": lambda x, y, a, b: lax.cond(x[0] > 0, lambda: x * y, lambda: y * y),
    "concatenate": lambda x, y, a, b: jnp.concatenate([x[:20] * y[:20], x[20:]]),
    "sort": lambda x, y, a, b: jnp.sort(x * y),
    "transpose": lambda x, y, a, b: (x * y).reshape(6, 8).T.reshape(-1),
    "convolution": lambda x, y, a, b: jnp.convolve(x, y[:3], "same"),
    "window": lambda x, y, a, b: lax.reduce_window(x, 0.0, lax.add, (3,), (1,), "SAME"),
}


def narrow_and_wide(types: tuple[str, ...]) -> Callable[[Any], list[Any]]:
    def function(x: Any) -> list[Any]:
        # Floats of 8 bits and small integers get numbers in their range.
        return [
            (x if narrow in FLOATS or narrow == "int16" else x / 64).astype(narrow).astype(wide)
            for narrow in types
            for wide in WIDE
        ]

    return function


def cases_of(names: tuple[str, ...], types: tuple[str, ...]) -> list[Case]:
    convert = narrow_and_wide(types)
    return [(lambda *args, f=PRODUCERS[name]: convert(f(*args)), (X, Y, A, B)) for name in names]


def compare(cases: list[Case], runtime: str) -> None:
    for i, (ours, theirs) in enumerate(
        zip(run_compiled(cases, runtime), run_reference(cases), strict=True)
    ):
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(a, b, what=f"case {i}, result {k}")


NAMES = tuple(PRODUCERS)


@pytest.mark.parametrize("runtime", ["cpu", "vulkan"])
@pytest.mark.parametrize("part", range(3))
def test_what_is_narrowed_is_rounded(runtime: str, part: int) -> None:
    skip_unless_usable(runtime)
    types = (*FLOATS, *INTEGERS[:3]) if runtime == "cpu" else ("bfloat16", "uint8")
    compare(cases_of(NAMES[part::3], types), runtime)


@pytest.mark.parametrize("runtime", ["cpu", "vulkan"])
def test_small_types_are_rounded(runtime: str) -> None:
    skip_unless_usable(runtime)
    compare(cases_of(("multiply", "sum", "gather", "select"), (*FLOATS_8, "int4")), runtime)


CHAINS = (
    ("float32", "bfloat16", "float32", "float16", "float32"),
    ("float32", "float16", "bfloat16", "float16", "float32"),
    ("float32", "bfloat16", "float8_e5m2", "bfloat16", "float32"),
    ("float32", "float16", "float8_e4m3fn", "float16", "bfloat16", "float32"),
    ("float64", "float32", "float64", "bfloat16", "float64"),
    ("float64", "float32", "float64", "float16", "float64"),
    ("float64", "bfloat16", "float64"),
    ("float64", "float16", "float64"),
    ("int32", "bfloat16", "int32", "float16", "int32"),
    ("int64", "float32", "int64", "bfloat16", "int64"),
    ("float32", "int8", "float32", "bfloat16", "int32", "uint8", "float32"),
    ("float64", "int16", "float32", "int8", "bfloat16", "float64"),
)


def test_chains_of_conversions() -> None:
    """Each step also computes, so that no two conversions are neighbours in every other chain."""

    def run(chain: tuple[str, ...], x: Any, step: Any) -> list[Any]:
        plain, mixed = x, x
        for d in chain[1:]:
            plain = plain.astype(d)
            mixed = mixed.astype(d)
            if d in ("float32", "float64", "int32"):
                mixed = mixed * step.astype(d)
        return [plain, mixed]

    step = np.array(3, np.float32)
    large = RNG.integers(-(1 << 20), 1 << 20, N) / 4096
    cases: list[Case] = []
    for chain in CHAINS:
        narrow = any(d in chain for d in ("int8", "uint8", "float8_e5m2", "float8_e4m3fn"))
        x = large / 16 if narrow else large
        x = x * 4096 if chain[0].startswith("int") else x
        cases.append((lambda v, s, c=chain: run(c, v, s), (x.astype(chain[0]), step)))
    with override("enable_x64", True):
        compare(cases, "cpu")


@pytest.mark.parametrize("runtime", ["cpu", "vulkan"])
def test_arithmetic_of_bfloat16_rounds_each_result(runtime: str) -> None:
    """In one dispatch, where the compiler would keep float32's digits."""
    skip_unless_usable(runtime)
    x, y, z = (RNG.normal(size=N).astype(ml_dtypes.bfloat16) for _ in range(3))

    def steps(x: Any, y: Any) -> Any:
        return lax.fori_loop(0, 4, lambda i, c: (c * x + y) - c, y)

    cases: list[Case] = [
        (lambda x, y, z: [(x * y).astype(d) for d in ("float32", "float16")], (x, y, z)),
        (lambda x, y, z: [(x + y) - x, x * y + z, (x - y) * z - x * y], (x, y, z)),
        (lambda x, y, z: [x / y + z, (x / y).astype("float32")], (x, y, z)),
        (lambda x, y, z: [jnp.maximum(x * y, z) + z, -(x * y) + abs(x * z)], (x, y, z)),
        (lambda x, y, z: [x.at[3].add(y[2] * z[2]) * y, (x * y)[::-1] - z], (x, y, z)),
        (lambda x, y, z: [jnp.where(x > y, x * y, z) - x, (x * y > z).astype("int32")], (x, y, z)),
        (steps, (x, y)),
        (lambda x, y: lax.scan(lambda c, v: (c * v + v, c - v), x[0], y), (x, y)),
    ]
    compare(cases if runtime == "cpu" else cases[:5], runtime)


def test_without_the_pass_intermediate_results_are_not_rounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = (RNG.normal(size=N).astype(ml_dtypes.bfloat16) for _ in range(2))
    monkeypatch.delitem(passes.PASSES, "bfloat16_arithmetic")
    case: Case = (lambda x, y: (x + y) - x, (x, y))
    assert np.any(run_compiled([case])[0][0] != run_reference([case])[0][0]), MENDED


def test_rounding_is_to_even_and_keeps_special_values() -> None:
    """All bfloat16 numbers, what lies in the middle of two, and just beside it."""
    bits = np.arange(1 << 16, dtype=np.uint32) << 16
    offsets = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)

    def function(bits: Any, offsets: Any) -> Any:
        x = lax.bitcast_convert_type(bits[:, None] + offsets, jnp.float32)
        return x.astype("bfloat16").astype("float32")

    found = np.asarray(xpr.jit(function)(bits, offsets))
    x = (bits[:, None] + offsets).view(np.float32)
    with np.errstate(all="ignore"):
        right = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(found, right)
    zero = right == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(right[zero]))


@pytest.mark.parametrize("narrow", ["bfloat16", "float16"])
def test_functions_round_to_their_type(narrow: str) -> None:
    """What these give when widened is a number of the narrow type, near the exact one."""
    x = np.linspace(0.1, 3, N).astype(narrow)
    functions = (jnp.exp, jnp.tanh, jnp.sin, jnp.sqrt, lax.rsqrt, jnp.log, jnp.cbrt, jnp.square)

    def program(x: Any) -> list[Any]:
        return [f(x * x).astype("float32") * 1 for f in functions] + [
            jax_like(x).astype("float32") for jax_like in (xpr.nn.gelu, xpr.nn.softmax, jnp.mean)
        ]

    unit = float(jnp.finfo(narrow).eps)
    for ours, theirs in zip(xpr.jit(program)(x), program(jnp.asarray(x)), strict=True):
        found = np.asarray(ours)
        np.testing.assert_array_equal(found, found.astype(narrow).astype(np.float32))
        np.testing.assert_allclose(found, np.asarray(theirs), rtol=2 * unit)


REDUCED = ((8, 7), (5, 10), (4, 3), (5, 2), (8, 23), (3, 0), (2, 4))


def test_reduce_precision_in_programs() -> None:
    """Of what a program computes, and before what widens or narrows it again."""

    def program(x: Any, y: Any) -> list[Any]:
        return [
            lax.reduce_precision(x * y, e, m).astype(d)
            for e, m in REDUCED
            for d in ("float32", "bfloat16", "float16")
        ] + [
            lax.reduce_precision((x * y).astype(d), e, m).astype("float32")
            for e, m in REDUCED
            for d in ("bfloat16", "float16")
        ]

    compare([(program, (X, Y))], "cpu")
    numbers = X.astype(np.float64) * Y
    for (e, m), found in zip(
        REDUCED[:4], np.asarray(run_compiled([(program, (X, Y))])[0][: 3 * 4 : 3]), strict=True
    ):
        np.testing.assert_array_equal(found, rounded(numbers, e, m))


def rounded(x: np.ndarray[Any, Any], exponent: int, mantissa: int) -> np.ndarray[Any, Any]:
    """Numbers of so many bits, by arithmetic in float64; those below the normal ones become 0."""
    bias = (1 << (exponent - 1)) - 1
    out = []
    for v in x.tolist():
        m, e = math.frexp(abs(v))
        r = math.ldexp(round(math.ldexp(m, mantissa + 1)), e - mantissa - 1) if v else 0.0
        r = 0.0 if r < math.ldexp(1, 1 - bias) else r
        r = math.inf if r >= math.ldexp(1, bias + 1) else r
        out.append(math.copysign(r, v))
    return np.array(out, np.float32)
