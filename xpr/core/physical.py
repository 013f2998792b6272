"""Types of extended dtypes and the physical types that stand for them.

An array of shape `s` whose elements are of shape `e` is an array of shape `s + e` for compilers and
devices. The axes of `e` are whole on each device.
"""

from __future__ import annotations

from typing import Any

from xpr.core.aval import ShapedArray, with_dim
from xpr.core.extended import ExtendedDType
from xpr.core.jaxpr import Jaxpr, sub_jaxprs


def is_extended_aval(aval: ShapedArray) -> bool:
    """Whether values of the type are elements of an extended dtype."""
    return isinstance(aval.dtype, ExtendedDType)


def element_aval(dtype: Any) -> ShapedArray:
    """The physical type of one element of an extended dtype."""
    return dtype._rules.physical_element_aval(dtype)


def physical_aval(aval: ShapedArray) -> ShapedArray:
    """The type that stands for `aval`: itself, unless its dtype is extended."""
    if not is_extended_aval(aval):
        return aval
    element = element_aval(aval.dtype)
    found = ShapedArray(aval.shape, element.dtype, False, aval.sharding, aval.vma)
    for size in element.shape:
        found = with_dim(found, found.ndim, size)
    return found.update(memory_space=aval.memory_space)


def check_physical(name: str, data: ShapedArray, dtype: Any) -> tuple[int, ...]:
    """The shape of the elements whose physical values have the type `data`; TypeError if none."""
    element = element_aval(dtype)
    rank = data.ndim - element.ndim
    if data.dtype != element.dtype or rank < 0 or data.shape[rank:] != element.shape:
        sizes = ", ".join(map(str, element.shape))
        raise TypeError(f"{name} requires {element.dtype}[..., {sizes}], got {data}")
    return data.shape[:rank]


def has_extended(jaxpr: Jaxpr) -> bool:
    """Whether values of extended dtypes occur in a program, or in programs inside it."""
    atoms = (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars)
    if any(is_extended_aval(v.aval) for v in atoms):
        return True
    for eqn in jaxpr.eqns:
        for v in eqn.outvars:
            if isinstance(v.aval.dtype, ExtendedDType):
                return True
        if eqn.params and any(has_extended(sub) for sub in sub_jaxprs(eqn.params)):
            return True
    return False


def params_have_extended(params: dict[str, Any]) -> bool:
    """Whether the programs in an operation's parameters have values of extended dtypes."""
    return any(has_extended(sub) for sub in sub_jaxprs(params))
