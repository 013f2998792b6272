"""The user's own kernels: in C, in MLIR, as shaders, and in PTX."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import has_c_compiler
from tests.experimental.spirv_words import multiply
from xpr.experimental import kernel

SOURCE = """
#include <stdint.h>
void scale(const float *x, const float *factor, float *y, const int64_t *sizes) {
    for (int64_t i = 0; i < sizes[0] * sizes[1]; i++) y[i] = x[i] * *factor;
}
int divide(const int32_t *x, const uint8_t *is_safe, int32_t *quotient, int32_t *rest) {
    if (!*is_safe) return 7;
    *quotient = x[0] / x[1];
    *rest = x[0] % x[1];
    return 0;
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def c_source(*args: Any, **options: Any) -> kernel.Kernel:
    if not has_c_compiler():
        pytest.skip("needs a C compiler")
    return kernel.c_source(*args, **options)


@pytest.fixture(scope="module")
def scale() -> kernel.Kernel:
    return c_source(SOURCE, "scale", result=lambda x, factor: x, sizes=True)


@pytest.fixture(scope="module")
def divide() -> kernel.Kernel:
    number = xpr.ShapeDtypeStruct((), np.int32)
    result = {"quotient": number, "rest": number}
    return c_source(SOURCE, "divide", result=result, status=True, flags=("-O1",))


def test_a_c_function_alone_in_a_program_and_in_a_loop(scale: kernel.Kernel) -> None:
    np.testing.assert_array_equal(scale(X, np.float32(3)), X * 3)

    @xpr.jit
    def program(x: Any) -> tuple[Any, Any]:
        # Transposed in the program: the function gets rows that lie in memory one after the other.
        once = scale((x + 1).T, jnp.float32(2))
        many = xpr.lax.fori_loop(0, 4, lambda _, y: scale(y, jnp.float32(0.5)), x)
        return once.T, many

    once, many = program(X)
    np.testing.assert_array_equal(once, (X + 1) * 2)
    np.testing.assert_array_equal(many, X / 16)
    with xpr.default_device(xpr.devices("reference")[0]):
        np.testing.assert_array_equal(xpr.jit(scale)(X, np.float32(3)), X * 3)


def test_several_results_and_a_status(divide: kernel.Kernel) -> None:
    numbers = np.array([17, 5], np.int32)
    found = xpr.jit(divide)(numbers, True)
    assert {name: int(x) for name, x in found.items()} == {"quotient": 3, "rest": 2}
    with pytest.raises(RuntimeError, match="the kernel divide returned 7"):
        divide(numbers, False)
    with pytest.raises(RuntimeError, match="the kernel divide returned 7"):
        xpr.block_until_ready(xpr.jit(divide)(numbers, False))


def test_derivatives_and_batches_are_the_users(scale: kernel.Kernel) -> None:
    @xpr.custom_vjp
    def scaled(x: Any, factor: Any) -> Any:
        return scale(x, factor)

    def backward(kept: Any, ct: Any) -> tuple[Any, Any]:
        x, factor = kept
        return scale(ct, factor), (ct * x).sum()

    scaled.defvjp(lambda x, factor: (scale(x, factor), (x, factor)), backward)
    by_x, by_factor = xpr.jit(xpr.grad(lambda x, f: (scaled(x, f) ** 2).sum(), argnums=(0, 1)))(
        X, np.float32(3)
    )
    np.testing.assert_allclose(by_x, 2 * 9 * X)
    np.testing.assert_allclose(by_factor, 2 * 3 * (X**2).sum())
    with pytest.raises(NotImplementedError, match=r"put xpr\.custom_vjp or xpr\.custom_jvp"):
        xpr.grad(lambda x: scale(x, jnp.float32(1)).sum())(X)

    each = xpr.custom_batching.sequential_vmap(scale)
    factors = np.array([1, 2, 3], np.float32)
    found = xpr.jit(xpr.vmap(each, in_axes=(None, 0)))(X, factors)
    np.testing.assert_array_equal(found, factors[:, None, None] * X)
    with pytest.raises(NotImplementedError, match=r"put xpr\.custom_batching\.custom_vmap around"):
        xpr.vmap(scale)(X[None], factors[:1])


def test_functions_of_ctypes_and_addresses(tmp_path: Path) -> None:
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    copy = kind(lambda x, y: ctypes.memmove(y, x, 24) and None)
    address = ctypes.cast(copy, ctypes.c_void_p).value
    for function in (copy, address):
        np.testing.assert_array_equal(kernel.c_function(function, result=lambda x: x)(X), X)
    for wrong in (True, "f", None):
        with pytest.raises((TypeError, OSError)):
            kernel.c_function(wrong if wrong != "f" else tmp_path / "no.so", "f", result=None)
    with pytest.raises(TypeError, match="takes a library, a function of ctypes or an address"):
        kernel.c_function(print, result=None)
    with pytest.raises(TypeError, match="the address 0"):
        kernel.c_function(0, result=None)
    with pytest.raises(TypeError, match="needs the name"):
        kernel.c_function(ctypes.CDLL(None), result=None)


def test_what_c_compilers_refuse() -> None:
    with pytest.raises(RuntimeError, match=r"refuses the kernel f:[\s\S]*error:"):
        c_source("no program", "f", result=None)


def test_a_compiler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    with pytest.raises(RuntimeError, match="compiling the kernel f needs a C compiler"):
        kernel.c_source("", "f", result=None)


def test_types_that_kernels_promise() -> None:
    scaled = kernel.c_function(1, "f", result=3)
    with pytest.raises(TypeError, match="the kernel f promises as result 0 what has no shape"):
        scaled(X)
    scaled = kernel.c_function(1, "f", result=np.zeros(2))
    with pytest.raises(TypeError, match="the kernel f promises float64, which needs"):
        scaled(X)


def test_c_functions_stay_in_this_process(scale: kernel.Kernel, tmp_path: Path) -> None:
    program = xpr.jit(lambda x: scale(x + 1, jnp.float32(2)))
    # Programs of other devices of this process have their arrays copied to the function.
    with xpr.default_device(xpr.devices("vulkan")[0]):
        np.testing.assert_array_equal(program(X), (X + 1) * 2)
    with pytest.raises(NotImplementedError, match="the C function scale is code of this process"):
        program.lower(X).compile().save(tmp_path / "program.vmfb")


# ---- MLIR


def _squares(x: xpr.ShapeDtypeStruct) -> str:
    """Squares in linalg, by a second function, whose name programs have, too."""
    t = f"tensor<{x.size}xf32>"
    return f"""
    #same = affine_map<(d0) -> (d0)>
    func.func @main(%x: {t}) -> {t} {{
      %e = tensor.empty() : {t}
      %r = linalg.generic {{indexing_maps = [#same, #same], iterator_types = ["parallel"]}}
        ins(%x : {t}) outs(%e : {t}) {{
        ^bb0(%a: f32, %b: f32):
          %c = arith.mulf %a, %a : f32
          linalg.yield %c : f32
      }} -> {t}
      return %r : {t}
    }}
    func.func public @squares(%x: {t}) -> {t} {{
      %s = call @main(%x) : ({t}) -> {t}
      %y = stablehlo.negate %s : {t}
      return %y : {t}
    }}"""


def test_functions_in_mlir_are_parts_of_programs() -> None:
    squares = kernel.mlir(_squares, "squares", result=lambda x: x)
    x = np.arange(5, dtype=np.float32)

    def program(x: Any) -> Any:
        return squares(x + 1) + squares(x[:3]).sum()

    wanted = -((x + 1) ** 2) - (x[:3] ** 2).sum()
    for runtime in ("cpu", "vulkan"):
        with xpr.default_device(xpr.devices(runtime)[0]):
            np.testing.assert_array_equal(squares(x), -(x**2))
            np.testing.assert_array_equal(xpr.jit(program)(x), wanted)
    text = xpr.jit(program).lower(x).as_text("iree")
    assert text.count("func.func public") == 1
    with xpr.default_device(xpr.devices("reference")[0]):
        with pytest.raises(NotImplementedError, match="the MLIR function squares has no meaning"):
            xpr.jit(squares)(x)


def test_types_of_functions_in_mlir_are_checked() -> None:
    same = lambda x: x  # noqa: E731
    text = "func.func @f(%x: tensor<2xui8>) -> tensor<2xui8> { return %x : tensor<2xui8> }"
    np.testing.assert_array_equal(
        kernel.mlir(text, "f", result=same)(np.array([1, 255], np.uint8)), [1, 255]
    )
    with pytest.raises(
        TypeError, match=r"f takes \(tensor<2xui8>\), and is called for \(tensor<3x"
    ):
        kernel.mlir(text, "f", result=same)(np.zeros(3, np.uint8))
    wrong = kernel.mlir(text, "f", result=xpr.ShapeDtypeStruct((), np.float32))
    with pytest.raises(
        TypeError, match=r"f gives \(tensor<2xui8>\), and is called for \(tensor<f32"
    ):
        wrong(np.zeros(2, np.uint8))
    with pytest.raises(ValueError, match="no function g in the text of a kernel: "):
        kernel.mlir(text, "g", result=same)(np.zeros(2, np.uint8))
    with pytest.raises(ValueError, match="MLIR does not read the text of a kernel"):
        kernel.mlir("func @f", "f", result=same)(X)
    with pytest.raises(ValueError, match=r"holds functions \(func.func\), got builtin.module"):
        kernel.mlir("module {} module {}", "f", result=same)(X)
    with pytest.raises(TypeError, match="mlir takes a text or a function that writes it, got 3"):
        kernel.mlir(3, "f", result=same)  # pyright: ignore[reportArgumentType]


# ---- shaders


def _blocks(x: xpr.ShapeDtypeStruct, *_: Any) -> tuple[int, int, int]:
    return -(-x.size // 64), 1, 1


def test_shaders_run_between_other_operations() -> None:
    product = kernel.spirv(multiply(), workgroups=_blocks, result=lambda x, _: x)
    x = np.linspace(-2, 3, 101, dtype=np.float32)
    with xpr.default_device(xpr.devices("vulkan")[0]):
        np.testing.assert_array_equal(product(x, x), x * x)
        found = xpr.jit(lambda x: product(x * 2, x + 1) - 1)(x)
        np.testing.assert_allclose(found, (x * 2) * (x + 1) - 1, rtol=1e-6)
    with pytest.raises(NotImplementedError, match="shaders run on Vulkan devices"):
        product(x, x)
    with pytest.raises(ValueError, match="three positive numbers"):
        kernel.spirv(multiply(), workgroups=(1, 0, 1), result=lambda x, _: x)(x, x)


def test_the_shader_of_the_tutorial_is_this_one() -> None:
    tutorials = Path(__file__).parents[2] / "docs" / "tutorials"
    assert (tutorials / "multiply.spv").read_bytes() == multiply()


# ---- PTX

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"


def _multiply_ptx(**options: Any) -> kernel.Kernel:
    given: dict[str, Any] = {
        "entry": "multiply",
        "workgroups": _blocks,
        "threads": (64, 1, 1),
        "result": lambda x, *_: x,
    }
    return kernel.ptx((TUTORIALS / "multiply.ptx").read_text(), **{**given, **options})


def test_kernels_in_ptx_become_part_of_programs_for_cuda(tmp_path: Path) -> None:
    product = _multiply_ptx(threads=(64, 2, 1), shared_bytes=12345)
    program = xpr.jit(lambda x: product(x * 2, x + 1, jnp.int32(x.size)) - 1)
    path = tmp_path / "program.vmfb"
    program.lower(xpr.ShapeDtypeStruct((101,), np.float32), platform="cuda").compile().save(path)
    module = path.read_bytes()
    # The text as it is, for the driver compiles it; beside it the sizes of its blocks and of their
    # memory, as IREE's format of modules for CUDA has them: x, y, z, bytes.
    assert (TUTORIALS / "multiply.ptx").read_bytes() in module
    assert struct.pack("<4I", 64, 2, 1, 12345) in module


def test_ptx_runs_on_cuda_alone() -> None:
    product = _multiply_ptx()
    x = np.ones(3, np.float32)
    for name in ("cpu", "vulkan", "reference"):
        with xpr.default_device(xpr.devices(name)[0]):
            with pytest.raises(NotImplementedError, match=r"the PTX kernel multiply \(1035 bytes"):
                xpr.jit(product)(x, x, np.int32(3))
    with pytest.raises(NotImplementedError, match="for target cpu cannot run it: PTX runs on NV"):
        product(x, x, np.int32(3))


def test_what_is_no_ptx_and_calls_that_do_not_fit() -> None:
    x = np.ones(3, np.float32)
    with pytest.raises(TypeError, match="multiply takes 4 parameters, and is called with 2 op"):
        _multiply_ptx()(x, x)
    with pytest.raises(ValueError, match="no kernel divide in the PTX: it has multiply"):
        _multiply_ptx(entry="divide")
    with pytest.raises(ValueError, match=r"at most 1024 threads, got \(64, 32, 1\)"):
        _multiply_ptx(threads=(64, 32, 1))(x, x, np.int32(3))
    with pytest.raises(ValueError, match="threads are three positive numbers, got"):
        _multiply_ptx(threads=(64, 1))(x, x, np.int32(3))
    for text in ("// .version 7.0\nnothing", b"\x7fELF", ""):
        with pytest.raises(ValueError, match="ptx takes the text of a PTX module, got"):
            kernel.ptx(text, entry="f", workgroups=(1, 1, 1), threads=(1, 1, 1), result=lambda x: x)
