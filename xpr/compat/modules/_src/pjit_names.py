"""What `jax._src.pjit` has beside public names."""

from __future__ import annotations

from xpr import sharding as mesh_lib
from xpr.compat.modules.api_util import debug_info as debug_info
from xpr.primitives.call import jit_p as jit_p
from xpr.transforms.jit import JittedFunction as JitWrapped
from xpr.transforms.shardings import UNSPECIFIED as UNSPECIFIED
from xpr.transforms.shardings import UnspecifiedValue as UnspecifiedValue

pjit_p = jit_p

__all__ = [
    "UNSPECIFIED",
    "JitWrapped",
    "UnspecifiedValue",
    "debug_info",
    "jit_p",
    "mesh_lib",
    "pjit_p",
]
