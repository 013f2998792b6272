"""StableHLO programs for these tests, compiled straight by IREE's compiler, many in one module."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import api

from xpr.lowering.ir.types import element_dtype
from xpr.runtimes import registry
from xpr.runtimes.base import ArrayType, ExecutableSignature, HostCall
from xpr.runtimes.cpu import CpuDevice, CpuExecutable, CpuRuntime
from xpr.runtimes.host import HostBuffer

FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-input-type=stablehlo",
    "--iree-input-demote-f64-to-f32=false",
    "--iree-input-demote-i64-to-i32=false",
    "--iree-llvmcpu-target-cpu=host",
)

# The element types that compiled programs take and return.
ELEMENTS: dict[str, Any] = {
    name: element_dtype(name)
    for name in (
        *("i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"),
        *("f16", "bf16", "f32", "f64", "complex<f32>", "complex<f64>"),
        *("f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "f8E8M0FNU"),
    )
}


def symbol(element: str) -> str:
    """An element type as part of a function's name."""
    return element.replace("<", "_").replace(">", "_")


def f32(*shape: int) -> ArrayType:
    """The type of a float32 array."""
    return shape, np.dtype(np.float32)


@functools.cache
def compiled(text: str) -> bytes:
    """The module with these functions, for the CPU of this machine."""
    session = api.Session()
    session.set_flags(*FLAGS)
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    source = api.Source.wrap_buffer(session, f"module @tests {{\n{text}\n}}".encode())
    assert invocation.parse_source(source)
    assert invocation.execute()
    output = api.Output.open_membuffer()
    invocation.output_vm_bytecode(output)
    return bytes(output.map_memory())


def cpu() -> tuple[CpuRuntime, CpuDevice]:
    """The CPU runtime and its first device."""
    runtime = registry.get_runtime("cpu")
    assert isinstance(runtime, CpuRuntime)
    return runtime, runtime.devices()[0]


def load(
    text: str,
    entry: str,
    inputs: Sequence[ArrayType],
    outputs: Sequence[ArrayType],
    *,
    donations: Sequence[tuple[int, int]] = (),
    host_calls: Sequence[HostCall] = (),
    straight_line: bool = False,
    parallel: bool = False,
    device: CpuDevice | None = None,
) -> CpuExecutable:
    """One function of a module, loaded on a CPU device."""
    runtime, first = cpu()
    signature = ExecutableSignature(
        entry=f"tests.{entry}",
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        donations=tuple(donations),
        host_calls=tuple(host_calls),
        straight_line=straight_line,
    )
    where = first if device is None else device
    return runtime.load(compiled(text), signature, where, parallel=parallel)


def put(array: Any) -> HostBuffer:
    """A buffer over the array itself, on the first CPU device."""
    return HostBuffer(np.asarray(array), cpu()[1])


def run(executable: CpuExecutable, *arrays: Any) -> list[np.ndarray[Any, Any]]:
    """The results of a call, as NumPy arrays."""
    return [r.host_view() for r in executable([put(a) for a in arrays])]


V = "tensor<32xf32>"

# Arithmetic, and results that IREE lays over an operand or over one another.
BASIC = f"""
func.func public @add(%a: {V}, %b: {V}) -> ({V}, {V}) {{
  %0 = stablehlo.add %a, %b : {V}
  %1 = stablehlo.multiply %a, %b : {V}
  return %0, %1 : {V}, {V}
}}
func.func public @identity(%a: {V}) -> {V} {{ return %a : {V} }}
func.func public @reshape(%a: {V}) -> tensor<4x8xf32> {{
  %0 = stablehlo.reshape %a : ({V}) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}}
func.func public @twice(%a: {V}) -> ({V}, {V}, tensor<4x8xf32>) {{
  %0 = stablehlo.add %a, %a : {V}
  %1 = stablehlo.reshape %0 : ({V}) -> tensor<4x8xf32>
  return %0, %0, %1 : {V}, {V}, tensor<4x8xf32>
}}
func.func public @branch(%a: {V}, %p: tensor<i1>) -> {V} {{
  %0 = "stablehlo.if"(%p) ({{
    stablehlo.return %a : {V}
  }}, {{
    %1 = stablehlo.add %a, %a : {V}
    stablehlo.return %1 : {V}
  }}) : (tensor<i1>) -> {V}
  %k = util.optimization_barrier %a : {V}
  return %0 : {V}
}}
func.func public @repeat(%a: {V}, %n: tensor<i32>) -> {V} {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, {V} cond {{
    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }} do {{
    %2 = stablehlo.add %i, %one : tensor<i32>
    %3 = stablehlo.add %x, %x : {V}
    stablehlo.return %2, %3 : tensor<i32>, {V}
  }}
  %k = util.optimization_barrier %a : {V}
  return %0#1 : {V}
}}
func.func public @constants() -> (tensor<1000xf32>, tensor<2x4xf32>) {{
  %0 = stablehlo.iota dim = 0 : tensor<1000xf32>
  %1 = stablehlo.negate %0 : tensor<1000xf32>
  %2 = stablehlo.constant dense<[1., 2., 3., 4., 5., 6., 7., 8.]> : tensor<8xf32>
  %3 = stablehlo.reshape %2 : (tensor<8xf32>) -> tensor<2x4xf32>
  return %1, %3 : tensor<1000xf32>, tensor<2x4xf32>
}}
func.func public @empty(%a: tensor<0x3xf32>, %b: tensor<f32>) -> (tensor<0x3xf32>, tensor<f32>) {{
  %0 = stablehlo.add %a, %a : tensor<0x3xf32>
  %1 = stablehlo.add %b, %b : tensor<f32>
  return %0, %1 : tensor<0x3xf32>, tensor<f32>
}}
func.func public @negate(%a: tensor<4096xf32>) -> tensor<4096xf32> {{
  %0 = stablehlo.negate %a : tensor<4096xf32>
  return %0 : tensor<4096xf32>
}}
func.func public @square(%a: tensor<64x64xf32>) -> tensor<64x64xf32> {{
  %0 = stablehlo.dot %a, %a : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}}
"""

