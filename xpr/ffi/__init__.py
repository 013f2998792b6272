"""Calls of functions in C and C++ that are written for XLA's foreign function interface.

The functions ("handlers") are compiled for the host with the header `xla/ffi/api/ffi.h`, which
comes with JAX, or with anything else that lays out memory as that header says.
`register_ffi_target` gives one a name, and `ffi_call` calls it from programs.
"""

from xpr.ffi.calls import ffi_call as ffi_call
from xpr.ffi.lowerings import build_ffi_lowering_function as build_ffi_lowering_function
from xpr.ffi.lowerings import ffi_lowering as ffi_lowering
from xpr.ffi.targets import include_dir as include_dir
from xpr.ffi.targets import register_ffi_target as register_ffi_target
from xpr.ffi.targets import (
    register_ffi_target_as_batch_partitionable as register_ffi_target_as_batch_partitionable,
)
from xpr.ffi.targets import register_ffi_type as register_ffi_type
from xpr.ffi.targets import register_ffi_type_id as register_ffi_type_id
from xpr.runtimes.foreign.capsules import pycapsule as pycapsule
