"""What comes out wrong on Vulkan, and the forms that come out right.

A test of a hazard fails when IREE, or the software device's driver, has mended it: then the pass,
or the rule, that avoids it can go.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as xnp
from tests.harness import Case, run_compiled, run_reference
from tests.lowering.vulkan_util import UPDATE_IN_A_LOOP, compile_on, run_on, vulkan_device
from xpr import lax
from xpr.core.config import override
from xpr.core.errors import CompileError
from xpr.lowering import passes
from xpr.runtimes.base import Device

MENDED = "this is mended: the guard can go"


@pytest.fixture(scope="module")
def device() -> Device:
    return vulkan_device()


@pytest.fixture(scope="module")
def software(device: Device) -> Device:
    """The device, if it is Mesa's: what other drivers do is their own."""
    if not getattr(device, "is_software", False):
        pytest.skip(f"this is about the software device, not about {device.device_kind}")
    return device


def test_a_drivers_compiler_cancels_sums(software: Device) -> None:
    x = np.array([1.3, 2.7, -4.4], np.float32)
    body = """
    %c = stablehlo.constant dense<12582912.0> : tensor<3xf32>
    %s = stablehlo.add %a0, %c : tensor<3xf32>
    %r = stablehlo.subtract %s, %c : tensor<3xf32>
    %r
    """
    found = run_on(software, body, [x], x)
    assert not np.array_equal(found, np.round(x)), MENDED


def test_the_remainder_of_the_least_integer(software: Device) -> None:
    x, y = np.array([-(2**31), 7, -7], np.int32), np.array([3, -3, -3], np.int32)
    found = run_on(software, "%r = stablehlo.remainder %a0, %a1 : tensor<3xi32>\n%r", [x, y], x)
    assert found.tolist() != [-2, 1, -1], MENDED