L = "tensor<4096xf32>"

# Programs that overwrite an argument: told to do so, or because nothing guards it.
DONATING = f"""
func.func public @add(%a: {V} {{iree.abi.output = 0 : index}}, %b: {V}) -> {V} {{
  %0 = stablehlo.add %a, %b : {V}
  return %0 : {V}
}}
func.func public @add_large(%a: {L} {{iree.abi.output = 0 : index}}, %b: {L}) -> {L} {{
  %0 = stablehlo.add %a, %b : {L}
  return %0 : {L}
}}
func.func public @update(%a: {L}, %b: {V}) -> {L} {{
  %i = stablehlo.constant dense<100> : tensor<i32>
  %0 = stablehlo.dynamic_update_slice %a, %b, %i : ({L}, {V}, tensor<i32>) -> {L}
  %k = util.optimization_barrier %b : {V}
  return %0 : {L}
}}
func.func public @both(%a: {L}, %b: {L}) -> ({L}, {L}) {{
  %0 = stablehlo.add %a, %b : {L}
  %1 = stablehlo.multiply %a, %b : {L}
  return %0, %1 : {L}, {L}
}}
"""

# One function for each element type: the operand twice, end to end.
TYPES = "\n".join(
    f"func.func public @double_{symbol(e)}(%a: tensor<6x{e}>) -> tensor<12x{e}> {{\n"
    f"  %0 = stablehlo.concatenate %a, %a, dim = 0 : (tensor<6x{e}>, tensor<6x{e}>)"
    f" -> tensor<12x{e}>\n  return %0 : tensor<12x{e}>\n}}"
    for e in ELEMENTS
)

H = "tensor<100xf32>"

# Programs that call back.
CALLING = f"""
func.func private @xpr.sort({H}) -> {H}
func.func private @xpr.split({H}, tensor<3xi1>) -> ({H}, tensor<bf16>)
func.func private @xpr.tell({H}) -> ()
func.func private @xpr.make() -> {H}
func.func public @sort(%a: {H}) -> {H} {{
  %0 = func.call @xpr.sort(%a) : ({H}) -> {H}
  %1 = stablehlo.add %0, %0 : {H}
  return %1 : {H}
}}
func.func public @split(%a: {H}, %b: tensor<3xi1>) -> ({H}, tensor<bf16>) {{
  %0 = stablehlo.add %a, %a : {H}
  %1:2 = func.call @xpr.split(%0, %b) : ({H}, tensor<3xi1>) -> ({H}, tensor<bf16>)
  func.call @xpr.tell(%0) : ({H}) -> ()
  return %1#0, %1#1 : {H}, tensor<bf16>
}}
func.func public @make(%a: {H}) -> ({H}, {H}) {{
  %0 = func.call @xpr.make() : () -> {H}
  %1 = func.call @xpr.make() : () -> {H}
  %2 = stablehlo.add %1, %a : {H}
  return %0, %2 : {H}, {H}
}}
func.func public @give(%a: {H} {{iree.abi.output = 0 : index}}) -> {H} {{
  %0 = func.call @xpr.sort(%a) : ({H}) -> {H}
  %1 = stablehlo.add %0, %0 : {H}
  return %1 : {H}
}}
"""

# One program that calls back.
SORTING = f"""
func.func private @xpr.sort({H}) -> {H}
func.func public @sort(%a: {H}) -> {H} {{
  %0 = func.call @xpr.sort(%a) : ({H}) -> {H}
  return %0 : {H}
}}
"""
