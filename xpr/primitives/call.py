"""The call primitive of `jit`: a program inside a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, DropVar, JaxprEqn, Var, dce_jaxpr, eval_jaxpr
from xpr.core.primitive import define


def _jit_abstract(
    *avals: ShapedArray, jaxpr: ClosedJaxpr, name: str, **_: Any
) -> list[ShapedArray]:
    expected = jaxpr.in_avals
    if len(avals) != len(expected):
        raise TypeError(f"jit of {name} takes {len(expected)} operands, got {len(avals)}")
    for i, (found, want) in enumerate(zip(avals, expected, strict=True)):
        if found.shape != want.shape or found.dtype != want.dtype:
            raise TypeError(
                f"jit of {name}: operand {i} should be {want.str_short()}, got {found.str_short()}"
            )
    return list(jaxpr.out_avals)


def _jit_reference(*args: Any, jaxpr: ClosedJaxpr, **_: Any) -> Sequence[Any]:
    return eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args)


def _jit_dce(used_outputs: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    """Drops the results nobody reads, and the operands only they needed."""
    closed: ClosedJaxpr = eqn.params["jaxpr"]
    smaller, used_inputs = dce_jaxpr(closed.jaxpr, used_outputs)
    outvars: list[Var] = [v for v, used in zip(eqn.outvars, used_outputs, strict=True) if used]
    invars = [a for a, used in zip(eqn.invars, used_inputs, strict=True) if used]
    donated = tuple(
        d for d, used in zip(eqn.params["donated_invars"], used_inputs, strict=True) if used
    )
    if not smaller.eqns and not eqn.effects and all(isinstance(v, DropVar) for v in outvars):
        return None
    params = eqn.params | {"jaxpr": ClosedJaxpr(smaller, closed.consts), "donated_invars": donated}
    return eqn.replace(invars=invars, outvars=outvars, params=params)


def _jit_printed(params: dict[str, Any]) -> dict[str, Any]:
    shown = {"name": params["name"], "jaxpr": params["jaxpr"]}
    if any(params["donated_invars"]):
        shown["donated_invars"] = params["donated_invars"]
    if params["inline"]:
        shown["inline"] = True
    if params["keep_unused"]:
        shown["keep_unused"] = True
    return shown


jit_p = define(
    "jit",
    family="call",
    doc="Calls a program that was traced by jit.",
    abstract=_jit_abstract,
    reference=_jit_reference,
    multiple_results=True,
    eager="compile",
    pp_params=_jit_printed,
    dce=_jit_dce,
)
