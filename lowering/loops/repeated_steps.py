"""Steps that a program takes many times in a row, as one loop.

A loop of Python's leaves one copy of its body for each round. IREE fuses them all, one operation
at a time, and LLVM compiles each copy of each formula by itself: 200 chained sines took twenty
times as long as a loop over one sine. Here such copies become a loop, which is one dispatch with
its value in registers (`loops/registers`). It runs no slower: a step is at least one elementary
function, beside which counting costs nothing.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Var
from xpr.core.primitive import Primitive
from xpr.lowering.loops.memory.costs import cost_of_operation
from xpr.lowering.loops.passes_over_memory import read_from_outside
from xpr.primitives import ELEMENTWISE_FAMILIES

rounds_p: Final = Primitive("rounds", "loops", multiple_results=True)
"""A loop that was written step by step: its parameters are the step, `jaxpr`, and how often it is
taken, `length`. The last operand is what the steps change. Only the lowering makes such equations.
"""

_FEWEST = 8
"""How often a step has to be taken, at least."""

_LONGEST = 8
"""How many equations a step may have."""

_LEAST_COST = 20
"""What a step has to cost, beside an addition."""

_MOST_ELEMENTS = 4096
"""How many elements are kept in registers and computed by one core."""

_DTYPES = frozenset(map(np.dtype, ("f4", "f8")))

# An equation without the names of variables: what it does, and where its operands come from.
_Form = tuple[Any, ...]


def in_rounds(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with `rounds` for each run of equal steps."""
    if len(jaxpr.eqns) < _FEWEST:
        return jaxpr
    runs = _Runs(jaxpr)
    eqns: list[JaxprEqn] = []
    at = 0
    while at < len(jaxpr.eqns):
        period, rounds = runs.longest(at)
        if rounds:
            eqns.append(runs.loop(at, period, rounds))
        else:
            eqns.append(jaxpr.eqns[at])
        at += max(period * rounds, 1)
    return jaxpr.replace(eqns=eqns) if len(eqns) < len(jaxpr.eqns) else jaxpr


class _Runs:
    """Which equations of a program repeat those before them."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self._eqns = jaxpr.eqns
        self._made = {v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.outvars}
        self._last_use = {
            v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.invars if isinstance(v, Var)
        }
        for v in jaxpr.outvars:
            if isinstance(v, Var):
                self._last_use[v] = len(jaxpr.eqns)
        self._forms = [self._form(i) for i in range(len(jaxpr.eqns))]

    def _form(self, at: int) -> _Form | None:
        """Equal for equations that do the same; None for what is in no step."""
        eqn = self._eqns[at]
        if eqn.effects or eqn.primitive.family not in ELEMENTWISE_FAMILIES:
            return None
        (aval, *more) = [v.aval for v in eqn.outvars]
        if more or aval.dtype not in _DTYPES or not 0 < aval.size <= _MOST_ELEMENTS:
            return None
        params = tuple(sorted(eqn.params.items()))
        operands = tuple(self._operand(at, a) for a in eqn.invars)
        form = (eqn.primitive, params, aval.shape, aval.dtype, operands)
        try:
            hash(form)
        except TypeError:
            return None
        return form

    def _operand(self, at: int, atom: Atom) -> _Form:
        if isinstance(atom, Var):
            made = self._made.get(atom)
            return ("before", at - made) if made is not None else ("given", id(atom))
        value = np.asarray(atom.val)
        return ("literal", value.tobytes(), value.dtype, atom.aval.shape, atom.aval.dtype)

    def longest(self, at: int) -> tuple[int, int]:
        """How many equations a step has that begins here, and how often it is taken; (0, 0): none.

        The first step may read something else where the others read the result of the last one.
        """
        for period in range(1, _LONGEST + 1):
            # The steps behind the first one are told by their forms.
            second = at + period
            if second + period > len(self._eqns) or not self._is_step(second, period):
                continue
            if self._first(at, period) is None or not self._is_left_behind(at, period):
                continue
            rounds = 2
            while self._is_again(at + rounds * period, period) and self._is_left_behind(
                at + (rounds - 1) * period, period
            ):
                rounds += 1
            if not self._is_closed(at + (rounds - 1) * period, period):
                rounds -= 1
            if rounds >= _FEWEST:
                return period, rounds
        return 0, 0

    def _is_again(self, start: int, period: int) -> bool:
        """Whether there is the same step as the one before."""
        forms = self._forms[start : start + period]
        return None not in forms and forms == self._forms[start - period : start]

    def _is_closed(self, start: int, period: int) -> bool:
        """Whether nothing behind a step reads what it makes, but its result."""
        inner = self._eqns[start : start + period - 1]
        return all(self._last_use.get(e.outvars[0], -1) < start + period for e in inner)

    def _is_left_behind(self, start: int, period: int) -> bool:
        """Whether nothing reads the result of a step but the next one."""
        (result,) = self._eqns[start + period - 1].outvars
        is_read_later = self._last_use.get(result, -1) >= start + 2 * period
        return not is_read_later and self._is_closed(start, period)

    def _carried(self, start: int, at: int) -> list[int]:
        """Which operands of an equation are from before its step."""
        return [
            i
            for i, a in enumerate(self._eqns[at].invars)
            if isinstance(a, Var) and self._made.get(a, start) < start
        ]

    def _is_step(self, start: int, period: int) -> bool:
        """Whether equations read nothing from before them but the last result, and are worth it."""
        whole = range(start, start + period)
        if any(self._forms[i] is None for i in whole):
            return False
        if sum(cost_of_operation(self._eqns[i].primitive) for i in whole) < _LEAST_COST:
            return False
        last = self._eqns[start - 1].outvars
        read = [self._eqns[i].invars[k] for i in whole for k in self._carried(start, i)]
        return bool(read) and all(a is last[0] for a in read)

    def _first(self, at: int, period: int) -> Atom | None:
        """What the first step reads in place of the last result; None if it is another step."""
        found: Atom | None = None
        for i in range(at, at + period):
            mine, other = self._eqns[i], self._eqns[i + period]
            form, wanted = self._forms[i], self._forms[i + period]
            if form is None or wanted is None or form[:-1] != wanted[:-1]:
                return None
            carried = self._carried(at + period, i + period)
            for k, a in enumerate(mine.invars):
                if k not in carried:
                    if form[-1][k] != wanted[-1][k]:
                        return None
                elif found is None:
                    found = a
                elif found is not a:
                    return None
            if any(mine.invars[k].aval != other.invars[k].aval for k in carried):
                return None
        return found

    def loop(self, at: int, period: int, rounds: int) -> JaxprEqn:
        """The loop over the steps that begin at an equation."""
        start = self._first(at, period)
        assert start is not None
        body = self._eqns[at + period : at + 2 * period]
        last = self._eqns[at + period * rounds - 1]
        (carried,) = self._eqns[at + period - 1].outvars
        consts = [v for v in read_from_outside(body) if v is not carried]
        step = Jaxpr([], [*consts, carried], list(body[-1].outvars), list(body))
        return last.replace(
            primitive=rounds_p,
            invars=[*consts, start],
            params={"jaxpr": ClosedJaxpr(step, ()), "length": rounds},
        )
