"""Exported programs as StableHLO text and as compiled modules."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xpr.core import dtypes
from xpr.core.jaxpr import ClosedJaxpr
from xpr.dispatch import compiled
from xpr.export.exported import Exported
from xpr.export.targets import portable_target
from xpr.lowering.module import LoweredModule
from xpr.lowering.targets.base import Target


class ModuleProgram(NamedTuple):
    """A program as modules have it: large constants are inputs, in front of the others."""

    closed: ClosedJaxpr
    weights: tuple[np.ndarray[Any, Any], ...]


def module_program(closed: ClosedJaxpr, weights_above: int | None) -> ModuleProgram:
    """The program of a module.

    Arrays of more than `weights_above` bytes that it closes over become its first inputs; with
    None, all are written into it. Inputs and results of dtype float0 are left out.
    """
    jaxpr = closed.jaxpr
    pairs = [(v, np.asarray(c)) for v, c in zip(jaxpr.constvars, closed.consts, strict=True)]
    outside = [p for p in pairs if weights_above is not None and p[1].nbytes > weights_above]
    inside = [p for p in pairs if not any(p is q for q in outside)]
    smaller = jaxpr.replace(
        constvars=[v for v, _ in inside],
        invars=[v for v, _ in outside] + [v for v in jaxpr.invars if v.aval.dtype != dtypes.float0],
        outvars=[v for v in jaxpr.outvars if v.aval.dtype != dtypes.float0],
    )
    return ModuleProgram(ClosedJaxpr(smaller, [c for _, c in inside]), tuple(c for _, c in outside))


def lowered_module(closed: ClosedJaxpr, target: Target, name: str) -> LoweredModule:
    """A program as StableHLO for `target`, its constants written into it.

    Raises TypeError for dtypes that the target lacks.
    """
    _check_types(closed, target)
    return compiled.lower(closed, target, name, embed_consts=True)


def _check_types(closed: ClosedJaxpr, target: Target) -> None:
    variables = (*closed.jaxpr.constvars, *closed.jaxpr.invars)
    avals = [v.aval for v in variables]
    avals += [v.aval for e in closed.eqns for v in e.outvars]
    for aval in avals:
        if aval.dtype.name in target.missing_types:
            raise TypeError(
                f"the program has arrays of type {aval.dtype.name}, which devices of the target "
                f"{target.name!r} may lack"
            )


def stablehlo_text(exported: Exported) -> str:
    """The StableHLO of an exported function, for any compiler of IREE's."""
    closed = exported.program.at(())
    program = module_program(closed, None)
    return lowered_module(program.closed, portable_target(), exported.fun_name).text


def text_of(program: ModuleProgram, name: str) -> str:
    """The StableHLO of a module's program, whose first arguments are the weights."""
    return lowered_module(program.closed, portable_target(), name).text


def compile_for(program: ModuleProgram, target: Target, name: str) -> tuple[bytes, float]:
    """The `.vmfb` of a module's program, and the estimated work of one call."""
    lowered = lowered_module(program.closed, target, name)
    vmfb = compiled.compile_module(lowered, target)
    return vmfb, lowered.flops + lowered.bytes_accessed
