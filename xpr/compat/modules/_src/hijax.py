"""`jax._src.hijax`: what `jax.experimental.hijax` has, and boxes."""

from __future__ import annotations

from xpr.compat.boxes import Box as Box
from xpr.compat.boxes import BoxTy as BoxTy
from xpr.compat.boxes import BoxTypeState as BoxTypeState
from xpr.compat.boxes import box_effect as box_effect
from xpr.compat.boxes import box_get as box_get
from xpr.compat.boxes import box_get_p as box_get_p
from xpr.compat.boxes import box_set as box_set
from xpr.compat.boxes import box_set_p as box_set_p
from xpr.compat.boxes import new_box as new_box
from xpr.compat.boxes import new_box_p as new_box_p
from xpr.compat.high_primitives import HiPrimitive as HiPrimitive
from xpr.compat.high_primitives import HiPspec as HiPspec
from xpr.compat.high_primitives import HiType as HiType
from xpr.compat.high_primitives import MutableHiType as MutableHiType
from xpr.compat.high_primitives import register_hitype as register_hitype
from xpr.compat.vjp_primitives import VJPHiPrimitive as VJPHiPrimitive
from xpr.compat.vjp_primitives import VmapOf as VmapOf
from xpr.compat.vjp_primitives import call_hi_primitive_p as call_hi_primitive_p
from xpr.core.aval import MappingSpec as MappingSpec
from xpr.core.high import aval_method as hijax_method

__all__ = [
    "Box",
    "BoxTy",
    "BoxTypeState",
    "HiPrimitive",
    "HiPspec",
    "HiType",
    "MappingSpec",
    "MutableHiType",
    "VJPHiPrimitive",
    "VmapOf",
    "box_effect",
    "box_get",
    "box_get_p",
    "box_set",
    "box_set_p",
    "call_hi_primitive_p",
    "hijax_method",
    "new_box",
    "new_box_p",
    "register_hitype",
]
