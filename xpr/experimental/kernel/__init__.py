"""The user's own kernels in programs: functions in C or MLIR, shaders for Vulkan, PTX for CUDA."""

from __future__ import annotations

from xpr.experimental.kernel.c_code import c_function as c_function
from xpr.experimental.kernel.c_code import c_source as c_source
from xpr.experimental.kernel.calls import Kernel as Kernel
from xpr.experimental.kernel.device_code import mlir as mlir
from xpr.experimental.kernel.device_code import ptx as ptx
from xpr.experimental.kernel.device_code import spirv as spirv

__all__ = ["Kernel", "c_function", "c_source", "mlir", "ptx", "spirv"]
