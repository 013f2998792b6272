"""Kernels that become parts of compiled programs: functions in MLIR, and shaders."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any

from xpr.core.errors import shown
from xpr.experimental.kernel.calls import Kernel, Types
from xpr.primitives.kernel import MlirFunction, Shader, device_kernel_p

_MAGIC = 0x07230203
Workgroups = tuple[int, int, int] | Callable[..., tuple[int, int, int]]


def mlir(text: str | Callable[..., str], name: str, *, result: Any) -> Kernel:
    """A kernel that is a function in MLIR: in StableHLO, linalg, tensor, arith, math or scf.

    `text` holds functions (`func.func`) on tensors, of which that called `name` is called; or it is
    a function that writes them for the operands' types (`ShapeDtypeStruct`). They become functions
    of the program, for every device, so IREE may fuse their operations with those around them.
    `result` is as in `c_function`.

    What IREE compiles to wrong code is guarded against in programs of xpr's own operations, not in
    such a text ("Hazards" in the documentation). Calls raise ValueError for a text that MLIR does
    not read or without that function, and TypeError where its types are not those of the operands
    and the results.

    >>> import xpr, xpr.numpy as jnp
    >>> text = '''
    ... func.func @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
    ...   %y = stablehlo.add %x, %x : tensor<3xf32>
    ...   return %y : tensor<3xf32>
    ... }'''
    >>> twice = xpr.experimental.kernel.mlir(text, "twice", result=lambda x: x)
    >>> twice(jnp.arange(3.0))
    Array([0., 2., 4.], dtype=float32)
    """
    if not (isinstance(text, str) or callable(text)):
        raise TypeError(f"mlir takes a text or a function that writes it, got {shown(text)}")
    return Kernel(name, result, device_kernel_p, functools.partial(_mlir_code, text, name))


def _mlir_code(
    text: str | Callable[..., str], name: str, operands: Types, results: Types
) -> MlirFunction:
    # The compile path is lazy.
    from xpr.lowering.ir.types import tensor_type  # noqa: PLC0415
    from xpr.lowering.iree.user_functions import types_of  # noqa: PLC0415

    written = text if isinstance(text, str) else text(*operands)
    for what, types, found in zip(
        ("takes", "gives"), (operands, results), types_of(written, name), strict=True
    ):
        wanted = tuple(tensor_type(t.shape, t.dtype) for t in types)
        if wanted != found:
            raise TypeError(
                f"the kernel {name} {what} ({', '.join(found)}), and is called for "
                f"({', '.join(wanted)})"
            )
    return MlirFunction(name, written)


def spirv(data: bytes, *, workgroups: Workgroups, result: Any, entry: str = "main") -> Kernel:
    """A kernel that is a SPIR-V module, for programs on Vulkan devices.

    `data` is the module, as `glslc` writes it for a compute shader of GLSL, with the entry point
    `entry`. Its storage buffers are in set 0: binding i is operand i, and the results follow.
    Booleans are bytes, and unsigned integers the same bits. `workgroups` says how many are run
    along x, y and z, or is a function that says it for the operands' types; a shader may find the
    sizes of its arrays by their `length()`. `result` is as in `c_function`.

    Nothing checks that a shader fits its arrays, nor what it does. Raises ValueError for what is no
    SPIR-V; calls raise ValueError for counts that are not three positive numbers, and
    NotImplementedError in programs for other devices.

    >>> import xpr
    >>> xpr.experimental.kernel.spirv(b"#version 450", workgroups=(1, 1, 1), result=lambda x: x)
    Traceback (most recent call last):
        ...
    ValueError: spirv takes a module of SPIR-V (little-endian), got 12 bytes that begin with b'#ver'
    """
    if len(data) < 20 or len(data) % 4 or struct.unpack_from("<I", data)[0] != _MAGIC:
        raise ValueError(
            f"spirv takes a module of SPIR-V (little-endian), got {len(data)} bytes that begin "
            f"with {data[:4]!r}"
        )
    return Kernel(
        entry, result, device_kernel_p, functools.partial(_shader, data, entry, workgroups)
    )


def _shader(
    data: bytes, entry: str, workgroups: Workgroups, operands: Types, results: Types
) -> Shader:
    del results
    counts = tuple(workgroups(*operands) if callable(workgroups) else workgroups)
    if len(counts) != 3 or not all(isinstance(n, int) and n > 0 for n in counts):
        raise ValueError(f"workgroups are three positive numbers, got {counts}")
    return Shader(entry, data, counts)
