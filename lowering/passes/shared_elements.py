"""Elementwise results that are read by two access maps, and by something else, too.

IREE computes such a value in the dispatch of something else that reads it, as one of the results,
and takes what reads it as `v[:, None] + v[None, :]` into the same dispatch: there the elements of
one map are taken for those of the other. It gets a barrier. Reshapes do not part the value from
what reads it: IREE moves them.
"""

from __future__ import annotations

import math

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.access_maps import AccessMap, arranged, identity_map
from xpr.lowering.ir.graph import Module, Op, Shape, Value, dispatched
from xpr.lowering.ir.traits import Kind
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts what is read by two access maps, and elsewhere, behind barriers."""
    del target, hints
    rewrite.bar_results(
        op
        for function in module.functions
        for op in dispatched(function.body)
        if op.kind is Kind.ELEMENTWISE and _is_shared(op.result)
    )


def _is_shared(x: Value) -> bool:
    layouts = _layouts(x)
    if not x.shape or not layouts:
        return False
    if len(layouts) < len(x.uses) and len(set(map(_step, layouts))) > 1:
        return True
    reads = _Reads(x)
    return reads.has_others and any(len(maps) > 1 for maps in reads.repeated.values())


def _layouts(x: Value) -> list[Op]:
    return [op for op in x.uses if op.kind is Kind.LAYOUT]


def _step(op: Op) -> tuple[object, ...]:
    return op.name, op.result.shape, tuple(op.attributes.get("dims", ()))


class _Reads:
    """What reads a value, through layouts.

    `repeated` has the access maps of larger values that repeat it, by their shapes; `has_others` is
    whether something else reads it.
    """

    def __init__(self, x: Value) -> None:
        self.repeated: dict[Shape, set[AccessMap]] = {}
        self.has_others = False
        pending: list[tuple[Value, AccessMap]] = [(x, identity_map(x.shape))]
        while pending:
            value, access = pending.pop()
            layouts = _layouts(value)
            pending += [(op.result, arranged(access, op)) for op in layouts]
            if len(layouts) == len(value.uses):
                continue
            if math.prod(value.shape) > math.prod(x.shape):
                self.repeated.setdefault(value.shape, set()).add(access)
            else:
                self.has_others = True


GUARD = Guard(
    run=run,
    gives="elements of one access map",
    needs=needs("producers of one access map"),
    hazards=(
        Hazard(
            hazard=(
                "an elementwise result that is read by two access maps, as in `v[:, None] + "
                "v[None, :]`, and by something else whose dispatch gives it as a result, or a "
                "reshape of it: the elements of one map are taken for those of the other"
            ),
            guard="a barrier behind it (`lowering/passes/shared_elements.py`)",
            tests="`tests/lowering/test_shared_elements.py`",
        ),
    ),
)
