"""Kernels that become parts of compiled programs: functions in MLIR, shaders, and PTX."""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Callable
from typing import Any

from xpr.core.errors import shown
from xpr.experimental.kernel.calls import Kernel, Types
from xpr.primitives.kernel import MlirFunction, Ptx, Shader, device_kernel_p

_MAGIC = 0x07230203
_MOST_THREADS = 1024
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
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
    return Shader(entry, data, _counts("workgroups", workgroups, operands))


def _counts(what: str, given: Workgroups, operands: Types) -> tuple[int, int, int]:
    counts = tuple(given(*operands) if callable(given) else given)
    if len(counts) != 3 or not all(isinstance(n, int) and n > 0 for n in counts):
        raise ValueError(f"{what} are three positive numbers, got {counts}")
    return counts


def ptx(
    text: str | bytes,
    *,
    entry: str,
    workgroups: Workgroups,
    threads: Workgroups,
    result: Any,
    shared_bytes: int = 0,
) -> Kernel:
    """A kernel in PTX, for programs on CUDA devices.

    `text` is PTX, as `nvcc -ptx` and NVRTC write it, with the kernel `entry` (a function that is
    `extern "C" __global__` in CUDA C++). Its parameters are the addresses of its operands, then of
    its results, all of them row-major; booleans are bytes. `workgroups` is the grid, how many
    blocks there are along x, y and z, and `threads` how many threads a block has; each may be a
    function that says it for the operands' types. `shared_bytes` is the size of dynamic shared
    memory. `result` is as in `c_function`. The GPU's driver compiles it when the program is loaded.

    Nothing checks what a kernel does with its arrays. Raises ValueError for what is no PTX, and if
    there is no such kernel in it. Calls raise TypeError if it has another number of parameters than
    there are operands and results, ValueError for counts that are not three positive numbers or for
    more than 1024 threads, and NotImplementedError in programs for other devices.

    No test has run one: programs with such kernels are compiled in the tests, for want of a GPU.

    >>> import xpr, xpr.numpy as jnp
    >>> text = '''
    ... .version 7.0
    ... .target sm_60
    ... .address_size 64
    ... .visible .entry fill(.param .u64 y) { ret; }'''
    >>> fill = xpr.experimental.kernel.ptx(
    ...     text, entry="fill", workgroups=(1, 1, 1), threads=(32, 1, 1),
    ...     result=xpr.ShapeDtypeStruct((32,), "float32"))
    >>> fill
    Kernel(fill)
    """
    data = text.encode() if isinstance(text, str) else bytes(text)
    data = data.rstrip(b"\0")  # compilers hand it over as a string of C
    code = _COMMENT.sub("", data.decode("utf-8", "replace"))
    if not re.search(r"^\s*\.version\s", code, re.MULTILINE):
        raise ValueError(f"ptx takes the text of a PTX module, got {shown(text)}")
    found = re.search(rf"\.entry\s+{re.escape(entry)}\s*(\([^)]*\))?\s*[.{{]", code)
    if found is None:
        there = ", ".join(re.findall(r"\.entry\s+([\w$%]+)", code)) or "none"
        raise ValueError(f"no kernel {entry} in the PTX: it has {there}")
    parameters = (found[1] or "").count(".param")
    make = functools.partial(_ptx, data, entry, parameters, workgroups, threads, shared_bytes)
    return Kernel(entry, result, device_kernel_p, make)


def _ptx(
    data: bytes,
    entry: str,
    parameters: int,
    workgroups: Workgroups,
    threads: Workgroups,
    shared_bytes: int,
    operands: Types,
    results: Types,
) -> Ptx:
    if parameters != len(operands) + len(results):
        raise TypeError(
            f"the PTX kernel {entry} takes {parameters} parameters, and is called with "
            f"{len(operands)} operands and {len(results)} results"
        )
    size = _counts("threads", threads, operands)
    if math.prod(size) > _MOST_THREADS:
        raise ValueError(f"a block has at most {_MOST_THREADS} threads, got {size}")
    return Ptx(entry, data, _counts("workgroups", workgroups, operands), size, shared_bytes)
