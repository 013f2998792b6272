"""What IREE's compiler does wrong, and the form of each program that it compiles right.

The lowering avoids each of these hazards. A test of a hazard fails when IREE has mended it: then
the guard in the lowering can go. The guarded forms must be right for ever.

Most programs are functions of one module, which is compiled once, and called in one child process:
many functions in a module compile faster than many modules.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.harness import run_compiled
from tests.lowering.iree_util import (
    LESS,
    MENDED,
    Answer,
    Array,
    Call,
    answers,
    barrier,
    compile_with,
    function,
    region,
    results,
    run,
    status_of_compile,
)
from xpr import lax
from xpr.lowering import passes
from xpr.lowering.iree.patch_vm_bytecode import with_copies
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints, llvm_cpu_flag_sets

FAST = llvm_cpu_flag_sets(ProgramHints())[0]
PLAIN = llvm_cpu_flag_sets(ProgramHints())[-1]
DATA_TILING = llvm_cpu_flag_sets(ProgramHints(matmul_size=(1024, 1024, 1024)))[0]

F32, I32 = np.float32, np.int32
RNG = np.random.default_rng(20260731)

ADD = region(
    "ab", "f32", "%s = stablehlo.add %a, %b : tensor<f32>\nstablehlo.return %s : tensor<f32>"
)
REPLACE = region("ab", "f32", "stablehlo.return %b : tensor<f32>")

# ---- the common module: programs, and the calls made to them

_PROGRAMS: list[str] = []
_CALLS: dict[str, Call] = {}

VECTOR = "tensor<8xf32>"
RAMP = np.arange(8, dtype=F32)


def program(name: str, arguments: str, results_: str, body: str, values: Iterable[Any]) -> None:
    _PROGRAMS.append(function(name, arguments, results_, body))
    _CALLS[name] = Call(name, [np.asarray(value) for value in values])


@functools.cache
def _answers() -> dict[str, Answer]:
    text = "module @hazards {\n" + "".join(_PROGRAMS) + "}\n"
    return dict(zip(_CALLS, answers(text, list(_CALLS.values()), FAST), strict=True))


def answer(name: str) -> Answer:
    found = _answers()[name]
    assert not found.error, found.error
    return found


def result(name: str) -> Array:
    return answer(name).results[0]


def argument_after(name: str) -> Array:
    """The first argument as it is after the call."""
    size = _CALLS[name].arguments[0].size
    return answer(name).arguments[0][64 : 64 + size]


# ---- H1: the buffer of an argument is overwritten

_UPDATES: dict[str, tuple[str, str, list[Any], Array]] = {
    "dynamic_update_slice": (
        "%x: tensor<8xf32>, %u: tensor<2xf32>, %i: tensor<i32>",
        f"%r = stablehlo.dynamic_update_slice %x, %u, %i : ({VECTOR}, tensor<2xf32>, tensor<i32>)"
        f" -> {VECTOR}",
        [RAMP, np.array([50, 60], F32), np.array(2, I32)],
        np.array([0, 1, 50, 60, 4, 5, 6, 7], F32),
    ),
    "scatter": (
        "%x: tensor<8xf32>, %i: tensor<2x1xi32>, %u: tensor<2xf32>",
        f'%r = "stablehlo.scatter"(%x, %i, %u) {REPLACE} {{scatter_dimension_numbers = '
        "#stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
        f"index_vector_dim = 1>}} : ({VECTOR}, tensor<2x1xi32>, tensor<2xf32>) -> {VECTOR}",
        [RAMP, np.array([[5], [1]], I32), np.array([50, 60], F32)],
        np.array([0, 60, 2, 3, 4, 50, 6, 7], F32),
    ),
    "sort": (
        "%x: tensor<8xf32>",
        f'%r = "stablehlo.sort"(%x) {LESS} {{dimension = 0 : i64}} : ({VECTOR}) -> {VECTOR}',
        [RAMP[::-1].copy()],
        RAMP,
    ),
}

for _name, (_arguments, _body, _values, _) in _UPDATES.items():
    program(f"h1_{_name}", _arguments, VECTOR, f"{_body}\n%r", _values)
    _guarded = f"{_body}\n{barrier('%x', VECTOR)}%r"
    program(f"h1_{_name}_guarded", _arguments, VECTOR, _guarded, _values)


@pytest.mark.parametrize("name", _UPDATES)
def test_h1_an_argument_is_overwritten(name: str) -> None:
    before = _CALLS[f"h1_{name}"].arguments[0]
    assert not np.array_equal(argument_after(f"h1_{name}"), before), MENDED


@pytest.mark.parametrize("name", _UPDATES)
def test_h1_a_second_use_keeps_the_argument(name: str) -> None:
    np.testing.assert_array_equal(result(f"h1_{name}_guarded"), _UPDATES[name][3])
    before = _CALLS[f"h1_{name}_guarded"].arguments[0]
    np.testing.assert_array_equal(argument_after(f"h1_{name}_guarded"), before)


program(
    "h1_behind_a_barrier",
    "%x: tensor<8xf32>, %u: tensor<2xf32>, %i: tensor<i32>",
    VECTOR,
    f"%y = stablehlo.optimization_barrier %x : {VECTOR}\n"
    "%z = stablehlo.dynamic_update_slice %y, %u, %i "
    f": ({VECTOR}, tensor<2xf32>, tensor<i32>) -> {VECTOR}\n"
    f"%r = stablehlo.add %x, %z : {VECTOR}\n%r",
    [RAMP, np.array([50, 60], F32), np.array(2, I32)],
)


def test_h1_what_a_barrier_gives_is_updated_in_its_place() -> None:
    expected = RAMP + np.array([0, 1, 50, 60, 4, 5, 6, 7], F32)
    assert not np.array_equal(result("h1_behind_a_barrier"), expected), MENDED


# ---- H2: scatter writes outside of the buffer

_FAR = np.array([[1], [100], [-3]], I32)
_SCATTER = (
    (
        '"stablehlo.scatter"({x}, {i}, %u) '
        + REPLACE
        + " {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}} : "
        "(tensor<{n}xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<{n}xf32>"
    )
    .replace("({ ^bb0", "({{ ^bb0")
    .replace("})", "}})")
)

program(
    "h2_scatter",
    "%x: tensor<8xf32>, %i: tensor<3x1xi32>, %u: tensor<3xf32>",
    VECTOR,
    f"%r = {_SCATTER.format(x='%x', i='%i', n=8)}\n%r",
    [RAMP, _FAR, np.array([50, 60, 70], F32)],
)
program(
    "h2_scatter_guarded",
    "%x: tensor<8xf32>, %i: tensor<3x1xi32>, %u: tensor<3xf32>",
    VECTOR,
    f"""
    %zero = stablehlo.constant dense<0> : tensor<3x1xi32>
    %size = stablehlo.constant dense<8> : tensor<3x1xi32>
    %below = stablehlo.compare LT, %i, %zero : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
    %above = stablehlo.compare GE, %i, %size : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
    %out = stablehlo.or %below, %above : tensor<3x1xi1>
    %j = stablehlo.select %out, %size, %i : tensor<3x1xi1>, tensor<3x1xi32>
    %fill = stablehlo.constant dense<0.0> : tensor<f32>
    %p = stablehlo.pad %x, %fill, low = [0], high = [1], interior = [0] :
      (tensor<8xf32>, tensor<f32>) -> tensor<9xf32>
    %s = {_SCATTER.format(x="%p", i="%j", n=9)}
    %r = stablehlo.slice %s [0:8] : (tensor<9xf32>) -> tensor<8xf32>
    %r
    """,
    [RAMP, _FAR, np.array([50, 60, 70], F32)],
)


def test_h2_scatter_writes_outside_of_the_buffer() -> None:
    whole = answer("h2_scatter").arguments[0]
    assert (whole[64 + 100], whole[64 - 3]) == (60, 70), MENDED


def test_h2_a_spare_element_takes_what_is_out_of_bounds() -> None:
    np.testing.assert_array_equal(result("h2_scatter_guarded"), [0, 50, 2, 3, 4, 5, 6, 7])
    whole = answer("h2_scatter_guarded").arguments[0]
    assert set(np.delete(whole, np.s_[64:72])) == {100}


# ---- H3: gather reads outside of the buffer

_GATHER = (
    '%r = "stablehlo.gather"(%x, {i}) {{dimension_numbers = #stablehlo.gather<collapsed_slice_dims '
    "= [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}} : "
    "(tensor<8xf32>, tensor<3x1xi32>) -> tensor<3xf32>\n%r"
)
program(
    "h3_gather",
    "%x: tensor<8xf32>, %i: tensor<3x1xi32>",
    "tensor<3xf32>",
    _GATHER.format(i="%i"),
    [RAMP, _FAR],
)
program(
    "h3_gather_guarded",
    "%x: tensor<8xf32>, %i: tensor<3x1xi32>",
    "tensor<3xf32>",
    "%low = stablehlo.constant dense<0> : tensor<i32>\n"
    "%high = stablehlo.constant dense<7> : tensor<i32>\n"
    "%j = stablehlo.clamp %low, %i, %high : (tensor<i32>, tensor<3x1xi32>, tensor<i32>) -> "
    "tensor<3x1xi32>\n" + _GATHER.format(i="%j"),
    [RAMP, _FAR],
)


def test_h3_gather_reads_outside_of_the_buffer() -> None:
    np.testing.assert_array_equal(result("h3_gather"), [1, 100, 100], err_msg=MENDED)


def test_h3_clamped_indices_stay_inside() -> None:
    np.testing.assert_array_equal(result("h3_gather_guarded"), [1, 7, 0])


# ---- H4: sort is not stable (how slow it is: `python -m benchmarks.hazards`)

_PAIR = "tensor<16xi32>, tensor<16xi32>"
_LESS_PAIR = region(
    "abcd",
    "i32",
    "%p = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
    "stablehlo.return %p : tensor<i1>",
)
_KEYS = np.array([3, 1, 2, 1, 3, 3, 0, 1, 2, 0, 0, 3, 1, 2, 2, 0], I32)
program(
    "h4_argsort",
    "%x: tensor<16xi32>",
    "tensor<16xi32>",
    f"""
    %n = stablehlo.iota dim = 0 : tensor<16xi32>
    %r:2 = "stablehlo.sort"(%x, %n) {_LESS_PAIR} {{dimension = 0 : i64, is_stable = true}} :
      ({_PAIR}) -> ({_PAIR})
    %r#1
    """,
    [_KEYS],
)


def _bitonic_argsort(n: int) -> str:
    """A bitonic network on pairs of a key and its place, which makes it stable."""
    t, p = f"tensor<{n}xi32>", f"tensor<{n}xi1>"
    lines = [f"%v = stablehlo.iota dim = 0 : {t}", f"%k0 = stablehlo.add %x, %zero : {t}"]
    lines.insert(0, f"%zero = stablehlo.constant dense<0> : {t}")
    lines.append(f"%i0 = stablehlo.add %v, %zero : {t}")
    stage = 0
    places = np.arange(n)
    length = 2
    while length <= n:
        distance = length // 2
        while distance:
            s, e = stage, stage + 1
            smaller = ((places & distance) == 0) == ((places & length) == 0)
            wanted = ", ".join("true" if keep else "false" for keep in smaller)
            cut = f"tensor<{n // (2 * distance)}x2x{distance}xi32>"
            for z in "ki":
                lines += [
                    f"%{z}c{s} = stablehlo.reshape %{z}{s} : ({t}) -> {cut}",
                    f"%{z}r{s} = stablehlo.reverse %{z}c{s}, dims = [1] : {cut}",
                    f"%{z}p{s} = stablehlo.reshape %{z}r{s} : ({cut}) -> {t}",
                ]
            lines += [
                f"%w{s} = stablehlo.constant dense<[{wanted}]> : {p}",
                f"%l{s} = stablehlo.compare LT, %k{s}, %kp{s} : ({t}, {t}) -> {p}",
                f"%q{s} = stablehlo.compare EQ, %k{s}, %kp{s} : ({t}, {t}) -> {p}",
                f"%m{s} = stablehlo.compare LT, %i{s}, %ip{s} : ({t}, {t}) -> {p}",
                f"%a{s} = stablehlo.and %q{s}, %m{s} : {p}",
                f"%b{s} = stablehlo.or %l{s}, %a{s} : {p}",
                f"%x{s} = stablehlo.xor %b{s}, %w{s} : {p}",
                f"%k{e} = stablehlo.select %x{s}, %kp{s}, %k{s} : {p}, {t}",
                f"%i{e} = stablehlo.select %x{s}, %ip{s}, %i{s} : {p}, {t}",
            ]
            stage += 1
            distance //= 2
        length *= 2
    return "\n".join([*lines, f"%i{stage}"])


program("h4_bitonic", "%x: tensor<16xi32>", "tensor<16xi32>", _bitonic_argsort(16), [_KEYS])


def test_h4_sort_is_not_stable() -> None:
    expected = np.argsort(_KEYS, kind="stable")
    found = result("h4_argsort")
    np.testing.assert_array_equal(_KEYS[found], _KEYS[expected])
    assert not np.array_equal(found, expected), MENDED


def test_h4_a_network_with_an_index_key_is_stable() -> None:
    np.testing.assert_array_equal(result("h4_bitonic"), np.argsort(_KEYS, kind="stable"))


# ---- H5: sine and cosine of large arguments

_ANGLES = np.array([0.5, -2, 1e2, 1e3, 1e5, -1e5, 1e7, 1e8], F32)
program("h5_sine", f"%x: {VECTOR}", VECTOR, f"%r = stablehlo.sine %x : {VECTOR}\n%r", [_ANGLES])
program(
    "h5_sine_guarded",
    f"%x: {VECTOR}",
    VECTOR,
    f"""
    %t = stablehlo.constant dense<{2 * np.pi!r}> : tensor<8xf64>
    %d = stablehlo.convert %x : (tensor<8xf32>) -> tensor<8xf64>
    %q = stablehlo.divide %d, %t : tensor<8xf64>
    %n = stablehlo.round_nearest_even %q : tensor<8xf64>
    %m = stablehlo.multiply %n, %t : tensor<8xf64>
    %e = stablehlo.subtract %d, %m : tensor<8xf64>
    %s = stablehlo.convert %e : (tensor<8xf64>) -> tensor<8xf32>
    %r = stablehlo.sine %s : tensor<8xf32>
    %r
    """,
    [_ANGLES],
)


def test_h5_sine_of_a_large_argument_is_wrong() -> None:
    error = np.abs(result("h5_sine") - np.sin(_ANGLES.astype(np.float64)))
    assert error[:3].max() < 1e-5
    assert error[4:].min() > 1e-3, MENDED


def test_h5_sine_of_a_reduced_argument_is_right() -> None:
    expected = np.sin(_ANGLES.astype(np.float64))
    np.testing.assert_allclose(result("h5_sine_guarded"), expected, rtol=0, atol=1e-6)


# ---- H6: conversion of floats that an integer cannot hold

_WIDE = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 2147483520, -1.9, 7.9], F32)
_SATURATED = np.array([0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 2147483520, -1, 7], I32)
_CONVERT = "stablehlo.convert {} : (tensor<8xf32>) -> tensor<8xi32>"
program(
    "h6_convert", f"%x: {VECTOR}", "tensor<8xi32>", f"%r = {_CONVERT.format('%x')}\n%r", [_WIDE]
)
program(
    "h6_convert_guarded",
    f"%x: {VECTOR}",
    "tensor<8xi32>",
    f"""
    %low = stablehlo.constant dense<-2147483648.0> : tensor<8xf32>
    %high = stablehlo.constant dense<2147483520.0> : tensor<8xf32>
    %end = stablehlo.constant dense<2147483648.0> : tensor<8xf32>
    %zero = stablehlo.constant dense<0> : tensor<8xi32>
    %max = stablehlo.constant dense<2147483647> : tensor<8xi32>
    %c = stablehlo.clamp %low, %x, %high : tensor<8xf32>
    %i = {_CONVERT.format("%c")}
    %big = stablehlo.compare GE, %x, %end : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
    %j = stablehlo.select %big, %max, %i : tensor<8xi1>, tensor<8xi32>
    %nan = stablehlo.compare NE, %x, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
    %r = stablehlo.select %nan, %zero, %j : tensor<8xi1>, tensor<8xi32>
    %r
    """,
    [_WIDE],
)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="Arm CPUs saturate")
def test_h6_conversion_does_not_saturate() -> None:
    assert not np.array_equal(result("h6_convert"), _SATURATED), MENDED


def test_h6_a_clamped_conversion_saturates() -> None:
    np.testing.assert_array_equal(result("h6_convert_guarded"), _SATURATED)


# ---- H7: power at special values

_INF, _NAN = np.inf, np.nan
_POWERS = np.array(
    [
        *((-2, 3), (-2, 2), (-2, 0.5), (_INF, 0), (-_INF, 3), (0, -1), (-0.0, -3), (_NAN, 0)),
        *((1, _NAN), (-1, _INF), (0.5, _INF), (2, -_INF), (-8, 1 / 3), (0, 0), (-_INF, -3)),
        *((3, 4), (-1, _NAN), (-0.0, 5), (-_INF, 0.5), (_INF, -2), (0.5, -_INF), (-1, 1e9)),
        *((_NAN, 2), (2, 0.5)),
    ],
    F32,
)
_T7, _B7 = "tensor<24xf32>", "tensor<24xi1>"
program(
    "h7_power",
    f"%x: {_T7}, %y: {_T7}",
    _T7,
    f"%r = stablehlo.power %x, %y : {_T7}\n%r",
    [_POWERS[:, 0].copy(), _POWERS[:, 1].copy()],
)


def _compare(kind: str, a: str, b: str) -> str:
    return f"stablehlo.compare {kind}, {a}, {b} : ({_T7}, {_T7}) -> {_B7}"


program(
    "h7_power_guarded",
    f"%x: {_T7}, %y: {_T7}",
    _T7,
    f"""
    %zero = stablehlo.constant dense<0.0> : {_T7}
    %half = stablehlo.constant dense<0.5> : {_T7}
    %one = stablehlo.constant dense<1.0> : {_T7}
    %two = stablehlo.constant dense<2.0> : {_T7}
    %inf = stablehlo.constant dense<0x7F800000> : {_T7}
    %nan = stablehlo.constant dense<0x7FC00000> : {_T7}
    %izero = stablehlo.constant dense<0> : tensor<24xi32>
    %ax = stablehlo.abs %x : {_T7}
    %ay = stablehlo.abs %y : {_T7}
    %p = stablehlo.power %ax, %y : {_T7}
    %bits = stablehlo.bitcast_convert %x : ({_T7}) -> tensor<24xi32>
    %minus = stablehlo.compare LT, %bits, %izero : (tensor<24xi32>, tensor<24xi32>) -> {_B7}
    %hy = stablehlo.multiply %y, %half : {_T7}
    %fh = stablehlo.floor %hy : {_T7}
    %even = stablehlo.multiply %fh, %two : {_T7}
    %rest = stablehlo.subtract %y, %even : {_T7}
    %odd = {_compare("EQ", "%rest", "%one")}
    %flip = stablehlo.and %minus, %odd : {_B7}
    %np = stablehlo.negate %p : {_T7}
    %signed = stablehlo.select %flip, %np, %p : {_B7}, {_T7}
    %fy = stablehlo.floor %y : {_T7}
    %fraction = {_compare("NE", "%fy", "%y")}
    %negative = {_compare("LT", "%x", "%zero")}
    %finite = {_compare("LT", "%ax", "%inf")}
    %bad0 = stablehlo.and %negative, %finite : {_B7}
    %bad = stablehlo.and %bad0, %fraction : {_B7}
    %n = stablehlo.select %bad, %nan, %signed : {_B7}, {_T7}
    %y0 = {_compare("EQ", "%y", "%zero")}
    %x1 = {_compare("EQ", "%x", "%one")}
    %ax1 = {_compare("EQ", "%ax", "%one")}
    %ayinf = {_compare("EQ", "%ay", "%inf")}
    %unit = stablehlo.and %ax1, %ayinf : {_B7}
    %o0 = stablehlo.or %y0, %x1 : {_B7}
    %o = stablehlo.or %o0, %unit : {_B7}
    %r = stablehlo.select %o, %one, %n : {_B7}, {_T7}
    %r
    """,
    [_POWERS[:, 0].copy(), _POWERS[:, 1].copy()],
)


def _powers() -> Array:
    with np.errstate(all="ignore"):
        return np.power(_POWERS[:, 0], _POWERS[:, 1])


def test_h7_power_is_wrong_at_special_values() -> None:
    found, expected = result("h7_power"), _powers()
    wrong = ~np.isclose(found, expected, rtol=1e-5, equal_nan=True)
    assert wrong[[0, 1, 3, 7, 8, 13]].all(), MENDED


def test_h7_special_cases_make_power_right() -> None:
    found, expected = result("h7_power_guarded"), _powers()
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_array_equal(
        np.signbit(found[expected == 0]), np.signbit(expected)[expected == 0]
    )


# ---- H8: 64-bit types become 32-bit types in silence

_DOUBLES = function(
    "absolute", "%x: tensor<4xf64>", "tensor<4xf64>", "%r = stablehlo.abs %x : tensor<4xf64>\n%r"
)


def test_h8_doubles_are_demoted_unless_a_flag_forbids_it() -> None:
    values = np.array([-1, 2, -3, 1 + 2.0**-40])
    flags = [flag for flag in get_target("cpu").base_flags if "demote" not in flag]
    module, diagnostics = compile_with(_DOUBLES, base=flags)
    assert module is not None, diagnostics
    _, (given,) = run(module, [Call("absolute", [values])])
    assert given.error or not np.array_equal(given.results[0], np.abs(values)), MENDED
    (found,) = results(_DOUBLES, [Call("absolute", [values])])
    np.testing.assert_array_equal(found[0], np.abs(values))


# ---- H9: operations that it does not compile

_C8, _C6 = "tensor<8xcomplex<f32>>", "tensor<6xcomplex<f32>>"
_REFUSED = {
    "custom_call": (
        "tensor<4xf32>",
        "stablehlo.custom_call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>",
    ),
    "cholesky": ("tensor<4x4xf32>", "stablehlo.cholesky %x, lower = true : tensor<4x4xf32>"),
    "triangular_solve": (
        "tensor<4x4xf32>",
        '"stablehlo.triangular_solve"(%x, %x) {left_side = true, lower = true, unit_diagonal = '
        "false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<4x4xf32>, "
        "tensor<4x4xf32>) -> tensor<4x4xf32>",
    ),
    "fft of length 6": (_C6, f"stablehlo.fft %x, type = FFT, length = [6] : ({_C6}) -> {_C6}"),
    "fft in two dimensions": (
        "tensor<8x8xcomplex<f32>>",
        "stablehlo.fft %x, type = FFT, length = [8, 8] : (tensor<8x8xcomplex<f32>>) -> "
        "tensor<8x8xcomplex<f32>>",
    ),
    "fft in double precision": (
        "tensor<8xcomplex<f64>>",
        "stablehlo.fft %x, type = FFT, length = [8] : (tensor<8xcomplex<f64>>) -> "
        "tensor<8xcomplex<f64>>",
    ),
    "reverse of unsigned integers": (
        "tensor<4xui32>",
        "stablehlo.reverse %x, dims = [0] : tensor<4xui32>",
    ),
    "sine of doubles": ("tensor<4xf64>", "stablehlo.sine %x : tensor<4xf64>"),
    "atan2 of doubles": ("tensor<4xf64>", "stablehlo.atan2 %x, %x : tensor<4xf64>"),
    "remainder of doubles": ("tensor<4xf64>", "stablehlo.remainder %x, %x : tensor<4xf64>"),
    "cube root of doubles": ("tensor<4xf64>", "stablehlo.cbrt %x : tensor<4xf64>"),
    "square root of float8": ("tensor<4xf8E4M3FN>", "stablehlo.sqrt %x : tensor<4xf8E4M3FN>"),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_h9_an_operation_is_refused(name: str) -> None:
    type_, operation = _REFUSED[name]
    module, diagnostics = compile_with(
        function("f", f"%x: {type_}", type_, f"%r = {operation}\n%r")
    )
    assert module is None, MENDED
    assert any(diagnostic.severity == "error" for diagnostic in diagnostics)


_DFT: Array = np.exp(-2j * np.pi * np.outer(np.arange(6), np.arange(6)) / 6)
_SIGNAL = RNG.standard_normal((2, 6)).astype(F32)


def _dense(array: Array) -> str:
    return "dense<" + np.array2string(array, separator=", ", floatmode="unique") + ">"


def _product(x: str, table: str) -> str:
    return (
        f"stablehlo.dot_general {x}, {table}, contracting_dims = [0] x [0] : "
        "(tensor<6xf32>, tensor<6x6xf32>) -> tensor<6xf32>"
    )


program(
    "h9_dft",
    f"%x: {_C6}",
    _C6,
    f"""
    %c = stablehlo.constant {_dense(np.real(_DFT).astype(F32))} : tensor<6x6xf32>
    %s = stablehlo.constant {_dense(np.imag(_DFT).astype(F32))} : tensor<6x6xf32>
    %a = stablehlo.real %x : ({_C6}) -> tensor<6xf32>
    %b = stablehlo.imag %x : ({_C6}) -> tensor<6xf32>
    %ac = {_product("%a", "%c")}
    %bs = {_product("%b", "%s")}
    %as = {_product("%a", "%s")}
    %bc = {_product("%b", "%c")}
    %re = stablehlo.subtract %ac, %bs : tensor<6xf32>
    %im = stablehlo.add %as, %bc : tensor<6xf32>
    %r = stablehlo.complex %re, %im : {_C6}
    %r
    """,
    [(_SIGNAL[0] + 1j * _SIGNAL[1]).astype(np.complex64)],
)
program(
    "h9_shape_assertion",
    f"%x: {VECTOR}",
    VECTOR,
    """
    %p = stablehlo.constant dense<false> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%p) {api_version = 2 : i32, has_side_effect = true,
      error_message = "no"} : (tensor<i1>) -> ()
    %x
    """,
    [RAMP],
)
program(
    "h9_reverse_guarded",
    "%x: tensor<4xui32>",
    "tensor<4xui32>",
    """
    %i = stablehlo.bitcast_convert %x : (tensor<4xui32>) -> tensor<4xi32>
    %s = stablehlo.reverse %i, dims = [0] : tensor<4xi32>
    %r = stablehlo.bitcast_convert %s : (tensor<4xi32>) -> tensor<4xui32>
    %r
    """,
    [np.array([1, 2**31, 2**32 - 1, 7], np.uint32)],
)


def test_h9_a_product_with_the_dft_matrix_stands_for_fft() -> None:
    (values,) = _CALLS["h9_dft"].arguments
    np.testing.assert_allclose(result("h9_dft"), np.fft.fft(values), rtol=1e-5, atol=1e-5)


def test_h9_unsigned_integers_are_reversed_as_signed_ones() -> None:
    np.testing.assert_array_equal(result("h9_reverse_guarded"), [7, 2**32 - 1, 2**31, 1])


def test_h9_a_failed_shape_assertion_is_dropped() -> None:
    assert not _answers()["h9_shape_assertion"].error, MENDED


# ---- H10: cumulative sums are one serial sum

_N10 = 100_000
_STEPS = np.full(_N10, 0.1, F32)


def _running_sum(x: str, shape: Sequence[int], axis: int, name: str) -> str:
    window = ", ".join(str(n if i == axis else 1) for i, n in enumerate(shape))
    padding = ", ".join(f"[{n - 1 if i == axis else 0}, 0]" for i, n in enumerate(shape))
    type_ = "tensor<" + "x".join(map(str, shape)) + "xf32>"
    return (
        f'%{name} = "stablehlo.reduce_window"({x}, %z) {ADD} {{window_dimensions = array<i64: '
        f"{window}>, padding = dense<[{padding}]> : tensor<{len(shape)}x2xi64>}} : "
        f"({type_}, tensor<f32>) -> {type_}\n"
    )


_ZERO = "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
_T10, _R10, _C10 = f"tensor<{_N10}xf32>", "tensor<250x400xf32>", "tensor<250xf32>"
program(
    "h10_cumsum",
    f"%x: {_T10}",
    _T10,
    f"{_ZERO}{_running_sum('%x', [_N10], 0, 'r')}%r",
    [_STEPS],
)
program(
    "h10_cumsum_guarded",
    f"%x: {_T10}",
    _T10,
    f"""
    {_ZERO}
    %blocks = stablehlo.reshape %x : ({_T10}) -> {_R10}
    {_running_sum("%blocks", [250, 400], 1, "rows")}
    %last = stablehlo.slice %rows [0:250, 399:400] : ({_R10}) -> tensor<250x1xf32>
    %totals = stablehlo.reshape %last : (tensor<250x1xf32>) -> {_C10}
    {_running_sum("%totals", [250], 0, "sums")}
    %before = stablehlo.subtract %sums, %totals : {_C10}
    %broadcast = stablehlo.broadcast_in_dim %before, dims = [0] : ({_C10}) -> {_R10}
    %all = stablehlo.add %rows, %broadcast : {_R10}
    %r = stablehlo.reshape %all : ({_R10}) -> {_T10}
    %r
    """,
    [_STEPS],
)


def _cumsum_error(name: str) -> float:
    expected = np.cumsum(_STEPS.astype(np.float64))
    return float(np.max(np.abs(result(name) - expected) / expected))


def test_h10_a_cumulative_sum_loses_digits() -> None:
    assert _cumsum_error("h10_cumsum") > 1e-4, MENDED


def test_h10_a_sum_in_blocks_keeps_them() -> None:
    assert _cumsum_error("h10_cumsum_guarded") < 2e-5


# ---- H11: select_and_scatter

_SELECT_AND_SCATTER = function(
    "f",
    "%x: tensor<4x6xf32>, %s: tensor<2x3xf32>",
    "tensor<4x6xf32>",
    _ZERO
    + '%r = "stablehlo.select_and_scatter"(%x, %s, %z) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): '
    "%p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
    "stablehlo.return %p : tensor<i1> }, { ^bb0(%a: tensor<f32>, %b: tensor<f32>): "
    "%q = stablehlo.add %a, %b : tensor<f32>\nstablehlo.return %q : tensor<f32> }) "
    "{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>} : "
    "(tensor<4x6xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<4x6xf32>\n%r",
)


def test_h11_select_and_scatter_warns_but_is_right() -> None:
    x = RNG.standard_normal((4, 6)).astype(F32)
    source = RNG.standard_normal((2, 3)).astype(F32)
    expected = np.zeros((4, 6), F32)
    for i in range(2):
        for j in range(3):
            window = x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
            row, column = np.unravel_index(np.argmax(window), (2, 2))
            expected[2 * i + row, 2 * j + column] += source[i, j]
    module, diagnostics = compile_with(_SELECT_AND_SCATTER)
    assert any("uninitialized" in diagnostic.message for diagnostic in diagnostics), MENDED
    assert module is not None
    _, given = run(module, [Call("f", [x, source])] * 10)
    for one in given:
        np.testing.assert_array_equal(one.results[0], expected)


# ---- H12: flags that suit one program spoil another

BATCHED = function(
    "f",
    "%a: tensor<8x512xf32>, %p: tensor<8x3xf32>, %q: tensor<512x3xf32>",
    "tensor<8x3xf32>",
    """
    %x = stablehlo.broadcast_in_dim %p, dims = [0, 2] : (tensor<8x3xf32>) -> tensor<8x512x3xf32>
    %y = stablehlo.broadcast_in_dim %q, dims = [1, 2] : (tensor<512x3xf32>) -> tensor<8x512x3xf32>
    %s = stablehlo.subtract %x, %y : tensor<8x512x3xf32>
    %d = stablehlo.dot_general %a, %s, batching_dims = [0] x [0], contracting_dims = [1] x [1] :
      (tensor<8x512xf32>, tensor<8x512x3xf32>) -> tensor<8x3xf32>
    %d
    """,
)


def test_h12_data_tiling_fails_where_plainer_flags_compile() -> None:
    module, diagnostics = compile_with(BATCHED, DATA_TILING)
    assert module is None, MENDED
    assert any("large vector sizes" in diagnostic.message for diagnostic in diagnostics)
    a, p, q = (RNG.standard_normal(s).astype(F32) for s in ((8, 512), (8, 3), (512, 3)))
    (found,) = results(BATCHED, [Call("f", [a, p, q])], FAST)
    expected = np.einsum("bk,bkn->bn", a.astype(float), p[:, None] - q[None].astype(float))
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-4)


# ---- two results of a dispatch that turn out to be the same bytes


def _twice(as_bytes: str) -> str:
    """Booleans and the bytes that `as_bytes` makes of them."""
    return function(
        "f",
        "%a: tensor<48x48x3xf32>",
        "tensor<48x48xi1>, tensor<48x48xi8>",
        f"""
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %s = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [2] :
          (tensor<48x48x3xf32>, tensor<f32>) -> tensor<48x48xf32>
        %c = stablehlo.slice %a [0:48, 0:48, 1:2] : (tensor<48x48x3xf32>) -> tensor<48x48x1xf32>
        %r = stablehlo.reshape %c : (tensor<48x48x1xf32>) -> tensor<48x48xf32>
        %m = stablehlo.minimum %s, %r : tensor<48x48xf32>
        %one = stablehlo.constant dense<1.0> : tensor<48x48xf32>
        %p = stablehlo.compare GT, %m, %one, FLOAT :
          (tensor<48x48xf32>, tensor<48x48xf32>) -> tensor<48x48xi1>
        {as_bytes}
        %p, %y
        """,
    )


_AS_BYTES = _twice("%y = stablehlo.convert %p : (tensor<48x48xi1>) -> tensor<48x48xi8>")
_AS_BYTES_OF_NOT = _twice("""
    %n = stablehlo.not %p : tensor<48x48xi1>
    %b = stablehlo.convert %n : (tensor<48x48xi1>) -> tensor<48x48xi8>
    %ones = stablehlo.constant dense<1> : tensor<48x48xi8>
    %y = stablehlo.xor %b, %ones : tensor<48x48xi8>
