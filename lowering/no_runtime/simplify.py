"""Programs with fewer blocks: one that a single jump leads to becomes a part of the one before."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from xpr.lowering.no_runtime.program import Block, Jump, Program, with_jumps


def joined(program: Program) -> Program:
    """The program with chains of blocks as one block each."""
    blocks = program.blocks
    ways = Counter(j.block for b in blocks for j in b.jumps())
    ways[0] += 1
    kept: list[int] = []
    made: dict[int, Block] = {}
    taken: set[int] = set()
    for i, block in enumerate(blocks):
        if i in taken:
            continue
        statements, end, at = list(block.statements), block.end, i
        while isinstance(end, Jump) and ways[end.block] == 1 and end.block > at:
            at = end.block
            following = blocks[at]
            if following.parameters:
                break
            taken.add(at)
            statements += following.statements
            end = following.end
        kept.append(i)
        made[i] = Block(block.parameters, statements, end)
    numbers = {old: new for new, old in enumerate(kept)}
    for block in made.values():
        block.end = with_jumps(block.end, lambda j: Jump(numbers[j.block], j.values))
    return replace(program, blocks=[made[i] for i in kept])
