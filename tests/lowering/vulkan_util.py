"""The first Vulkan device, and StableHLO programs run on it as they are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tests.conftest import first_device
from xpr.dispatch.compiling import target_of
from xpr.lowering.ir.types import tensor_type
from xpr.lowering.iree.compiler import compile_stablehlo
from xpr.lowering.targets.flags import ProgramHints
from xpr.runtimes.base import Device, ExecutableSignature

Array = np.ndarray[Any, Any]


def vulkan_device() -> Device:
    """The first device; skips with the reason when there is none."""
    return first_device("vulkan")


UPDATE_IN_A_LOOP = """
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %v = %a0) : tensor<i32>, tensor<12xi32>
      cond {
        %n = stablehlo.constant dense<6> : tensor<i32>
        %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %two = stablehlo.constant dense<2> : tensor<1xi32>
        %k = stablehlo.constant dense<3> : tensor<i32>
        %old = stablehlo.dynamic_slice %v, %k, sizes = [1]
          : (tensor<12xi32>, tensor<i32>) -> tensor<1xi32>
        %twice = stablehlo.multiply %old, %two : tensor<1xi32>
        %new = stablehlo.optimization_barrier %twice : tensor<1xi32>
        %w = stablehlo.dynamic_update_slice %v, %new, %k
          : (tensor<12xi32>, tensor<1xi32>, tensor<i32>) -> tensor<12xi32>
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %w : tensor<i32>, tensor<12xi32>
      }
    %kept = util.optimization_barrier %a0 : tensor<12xi32>
    %r#1
    """
"""Doubles element 3 of twelve integers six times."""


def compile_on(device: Device, body: str, args: Sequence[Array], result: Array) -> bytes:
    """The module with a `main` of operands `%a0`, `%a1`, ... like `args`, and one result.

    The last line of `body` names the value to return.
    """
    target = target_of(device)
    types = [tensor_type(a.shape, a.dtype) for a in args]
    operands = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
    out = tensor_type(result.shape, result.dtype)
    *lines, value = body.strip().splitlines()
    text = "\n".join(
        [
            f"module @hazard attributes {{{target.module_attributes}}} {{",
            f"func.func public @main({operands}) -> {out} {{",
            *lines,
            f"return {value.strip()} : {out}",
            "}}",
        ]
    )
    hints = ProgramHints(
        has_control_flow='"stablehlo.while"' in text or '"stablehlo.case"' in text,
        has_barriers="optimization_barrier" in text,
    )
    return compile_stablehlo(text, target, hints=hints)


def run_on(device: Device, body: str, args: Sequence[Array], like: Array) -> Array:
    """The result of such a module."""
    vmfb = compile_on(device, body, args, like)
    inputs = tuple((a.shape, a.dtype) for a in args)
    signature = ExecutableSignature("main", inputs, ((like.shape, like.dtype),))
    executable = device.runtime.load(vmfb, signature, device)
    buffers = [device.runtime.buffer_from_host(a, device, copy=True) for a in args]
    return executable(buffers)[0].host_view()


@contextmanager
def does_not_compile() -> Iterator[None]:
    """A context for a program that no set of flags compiles, only its operations one by one."""
    # What was compiled so before would come from the cache, without the warning.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XPR_CACHE", "0")
        with pytest.warns(RuntimeWarning, match="its operations are computed one by one"):
            yield
