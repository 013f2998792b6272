"""xpr: NumPy-like array programs that are traced, transformed, compiled by IREE and deployed.

The names and their meanings are JAX's, so that a JAX program runs after `import xpr as jax`.

>>> import xpr, xpr.numpy as jnp
>>> xpr.jit(lambda x: jnp.sum(x * x))(jnp.arange(3.0))
Array(5., dtype=float32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpr import lax as lax
from xpr import numpy as numpy
from xpr import sharding as sharding
from xpr import tree_util as tree_util
from xpr.core.array import Array as Array
from xpr.core.config import config as config
from xpr.core.dtypes import float0 as float0
from xpr.core.lazy_names import lazy_names as _lazy_names
from xpr.core.stretches import Slice as _Slice
from xpr.core.stretches import ds as ds
from xpr.core.tracebacks import export_functions as _export_functions
from xpr.dispatch.transfer import block_until_ready as block_until_ready
from xpr.dispatch.transfer import copy_to_host_async as copy_to_host_async
from xpr.dispatch.transfer import device_get as device_get
from xpr.dispatch.transfer import device_put as device_put
from xpr.dispatch.transfer import effects_barrier as effects_barrier
from xpr.dispatch.transfer import typeof as typeof
from xpr.runtimes.base import Device as Device
from xpr.runtimes.registry import default_backend as default_backend
from xpr.runtimes.registry import device_count as device_count
from xpr.runtimes.registry import devices as devices
from xpr.runtimes.registry import local_device_count as local_device_count
from xpr.runtimes.registry import local_devices as local_devices
from xpr.sharding import NamedSharding as NamedSharding
from xpr.sharding import Shard as Shard
from xpr.sharding import get_abstract_mesh as get_abstract_mesh
from xpr.sharding import get_mesh as get_mesh
from xpr.sharding import set_mesh as set_mesh
from xpr.sharding import use_abstract_mesh as use_abstract_mesh
from xpr.sharding.spec import P as P
from xpr.transforms import saving as _saving
from xpr.transforms.jit import clear_caches as clear_caches
from xpr.transforms.jit import jit as jit
from xpr.transforms.tracing import ShapeDtypeStruct as ShapeDtypeStruct
from xpr.transforms.tracing import eval_shape as eval_shape
from xpr.transforms.tracing import make_jaxpr as make_jaxpr
from xpr.tree_util._registry import NodeType as _NodeType
from xpr.tree_util._registry import register_without_optree as _register
from xpr.version import __version__ as __version__


def _writer_of_programs() -> _saving.Writer:
    """What `save` calls for programs without a runtime, which are exported first."""
    from xpr.export.no_runtime.jitted import save_jitted  # noqa: PLC0415  loads the compile path

    return save_jitted


_saving.writers.update({".c": _writer_of_programs, ".wasm": _writer_of_programs})
_register(_Slice, _NodeType(_Slice.flatten, _Slice.unflatten, None, None))

if TYPE_CHECKING:
    from xpr import accuracy as accuracy
    from xpr import ad as ad
    from xpr import ad_checkpoint as ad_checkpoint
    from xpr import custom_batching as custom_batching
    from xpr import custom_derivatives as custom_derivatives
    from xpr import debug as debug
    from xpr import distributed as distributed
    from xpr import dlpack as dlpack
    from xpr import dtypes as dtypes
    from xpr import errors as errors
    from xpr import experimental as experimental
    from xpr import export as export
    from xpr import ffi as ffi
    from xpr import image as image
    from xpr import memory as memory
    from xpr import nn as nn
    from xpr import ops as ops
    from xpr import profiler as profiler
    from xpr import random as random
    from xpr import recording as recording
    from xpr import ref as ref
    from xpr import scipy as scipy
    from xpr import stages as stages
    from xpr import tree as tree
    from xpr import typing as typing
    from xpr.accuracy import error_bars as error_bars
    from xpr.accuracy import uncertain as uncertain
    from xpr.ad_checkpoint import remat as remat
    from xpr.callbacks import pure_callback as pure_callback
    from xpr.contexts import allow_f16_reductions as allow_f16_reductions
    from xpr.contexts import check_tracer_leaks as check_tracer_leaks
    from xpr.contexts import checking_leaks as checking_leaks
    from xpr.contexts import debug_infs as debug_infs
    from xpr.contexts import debug_nans as debug_nans
    from xpr.contexts import default_device as default_device
    from xpr.contexts import default_matmul_precision as default_matmul_precision
    from xpr.contexts import default_prng_impl as default_prng_impl
    from xpr.contexts import disable_jit as disable_jit
    from xpr.contexts import enable_checks as enable_checks
    from xpr.contexts import enable_custom_prng as enable_custom_prng
    from xpr.contexts import enable_x64 as enable_x64
    from xpr.contexts import ensure_compile_time_eval as ensure_compile_time_eval
    from xpr.contexts import explain_cache_misses as explain_cache_misses
    from xpr.contexts import log_compiles as log_compiles
    from xpr.contexts import make_user_context as make_user_context
    from xpr.contexts import named_call as named_call
    from xpr.contexts import named_scope as named_scope
    from xpr.contexts import no_execution as no_execution
    from xpr.contexts import no_tracing as no_tracing
    from xpr.contexts import numpy_dtype_promotion as numpy_dtype_promotion
    from xpr.contexts import numpy_rank_promotion as numpy_rank_promotion
    from xpr.contexts import threefry_partitionable as threefry_partitionable
    from xpr.contexts import transfer_guard as transfer_guard
    from xpr.contexts import transfer_guard_device_to_device as transfer_guard_device_to_device
    from xpr.contexts import transfer_guard_device_to_host as transfer_guard_device_to_host
    from xpr.contexts import transfer_guard_host_to_device as transfer_guard_host_to_device
    from xpr.dispatch.assembly import make_array_from_callback as make_array_from_callback
    from xpr.dispatch.assembly import (
        make_array_from_process_local_data as make_array_from_process_local_data,
    )
    from xpr.dispatch.assembly import (
        make_array_from_single_device_arrays as make_array_from_single_device_arrays,
    )
    from xpr.dispatch.inspection import (
        array_garbage_collection_guard as array_garbage_collection_guard,
    )
    from xpr.dispatch.inspection import live_arrays as live_arrays
    from xpr.dispatch.inspection import process_count as process_count
    from xpr.dispatch.inspection import process_index as process_index
    from xpr.dispatch.inspection import process_indices as process_indices
    from xpr.environment import print_environment_info as print_environment_info
    from xpr.recording import record as record
    from xpr.recording import replay as replay
    from xpr.recording import sentinel as sentinel
    from xpr.ref import Ref as Ref
    from xpr.ref import empty_ref as empty_ref
    from xpr.ref import free_ref as free_ref
    from xpr.ref import freeze as freeze
    from xpr.ref import new_ref as new_ref
    from xpr.runtimes.device_table import print_devices as print_devices
    from xpr.sharding.device_meshes import make_mesh as make_mesh
    from xpr.sharding.explicit import reshard as reshard
    from xpr.transforms.ahead import compile_ahead as compile_ahead
    from xpr.transforms.checkpoint import checkpoint as checkpoint
    from xpr.transforms.checkpoint import checkpoint_policies as checkpoint_policies
    from xpr.transforms.custom_jvp import custom_jvp as custom_jvp
    from xpr.transforms.custom_vjp import closure_convert as closure_convert
    from xpr.transforms.custom_vjp import custom_gradient as custom_gradient
    from xpr.transforms.custom_vjp import custom_vjp as custom_vjp
    from xpr.transforms.derivatives import fwd_and_bwd as fwd_and_bwd
    from xpr.transforms.derivatives import grad as grad
    from xpr.transforms.derivatives import jvp as jvp
    from xpr.transforms.derivatives import linear_transpose as linear_transpose
    from xpr.transforms.derivatives import linearize as linearize
    from xpr.transforms.derivatives import value_and_grad as value_and_grad
    from xpr.transforms.derivatives import vjp as vjp
    from xpr.transforms.inline import Inline as Inline
    from xpr.transforms.jacobians import hessian as hessian
    from xpr.transforms.jacobians import jacfwd as jacfwd
    from xpr.transforms.jacobians import jacobian as jacobian
    from xpr.transforms.jacobians import jacrev as jacrev
    from xpr.transforms.pmap import pmap as pmap
    from xpr.transforms.shard_map import shard_map as shard_map
    from xpr.transforms.shard_map import smap as smap
    from xpr.transforms.vmap import vmap as vmap
else:  # type checkers would take any name for an attribute
    __getattr__, __dir__, __all__ = _lazy_names(
        __name__,
        {
            "xpr.accuracy": "error_bars uncertain",
            "xpr.ad_checkpoint": "remat",
            "xpr.callbacks": "pure_callback",
            "xpr.contexts": (
                "allow_f16_reductions check_tracer_leaks checking_leaks debug_infs debug_nans "
                "default_device make_user_context no_execution "
                "default_matmul_precision default_prng_impl disable_jit enable_checks "
                "enable_custom_prng enable_x64 ensure_compile_time_eval explain_cache_misses "
                "log_compiles named_call named_scope no_tracing numpy_dtype_promotion "
                "numpy_rank_promotion threefry_partitionable transfer_guard "
                "transfer_guard_device_to_device transfer_guard_device_to_host "
                "transfer_guard_host_to_device"
            ),
            "xpr.dispatch.assembly": (
                "make_array_from_callback make_array_from_process_local_data "
                "make_array_from_single_device_arrays"
            ),
            "xpr.dispatch.inspection": (
                "array_garbage_collection_guard live_arrays process_count process_index "
                "process_indices"
            ),
            "xpr.environment": "print_environment_info",
            "xpr.recording": "record replay sentinel",
            "xpr.ref": "Ref empty_ref free_ref freeze new_ref",
            "xpr.runtimes.device_table": "print_devices",
            "xpr.sharding.device_meshes": "make_mesh",
            "xpr.sharding.explicit": "reshard",
            "xpr.transforms.ahead": "compile_ahead",
            "xpr.transforms.checkpoint": "checkpoint checkpoint_policies",
            "xpr.transforms.custom_jvp": "custom_jvp",
            "xpr.transforms.custom_vjp": "closure_convert custom_gradient custom_vjp",
            "xpr.transforms.derivatives": (
                "fwd_and_bwd grad jvp linear_transpose linearize value_and_grad vjp"
            ),
            "xpr.transforms.inline": "Inline",
            "xpr.transforms.jacobians": "hessian jacfwd jacobian jacrev",
            "xpr.transforms.pmap": "pmap",
            "xpr.transforms.shard_map": "shard_map smap",
            "xpr.transforms.vmap": "vmap",
        },
        (
            "accuracy",
            "ad",
            "ad_checkpoint",
            "custom_batching",
            "custom_derivatives",
            "debug",
            "distributed",
            "dlpack",
            "dtypes",
            "errors",
            "experimental",
            "export",
            "ffi",
            "image",
            "memory",
            "nn",
            "ops",
            "profiler",
            "random",
            "recording",
            "ref",
            "scipy",
            "stages",
            "tree",
            "typing",
        ),
    )

_export_functions(__name__)
_export_functions("xpr.tree_util")  # which lies below the layer of tracebacks
