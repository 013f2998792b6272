"""`jax.experimental.hijax`: types and primitives above those of arrays."""

from __future__ import annotations

from xpr.compat.derived_rules import bdims_at_front as bdims_at_front
from xpr.compat.derived_rules import jvp_from_lin as jvp_from_lin
from xpr.compat.derived_rules import linearize_from_jvp as linearize_from_jvp
from xpr.compat.derived_rules import unmap_avals as unmap_avals
from xpr.compat.derived_rules import vjp_from_jvp as vjp_from_jvp
from xpr.compat.derived_rules import vjp_from_lin as vjp_from_lin
from xpr.compat.high_primitives import HiPrimitive as HiPrimitive
from xpr.compat.high_primitives import HiPspec as HiPspec
from xpr.compat.high_primitives import HiType as HiType
from xpr.compat.high_primitives import MutableHiType as MutableHiType
from xpr.compat.high_primitives import control_flow_allowed_effects as control_flow_allowed_effects
from xpr.compat.high_primitives import register_hitype as register_hitype
from xpr.compat.modules.core import AbstractValue as AbstractValue
from xpr.compat.vjp_primitives import VJPHiPrimitive as HiPrim
from xpr.compat.vjp_primitives import VJPHiPrimitive as VJPHiPrimitive
from xpr.core.aval import MappingSpec as MappingSpec
from xpr.core.aval import ShapedArray as ShapedArray
from xpr.core.high import AvalMutableQDD as AvalMutableQDD
from xpr.core.high import AvalQDD as AvalQDD
from xpr.core.high import aval_method as aval_method
from xpr.core.high import aval_property as aval_property
from xpr.core.references import AbstractRef as AbstractRef
from xpr.interpreters.transpose import is_linear as is_undefined_primal
from xpr.interpreters.zeros import Zero as Zero
from xpr.interpreters.zeros import instantiate as instantiate_zeros

__all__ = [
    "AbstractRef",
    "AbstractValue",
    "AvalMutableQDD",
    "AvalQDD",
    "HiPrim",
    "HiPrimitive",
    "HiPspec",
    "HiType",
    "MappingSpec",
    "MutableHiType",
    "ShapedArray",
    "VJPHiPrimitive",
    "Zero",
    "aval_method",
    "aval_property",
    "bdims_at_front",
    "control_flow_allowed_effects",
    "instantiate_zeros",
    "is_undefined_primal",
    "jvp_from_lin",
    "linearize_from_jvp",
    "register_hitype",
    "unmap_avals",
    "vjp_from_jvp",
    "vjp_from_lin",
]
