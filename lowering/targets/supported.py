"""Whether a device has the types that a program computes with, asked before any compile.

IREE compiles many a program for a device that lacks the types: its results are wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import Jaxpr, JaxprEqn, sub_jaxprs
from xpr.lowering.targets.base import Target


def check_types(jaxpr: Jaxpr, target: Target, device: str = "") -> None:
    """Raises ``TypeError`` if `jaxpr` has a value of a type that `target` does not have.

    The message names the type, the first operation with such a value, the user's line, and
    `device` (by default the target).
    """
    missing = target.missing_types
    if not missing:
        return
    name = device or f"target {target.name}"
    for eqn in _equations(jaxpr):
        for aval, verb in _avals(eqn):
            if aval.dtype.name in missing:
                raise TypeError(
                    f"{name} has no {aval.dtype.name}: {eqn.primitive.name} {verb} "
                    f"{aval.str_short()} at {eqn.source_info}"
                )
    for i, var in enumerate(jaxpr.invars):
        if var.aval.dtype.name in missing:
            raise TypeError(
                f"{name} has no {var.aval.dtype.name}: operand {i} of the program is "
                f"{var.aval.str_short()}"
            )
    for i, var in enumerate(jaxpr.outvars):
        if var.aval.dtype.name in missing:
            raise TypeError(
                f"{name} has no {var.aval.dtype.name}: result {i} of the program is "
                f"{var.aval.str_short()}"
            )


def _equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """All equations in order; those of inner programs before the equation that holds them."""
    for eqn in jaxpr.eqns:
        for inner in sub_jaxprs(eqn.params):
            yield from _equations(inner)
        yield eqn


def _avals(eqn: JaxprEqn) -> Iterator[tuple[ShapedArray, str]]:
    yield from ((a.aval, "takes") for a in eqn.invars)
    yield from ((v.aval, "gives") for v in eqn.outvars)