""")


def test_booleans_and_their_bytes_as_results_of_a_dispatch_do_not_compile() -> None:
    module, diagnostics = compile_with(_AS_BYTES, FAST)
    assert module is None, MENDED
    assert any("workgroup distributed" in diagnostic.message for diagnostic in diagnostics)
    a = RNG.standard_normal((48, 48, 3)).astype(F32)
    expected = np.minimum(a.astype(float).sum(2), a[:, :, 1]) > 1
    for text, flags in ((_AS_BYTES, PLAIN), (_AS_BYTES_OF_NOT, FAST)):
        (found,) = results(text, [Call("f", [a])], flags)
        np.testing.assert_array_equal(found[0], expected)
        np.testing.assert_array_equal(found[1], expected.astype(np.int8))


# ---- H15: no collectives on the CPU devices

_ALL_REDUCE = function(
    "f",
    f"%x: {VECTOR}",
    VECTOR,
    f'%r = "stablehlo.all_reduce"(%x) {ADD} {{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} '
    f": ({VECTOR}) -> {VECTOR}\n%r",
)


def test_h15_collectives_compile_but_do_not_run() -> None:
    (given,) = answers(_ALL_REDUCE, [Call("f", [RAMP])])
    assert "collectives not implemented" in given.error, MENDED


# ---- H17: known upstream

program(
    "h17_top_ties",
    "%x: tensor<16xi32>",
    "tensor<8xi32>, tensor<8xi32>",
    "%v, %i = chlo.top_k(%x, k = 8) : tensor<16xi32> -> (tensor<8xi32>, tensor<8xi32>)\n%v, %i",
    [_KEYS],
)


def test_h17_top_k_mixes_up_equal_values() -> None:
    values, places = answer("h17_top_ties").results
    expected = np.argsort(-_KEYS, kind="stable")[:8]
    np.testing.assert_array_equal(values, _KEYS[expected])
    assert not np.array_equal(places, expected), MENDED


def test_h17_a_scatter_of_two_operands_is_refused() -> None:
    two = "tensor<8xf32>, tensor<8xf32>"
    body = region("abcd", "f32", "stablehlo.return %c, %d : tensor<f32>, tensor<f32>")
    text = function(
        "f",
        "%x: tensor<8xf32>, %i: tensor<2x1xi32>, %u: tensor<2xf32>",
        two,
        f'%r:2 = "stablehlo.scatter"(%x, %x, %i, %u, %u) {body} {{scatter_dimension_numbers = '
        "#stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
        f"index_vector_dim = 1>}} : ({two}, tensor<2x1xi32>, tensor<2xf32>, tensor<2xf32>) -> "
        f"({two})\n%r#0, %r#1",
    )
    assert compile_with(text)[0] is None, MENDED


def test_h17_a_long_index_computation_compiles_and_is_right() -> None:
    """The compile time of this was once exponential in the length (iree-org/iree#24886)."""
    t, length = "tensor<8xi32>", 40
    lines = [f"%c = stablehlo.constant dense<5> : {t}", f"%x0 = stablehlo.not %x : {t}"]
    for i in range(length):
        lines += [
            f"%s{i} = stablehlo.shift_left %x{i}, %c : {t}",
            f"%x{i + 1} = stablehlo.xor %x{i}, %s{i} : {t}",
        ]
    lines += [
        f"%m = stablehlo.constant dense<7> : {t}",
        f"%a = stablehlo.and %x{length}, %m : {t}",
        f"%i = stablehlo.reshape %a : ({t}) -> tensor<8x1xi32>",
        '%r = "stablehlo.gather"(%y, %i) {dimension_numbers = #stablehlo.gather<'
        "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = "
        "array<i64: 1>} : (tensor<8xf32>, tensor<8x1xi32>) -> tensor<8xf32>",
        "%r",
    ]
    text = function("f", f"%x: {t}, %y: {VECTOR}", VECTOR, "\n".join(lines))
    x = RNG.integers(0, 1 << 20, 8).astype(I32)
    (found,) = results(text, [Call("f", [x, RAMP])])
    y = ~x
    for _ in range(length):
        y = y ^ (y << 5)
    np.testing.assert_array_equal(found[0], RAMP[y & 7])


# ---- an update that is a part of what it updates

_SQUARE = "tensor<4x4xf32>"


def _self_update(separation: str, update: str) -> str:
    return f"""
    %i = stablehlo.constant dense<1> : tensor<i32>
    %y = stablehlo.add %x, %x : {_SQUARE}
    %s = stablehlo.slice %y [0:3, 0:3] : ({_SQUARE}) -> tensor<3x3xf32>
    {separation}
    %r = stablehlo.dynamic_update_slice %y, {update}, %i, %i :
      ({_SQUARE}, tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> {_SQUARE}
    %r
    """


_GRID = np.arange(16, dtype=F32).reshape(4, 4)
program("self_update", f"%x: {_SQUARE}", _SQUARE, _self_update("", "%s"), [_GRID])
program(
    "self_update_guarded",
    f"%x: {_SQUARE}",
    _SQUARE,
    _self_update(barrier("%s", "tensor<3x3xf32>"), "%kept"),
    [_GRID],
)


def _moved() -> Array:
    expected = 2 * _GRID
    expected[1:, 1:] = 2 * _GRID[:3, :3]
    return expected


def test_an_update_with_a_part_of_the_operand_reads_what_it_has_written() -> None:
    """In one dimension the call fails instead: source and target overlap within a buffer."""
    assert not np.array_equal(result("self_update"), _moved()), MENDED


def test_a_barrier_separates_an_update_from_the_operand() -> None:
    np.testing.assert_array_equal(result("self_update_guarded"), _moved())


# ---- pads with gaps beside other pads


def _two_pads(separation: str, operand: str) -> str:
    return f"""
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.pad %x, %z, low = [0], high = [0], interior = [1] :
      (tensor<3xf32>, tensor<f32>) -> tensor<5xf32>
    {separation}
    %r = stablehlo.pad {operand}, %z, low = [1], high = [2], interior = [0] :
      (tensor<5xf32>, tensor<f32>) -> {VECTOR}
    %r
    """


_THREE = np.array([1, 2, 3], F32)
program("two_pads", "%x: tensor<3xf32>", VECTOR, _two_pads("", "%s"), [_THREE])
program(
    "two_pads_guarded",
    "%x: tensor<3xf32>",
    VECTOR,
    _two_pads(barrier("%s", "tensor<5xf32>"), "%kept"),
    [_THREE],
)
_PADDED_TWICE = np.array([0, 1, 0, 2, 0, 3, 0, 0], F32)


def test_two_pads_in_a_row_lose_their_gaps() -> None:
    """A strided slice beside another slice has such a transpose."""
    assert not np.array_equal(result("two_pads"), _PADDED_TWICE), MENDED


def test_a_barrier_keeps_the_gaps() -> None:
    np.testing.assert_array_equal(result("two_pads_guarded"), _PADDED_TWICE)


def _padded_twice(x: Any) -> Any:
    zero = np.float32(0)
    return lax.pad(lax.pad(x, zero, [(0, 0, 1)]), zero, [(1, 2, 0)])


def test_pads_with_gaps_lie_between_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    ((found,),) = run_compiled([(_padded_twice, (_THREE,))])
    np.testing.assert_array_equal(found, _PADDED_TWICE)
    monkeypatch.delitem(passes.PASSES, "interior_padding")
    ((lost,),) = run_compiled([(lambda x: _padded_twice(x), (_THREE,))])
    assert not np.array_equal(lost, _PADDED_TWICE), MENDED


# ---- programs that end the compiler's process

_COMPLEX_WINDOW = function(
    "f",
    "%x: tensor<8xcomplex<f32>>",
    "tensor<8xcomplex<f32>>",
    "%z = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>\n"
    '%r = "stablehlo.reduce_window"(%x, %z) ({ ^bb0(%a: tensor<complex<f32>>, %b: '
    "tensor<complex<f32>>): %s = stablehlo.add %a, %b : tensor<complex<f32>>\n"
    "stablehlo.return %s : tensor<complex<f32>> }) {window_dimensions = array<i64: 3>, "
    "padding = dense<[[2, 0]]> : tensor<1x2xi64>} : "
    "(tensor<8xcomplex<f32>>, tensor<complex<f32>>) -> tensor<8xcomplex<f32>>\n%r",
)
_WAVE = (RNG.standard_normal(8) + 1j * RNG.standard_normal(8)).astype(np.complex64)


def _window(part: str) -> str:
    return (
        f"%{part} = stablehlo.{part} %x : ({_C8}) -> {VECTOR}\n"
        f'%{part}_sum = "stablehlo.reduce_window"(%{part}, %z) {ADD} {{window_dimensions = '
        "array<i64: 3>, padding = dense<[[2, 0]]> : tensor<1x2xi64>} : "
        f"({VECTOR}, tensor<f32>) -> {VECTOR}\n"
    )


program(
    "complex_window_guarded",
    f"%x: {_C8}",
    _C8,
    f"{_ZERO}{_window('real')}{_window('imag')}"
    f"%r = stablehlo.complex %real_sum, %imag_sum : {_C8}\n%r",
    [_WAVE],
)


def test_a_window_over_complex_numbers_kills_the_compiler() -> None:
    assert status_of_compile(_COMPLEX_WINDOW) < 0, MENDED


def test_windows_over_real_and_imaginary_parts_are_right() -> None:
    padded = np.concatenate([np.zeros(2), _WAVE])
    expected = [padded[i : i + 3].sum() for i in range(8)]
    np.testing.assert_allclose(result("complex_window_guarded"), expected, rtol=1e-5, atol=1e-6)


def _updated(constant: str) -> str:
    return (
        "%z = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>\n"
        f"%s = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<complex<f32>>) -> {_C8}\n"
        f"{constant}"
        "%i = stablehlo.constant dense<3> : tensor<i32>\n"
        f"%r = stablehlo.dynamic_update_slice %c, %x, %i : ({_C8}, tensor<2xcomplex<f32>>, "
        f"tensor<i32>) -> {_C8}\n%r"
    )


_COMPLEX_UPDATE = function(
    "f", "%x: tensor<2xcomplex<f32>>", _C8, _updated("").replace("slice %c", "slice %s")
)
program(
    "complex_update_guarded",
    "%x: tensor<2xcomplex<f32>>",
    _C8,
    _updated(f"%c = stablehlo.optimization_barrier %s : {_C8}\n"),
    [_WAVE[:2]],
)


def test_an_update_of_a_complex_constant_does_not_compile() -> None:
    """Without the check of the compiler's own result its process ends."""
    assert compile_with(_COMPLEX_UPDATE)[0] is None, MENDED


def test_a_barrier_guards_the_complex_constant() -> None:
    expected = np.concatenate([np.zeros(3), _WAVE[:2], np.zeros(3)])
    np.testing.assert_array_equal(result("complex_update_guarded"), expected)


# Three arrays carried by a loop, of which two begin in one allocation. What they are given at the
# end of a step comes from behind barriers, as in loops of `lax` it may.
_CARRIED = ", ".join(["tensor<i32>", *[VECTOR] * 3])
LOSING_LOOP = function(
    "f",
    f"%x: {VECTOR}",
    ", ".join([VECTOR] * 3),
    f"""
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %fill = stablehlo.constant dense<0.0> : {VECTOR}
    %a0 = stablehlo.optimization_barrier %x : {VECTOR}
    %b0 = stablehlo.optimization_barrier %fill : {VECTOR}
    %c0 = stablehlo.optimization_barrier %fill : {VECTOR}
    %r:4 = "stablehlo.while"(%zero, %a0, %b0, %c0) ({{
      ^bb0(%i: tensor<i32>, %a: {VECTOR}, %b: {VECTOR}, %c: {VECTOR}):
        %n = stablehlo.constant dense<3> : tensor<i32>
        %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
    }}, {{
      ^bb0(%i: tensor<i32>, %a: {VECTOR}, %b: {VECTOR}, %c: {VECTOR}):
        %one = stablehlo.constant dense<1> : tensor<i32>
        %next = stablehlo.add %i, %one : tensor<i32>
        %a1 = stablehlo.add %a, %x : {VECTOR}
        %b1 = stablehlo.add %b, %a : {VECTOR}
        %c1 = stablehlo.add %c, %x : {VECTOR}
        %b2 = stablehlo.optimization_barrier %b1 : {VECTOR}
        %c2 = stablehlo.optimization_barrier %c1 : {VECTOR}
        stablehlo.return %next, %a1, %b2, %c2 : {_CARRIED}
    }}) : ({_CARRIED}) -> ({_CARRIED})
    {barrier("%x", VECTOR)}
    %r#1, %r#2, %r#3
    """,
)


def test_a_reference_that_a_branch_passes_twice_is_lost() -> None:
    module, diagnostics = compile_with(LOSING_LOOP, FAST)
    assert module is not None, diagnostics
    call = Call("f", [RAMP])
    _, (found,) = run(module, [call])
    assert "out range" in found.error, MENDED
    _, (found,) = run(with_copies(module), [call])
    assert not found.error
    for array, times in zip(found.results, (4, 6, 3), strict=True):
        np.testing.assert_array_equal(array, times * RAMP)


_TWICE = ", ".join(["tensor<f32>"] * 2 + ["tensor<i32>"])


def _returned_twice(name: str, second: str) -> str:
    return function(
        name,
        "%x: tensor<f32>",
        ", ".join(["tensor<f32>"] * 2),
        f"""
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %d = stablehlo.add %x, %x : tensor<f32>
        %r:3 = "stablehlo.while"(%x, %d, %zero) ({{
          ^bb0(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>):
            %n = stablehlo.constant dense<3> : tensor<i32>
            %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %most = stablehlo.constant dense<100.0> : tensor<f32>
            %q = stablehlo.compare LT, %a, %most, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %both = stablehlo.and %p, %q : tensor<i1>
            stablehlo.return %both : tensor<i1>
        }}, {{
          ^bb0(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>):
            %one = stablehlo.constant dense<1> : tensor<i32>
            %next = stablehlo.add %i, %one : tensor<i32>
            %s = stablehlo.subtract %a, %b : tensor<f32>
            %y = stablehlo.add %s, %x : tensor<f32>
            {second}
            stablehlo.return %y, %z, %next : {_TWICE}
        }}) : ({_TWICE}) -> ({_TWICE})
        {barrier("%x", "tensor<f32>")}
        %r#0, %r#1
        """,
    )


def test_a_value_that_a_step_returns_twice_does_not_compile() -> None:
    """Without the check of the compiler's own result its process ends."""
    twice = _returned_twice("f", "").replace("%y, %z", "%y, %y")
    assert compile_with(twice)[0] is None, MENDED
    apart = _returned_twice("f", "%z = stablehlo.optimization_barrier %y : tensor<f32>")
    ((a, b),) = results(apart, [Call("f", [np.array(2, F32)])], FAST)
    assert a == b == 2


@pytest.mark.skipif(os.name != "posix", reason="Windows finds its directory otherwise")
def test_a_missing_directory_for_temporary_files_kills_the_compiler() -> None:
    text = function("f", f"%x: {VECTOR}", VECTOR, f"%r = stablehlo.add %x, %x : {VECTOR}\n%r")
    assert status_of_compile(text) == 0
    assert status_of_compile(text, TMPDIR="/nonexistent/directory") < 0, MENDED


# ---- a sum of one number repeated

_OF_ONES = """
    %x = stablehlo.constant dense<1.0> : tensor<3xf32>
    %n = stablehlo.negate %x : tensor<3xf32>
    {barrier}
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %r = "stablehlo.reduce"(%{name}, %z) {add} {{dimensions = array<i64: 0>}} :
      (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    %t = stablehlo.add %r, %q : tensor<f32>
    %t
"""
_KEPT = "%k = stablehlo.optimization_barrier %n : tensor<3xf32>"
for _name, _barrier in (("n", ""), ("k", _KEPT)):
    program(
        f"sum_of_ones_{_name}",
        "%q: tensor<f32>",
        "tensor<f32>",
        _OF_ONES.format(barrier=_barrier, name=_name, add=ADD),
        [np.zeros((), F32)],
    )


def test_a_sum_of_one_number_repeated_counts_few_of_them() -> None:
    assert result("sum_of_ones_n") == -1, MENDED
    assert result("sum_of_ones_k") == -3


# ---- conversions to bfloat16


def test_integers_become_bfloat16_by_a_function_that_is_missing() -> None:
    """On processors without the instruction, which a generic one stands for."""
    text = function(
        "f",
        "%x: tensor<17xi32>",
        "tensor<17xbf16>",
        "%0 = stablehlo.convert %x : (tensor<17xi32>) -> tensor<17xf32>\n"
        "%1 = stablehlo.convert %0 : (tensor<17xf32>) -> tensor<17xbf16>\n%1",
    )
    flags = ["--iree-llvmcpu-target-cpu=generic"]
    assert compile_with(text, flags)[0] is None, MENDED
