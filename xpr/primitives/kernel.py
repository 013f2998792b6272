"""The user's own kernels: functions in C, programs in MLIR, shaders, PTX.

What they compute nobody here knows, so they have neither derivatives nor a meaning for batches:
`custom_vjp` and `custom_vmap` around their calls give them both.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.primitive import NotBatchable, NotDifferentiable, NotLinear, define

_FAMILY = "kernel"

_NO_JVP = NotDifferentiable(
    "what a kernel computes is not known here: put xpr.custom_vjp or xpr.custom_jvp around its call"
)
_NO_TRANSPOSE = NotLinear("it has no derivative that would be transposed")
_NO_BATCH = NotBatchable(
    "what a kernel makes of batches is not known here: put xpr.custom_batching.custom_vmap around "
    "its call, or xpr.custom_batching.sequential_vmap to call it for each example"
)


@dataclass(frozen=True)
class CFunction:
    """A function in C of this process: its address, and what it is called with.

    It gets the address of each operand, then of each result; with `has_sizes` behind them that of
    all their sizes as `int64_t`. With `has_status` it returns an `int` that is 0 when all is well.
    """

    name: str
    address: int
    has_sizes: bool
    has_status: bool
    library: Any = field(default=None, compare=False, repr=False)
    """What keeps the code in memory."""

    def __call__(
        self, *operands: np.ndarray[Any, Any], out: Sequence[np.ndarray[Any, Any]]
    ) -> None:
        """Runs the function on C-contiguous arrays; RuntimeError if its status is not 0."""
        arrays = [*operands, *out]
        values: list[Any] = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
        if self.has_sizes:
            sizes = [n for a in arrays for n in a.shape]
            values.append((ctypes.c_int64 * len(sizes))(*sizes))
        result = ctypes.c_int if self.has_status else None
        status = ctypes.CFUNCTYPE(result)(self.address)(*values)
        if status:
            raise RuntimeError(f"the kernel {self.name} returned {status}")

    def __str__(self) -> str:
        return f"the C function {self.name}"


@dataclass(frozen=True)
class MlirFunction:
    """Functions in MLIR, of which that called `name` is the kernel."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"the MLIR function {self.name}"


@dataclass(frozen=True)
class Shader:
    """A SPIR-V module for Vulkan: binding i of set 0 is operand i, and the results follow."""

    name: str
    data: bytes = field(repr=False)
    workgroups: tuple[int, int, int]

    def __str__(self) -> str:
        return f"the shader {self.name} ({len(self.data)} bytes, workgroups {self.workgroups})"


@dataclass(frozen=True)
class Ptx:
    """A kernel in PTX for CUDA: its parameters are the addresses of operands, then of results."""

    name: str
    data: bytes = field(repr=False)
    workgroups: tuple[int, int, int]
    threads: tuple[int, int, int]
    shared_bytes: int = 0

    def __str__(self) -> str:
        return (
            f"the PTX kernel {self.name} ({len(self.data)} bytes, workgroups {self.workgroups} of "
            f"threads {self.threads})"
        )


def _abstract(
    *_: ShapedArray, result_avals: tuple[ShapedArray, ...], **__: Any
) -> list[ShapedArray]:
    return list(result_avals)


def _c_reference(
    *args: Any, code: CFunction, result_avals: tuple[ShapedArray, ...]
) -> list[np.ndarray[Any, Any]]:
    out = [np.empty(a.shape, a.dtype) for a in result_avals]
    code(*(np.ascontiguousarray(x) for x in args), out=out)
    return out


def _no_reference(*_: Any, code: Any, **__: Any) -> Any:
    raise NotImplementedError(
        f"{code} has no meaning that NumPy could compute: it runs in compiled programs only"
    )


c_kernel_p = define(
    "c_kernel",
    family=_FAMILY,
    doc="A function in C of this process.",
    abstract=_abstract,
    reference=_c_reference,
    jvp=_NO_JVP,
    transpose=_NO_TRANSPOSE,
    batch=_NO_BATCH,
    multiple_results=True,
)

device_kernel_p = define(
    "device_kernel",
    family=_FAMILY,
    doc="A function in MLIR, a shader or PTX, which becomes part of the compiled program.",
    abstract=_abstract,
    reference=_no_reference,
    jvp=_NO_JVP,
    transpose=_NO_TRANSPOSE,
    batch=_NO_BATCH,
    multiple_results=True,
    eager="compile",
)
