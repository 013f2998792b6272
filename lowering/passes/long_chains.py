"""Long chains of operations on elements, as unrolled loops have them, are cut.

IREE fuses a chain one operation at a time, and copies what it has fused so far each time: the time
grows with the square of the length (for 5000 operations 7 s, in five pieces 1.5 s, in ten 0.7 s).
Each piece becomes a dispatch of its own, which costs a microsecond or two for what takes hundreds
of steps.
"""

from __future__ import annotations

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Block, Module, Op, Value, dispatched
from xpr.lowering.ir.traits import Kind
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

LONGEST = 500
"""How many operations a chain may have."""

_LINKS = {Kind.ELEMENTWISE: 1, Kind.LAYOUT: 0, Kind.MOVEMENT: 0}

# A formula that comes as one operation, with a body, is fused as one: its operations count less.
_BODY = 10


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts a barrier behind every `LONGEST`-th operation of a chain."""
    del target, hints
    for function in module.functions:
        rewrite.bar_results(_ends(function.body))


def _ends(block: Block) -> list[Op]:
    """The operations that pieces end with."""
    lengths: dict[Value, int] = {}
    ends: list[Op] = []
    for op in dispatched(block):
        own = _LINKS.get(op.kind)
        if own is None:
            continue
        length = 0
        for v in op.operands:
            before = lengths.get(v, 0)
            if before > length:
                length = before
        length += own
        if op.regions:
            length += sum(len(region.ops) for region in op.regions) // _BODY
        # IREE makes barriers for complex numbers of their parts, which are fused as before.
        if length >= LONGEST and all(v.dtype.kind != "c" for v in op.results):
            ends.append(op)
            length = 0
        for v in op.results:
            lengths[v] = length
    return ends


GUARD = Guard(
    run=run,
    gives="short chains",
    needs=needs("results of regions apart"),
    hazards=(
        Hazard(
            hazard=(
                "compile time grows with the square of the length of chains, and of programs: "
                "fusion copies what it has fused for each operation, the search for constants to "
                "compute at load looks at all that each operation depends on (5000 additions took "
                "65 s, now 3 s)"
            ),
            guard=(
                "a barrier behind every five-hundredth operation of a chain "
                "(`lowering/passes/long_chains.py`); above 1500 operations no constants are "
                "computed at load (`lowering/targets/flags.py`)"
            ),
            tests="`tests/lowering/test_long_chains.py`",
        ),
    ),
)
