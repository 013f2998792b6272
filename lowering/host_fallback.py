"""Programs of which an operation does not compile in any form: the host computes that operation.

It is the last resort, for the CPU, whose programs can call Python functions of their process. The
operations at fault are found by halves: a program of which only some operations are compiled, and
all others are calls of the host, compiles if none of them is at fault. Their reference rules, which
define what they mean, then take their place. What was found is noted in the cache, so that later
processes do not search again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.core.errors import CompileError
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Var
from xpr.interpreters.reference import called_program, interpret_equation
from xpr.lowering.iree import fallbacks
from xpr.lowering.iree.compiler import compile_stablehlo, note_fallback
from xpr.lowering.iree.failures import KnownFailureError, TooLongError
from xpr.lowering.module import LoweredModule, lower_jaxpr_to_module
from xpr.lowering.targets.base import Target
from xpr.primitives.callback import pure_callback_p

_Compiled = tuple[LoweredModule, bytes]


@dataclass(frozen=True)
class _Reference:
    """The reference rule of one equation, as a function of arrays."""

    eqn: JaxprEqn

    def __call__(self, *operands: Any) -> list[np.ndarray[Any, Any]]:
        return interpret_equation(self.eqn, [np.asarray(x) for x in operands])

    def __str__(self) -> str:
        return f"the reference rule of {self.eqn.primitive.name}"


def compile_around(
    closed: ClosedJaxpr,
    module: LoweredModule,
    target: Target,
    donate: Sequence[int],
    error: CompileError,
) -> _Compiled | None:
    """Compiles a program that failed with `error`, with as few calls of the host as it takes.

    None if the target has no host calls, or if there is nothing that the host could do. Where
    `error` says what was found before, nothing is searched for.
    """
    if not target.host_calls:
        return None
    flat = inlined(closed)
    if isinstance(error, KnownFailureError):
        return _attempt(flat, module.name, target, donate, error.equations)
    places = [i for i, eqn in enumerate(flat.eqns) if _may_run_on_host(eqn)]
    if not places:
        return None

    def compiles(compiled: Sequence[int]) -> bool:
        hosted = frozenset(places).difference(compiled)
        return _attempt(flat, module.name, target, donate, hosted) is not None

    def at_fault(group: Sequence[int]) -> list[int]:
        if compiles(group):
            return []
        if len(group) == 1:
            return list(group)
        half = len(group) // 2
        return at_fault(group[:half]) + at_fault(group[half:])

    # Where the compiler was given up for the time it took, a search would take many times as long.
    tried = () if isinstance(error, TooLongError) else (frozenset(at_fault(places)),)
    for hosted in (*tried, frozenset(places)):
        found = _attempt(flat, module.name, target, donate, hosted)
        if found is not None:
            break
    else:
        return None
    if error.stablehlo_path is not None:
        with contextlib.suppress(OSError):
            os.unlink(error.stablehlo_path)
    eqns = [flat.eqns[i] for i in sorted(hosted)]
    names = ", ".join(dict.fromkeys(eqn.primitive.name for eqn in eqns))
    fallbacks.warn(module.name, _location(eqns) or error.source_location, fallbacks.HOST, names)
    note_fallback(module.text, target, module.hints, sorted(hosted))
    return found


def _attempt(
    flat: ClosedJaxpr,
    name: str,
    target: Target,
    donate: Sequence[int],
    hosted: frozenset[int],
) -> _Compiled | None:
    """Compiles a program of which the host computes some equations; None if that fails, too."""
    eqns = [_on_host(eqn) if i in hosted else eqn for i, eqn in enumerate(flat.eqns)]
    changed = flat.map_jaxpr(lambda jaxpr: jaxpr.replace(eqns=eqns))
    lowered = lower_jaxpr_to_module(changed, target, name=name, donate=donate)
    try:
        return lowered, compile_stablehlo(lowered.text, target, hints=lowered.hints, separate=True)
    except CompileError as error:
        if error.stablehlo_path is not None:
            with contextlib.suppress(OSError):
                os.unlink(error.stablehlo_path)
        return None


def _may_run_on_host(eqn: JaxprEqn) -> bool:
    """Whether an equation is only what its reference rule says."""
    return not eqn.effects and eqn.primitive.family not in ("callback", "ffi")


def _on_host(eqn: JaxprEqn) -> JaxprEqn:
    avals = tuple(v.aval for v in eqn.outvars)
    params = {
        "callback": _Reference(eqn),
        "result_avals": avals,
        "sharding": None,
        "vmap_method": None,
    }
    return eqn.replace(primitive=pure_callback_p, params=params)


def _location(eqns: Sequence[JaxprEqn]) -> tuple[str, int, int] | None:
    """The user's line of the first equation that has one."""
    for eqn in eqns:
        if eqn.source_info.code is not None:
            return (eqn.source_info.filename, *eqn.source_info.position())
    return None


def inlined(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program, with the equations of the programs that it calls in place of the calls.

    Programs with constants of their own stay calls: a program's constants are those of before.
    """
    eqns: list[JaxprEqn] = []

    def visit(jaxpr: Jaxpr, env: dict[Atom, Atom], *, nested: bool) -> list[Atom]:
        for eqn in jaxpr.eqns:
            operands = [env.get(a, a) for a in eqn.invars]
            inner = called_program(eqn)
            if inner is not None and not inner.consts and not eqn.effects:
                own: dict[Atom, Atom] = dict(zip(inner.jaxpr.invars, operands, strict=True))
                results = visit(inner.jaxpr, own, nested=True)
                env.update(zip(eqn.outvars, results, strict=True))
                continue
            # A program may be called more than once.
            outvars = [Var(v.aval) for v in eqn.outvars] if nested else eqn.outvars
            env.update(zip(eqn.outvars, outvars, strict=True))
            eqns.append(eqn.replace(invars=operands, outvars=outvars))
        return [env.get(a, a) for a in jaxpr.outvars]

    outvars = visit(closed.jaxpr, {}, nested=False)
    return closed.map_jaxpr(lambda jaxpr: jaxpr.replace(eqns=eqns, outvars=outvars))