def test_a_convolution_of_groups_loses_results(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convolved(x: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(
            x,
            kernel,
            (1, 1),
            "VALID",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=x.shape[-1] // kernel.shape[-2],
        )

    x = np.ones((2, 9, 8, 8), np.float32)
    kernels = [np.ones((3, 2, inputs, 16), np.float32) for inputs in (4, 1)]
    cases: list[Case] = [(convolved, (x, kernel)) for kernel in kernels]
    for (found,), expected in zip(run_compiled(cases, "vulkan"), (24, 6), strict=True):
        np.testing.assert_array_equal(found, np.full((2, 7, 7, 16), expected))
    monkeypatch.delitem(passes.PASSES, "grouped_convolutions")
    ((found,),) = run_compiled(cases[:1], "vulkan")
    assert not np.array_equal(found, np.full((2, 7, 7, 16), 24)), MENDED


def test_a_choice_of_complex_numbers_does_not_compile(device: Device) -> None:
    x = np.ones(3, np.complex64)
    body = """
    %s = stablehlo.add %a0, %a0 : tensor<3xcomplex<f32>>
    %r = stablehlo.select %a1, %a0, %s : tensor<3xi1>, tensor<3xcomplex<f32>>
    %r
    """
    with pytest.raises(CompileError, match=r"arith\.select"):
        compile_on(device, body, [x, np.ones(3, bool)], x)


# Programs that end the process, or must run with the driver as it is.
_ALONE = """
import sys
import ml_dtypes
import numpy as np
from iree.runtime import flags
flags.parse_flags = lambda *_: None
from tests.lowering import test_vulkan_hazards as hazards
hazards.{name}(hazards.vulkan_device())
"""


def _run_alone(name: str) -> int:
    """The exit status of a process that calls the function of that name."""
    command = [sys.executable, "-c", _ALONE.format(name=name)]
    root = Path(__file__).parents[2]
    return subprocess.run(command, cwd=root, check=False, timeout=300).returncode


def scan_complex(device: Device) -> None:
    x = np.ones(4, np.complex64)
    body = """
    %z = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
    %r = "stablehlo.reduce_window"(%a0, %z) <{window_dimensions = array<i64: 4>,
      padding = dense<[[3, 0]]> : tensor<1x2xi64>}> ({
      ^bb0(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>):
      %s = stablehlo.add %a, %b : tensor<complex<f32>>
      stablehlo.return %s : tensor<complex<f32>>
    }) : (tensor<4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<4xcomplex<f32>>
    %r
    """
    compile_on(device, body, [x], x)


def update_in_a_loop(device: Device) -> None:
    """Doubles element 3 six times; exits with status 3 when some of that is lost."""
    x = np.arange(1, 13, dtype=np.int32)
    if run_on(device, UPDATE_IN_A_LOOP, [x], x)[3] != 256:
        sys.exit(3)


def test_a_scan_of_complex_numbers_ends_the_compiler(device: Device) -> None:
    assert _run_alone("scan_complex") != 0, MENDED


def test_commands_submitted_again_keep_their_first_buffers(device: Device) -> None:
    update_in_a_loop(device)  # with the driver's records turned off
    assert _run_alone("update_in_a_loop") == 3, MENDED


def test_the_software_device_ends_long_loops(software: Device) -> None:
    n = 100_000
    v, big = np.ones(10, np.float32), np.ones(n, np.float32)
    body = f"""
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%a0 init: %z) applies stablehlo.add across dimensions = [0]
      : (tensor<10xf32>, tensor<f32>) -> tensor<f32>
    %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<{n}xf32>
    %r = stablehlo.multiply %a1, %b : tensor<{n}xf32>
    %r
    """
    assert (run_on(software, body, [v, big], big) != 10).any(), MENDED


def test_long_reductions_contractions_and_scatters_are_right(device: Device) -> None:
    n = 70_000
    rng = np.random.default_rng(1)
    x, rows = rng.uniform(0, 1, n).astype(np.float32), rng.uniform(0, 1, (2, n)).astype(np.float32)
    index, weights = rng.integers(0, 5, n).astype(np.int32), np.arange(1, 4, dtype=np.uint32)

    def program(x: Any, rows: Any, index: Any, weights: Any) -> list[Any]:
        window = xpr.lax.reduce_window(x, 0.0, xpr.lax.add, (n,), (1,), "VALID")
        total = xnp.sum(x[:10])
        count = xnp.broadcast_to(xnp.sum(weights), (n,))
        added = xnp.zeros(5).at[index].add(x)
        return [window[0], x * total, count, added, rows @ rows.T, rows @ x, xnp.argmax(x)]

    wide, matrix = x.astype(np.float64), rows.astype(np.float64)
    expected = [
        wide.sum(),
        x * x[:10].sum(),
        np.full(n, 6),
        np.bincount(index, wide),
        matrix @ matrix.T,
        matrix @ wide,
        x.argmax(),
    ]
    for found, wanted in zip(
        run_compiled([(program, (x, rows, index, weights))], "vulkan")[0], expected, strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_integers_as_bfloat16_give_no_shader(software: Device) -> None:
    x, like = np.arange(4, dtype=np.int32), np.zeros(4, ml_dtypes.bfloat16)
    body = """
    %w = stablehlo.convert %a0 : (tensor<4xi32>) -> tensor<4xf32>
    %r = stablehlo.convert %w : (tensor<4xf32>) -> tensor<4xbf16>
    %r
    """
    with pytest.raises(RuntimeError, match="vkCreateComputePipelines"):
        run_on(software, body, [x], like)


@pytest.mark.parametrize("operation", ["divide", "remainder"])
def test_unsigned_division_of_eight_elements(device: Device, operation: str) -> None:
    x, y = np.full(8, 9, np.uint32), np.full(8, 4, np.uint32)
    line = f"%r = stablehlo.{operation} %a0, %a1 : tensor<8xui32>"
    with pytest.raises(CompileError, match="bitwidth emulation is not implemented"):
        run_on(device, f"{line}\n%r", [x, y], x)


def test_without_the_pass_division_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    vulkan_device()
    monkeypatch.delitem(passes.PASSES, "spirv_arithmetic")
    x, y = np.full(8, 9, np.uint32), np.full(8, 4, np.uint32)
    monkeypatch.setenv("XPR_CACHE", "0")
    with pytest.warns(RuntimeWarning, match="computed by NumPy, which is slower: div"):
        run_compiled([(lambda x, y: lax.div(x, y), (x, y))], "vulkan")


def test_division_in_a_reduction_and_of_the_least_integer() -> None:
    vulkan_device()
    x, y = np.arange(8, dtype=np.uint32) * 400_000_001, np.arange(1, 9, dtype=np.uint32)
    least = np.array([-(2**31), -(2**31), 7, -7] * 2, np.int32)
    divisor = np.array([-1, 3, -2, 2] * 2, np.int32)

    def program(x: Any, y: Any, least: Any, divisor: Any) -> list[Any]:
        def step(a: Any, b: Any) -> Any:
            return lax.rem(lax.rem(a, np.uint32(1000)) + b % 1000, np.uint32(1000))

        return [lax.reduce(x, np.uint32(0), step, (0,)), lax.rem(least, divisor), x // y]

    cases: list[Case] = [(program, (x, y, least, divisor))]
    for found, wanted in zip(
        run_compiled(cases, "vulkan")[0], run_reference(cases)[0], strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_quotients(device: Device, dtype: str) -> None:
    info = np.iinfo(dtype)
    ends = [0, 1, 2, 3, 7, info.max, info.max - 1, info.max // 2, info.max // 2 + 1]
    rng = np.random.default_rng(5)
    some = rng.integers(0, info.max, 20, dtype=dtype, endpoint=True)
    special = np.array(ends, dtype)
    x, y = (v.ravel() for v in np.meshgrid(np.concatenate([special, some]), special[1:]))
    with override("enable_x64", True):
        f = xpr.jit(lambda a, b: (lax.div(a, b), lax.rem(a, b)))
        quotient, rest = f(*xpr.device_put([x, y], device))
    np.testing.assert_array_equal(quotient, x // y)
    np.testing.assert_array_equal(rest, x % y)


def test_a_table_of_complex_numbers_does_not_compile(device: Device) -> None:
    x = np.eye(3, dtype=np.complex64)
    table = f'"0x{x.tobytes().hex().upper()}"'
    v = "tensor<3x3xcomplex<f32>>"
    body = f"%c = stablehlo.constant dense<{table}> : {v}\n%r = stablehlo.add %a0, %c : {v}\n%r"
    with pytest.raises(CompileError, match=r"failed to legalize operation 'arith\.constant'"):
        run_on(device, body, [x], x)


def test_tables_of_complex_numbers(device: Device) -> None:
    a = np.array([[3, 0], [1 + 1j, 2]], np.complex64)
    b = np.array([[1j], [2]], np.complex64)

    def solve(a: Any, b: Any) -> Any:
        # Its lowering has an identity matrix as a table.
        return lax.linalg.triangular_solve(
            a, b, left_side=True, lower=True, conjugate_a=True, transpose_a=True, unit_diagonal=True
        )

    found = xpr.jit(solve)(*xpr.device_put([a, b], device))
    unit = np.array([[1, 0], [1 + 1j, 1]], np.complex64)
    np.testing.assert_allclose(found, np.linalg.solve(unit.conj().T, b), rtol=1e-6)
