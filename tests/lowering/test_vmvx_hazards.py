"""What comes out wrong in IREE's interpreter: its compiler takes floats for exact numbers.

A test of a hazard fails when IREE has mended it: then the form in
`lowering/passes/exact_numbers.py` that avoids it can go. What these forms give is tested at the
end, and by the operation table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as xnp
from tests.harness import Case, assert_same, run_compiled, run_reference
from tests.lowering.vulkan_util import Array, compile_on, run_on
from xpr import lax
from xpr.core.errors import CompileError
from xpr.lowering import passes
from xpr.lowering.ir.types import tensor_type
from xpr.runtimes import registry

MENDED = "this is mended: the guard can go"
_NAN, _INF = float("nan"), float("inf")

# What a value is compared with, or made of, in one dispatch each; all of three elements.
_F = "tensor<3xf32>"
_B = "tensor<3xi1>"


def _result(body: str, args: list[Array], like: Array) -> list[object]:
    return run_on(registry.devices("vmvx")[0], body, args, like).tolist()


def _floats(*values: float) -> Array:
    return np.array(values, np.float32)


def _compare(direction: str, a: str = "%a0", b: str = "%a1") -> str:
    return f"stablehlo.compare {direction}, {a}, {b}, FLOAT : ({_F}, {_F}) -> {_B}"


@pytest.mark.parametrize(
    ("body", "right"),
    [
        (f"%r = {_compare('EQ', b='%a0')}", [False, True, True]),
        (f"%r = {_compare('NE', b='%a0')}", [True, False, False]),
        (f"%r = {_compare('LE', b='%a0')}", [False, True, True]),
        (f"%r = {_compare('GE')}", [False, False, True]),
        (f"%p = {_compare('GT')}\n%r = stablehlo.not %p : {_B}", [True, True, False]),
        (f"%p = {_compare('NE')}\n%r = stablehlo.not %p : {_B}", [False, False, False]),
    ],
    ids=["x == x", "x != x", "x <= x", "x >= y", "not x > y", "not x != y"],
)
def test_comparisons_of_nan(body: str, right: list[bool]) -> None:
    args = [_floats(_NAN, 1, 2), _floats(1, 2, 1)]
    assert _result(f"{body}\n%r", args, np.zeros(3, bool)) != right, MENDED


@pytest.mark.parametrize(
    ("body", "right"),
    [
        ("%q = stablehlo.add %a0, %a1 : T\n%r = stablehlo.subtract %q, %a1 : T", [0, 2, -1e8]),
        ("%q = stablehlo.subtract %a0, %a1 : T\n%r = stablehlo.add %q, %a1 : T", [0, 2, -1e8]),
        ("%c = stablehlo.constant dense<0.0> : T\n%r = stablehlo.add %a2, %c : T", [0, 1, _INF]),
    ],
    ids=["(x + y) - y", "(x - y) + y", "x + 0"],
)
def test_sums_are_taken_for_exact(body: str, right: list[float]) -> None:
    args = [_floats(1, 2, 3), _floats(1e10, 1, -1e8), _floats(-0.0, 1, _INF)]
    found = _result(body.replace("T", _F) + "\n%r", args, args[0])
    assert list(map(str, found)) != list(map(str, map(float, right))), MENDED


@pytest.mark.parametrize(
    ("body", "right"),
    [
        ("%c = stablehlo.constant dense<0.0> : T\n%r = stablehlo.multiply %a0, %c : T", "nan"),
        ("%c = stablehlo.constant dense<0.0> : T\n%r = stablehlo.divide %c, %a1 : T", "nan"),
        ("%c = stablehlo.constant dense<-0.0> : T\n%r = stablehlo.divide %a0, %c : T", "-inf"),
        (
            "%c = stablehlo.constant dense<0x7F7FFFFF> : T\n"
            "%q = stablehlo.multiply %a2, %c : T\n%r = stablehlo.multiply %q, %c : T",
            "3.4028234663852886e+38",
        ),
    ],
    ids=["x * 0", "0 / x", "-0.0", "x * c * c"],
)
def test_constants_are_taken_together(body: str, right: str) -> None:
    largest = float(np.finfo(np.float32).max)
    args = [_floats(_INF, _NAN, 1), np.zeros(3, np.float32), _floats(1 / largest, 1, 1)]
    found = _result(body.replace("T", _F) + "\n%r", args, args[0])
    assert str(found[0]) != right, MENDED


def test_a_product_is_taken_for_one_that_does_not_overflow() -> None:
    x = np.array([1 << 30, 3, -(1 << 31)], np.int32)
    body = """
    %c = stablehlo.constant dense<4> : tensor<3xi32>
    %q = stablehlo.multiply %a0, %c : tensor<3xi32>
    %r = stablehlo.divide %q, %c : tensor<3xi32>
    %r
    """
    assert _result(body, [x], x) != [0, 3, 0], MENDED


def test_floats_are_rounded_to_integers() -> None:
    x = _floats(0.5, 1.5, -2.7)
    body = f"%r = stablehlo.convert %a0 : ({_F}) -> tensor<3xi32>\n%r"
    assert _result(body, [x], x.astype(np.int32)) != [0, 1, -2], MENDED


def test_bytes_as_float64() -> None:
    x = np.arange(3, dtype=np.int8)
    body = "%r = stablehlo.convert %a0 : (tensor<3xi8>) -> tensor<3xf64>\n%r"
    assert _result(body, [x], x.astype(np.float64)) != [0, 1, 2], MENDED


def test_rounding_loses_the_sign_of_zero() -> None:
    x = _floats(-0.5, 1, 2)
    found = _result(f"%r = stablehlo.round_nearest_even %a0 : {_F}\n%r", [x], x)
    assert str(found[0]) == "0.0", MENDED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *(("float64", d) for d in ("int32", "int64", "uint64", "float32")),
        *(("int32", "float64"), ("uint32", "float64"), ("float32", "float16")),
    ],
)
def test_conversions_that_do_not_compile(old: str, new: str) -> None:
    x, like = np.zeros(3, old), np.zeros(3, new)
    a, b = tensor_type(x.shape, x.dtype), tensor_type(like.shape, like.dtype)
    with pytest.raises(CompileError, match="failed to legalize operation"):
        compile_on(
            registry.devices("vmvx")[0],
            f"%r = stablehlo.convert %a0 : ({a}) -> {b}\n%r",
            [x],
            like,
        )


def test_bytes_are_shifted_with_what_is_above_them() -> None:
    x = np.array([255, 254, 128], np.uint8)
    body = """
    %c = stablehlo.constant dense<1> : tensor<3xui8>
    %r = stablehlo.shift_right_logical %a0, %c : tensor<3xui8>
    %r
    """
    assert _result(body, [x], x) != [127, 127, 64], MENDED


def test_bfloat16_becomes_zero() -> None:
    x = np.ones(3, xnp.bfloat16)
    assert _result("%r = stablehlo.add %a0, %a0 : tensor<3xbf16>\n%r", [x], x) != [2, 2, 2], MENDED


def test_bits_are_not_counted() -> None:
    x = np.arange(3, dtype=np.int32)
    with pytest.raises(CompileError, match=r"math\.ctpop"):
        compile_on(
            registry.devices("vmvx")[0], "%r = stablehlo.popcnt %a0 : tensor<3xi32>\n%r", [x], x
        )


def test_complex_numbers_are_not_stored() -> None:
    x = np.ones(3, np.complex64)
    body = "%r = stablehlo.add %a0, %a0 : tensor<3xcomplex<f32>>\n%r"
    with pytest.raises(CompileError, match="complex"):
        compile_on(registry.devices("vmvx")[0], body, [x], x)


# ---- what programs give


_X = _floats(_NAN, _INF, -_INF, -0.0, 0.0, 1.5, -2.5, 1e30, 1e-3, 7, -0.5, 3)
_Y = _floats(1, _INF, _NAN, 0.0, -0.0, 0.25, 1e8, 1e30, 5e7, -7, 0.5, 3)


def _minus(x: Any, y: Any) -> Any:
    return x - y


def _programs() -> list[Case]:
    """Each hazard also where the two operations are apart: in calls, branches and broadcasts."""
    i = np.array([1 << 30, -(1 << 31), 7, -7], np.int32)
    two = (_X, _Y)
    return [
        (lambda x, y: (x == x, x != x, x <= x, ~(x > y), ~(x >= y), ~(x != y)), two),
        (
            lambda x, y: (xnp.reshape(x, (3, 4)) == x.reshape(3, 4), xnp.isnan(x), ~xnp.isnan(x)),
            two,
        ),
        (lambda x, y: (xnp.where(~(x > y), x, y), xnp.where(x != y, x, y)), two),
        (lambda x, y: (_minus(x + y, y), (x - y) + y, (x + 1e8) - 1e8, (x + y) - x), two),
        (lambda x, y: (xpr.jit(_minus)(x + y, y), xpr.jit(xnp.add)(x, y) - y), two),
        (lambda x, y: (x.reshape(3, 4) + y.reshape(3, 4)).reshape(12) - y, two),
        (lambda x, y: xnp.sum((x + y)[3:] - y[3:]), two),
        (lambda x, y: (x * 0.0, 0.0 / y, x * -0.0, x + 0.0, x * (y * 0.0)), two),
        (lambda x, y: (x * 1e30 * 1e30 * 1e-30, 3e30 * (x * 1e-30)), two),
        (lambda x, y: (xnp.where(x > 0, -0.0, x), xnp.full(12, -0.0) / y), two),
        (
            lambda x, y: lax.reduce(x, np.float32(-0.0), lambda a, b: a + b * -0.0, (0,)),
            (_X[3:], _Y),
        ),
        (lambda i: ((i * 4) // 4, lax.div(i * 3, 3 * i // i), i * 2 % 3), (i,)),
        (lambda x, y: (x[3:].astype(np.int32), xnp.round(x), xnp.trunc(x)), two),
        (lambda x, y: (xnp.nanmax(x), xnp.max(x), xnp.argmax(x), xnp.nanargmin(y)), two),
        (lambda x, y: xnp.clip(x, y, 2.0), two),
        (
            lambda x, y: lax.cond(x[5] > 0, lambda a, b: (a + b) - b, lambda a, b: a, x, y),
            two,
        ),
        (
            lambda x, y: lax.fori_loop(0, 3, lambda n, c: (c[0] + c[1] - c[1], c[1] * 2.0), two),
            two,
        ),
        (lambda x, y: xpr.grad(lambda x: xnp.sum(xnp.exp(x - xnp.max(x))))(x[3:7]), two),
        (lambda x, y: xnp.maximum(x - x + xnp.inf, x) * 0.0, two),
        (lambda x, y: xpr.vmap(lambda a, b: (a + b) - b)(x, y), two),
    ]


def _narrow(dtype: str) -> Case:
    """What overflows, and then meets each operation that sees more than its own bits."""
    info = np.iinfo(dtype)
    values = [0, 1, 2, 5, 7, info.max, info.min, info.max // 2, info.max - 1]
    x, y = (a.ravel() for a in np.meshgrid(np.array(values, dtype), np.array(values, dtype)))

    def program(x: Any, y: Any) -> list[Any]:
        z = x - y * y
        least = y & 7
        return [
            *(z < x, z == y, z >= y, xnp.maximum(z, y), xnp.minimum(z, x), xnp.sign(z), abs(z)),
            *(lax.div(z, y | 1), lax.rem(z, y | 1), lax.div(z - 1, z), lax.clz(z)),
            *(lax.shift_right_arithmetic(z, least), lax.shift_right_logical(z, least)),
            *(lax.shift_left(x, y * y), lax.population_count(z), z.astype(xnp.float32)),
            *(z.astype(xnp.int32), lax.div(z, xnp.ones_like(y)) > x),
        ]

    return program, (x, y)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_narrow_integers_that_overflow(dtype: str) -> None:
    cases = [_narrow(dtype)]
    for i, (x, y) in enumerate(
        zip(run_compiled(cases, "vmvx")[0], run_reference(cases)[0], strict=True)
    ):
        assert_same(x, y, what=f"result {i}")


def _chosen_twice(x: Any, y: Any) -> list[Any]:
    more = x + 100
    once = xnp.where(x > y, more, y)
    return [xnp.where(x > y, more, once), xnp.where(x > y, once, y), more * 3, once * y]


def test_two_choices_by_one_condition() -> None:
    args = (_floats(1, 5, 2), _floats(3, 3, 2))
    cases: list[Case] = [(_chosen_twice, args)]
    found, wanted = run_compiled(cases, "vmvx")[0], run_reference(cases)[0]
    for x, y in zip(found, wanted, strict=True):
        assert_same(x, y)


def test_programs_with_them() -> None:
    found, wanted = run_compiled(_programs(), "vmvx"), run_reference(_programs())
    for at, (a, b) in enumerate(zip(found, wanted, strict=True)):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, rtol=1e-6, signed_zero=True, what=f"program {at} result {i}")


def test_without_the_pass_sums_are_taken_for_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(passes.PASSES, "exact_numbers")
    cases: list[Case] = [(lambda x, y: ((x + y) - y, x == x, x * 0.0), (_X, _Y))]
    wrong = [
        not np.array_equal(a, b, equal_nan=True)
        for a, b in zip(run_compiled(cases, "vmvx")[0], run_reference(cases)[0], strict=True)
    ]
    assert all(wrong)


def test_a_slice_at_a_place_known_at_run_time_shows_how_its_elements_were_made() -> None:
    def program(x: Any, y: Any, i: Any) -> Any:
        total, part = lax.dynamic_slice(x + y, (i,), (2,)), lax.dynamic_slice(y, (i,), (2,))
        return total - part

    args = (_floats(1, 2, 3, 4), _floats(1e10, 1, -1e8, 1e9), np.array(2, np.int32))
    cases: list[Case] = [(program, args)]
    found, wanted = run_compiled(cases, "vmvx")[0], run_reference(cases)[0]
    assert_same(found[0], wanted[0])


def test_types_that_it_lacks_are_refused() -> None:
    for dtype in (np.complex64, np.float16, xnp.bfloat16):
        with pytest.raises(TypeError, match=rf"has no {np.dtype(dtype).name}: mul takes"):
            run_compiled([(lambda x: x * x, (np.ones(3, dtype),))], "vmvx")
