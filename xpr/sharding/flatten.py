"""Programs made ready for the sharding engines: calls inlined, every variable bound once.

Two calls of one traced function share its jaxpr, and so its variables, yet their arrays may be
sharded in different ways. Afterwards each variable has one meaning, in nested programs too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xpr.core.jaxpr import Atom, ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Var
from xpr.sharding.padded_slices import without_padded

# Primitives that compute what one program in their parameters computes, by the parameter's name.
_CALLS = {
    "jit": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call_jaxpr",
    "linear_call": "call_jaxpr",
    "remat_opt": "call_jaxpr",
    "custom_linear_solve": "solve",
}


def flattened(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program with calls inlined and fresh variables throughout."""
    copier = _Copier()
    jaxpr = copier.program(closed.jaxpr)
    return ClosedJaxpr(
        jaxpr.replace(constvars=[*jaxpr.constvars, *copier.constvars]),
        [*closed.consts, *copier.consts],
    )


class _Copier:
    def __init__(self) -> None:
        self.constvars: list[Var] = []
        self.consts: list[Any] = []

    def program(self, jaxpr: Jaxpr) -> Jaxpr:
        env: dict[Var, Atom] = {}
        constvars = [_fresh(v, env) for v in jaxpr.constvars]
        invars = [_fresh(v, env) for v in jaxpr.invars]
        eqns: list[JaxprEqn] = []
        self.equations(jaxpr.eqns, env, eqns)
        outvars = [_read(v, env) for v in jaxpr.outvars]
        eqns = without_padded(eqns, outvars)
        return jaxpr.replace(constvars=constvars, invars=invars, eqns=eqns, outvars=outvars)

    def equations(
        self, eqns: Sequence[JaxprEqn], env: dict[Var, Atom], out: list[JaxprEqn]
    ) -> None:
        for eqn in eqns:
            invars = [_read(v, env) for v in eqn.invars]
            held = _CALLS.get(eqn.primitive.name)
            if held is not None:
                self._inline(eqn, eqn.params[held], invars, env, out)
                continue
            outvars = [_fresh(v, env) for v in eqn.outvars]
            params = self._params(eqn.params)
            out.append(eqn.replace(invars=invars, outvars=outvars, params=params))

    def _inline(
        self,
        eqn: JaxprEqn,
        closed: ClosedJaxpr,
        invars: Sequence[Atom],
        env: dict[Var, Atom],
        out: list[JaxprEqn],
    ) -> None:
        inner: dict[Var, Atom] = dict(zip(closed.jaxpr.invars, invars, strict=True))
        self._hoist(closed, inner)
        self.equations(closed.jaxpr.eqns, inner, out)
        for v, result in zip(eqn.outvars, closed.jaxpr.outvars, strict=True):
            env[v] = _read(result, inner)

    def _hoist(self, closed: ClosedJaxpr, env: dict[Var, Atom]) -> None:
        for v, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            self.constvars.append(_fresh(v, env))
            self.consts.append(value)

    def _params(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._param(value) for name, value in params.items()}

    def _param(self, value: Any) -> Any:
        if isinstance(value, ClosedJaxpr):
            return ClosedJaxpr(self.program(value.jaxpr), value.consts)
        if isinstance(value, Jaxpr):
            return self.program(value)
        if type(value) is tuple and value and isinstance(value[0], (ClosedJaxpr, Jaxpr)):
            return tuple(self._param(v) for v in value)
        return value


def _fresh(v: Var, env: dict[Var, Atom]) -> Var:
    new = DropVar(v.aval) if isinstance(v, DropVar) else Var(v.aval)
    env[v] = new
    return new


def _read(atom: Atom, env: Mapping[Var, Atom]) -> Atom:
    return env[atom] if isinstance(atom, Var) else atom
