"""Arithmetic, comparisons and conversions: defined corner cases, types, messages and jaxprs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as xnp
from tests.harness import run_compiled, run_reference
from xpr import lax
from xpr.core.aval import ShapedArray
from xpr.core.config import override
from xpr.core.jaxpr_trace import trace_to_jaxpr

_F32 = np.dtype(np.float32)


def _both(function: Callable[..., Any], *operands: Any, runtime: str) -> list[Any]:
    """The compiled and the reference result of one function."""
    arrays = [np.asarray(v) for v in operands]
    with override("enable_x64", True):
        cases = [(function, arrays)]
        return [run_compiled(cases, runtime)[0][0], run_reference(cases)[0][0]]


# ---- integers


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_signed_division_at_its_corners(dtype: str, runtime: str) -> None:
    least = np.iinfo(dtype).min
    x = np.array([7, -7, 7, -7, 5, -5, 0, least, least, least], dtype)
    y = np.array([2, 2, -2, -2, 0, 0, 0, -1, 1, 0], dtype)
    for found in _both(lax.div, x, y, runtime=runtime):
        assert found.tolist() == [3, -3, -3, 3, -1, -1, -1, least, least, -1]
    for found in _both(lax.rem, x, y, runtime=runtime):
        assert found.tolist() == [1, -1, 1, -1, 5, -5, 0, 0, 0, least]


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
def test_unsigned_division_by_zero_sets_all_bits(dtype: str, runtime: str) -> None:
    greatest = np.iinfo(dtype).max
    x, y = np.array([7, greatest, 0], dtype), np.array([0, 2, 0], dtype)
    for found in _both(lax.div, x, y, runtime=runtime):
        assert found.tolist() == [greatest, greatest // 2, greatest]
    for found in _both(lax.rem, x, y, runtime=runtime):
        assert found.tolist() == [7, 1, 0]


def test_shifts_beyond_the_width(runtime: str) -> None:
    x = np.array([-8, -8, -8, 8, 8], np.int32)
    y = np.array([32, -1, 31, 100, 3], np.int32)
    for found in _both(lax.shift_left, x, y, runtime=runtime):
        assert found.tolist() == [0, 0, 0, 0, 64]
    for found in _both(lax.shift_right_arithmetic, x, y, runtime=runtime):
        assert found.tolist() == [-1, -1, -1, 0, 1]
    for found in _both(lax.shift_right_logical, x, y, runtime=runtime):
        assert found.tolist() == [0, 0, 1, 0, 1]


def test_extreme_products_of_64_bit_integers(runtime: str) -> None:
    values = [0, 1, -1, 2**63 - 1, -(2**63), 2**32, -(2**32) - 1, 0x123456789ABCDEF]
    x, y = (v.ravel() for v in np.meshgrid(np.array(values), np.array(values)))
    for found in _both(lax.mulhi, x, y, runtime=runtime):
        assert found.tolist() == [
            (a * b) >> 64 for a, b in zip(x.tolist(), y.tolist(), strict=True)
        ]
    ux, uy = x.view(np.uint64), y.view(np.uint64)
    for found in _both(lax.mulhi, ux, uy, runtime=runtime):
        rows = zip(ux.tolist(), uy.tolist(), strict=True)
        assert found.tolist() == [(a * b) >> 64 for a, b in rows]


# ---- floats


def test_extremes_propagate_nan(runtime: str) -> None:
    x, y = np.array([math.nan, 1.0, 2.0], np.float32), np.array([1.0, math.nan, 3.0], np.float32)
    for found in _both(lax.max, x, y, runtime=runtime):
        np.testing.assert_array_equal(found, [math.nan, math.nan, 3.0])
    for found in _both(lax.min, x, y, runtime=runtime):
        np.testing.assert_array_equal(found, [math.nan, math.nan, 2.0])


def test_clamp_prefers_its_upper_bound(runtime: str) -> None:
    x = np.array([-1.0, 2.5, 9.0, math.nan], np.float32)
    for found in _both(lambda v: lax.clamp(np.float32(3), v, np.float32(2)), x, runtime=runtime):
        np.testing.assert_array_equal(found, [2.0, 2.0, 2.0, math.nan])


def test_round_takes_halves_away_or_to_even(runtime: str) -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, -0.3, 8388609.0, math.inf], np.float32)
    for found in _both(lax.round, x, runtime=runtime):
        assert found.tolist() == [1, 2, 3, -1, -3, 0, -0.0, 8388609, math.inf]
        assert np.signbit(found[6])
    even = lax.RoundingMethod.TO_NEAREST_EVEN
    for found in _both(lambda v: lax.round(v, even), x, runtime=runtime):
        assert found.tolist() == [0, 2, 2, 0, -2, 0, 0, 8388609, math.inf]


def test_remainders_are_exact_for_quotients_of_any_size(runtime: str) -> None:
    x = np.array([1e300, 5.5, -5.5, 1e16, 3.0, math.inf, 2.0, 1.0])
    y = np.array([3.0, 2.0, 2.0, 7.0, math.inf, 2.0, 0.0, math.nan])
    wanted = [math.fmod(1e300, 3.0), 1.5, -1.5, 4.0, 3.0, math.nan, math.nan, math.nan]
    for found in _both(lax.rem, x, y, runtime=runtime):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_remainders_by_powers_of_two(dtype: str, runtime: str) -> None:
    """Those that stand in the program are taken without the steps that others need."""
    r, info = np.random.default_rng(0), np.finfo(dtype)
    ends = [0.0, -0.0, math.inf, -math.inf, math.nan, info.max, info.min, info.tiny, -info.tiny]
    ends += [1.0, -1.0, 0.5, 3.5, -3.5, 1 - info.epsneg, info.epsneg - 1, 4096.0, -8192.0]
    sizes = np.where(r.random(4000) < 0.5, 1.0, -1.0) * 2.0 ** r.uniform(-12, 15, 4000)
    x = np.concatenate([ends, sizes, sizes * (1 if dtype == "float16" else 2.0**40)]).astype(dtype)
    x = x[(x == 0) | ~(abs(x) < info.tiny)]
    unsigned = f"u{np.dtype(dtype).itemsize}"
    for y in (1.0, -4.0, 2.0**10, 2.0**15, 0.5, 3.0):
        with np.errstate(all="ignore"):
            wanted = np.fmod(x, np.array(y, dtype))
        for found in _both(lambda v, y=y: lax.rem(v, xnp.full_like(v, y)), x, runtime=runtime):
            np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
            known = ~np.isnan(wanted)
            np.testing.assert_array_equal(found[known].view(unsigned), wanted[known].view(unsigned))


def test_neighbours_of_zero_and_of_the_greatest_number(runtime: str) -> None:
    least, most = np.float32(1e-45), np.finfo(np.float32).max
    x = np.array([0.0, 0.0, -0.0, most, math.inf, 1.0, -least], np.float32)
    y = np.array([1.0, -1.0, 1.0, math.inf, 0.0, 1.0, 1.0], np.float32)
    wanted = np.array([least, -least, least, math.inf, most, 1.0, 0.0], np.float32)
    for found in _both(lax.nextafter, x, y, runtime=runtime):
        np.testing.assert_array_equal(found, wanted)


# ---- selections


def test_select_n_takes_numbers_out_of_range_to_the_nearest_case(runtime: str) -> None:
    which = np.array([-1, 0, 1, 2, 7], np.int32)
    cases = [np.full(5, float(i), np.float32) for i in range(3)]
    for found in _both(lax.select_n, which, *cases, runtime=runtime):
        assert found.tolist() == [0, 0, 1, 2, 2]


def test_select_takes_the_true_value_first() -> None:
    pred = np.array([True, False])
    assert lax.select(pred, np.array([1, 2]), np.array([3, 4])).tolist() == [1, 4]


# ---- conversions


def test_float_to_integer_saturates(runtime: str) -> None:
    x = np.array([-1.9, 300.0, 1e30, -1e30, math.nan, math.inf, -math.inf, 2147483583.0])
    wanted = {
        "uint8": [0, 255, 255, 0, 0, 255, 0, 255],
        "int8": [-1, 127, 127, -128, 0, 127, -128, 127],
        "int32": [-1, 300, 2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31), 2147483583],
        "uint32": [0, 300, 2**32 - 1, 0, 0, 2**32 - 1, 0, 2147483583],
        "int64": [-1, 300, 2**63 - 1, -(2**63), 0, 2**63 - 1, -(2**63), 2147483583],
        "uint64": [0, 300, 2**64 - 1, 0, 0, 2**64 - 1, 0, 2147483583],
    }
    for dtype, values in wanted.items():
        for found in _both(
            lambda v, d=dtype: lax.convert_element_type(v, np.dtype(d)), x, runtime=runtime
        ):
            assert found.tolist() == values, dtype


def test_integers_are_cut_to_the_bits_that_fit(runtime: str) -> None:
    x = np.array([300, -1, 2**31 - 1, -(2**31)], np.int32)
    for found in _both(lambda v: lax.convert_element_type(v, np.int8), x, runtime=runtime):
        assert found.tolist() == [44, -1, -1, 0]
    for found in _both(lambda v: lax.convert_element_type(v, np.uint16), x, runtime=runtime):
        assert found.tolist() == [300, 65535, 65535, 0]


def test_what_is_not_zero_is_true(runtime: str) -> None:
    x = np.array([0.0, -0.0, 0.1, math.nan, math.inf], np.float32)
    for found in _both(lambda v: lax.convert_element_type(v, bool), x, runtime=runtime):
        assert found.tolist() == [False, False, True, True, True]


@pytest.mark.parametrize(
    "name", ["e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"]
)
def test_every_float32_pattern_class_rounds_to_8_bits(name: str, runtime: str) -> None:
    """Random bit patterns: all exponents, infinities and NaNs of all kinds."""
    dtype = np.dtype(getattr(ml_dtypes, f"float8_{name}"))
    bits = np.random.default_rng(1).integers(0, 2**32, 20_000, np.uint32)
    x = bits.view(np.float32)
    ((found,),) = run_compiled([(lambda v: lax.convert_element_type(v, dtype), (x,))], runtime)
    with np.errstate(all="ignore"):
        wanted = x.astype(dtype)
    a, b = found.astype(np.float32), wanted.astype(np.float32)
    np.testing.assert_array_equal(a, b)
    known = ~np.isnan(a)
    np.testing.assert_array_equal(np.signbit(a[known]), np.signbit(b[known]))


def test_a_conversion_that_changes_nothing_is_dropped() -> None:
    x = xpr.numpy.ones(3, np.float32)
    assert lax.convert_element_type(x, np.float32) is x
    jaxpr = trace_to_jaxpr(
        lambda v: [lax.convert_element_type(v, np.float32)], [ShapedArray((3,), _F32)]
    )
    assert jaxpr.eqns == []


def test_a_conversion_makes_a_weak_type_strong() -> None:
    weak = ShapedArray((), _F32, weak_type=True)
    jaxpr = trace_to_jaxpr(lambda v: [lax.convert_element_type(v, np.float32)], [weak])
    assert len(jaxpr.eqns) == 1
    assert not jaxpr.out_avals[0].weak_type


def test_conversions_warn_of_what_they_lose() -> None:
    z = np.array([1 + 2j], np.complex64)
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        assert lax.convert_element_type(z, np.float32).tolist() == [1.0]
    with pytest.warns(UserWarning, match="dtype int64 .* truncated to dtype int32"):
        assert lax.convert_element_type(np.ones(2, np.float32), np.int64).dtype == np.int32


def test_python_integers_convert_to_types_they_fit() -> None:
    assert lax.convert_element_type(2**31, np.uint32).tolist() == 2**31
    assert lax.convert_element_type(-1, np.uint32).tolist() == 2**32 - 1
    with pytest.raises(OverflowError, match="too large to convert to uint32"):
        lax.convert_element_type(2**70, np.uint32)


def test_conversion_needs_a_dtype() -> None:
    with pytest.raises(ValueError, match="dtype must be specified"):
        lax.convert_element_type(1.0, None)
    with pytest.raises(TypeError, match="foo"):
        lax.convert_element_type(1.0, "foo")


def test_bitcasts_move_the_last_axis(runtime: str) -> None:
    x = np.array([[1.0, -2.0]], np.float32)
    for found in _both(lambda v: lax.bitcast_convert_type(v, np.uint16), x, runtime=runtime):
        assert found.tolist() == [[[0, 0x3F80], [0, 0xC000]]]
    halves = np.array([[[0, 0x3F80], [0, 0xC000]]], np.uint16)
    for found in _both(lambda v: lax.bitcast_convert_type(v, np.float32), halves, runtime=runtime):
        assert found.tolist() == x.tolist()
    empty = np.zeros((3, 0), np.float32)
    for found in _both(lambda v: lax.bitcast_convert_type(v, np.int8), empty, runtime=runtime):
        assert found.shape == (3, 0, 4)


# ---- messages


@pytest.mark.parametrize(
    ("function", "operands", "message"),
    [
        (lax.add, (np.ones(2, bool), np.ones(2, bool)), "add does not accept dtype bool"),
        (
            lax.add,
            (np.ones(2, np.float32), np.ones(2, np.int32)),
            "same dtypes, got float32, int32",
        ),
        (lax.add, (np.ones((2, 3)), np.ones(3)), "same number of dimensions"),
        (lax.mul, (np.ones((2, 3)), np.ones((2, 4))), "Axis 1 has sizes 3 and 4"),
        (lax.abs, (np.ones(2, np.uint8),), "abs does not accept dtype uint8"),
        (lax.exp, (np.ones(2, np.int32),), "exp does not accept dtype int32"),
        (lax.floor, (np.ones(2, np.complex64),), "floor does not accept dtype complex64"),
        (lax.rem, (np.ones(2, np.complex64),) * 2, "rem does not accept dtype complex64"),
        (lax.lt, (np.ones(2, np.complex64),) * 2, "lt does not accept dtype complex64"),
        (lax.conj, (np.ones(2, np.int32),), "conj does not accept dtype int32"),
        (lax.real, (np.ones(2, np.float32),), "real does not accept dtype float32"),
        (lax.complex, (np.ones(2, np.float16),) * 2, "complex does not accept dtype float16"),
        (lax.pow, (np.ones(2, np.int32), np.ones(2, np.int32)), "pow does not accept dtype int32"),
        (lax.pow, (np.ones(2, np.complex64), np.ones(2, np.float32)), "complex64 and float32"),
        (lax.bitwise_and, (np.ones(2, np.float32),) * 2, "and does not accept dtype float32"),
        (lax.shift_left, (np.ones(2, bool),) * 2, "shift_left does not accept dtype bool"),
        (lax.select_n, (np.ones(2, np.float32),) * 3, "must be boolean or integer type"),
        (lax.select_n, (np.ones(2, bool), *[np.ones(2)] * 3), "cannot have > 2 cases"),
        (
            lax.select_n,
            (np.ones(3, bool), *[np.ones(2)] * 2),
            "must be scalar or have the same shape",
        ),
        (
            lax.select_n,
            (np.ones(2, bool), np.ones(2), np.ones(3)),
            "cases must have the same shapes",
        ),
        (
            lax.clamp,
            (np.ones(2), np.ones(3), np.ones(3)),
            r"got min.shape=\(2,\), operand.shape=\(3,\)",
        ),
        (lax.clamp, (np.ones(3), np.ones(3), np.ones(3, np.int32)), "same dtypes"),
    ],
)
def test_type_errors_name_what_was_found(
    function: Callable[..., Any], operands: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        function(*operands)


def test_value_errors_name_the_value() -> None:
    x = np.ones(3, np.float32)
    with pytest.raises(ValueError, match="exponent_bits must be positive; got 0"):
        lax.reduce_precision(x, 0, 10)
    with pytest.raises(ValueError, match="mantissa_bits must be non-negative; got -1"):
        lax.reduce_precision(x, 5, -1)
    unknown: Any = 5
    with pytest.raises(ValueError, match="5 is not a valid RoundingMethod"):
        lax.round(x, unknown)
    with pytest.raises(ValueError, match="at least one case"):
        lax.select_n(np.ones(2, bool))
    with pytest.raises(ValueError, match="but 3 \\* 8 != 32"):
        lax.bitcast_convert_type(np.ones((3, 3), np.int8), np.int32)
    with pytest.raises(TypeError, match="does not support bool or complex"):
        lax.bitcast_convert_type(np.ones(3, bool), np.int8)
    with pytest.raises(TypeError, match="Integers cannot be raised to negative powers"):
        lax.integer_pow(np.ones(3, np.int32), -1)
    with pytest.raises(NotImplementedError, match="Accuracy 3 not supported"):
        lax.exp(x, accuracy=3)


# ---- jaxprs and types


def _printed(function: Callable[..., Any], *avals: ShapedArray) -> str:
    return str(trace_to_jaxpr(lambda *xs: [function(*xs)], list(avals)))


def test_equations_print_as_in_jax() -> None:
    x = ShapedArray((3,), _F32)
    assert "b:f32[3] = exp a" in _printed(lax.exp, x)
    assert "b:f32[3] = add a 1.0:f32[]" in _printed(lambda v: lax.add(v, 1.0), x)
    assert "integer_pow[y=-1] a" in _printed(lax.reciprocal, x)
    assert "round[rounding_method=0] a" in _printed(lax.round, x)
    assert "conj[input_dtype=float32] a" in _printed(lax.conj, x)
    assert "exp[accuracy=AccuracyMode.HIGHEST] a" in _printed(
        lambda v: lax.exp(v, accuracy=lax.AccuracyMode.HIGHEST), x
    )
    assert "convert_element_type[new_dtype=int8 weak_type=False] a" in _printed(
        lambda v: lax.convert_element_type(v, np.int8), x
    )


@pytest.mark.parametrize(
    ("function", "weak"),
    [
        (lambda w, s: lax.add(w, w), True),
        (lambda w, s: lax.add(w, s), False),
        (lambda w, s: lax.sin(w), True),
        (lambda w, s: lax.pow(w, w), True),
        (lambda w, s: lax.eq(w, w), True),
        (lambda w, s: lax.eq(w, s), False),
        (lambda w, s: lax.complex(w, w), True),
        (lambda w, s: lax.complex(w, s), False),
        (lambda w, s: lax.bitcast_convert_type(w, np.int32), False),
        (lambda w, s: lax.clamp(w, w, w), True),
        (lambda w, s: lax.select(lax.eq(w, s), w, w), True),
        (lambda w, s: lax.select(lax.eq(w, s), w, s), False),
    ],
)
def test_results_are_weak_when_all_operands_are(function: Callable[..., Any], weak: bool) -> None:
    avals = [ShapedArray((), _F32, weak_type=True), ShapedArray((), _F32)]
    closed = trace_to_jaxpr(lambda w, s: [function(w, s)], avals)
    assert closed.out_avals[0].weak_type is weak


def test_products_with_an_out_dtype() -> None:
    x = np.array([200, 100], np.uint8)
    found = lax.mul(x, x, out_dtype=np.int32)
    assert found.dtype == np.int32
    assert found.tolist() == [40000, 10000]


def test_barrier_keeps_the_structure_of_its_operand() -> None:
    x = np.arange(3, dtype=np.int32)
    found = lax.optimization_barrier({"a": x, "b": (x, 2.0)})
    assert set(found) == {"a", "b"}
    assert found["a"].tolist() == [0, 1, 2]
    assert found["b"][1].tolist() == 2.0
    assert lax.optimization_barrier(()) == ()


def test_operands_are_never_modified(runtime: str) -> None:
    x = np.array([1.5, -2.5, 0.0], np.float32)
    kept = x.copy()
    functions = (lax.neg, lax.abs, lax.sign, lax.round, lax.sin, lax.erf, lax.square)
    run_compiled([(f, (x,)) for f in functions], runtime)
    run_reference([(f, (x,)) for f in functions])
    np.testing.assert_array_equal(x, kept)


def test_a_long_formula_is_one_loop() -> None:
    """IREE splits chains of whole-array operations; a map of scalars it keeps together."""
    from xpr.lowering import rules  # noqa: PLC0415  the compile layer is loaded when needed
    from xpr.lowering.module import lower_jaxpr_to_module  # noqa: PLC0415
    from xpr.lowering.targets import get_target  # noqa: PLC0415

    rules.load_all()
    closed = trace_to_jaxpr(lambda x: [lax.sin(x)], [ShapedArray((8,), _F32)])
    text = lower_jaxpr_to_module(closed, get_target("cpu"), name="sine").text
    assert text.count("stablehlo.map") == 1
    whole = [line for line in text.splitlines() if "= stablehlo" in line and "tensor<8x" in line]
    assert whole == []
