"""Exported programs as StableHLO text and as compiled modules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xpr.core import dtypes
from xpr.core.config import state
from xpr.core.errors import CompileError
from xpr.core.jaxpr import ClosedJaxpr
from xpr.dispatch import compiling
from xpr.export.generalize import ADVICE, Fitter, SizeDependenceError
from xpr.export.programs import Program, SymbolicProgram, on_arrays
from xpr.export.stablehlo.artifact import portable_artifact
from xpr.export.symbolic_graph import general_graph
from xpr.export.symbolic_rules import symbolic_target
from xpr.export.targets import portable_target
from xpr.lowering.ir.verifier import verify
from xpr.lowering.module import LoweredModule
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.stablehlo import stablehlo, stablehlo_anywhere

if TYPE_CHECKING:
    from xpr.export.exported import Exported


class ModuleProgram(NamedTuple):
    """A program as modules have it: large constants are inputs, in front of the others."""

    closed: ClosedJaxpr
    weights: tuple[np.ndarray[Any, Any], ...]


def module_program(closed: ClosedJaxpr, weights_above: int | None) -> ModuleProgram:
    """The program of a module.

    Arrays of more than `weights_above` bytes that it closes over become its first inputs; with
    None, all are written into it. Whatever is of dtype float0 is left out.
    """
    jaxpr = closed.jaxpr
    pairs = [
        (v, np.asarray(c))
        for v, c in zip(jaxpr.constvars, closed.consts, strict=True)
        if v.aval.dtype != dtypes.float0
    ]
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

    Raises TypeError, naming the operation, for dtypes that the target lacks.
    """
    return compiling.lower(closed, target, name, embed_consts=True)


def module_of(
    program: Program, target: Target, name: str, weights_above: int | None
) -> tuple[LoweredModule, tuple[np.ndarray[Any, Any], ...]]:
    """The module of an exported program for `target`, and the weights that it takes in front.

    With symbolic dimensions, the module is made of those for several choices of them.
    """
    if not isinstance(program, SymbolicProgram):
        fixed = module_program(on_arrays(program.at(())), weights_above)
        return lowered_module(fixed.closed, target, name), fixed.weights
    # An operation may take other forms for small arrays than for large ones; any one is right for
    # all sizes. The constraints may exclude some of the ranges.
    reasons: list[ValueError] = []
    for least, greatest in _RANGES:
        try:
            fitter = program.fitter(least, greatest)
            return _symbolic_module(program, fitter, target, name, weights_above)
        except ValueError as error:
            reasons.append(error)
    raise next((r for r in reasons if isinstance(r, SizeDependenceError)), reasons[-1])


_OPERATION = re.compile(r"\bstablehlo\.[a-z_]+\b")
_RANGES = ((17, 96), (17, 31), (3, 24), (100, 400), (2, 96))


def _symbolic_module(
    program: SymbolicProgram,
    fitter: Fitter,
    target: Target,
    name: str,
    weights_above: int | None,
) -> tuple[LoweredModule, tuple[np.ndarray[Any, Any], ...]]:
    """One module for all sizes, from those at the points."""
    closeds = [module_program(program.on_arrays_at(p), weights_above) for p in fitter.points]
    target = symbolic_target(target, [c.closed for c in closeds])
    modules = [lowered_module(c.closed, target, name) for c in closeds]
    graph = general_graph(
        [m.graph for m in modules],
        fitter,
        joins=target.joins_symbolic_arrays,
        plain=target.plain,
    )
    if state.enable_checks:
        verify(graph)
    largest = max(modules, key=lambda m: m.flops)
    return largest.for_all_sizes(graph), closeds[0].weights


def symbol_of(exported: Exported) -> str:
    """The function's name where a name of a module is wanted: `_lambda_` for `<lambda>`."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", exported.fun_name) or "f"


def iree_text(exported: Exported, weights_above: int | None = None) -> str:
    """What a compiler of IREE's gets for an exported function, on a device of any kind."""
    return module_of(exported.program, portable_target(), symbol_of(exported), weights_above)[
        0
    ].text


def stablehlo_text(exported: Exported, weights_above: int | None = None) -> str:
    """The plain StableHLO of an exported function, for any compiler."""
    target, name = plain_target(exported), symbol_of(exported)
    return module_of(exported.program, target, name, weights_above)[0].text


def plain_target(exported: Exported) -> Target:
    """How an exported function is written plainly: LAPACK's routines are there on processors."""
    return stablehlo if exported.platforms == ("cpu",) else stablehlo_anywhere


def artifact(exported: Exported) -> bytes:
    """The plain StableHLO of an exported function as a portable artifact."""
    return portable_artifact(stablehlo_text(exported))


class CompiledModule(NamedTuple):
    """A `.vmfb`, the arrays that it takes in front of its arguments, and what loaders must know."""

    vmfb: bytes
    weights: tuple[np.ndarray[Any, Any], ...]
    cost: float
    straight_line: bool


def _refused_by_iree(error: CompileError) -> SizeDependenceError:
    """What to say where IREE's compiler cannot do a program with symbolic dimensions."""
    where = error.source_location
    place = f" (at {where[0]}:{where[1]})" if where else ""
    operation = _OPERATION.search(error.diagnostics)
    named = f"the operation {operation[0]}{place}" if operation else f"the program{place}"
    return SizeDependenceError(
        f"IREE cannot compile {named} with symbolic dimensions. {ADVICE}. The compiler's own "
        f"words: {error.diagnostics.strip().splitlines()[0][:200]}"
    )


def compile_for(exported: Exported, target: Target, weights_above: int | None) -> CompiledModule:
    """An exported function compiled for a target."""
    lowered, weights = module_of(exported.program, target, symbol_of(exported), weights_above)
    try:
        vmfb = compiling.compile_module(lowered, target)
    except CompileError as error:
        if exported.program.scope is None:
            raise
        raise _refused_by_iree(error) from error
    cost = lowered.flops + lowered.bytes_accessed
    return CompiledModule(vmfb, weights, cost, not lowered.hints.has_control_flow)
