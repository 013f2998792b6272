"""The user's own kernels: calls of the host, functions of the module, dispatches of their code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.iree.user_functions import functions_of, renamed
from xpr.lowering.loops.single_dispatch import flat_memory, memory_dtype, shaped
from xpr.lowering.registry import register
from xpr.primitives.kernel import (
    CFunction,
    MlirFunction,
    Ptx,
    Shader,
    c_kernel_p,
    device_kernel_p,
)

_BEGIN, _END = "#hal.executable.target<", "]> : !hal.device]"
# IREE asks no more of a kernel that is compiled already than which format it is in.
_CUDA = '#hal.executable.target<"cuda", "cuda-nvptx-fb">'


def _c_kernel_lower(
    ctx: LoweringContext, *operands: Value, code: CFunction, **_: Any
) -> Sequence[Value]:
    if not ctx.target.host_calls:
        raise NotImplementedError(
            f"{code} is code of this process, which a program that is saved for target "
            f"{ctx.target.name} cannot call"
        )
    types = [(a.shape, a.dtype) for a in ctx.out_avals]
    return ctx.module.host_call(ctx, code.name, code, operands, types, out=True)


def _device_kernel_lower(
    ctx: LoweringContext,
    *operands: Value,
    code: MlirFunction | Shader | Ptx,
    result_avals: tuple[ShapedArray, ...],
) -> Sequence[Value]:
    types = [(a.shape, a.dtype) for a in result_avals]
    if isinstance(code, MlirFunction):
        functions = functions_of(code.text)
        # Functions of the program, and of other kernels, may have the same names.
        names = {name: ctx.module.symbol(name) for name in functions}
        for name, text in functions.items():
            ctx.module.module.sources[names[name]] = renamed(text, names)
        return ctx.call(names[code.name], operands, types)
    flats = [Value((a.size,), memory_dtype(a.dtype)) for a in result_avals]
    ctx.append(
        "hal.dispatch.extern",
        [flat_memory(ctx, x) for x in operands],
        flats,
        {"entry": code.name, "workgroups": code.workgroups, "data": code.data, **_form(ctx, code)},
    )
    return [shaped(ctx, x, a.shape, a.dtype) for x, a in zip(flats, result_avals, strict=True)]


def _form(ctx: LoweringContext, code: Shader | Ptx) -> dict[str, Any]:
    """What else is said of compiled code; NotImplementedError if the target cannot run it."""
    name = ctx.target.name
    if isinstance(code, Ptx):
        if name != "cuda":
            raise NotImplementedError(
                f"{code} is for CUDA, and programs for target {name} cannot run it: PTX runs on "
                "NVIDIA's GPUs through the runtime cuda"
            )
        return {"target": _CUDA, "threads": code.threads, "shared_bytes": code.shared_bytes}
    target = ctx.target.module_attributes
    if "vulkan-spirv" not in target:
        raise NotImplementedError(
            f"{code} is a SPIR-V module, which programs for target {name} cannot run: "
            "shaders run on Vulkan devices"
        )
    return {"target": target[target.index(_BEGIN) : target.rindex(_END)]}


register(c_kernel_p, _c_kernel_lower)
register(device_kernel_p, _device_kernel_lower)
