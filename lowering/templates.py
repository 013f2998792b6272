"""A program with its numbers left out, so that programs with other numbers share a module.

A learning rate that is written in the program is a constant of its code, and another rate another
program: nothing of what the compiler did for the first one is of use. In the text that is made here
such a number is an operand of dispatches, of a value that the compiler cannot see; in the module it
is an operand of an instruction of the host's program, which is overwritten with the number that is
meant (`iree/numbers.py`). The dispatches are cut as they would be, and are given the number in a
register.

Left out are numbers of float32 that stand in the jaxpr, or are made of such, and are added to
arrays, subtracted, multiplied or divided, outside of loops, branches and functions that are called.
Powers of two and what is not finite stay: a half, one or zero is rarely a number that somebody
tries out, and the compiler makes more of it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np

from xpr.lowering.facts import constant_values, read_operations
from xpr.lowering.ir.constants import LITERAL
from xpr.lowering.ir.graph import Block, Function, Module, Op, Value
from xpr.lowering.ir.printer import print_module
from xpr.runtimes.base import ENTRY

REVISION = "template 3"
"""A part of the keys of modules, which tells apart those of an older form of this file."""

MOST = 16
"""The numbers that are left out of a program at most: one dispatch may take all of them, and has
few registers."""

_LARGE = 1500
"""Of so many operations, regions left out, dispatches take long to form with numbers from
outside."""

_FLOAT32 = np.dtype(np.float32)
_ARITHMETIC = frozenset(f"stablehlo.{n}" for n in ("add", "subtract", "multiply", "divide"))
_BROADCAST = "stablehlo.broadcast_in_dim"
_SLOT = "<<slot {}>>"


@dataclass(frozen=True)
class Template:
    """A program whose numbers are left out."""

    text: str
    """The program, with a mark in place of each number."""

    marks: tuple[int, ...]
    """32 bits for each number, which stand nowhere else; the text decides what they are."""

    bits: tuple[int, ...]
    """The numbers, in the same order."""


def template_of(module: Module, name: str) -> Template | None:
    """The template of a lowered program; None for one without numbers to leave out."""
    if sum(len(function.body.ops) for function in module.functions) > _LARGE:
        return None
    found: dict[Op, np.float32] = {}
    unused: list[Op] = []
    for function in module.functions:
        # What is called would be put in the middle of another one, with its slots.
        if function.name == ENTRY:
            _find_numbers(function.body, found, unused)
    if not found or len(found) > MOST:
        return None
    slots = {op: _SLOT.format(i) for i, op in enumerate(found)}
    text = print_module(module, name, slots=slots, unused=frozenset(unused))
    digest = hashlib.sha256(text.encode()).digest()
    marks = tuple(_mark(digest, i) for i in range(len(found)))
    if len(set(marks)) < len(marks):
        return None
    for slot, mark in zip(slots.values(), marks, strict=True):
        text = text.replace(slot, str(mark))
    return Template(text, marks, tuple(int(x.view(np.uint32)) for x in found.values()))


def _mark(digest: bytes, index: int) -> int:
    """Bits that no program has by chance, which are no small number and no negative one."""
    made = hashlib.sha256(digest + index.to_bytes(2, "little")).digest()
    return int.from_bytes(made[:4], "little") >> 1 | 1 << 30


def _find_numbers(block: Block, found: dict[Op, np.float32], unused: list[Op]) -> None:
    """Adds what is left out of the operations of a block, each with its number.

    `unused` are literals that nothing reads.
    """
    read, constants = read_operations(block), constant_values(block)
    for op in block.ops:
        if not op.attributes.get(LITERAL) or op.result.dtype != _FLOAT32:
            continue
        number = np.float32(op.attributes["number"])
        users = [user for user in _users(op.result) if user in read]
        if not users:
            unused.append(op)
        elif _is_tried_out(number) and all(_takes_number(user, constants) for user in users):
            found[op] = number


def _is_tried_out(number: np.float32) -> bool:
    """Whether it is a number of which somebody might want to try another one."""
    return math.isfinite(number) and abs(math.frexp(number)[0]) not in (0.0, 0.5)


def _users(x: Value) -> Iterator[Op]:
    """What a number is an operand of, past what repeats it."""
    for user in x.uses:
        if user.name == _BROADCAST:
            yield from _users(user.result)
        else:
            yield user


def _takes_number(user: Op, constants: Container[Value]) -> bool:
    """Whether an operation becomes part of a dispatch that has the number as an operand.

    What is made of `constants` alone is computed once, with the number as it is.
    """
    if user.name not in _ARITHMETIC or user.block is None:
        return False
    is_computed = any(x not in constants for x in user.operands)
    return is_computed and isinstance(user.block.parent, Function)
