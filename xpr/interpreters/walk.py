"""A jaxpr walked equation by equation, through calls, loops and branches.

A walk evaluates a program by the reference rules. It enters the programs of scan, while, cond,
calls and `shard_map`, so that each operation is seen at each iteration, with the chain of
iterations and calls around it. A `Domain` says what the values are: arrays, arrays with the origin
of their NaNs, intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.context import context
from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.interpreters.reference import called_program, interpret_equation

Array = np.ndarray[Any, Any]


class Domain:
    """Values of a walk: NumPy arrays, unless a subclass says otherwise."""

    def lift(self, array: Array) -> Any:
        """The value of an array that is an argument, a constant or a literal."""
        return array

    def literal(self, literal: Literal) -> Any:
        """The value of a number that is written in an equation."""
        return self.lift(np.asarray(literal.val, literal.aval.dtype))

    def concrete(self, value: Any) -> Array:
        """The array that was computed, which decides branches and trip counts."""
        return value

    def evaluate(self, step: Step) -> list[Any]:
        """The results of an equation that holds no program."""
        return list(interpret_equation(step.eqn, step.operands))

    def leave(self, step: Step, results: list[Any]) -> list[Any]:
        """The results of an equation whose programs have run."""
        return results

    def take(self, value: Any, index: int) -> Any:
        """One slice of a value along its first axis."""
        return value[index]

    def stack(self, values: Sequence[Any], aval: Any) -> Any:
        """Slices of type `aval`, along a new first axis."""
        found = np.zeros((len(values), *aval.shape), aval.dtype)
        for i, value in enumerate(values):
            found[i] = value
        return found


class Frame:
    """One run of one program: its values, its place in the program around it."""

    __slots__ = ("closed", "env", "eqn", "label", "outer")

    def __init__(
        self, closed: ClosedJaxpr, outer: Frame | None, eqn: JaxprEqn | None, label: str
    ) -> None:
        self.closed = closed
        self.outer = outer
        self.eqn = eqn
        """The equation of `outer` that runs this program."""
        self.label = label
        """Such as `iteration 3 of scan`; empty for the whole program."""
        self.env: dict[Var, Any] = {}

    @property
    def depth(self) -> int:
        """How many programs are around this one."""
        return len(self.chain()) - 1

    def chain(self) -> list[Frame]:
        """The frames from the whole program to this one."""
        found: list[Frame] = []
        at: Frame | None = self
        while at is not None:
            found.append(at)
            at = at.outer
        return found[::-1]

    @property
    def iteration(self) -> int | None:
        """The iteration of the loop whose body this is, or None."""
        words = self.label.split()
        return int(words[1]) if words[:1] == ["iteration"] else None


class Step:
    """One equation at one iteration, with its operands and, when it has run, its results."""

    __slots__ = ("eqn", "frame", "number", "operands", "results")

    def __init__(self, number: int, frame: Frame, eqn: JaxprEqn, operands: list[Any]) -> None:
        self.number = number
        self.frame = frame
        self.eqn = eqn
        self.operands = operands
        self.results: list[Any] | None = None


def arrays_for(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Array]:
    """The arguments of a call as arrays of the types that the program takes."""
    return [np.asarray(a, t.dtype) for a, t in zip(args, closed.in_avals, strict=True)]


Watch = Callable[[Step], None]


class Walker:
    """Walks a program; `after(step)` is called when an equation has run, and may raise."""

    def __init__(self, domain: Domain | None = None, after: Watch | None = None) -> None:
        self.domain = Domain() if domain is None else domain
        self._after = after
        self._count = 0
        self._expanded: dict[int, tuple[JaxprEqn, ClosedJaxpr]] = {}

    def run(
        self,
        closed: ClosedJaxpr,
        values: Sequence[Any],
        outer: Frame | None = None,
        eqn: JaxprEqn | None = None,
        label: str = "",
    ) -> list[Any]:
        """The results of a program on values of the domain."""
        frame = Frame(closed, outer, eqn, label)
        env, jaxpr = frame.env, closed.jaxpr
        lift = self.domain.lift
        env.update(zip(jaxpr.constvars, (lift(np.asarray(c)) for c in closed.consts), strict=True))
        env.update(zip(jaxpr.invars, values, strict=True))

        def read(atom: Any) -> Any:
            if isinstance(atom, Literal):
                return self.domain.literal(atom)
            return env[atom]

        for inner in jaxpr.eqns:
            step = Step(self._count, frame, inner, [read(a) for a in inner.invars])
            self._count += 1
            step.results = self._results(step)
            env.update(zip(inner.outvars, step.results, strict=True))
            if self._after is not None:
                self._after(step)
        return [read(v) for v in jaxpr.outvars]

    def _results(self, step: Step) -> list[Any]:
        eqn = step.eqn
        called = called_program(eqn)
        special = _SPECIAL.get(eqn.primitive.name)
        if called is not None:
            name = eqn.params.get("name", eqn.primitive.name)
            results = self._inner(step, called, step.operands, f"call of {name}")
        elif special is not None:
            results = special(self, step)
        elif eqn.primitive.name in _BINDS_OTHERS:
            label = f"program of {eqn.primitive.name}"
            results = self._inner(step, self._expansion(eqn), step.operands, label)
        else:
            return self.domain.evaluate(step)
        return self.domain.leave(step, results)

    def _inner(
        self, step: Step, closed: ClosedJaxpr, values: Sequence[Any], label: str
    ) -> list[Any]:
        return self.run(closed, values, step.frame, step.eqn, label)

    def _expansion(self, eqn: JaxprEqn) -> ClosedJaxpr:
        """The operations that an equation stands for: those that its reference rule binds."""
        known = self._expanded.get(id(eqn))
        if known is None:

            def flat(*args: Any) -> Sequence[Any]:
                found = eqn.primitive.reference(*args, **eqn.params)
                return found if eqn.primitive.multiple_results else [found]

            avals = [a.aval.update(vma=frozenset()) for a in eqn.invars]
            known = self._expanded[id(eqn)] = (eqn, _at_line(eqn, flat, avals))
        return known[1]

    # ---- loops and branches

    def _scan(self, step: Step) -> list[Any]:
        params, domain = step.eqn.params, self.domain
        closed, length = params["jaxpr"], params["length"]
        num_consts, num_carry = params["num_consts"], params["num_carry"]
        held = num_consts + num_carry
        consts, carry = step.operands[:num_consts], step.operands[num_consts:held]
        xs = step.operands[held:]
        avals = closed.out_avals[num_carry:]
        rows: list[list[Any]] = []
        for i in range(length - 1, -1, -1) if params["reverse"] else range(length):
            values = [*consts, *carry, *(domain.take(x, i) for x in xs)]
            out = self._inner(step, closed, values, f"iteration {i} of scan")
            carry = out[:num_carry]
            rows.append(out[num_carry:])
        if params["reverse"]:
            rows.reverse()
        stacked = [domain.stack([r[k] for r in rows], aval) for k, aval in enumerate(avals)]
        return [*carry, *stacked]

    def _while(self, step: Step) -> list[Any]:
        params = step.eqn.params
        first = params["cond_nconsts"]
        held = first + params["body_nconsts"]
        cond_consts, body_consts = step.operands[:first], step.operands[first:held]
        carry = step.operands[held:]
        condition, body = params["cond_jaxpr"], params["body_jaxpr"]
        i = 0
        while True:
            label = f"condition {i} of while"
            going = self._inner(step, condition, [*cond_consts, *carry], label)[0]
            if not self.domain.concrete(going):
                return carry
            label = f"iteration {i} of while"
            carry = self._inner(step, body, [*body_consts, *carry], label)
            i += 1

    def _cond(self, step: Step) -> list[Any]:
        branches = step.eqn.params["branches"]
        index = int(self.domain.concrete(step.operands[0]))
        chosen = min(max(index, 0), len(branches) - 1)
        return self._inner(step, branches[chosen], step.operands[1:], f"branch {chosen} of cond")


_SPECIAL: dict[str, Callable[[Walker, Step], list[Any]]] = {
    "scan": Walker._scan,
    "while": Walker._while,
    "cond": Walker._cond,
}


_BINDS_OTHERS = ("shard_map", "custom_linear_solve")
"""Primitives whose reference rule is a program of others, held by their parameters."""


def _at_line(eqn: JaxprEqn, flat: Callable[..., Sequence[Any]], avals: Sequence[Any]) -> Any:
    outer = context.source
    context.source = eqn.source_info
    try:
        return trace_to_jaxpr(flat, avals)
    finally:
        context.source = outer
