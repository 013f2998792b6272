"""Primitives of a program's own, whose lowerings are functions, become calls of what these trace.

It is a pass over a jaxpr before it is lowered: loops that become one dispatch, and passes over
equations, then see the operations that such a primitive is made of. A primitive whose rule writes
StableHLO itself stays as it is, and so does one with effects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xpr.core.context import context
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, sub_jaxprs
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.lowering.registry import find_rule, program_rules
from xpr.lowering.targets.base import Target
from xpr.primitives.call import jit_p


@dataclass(frozen=True)
class TracedRule:
    """A lowering that traces `function(*operands, **params)` and lowers what it does."""

    function: Callable[..., Any]
    multiple_results: bool

    def __call__(self, ctx: Any, *operands: Any, **params: Any) -> Any:
        found = ctx.module.inline(ctx, self.function, operands, params)
        return found if self.multiple_results else _first(found)

    def program(self, eqn: JaxprEqn) -> ClosedJaxpr:
        """What the function does with the operands of an equation."""

        def flat(*args: Any) -> Sequence[Any]:
            found = self.function(*args, **eqn.params)
            return found if self.multiple_results else [_first(found)]

        source, context.source = context.source, eqn.source_info
        try:
            return trace_to_jaxpr(flat, [v.aval for v in eqn.invars])
        finally:
            context.source = source


def _first(found: Any) -> Any:
    return found[0] if isinstance(found, (tuple, list)) else found


def with_traced_rules(closed: ClosedJaxpr, target: Target) -> ClosedJaxpr:
    """The program with calls in the place of such primitives; itself if it has none."""
    if not program_rules:
        return closed
    return _Pass(target).closed(closed)


class _Pass:
    def __init__(self, target: Target) -> None:
        self._target = target
        # Programs that are called at several places stay one program. Those of before are kept:
        # an address says what a program is only as long as that lives.
        self._known: dict[int, tuple[Any, Any]] = {}

    def closed(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        jaxpr = self._jaxpr(closed.jaxpr)
        return closed if jaxpr is closed.jaxpr else ClosedJaxpr(jaxpr, closed.consts)

    def _jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        eqns = [self._equation(eqn) for eqn in jaxpr.eqns]
        changed = any(a is not b for a, b in zip(eqns, jaxpr.eqns, strict=True))
        return jaxpr.replace(eqns=eqns) if changed else jaxpr

    def _equation(self, eqn: JaxprEqn) -> JaxprEqn:
        if eqn.primitive in program_rules and not eqn.effects:
            rule = find_rule(eqn.primitive, self._target)
            if isinstance(rule, TracedRule):
                return self._call(eqn, rule)
        if not any(True for _ in sub_jaxprs(eqn.params)):
            return eqn
        params = {k: self._param(v) for k, v in eqn.params.items()}
        same = all(v is eqn.params[k] for k, v in params.items())
        return eqn if same else eqn.replace(params=params)

    def _call(self, eqn: JaxprEqn, rule: TracedRule) -> JaxprEqn:
        program = self.closed(rule.program(eqn))
        wanted = [(v.aval.shape, v.aval.dtype) for v in eqn.outvars]
        if [(a.shape, a.dtype) for a in program.out_avals] != wanted:
            return eqn  # its lowering says what is wrong
        donated = (False,) * len(eqn.invars)
        params = {"jaxpr": program, "name": eqn.primitive.name, "donated_invars": donated}
        params |= {"inline": False, "keep_unused": False}
        return eqn.replace(primitive=jit_p, params=params)

    def _param(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            found = [self._param(v) for v in value]
            same = all(a is b for a, b in zip(found, value, strict=True))
            return value if same else type(value)(found)
        if not isinstance(value, (ClosedJaxpr, Jaxpr)):
            return value
        known = self._known.get(id(value))
        if known is None:
            new = self.closed(value) if isinstance(value, ClosedJaxpr) else self._jaxpr(value)
            known = self._known[id(value)] = value, new
        return known[1]
