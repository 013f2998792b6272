"""Calls of kernels that come with xpr, and operands as such kernels read them.

The code is in `runtimes/native/products/`, compiled ahead of time for a few kinds of processor. A
program that calls it is compiled sooner than one for which LLVM makes the code.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from xpr.lowering import prebuilt
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.graph import PrebuiltKernel
from xpr.lowering.ir.types import element_type
from xpr.primitives._complex import real_dtype

# What the interface of dispatches has place for: elements, and workgroups along the third axis.
LARGEST = 1 << 31
MOST_GROUPS = (1 << 16) - 1


@dataclass(frozen=True)
class Operand:
    """An operand as a kernel reads it: strides, in elements, along each of its three axes."""

    value: Value
    free: int
    depth: int
    batch: int


def kind(ctx: LoweringContext) -> str | None:
    """The kind of processor that the target has kernels for, as in `avx512`; None for others."""
    kernels = ctx.target.product_kernels
    name = kernels() if kernels is not None else None
    return None if name is None else name.removeprefix("products_")


def available(ctx: LoweringContext, file: str, *kernels: str) -> bool:
    """Whether the target has these kernels of a file."""
    name = kind(ctx)
    return name is not None and all(prebuilt.has(file, f"xpr_{k}_{name}") for k in kernels)


def operand(
    ctx: LoweringContext, x: Value, batch: Sequence[int], contract: Sequence[int]
) -> Operand:
    """Where the axes of a kind lie behind each other, they are one; else `x` is transposed."""
    found = as_it_lies(x, batch, contract)
    return transposed(ctx, x, batch, contract) if found is None else found


def as_it_lies(x: Value, batch: Sequence[int], contract: Sequence[int]) -> Operand | None:
    """The operand where it is, or where what was transposed is; None where axes lie apart."""
    shape = x.shape
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    op = x.op
    if op is not None and op.name == "stablehlo.transpose":
        # The kernel reads what was transposed.
        (x,) = op.operands
        inner = [math.prod(x.shape[i + 1 :]) for i in range(len(shape))]
        strides = [inner[i] for i in op.attributes["dims"]]
    free = [i for i in range(len(shape)) if i not in batch and i not in contract]
    found = [_stride(shape, strides, axes) for axes in (free, contract, batch)]
    return None if None in found else Operand(x, *(s for s in found if s is not None))


def transposed(
    ctx: LoweringContext, x: Value, batch: Sequence[int], contract: Sequence[int]
) -> Operand:
    """The operand in rows along the contracted axes."""
    free = [i for i in range(len(x.shape)) if i not in batch and i not in contract]
    depth = math.prod(x.shape[i] for i in contract)
    count = math.prod(x.shape[i] for i in free)
    order = [*batch, *free, *contract]
    return Operand(ctx.transpose(x, order), depth, 1, depth * count)


def _stride(shape: Sequence[int], strides: Sequence[int], axes: Sequence[int]) -> int | None:
    """The stride of several axes as one; None where they are not."""
    long = [i for i in axes if shape[i] != 1]
    for i, j in itertools.pairwise(long):
        if strides[i] != strides[j] * shape[j]:
            return None
    return strides[long[-1]] if long else 0


def call(
    ctx: LoweringContext,
    file: str,
    kernel: str,
    operands: Sequence[Value],
    results: Sequence[Value],
    numbers: Sequence[int],
    workgroups: tuple[int, int, int],
) -> None:
    """A dispatch of a kernel; `file` is the source that has it, without its ending.

    Kernels take complex numbers as twice as many real ones.
    """
    name = f"{file}_{kind(ctx)}"
    element = element_type(real_dtype(results[0].dtype))
    symbol = f"xpr_{kernel}_{element}"
    ctx.module.module.prebuilt[symbol] = PrebuiltKernel(
        function=f"{symbol}_{kind(ctx)}",
        object_path=prebuilt.path(name),
        object_digest=prebuilt.digest(name),
        element=element,
        operands=len(operands),
        results=len(results),
        numbers=len(numbers),
    )
    attributes = {"symbol": symbol, "numbers": numbers, "workgroups": workgroups}
    ctx.append("flow.dispatch", operands, results, attributes)
