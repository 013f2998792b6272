"""A scan cut in two, over known and over unknown values; what it and other loops share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, Var, dce_jaxpr, eval_jaxpr
from xpr.interpreters.partial_eval import Split

Params = dict[str, Any]


def cut(items: Sequence[Any], params: Params) -> tuple[list[Any], list[Any], list[Any]]:
    """Constants, carried values and sequences."""
    a, b = params["num_consts"], params["num_consts"] + params["num_carry"]
    return list(items[:a]), list(items[a:b]), list(items[b:])


def least_marks(marks: Sequence[bool], step: Callable[[tuple[bool, ...]], Sequence[bool]]) -> Any:
    """The least marks of carried values that `step`, which gives those of new ones, keeps."""
    current = tuple(marks)
    while True:
        new = tuple(a or b for a, b in zip(current, step(current), strict=True))
        if new == current:
            return current
        current = new


def permuted(closed: ClosedJaxpr, inputs: Sequence[int], outputs: Sequence[int]) -> ClosedJaxpr:
    """The program with its inputs and results in another order."""
    jaxpr = closed.jaxpr
    return ClosedJaxpr(
        jaxpr.replace(
            invars=[jaxpr.invars[i] for i in inputs], outvars=[jaxpr.outvars[i] for i in outputs]
        ),
        closed.consts,
    )


def _varying(jaxpr: Jaxpr, n_const: int) -> set[Var]:
    """The variables that differ from step to step."""
    varying = set(jaxpr.invars[n_const:])
    for eqn in jaxpr.eqns:
        if eqn.effects or any(isinstance(v, Var) and v in varying for v in eqn.invars):
            varying.update(eqn.outvars)
    return varying


def _kind(place: int | None, atom: Atom, n_const: int, n_carry: int, varying: set[Var]) -> str:
    """What a residual is to the loop."""
    if place is None:
        return "stacked" if isinstance(atom, Var) and atom in varying else "hoisted"
    if place < n_const:
        return "const"
    return "stacked" if place < n_const + n_carry else "slice"


class SplitScan:
    """A scan cut in two: one over what is known, one over the rest and the residuals.

    `mark` tells which operands have an unknown part; `split` cuts the program accordingly: its
    known part takes the operands of `known_inputs`, its unknown part the residuals and one input
    for each marked operand.
    """

    def __init__(
        self,
        split: Split,
        marks: Sequence[bool],
        known_inputs: Sequence[int],
        out_known: Sequence[int],
        out_unknown: Sequence[int],
        params: Params,
    ) -> None:
        self.split = split
        self.params = params
        self.marks = marks
        self.out_known, self.out_unknown = list(out_known), list(out_unknown)
        a, b = params["num_consts"], params["num_consts"] + params["num_carry"]
        self.n_const = sum(i < a for i in known_inputs)
        self.n_carry = sum(a <= i < b for i in known_inputs)
        self.known_inputs = list(known_inputs)
        # Residuals that are constants, or computed from constants alone, are constants of the
        # unknown part; those that are slices stay sequences; what is carried or computed in each
        # step is stacked.
        known = split.known.jaxpr
        varying = _varying(known, self.n_const)
        returned = iter(known.outvars[len(self.out_known) :])
        self.atoms = [next(returned) if i is None else known.invars[i] for i in split.forwarded]
        self.kinds = [
            _kind(i, atom, self.n_const, self.n_carry, varying)
            for i, atom in zip(split.forwarded, self.atoms, strict=True)
        ]

    def run_known(
        self, bind: Callable[..., list[Any]], operands: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Results of the known part, and all residuals: constants as they are, others stacked.

        `bind(program, operands, params, **changes)` applies scan.
        """
        known, consts = self.split.known.jaxpr, self.split.known.consts
        n_out = len(self.out_known)

        def atoms(kind: str) -> list[Atom]:
            return [a for a, k in zip(self.atoms, self.kinds, strict=True) if k == kind]

        # Effects belong to the steps: they must not happen here once more.
        silent = [eqn for eqn in known.eqns if not eqn.effects]
        outside = known.replace(outvars=atoms("hoisted"), eqns=silent)
        once, _ = dce_jaxpr(outside, instantiate=True)
        # Its sequences are never read, so that whole ones may stand for their slices.
        hoisted = iter(eval_jaxpr(once, consts, *operands))
        body = known.replace(outvars=[*known.outvars[:n_out], *atoms("stacked")])
        small, _ = dce_jaxpr(body, instantiate=True)
        found = bind(
            ClosedJaxpr(small, consts),
            operands,
            self.params,
            num_consts=self.n_const,
            num_carry=self._carry_out(),
        )
        stacked_values = iter(found[n_out:])
        residuals = []
        for kind, i in zip(self.kinds, self.split.forwarded, strict=True):
            if kind == "hoisted":
                residuals.append(next(hoisted))
            elif kind == "stacked":
                residuals.append(next(stacked_values))
            else:
                assert i is not None
                residuals.append(operands[i])
        return found[:n_out], residuals

    def _carry_out(self) -> int:
        return sum(i < self.params["num_carry"] for i in self.out_known)

    def unknown_program(self) -> tuple[ClosedJaxpr, list[int], Params]:
        """The unknown part as a scan: its program, the order of its operands, its parameters.

        The order is one of (residuals, marked operands).
        """
        n_res = len(self.kinds)
        a, b = self.params["num_consts"], self.params["num_consts"] + self.params["num_carry"]
        marked = [i for i, m in enumerate(self.marks) if m]
        place = {i: n_res + k for k, i in enumerate(marked)}
        consts = [k for k, kind in enumerate(self.kinds) if kind in ("const", "hoisted")]
        slices = [k for k, kind in enumerate(self.kinds) if kind in ("slice", "stacked")]
        order = [
            *consts,
            *(place[i] for i in marked if i < a),
            *(place[i] for i in marked if a <= i < b),
            *slices,
            *(place[i] for i in marked if i >= b),
        ]
        body = permuted(self.split.unknown, order, range(len(self.out_unknown)))
        n_carry = sum(a <= i < b for i in marked)
        params = self.params | {
            "jaxpr": body,
            "num_consts": len(consts) + sum(i < a for i in marked),
            "num_carry": n_carry,
        }
        return body, order, params
