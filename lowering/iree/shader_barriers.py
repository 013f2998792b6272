"""Compiled modules for Vulkan whose invocations wait before they read what others have written.

Where IREE keeps two operations in one dispatch (a conversion and what reads it twice, a product and
what is added to it) it may leave the first one's result in the memory that a workgroup shares, and
does not let the invocations wait for each other in between. Whether the result is right then
depends on how many of them a driver runs at once. Neither a form of StableHLO nor a flag avoids it
for sure: here barriers are put into the shaders, in place of the names of values in them.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence

from xpr.lowering.iree import shader_code as code
from xpr.lowering.iree.shader_code import Construct, Instruction, Lack, Shader, UnknownShaderError

_MAGIC = struct.pack("<I", 0x07230203)
_BOUND = 3
_ZIP_RECORD = b"PK\x03\x04"

_SCOPE = 2  # a workgroup
_SEMANTICS = 0x108  # acquire and release of the workgroup's memory
_SHARED_VARIABLE = 4 << 16 | code.VARIABLE


class UnorderedShaderError(Exception):
    """A shader that lacks a barrier where none can be put."""


def with_barriers(module: bytes) -> bytes:
    """`module` with the barriers that its shaders lack.

    Raises ``UnorderedShaderError`` if invocations may read what others have not yet written, and no
    barrier can be put between.
    """
    changed: bytearray | None = None
    for start, words in _shaders(module):
        new = _ordered(words)
        if new is not words:
            changed = changed or bytearray(module)
            changed[start : start + 4 * len(new)] = struct.pack(f"<{len(new)}I", *new)
    if changed is None:
        return module
    _renew_checksums(changed)
    return bytes(changed)


def _shaders(module: bytes) -> Iterator[tuple[int, Sequence[int]]]:
    """Where shaders begin, and their words."""
    at = module.find(_MAGIC, 4)
    while at >= 0:
        # A vector of words has its length before it.
        (count,) = struct.unpack_from("<I", module, at - 4)
        if code.HEADER_WORDS < count <= (len(module) - at) // 4:
            yield at, struct.unpack_from(f"<{count}I", module, at)
            at += 4 * (count - 1)
        at = module.find(_MAGIC, at + 4)


def _ordered(words: Sequence[int]) -> Sequence[int]:
    """The shader itself if it lacks nothing, else one of equal size with barriers."""
    if _SHARED_VARIABLE not in words:
        return words
    new = words
    try:
        while True:
            found = list(code.instructions(new))
            if not any(i.op == code.VARIABLE and i.words[2] == code.WORKGROUP for i in found):
                return words
            shader = Shader(found)
            lack = shader.lack()
            if lack is None:
                return _fitted(new, found, len(words)) if new is not words else words
            new = _with_barrier(new, shader, lack)
    except (UnknownShaderError, IndexError, KeyError):
        return words


def _with_barrier(words: Sequence[int], shader: Shader, lack: Lack) -> list[int]:
    """The words with a barrier, and with the choices around it made once more behind it."""
    line = lack.around.line()
    first = next((k for k, c in enumerate(line) if not shader.all_come(c)), len(line))
    choices = line[first:]
    if any(not _is_simple(c) for c in choices):
        raise UnorderedShaderError
    moved = _needed(shader, choices, lack.at) if choices else set[int]()
    bound, constants, barrier = _barrier(words, shader.instructions)
    left = list(range(bound, bound + len(choices)))
    arms = list(range(bound + len(choices), bound + 2 * len(choices)))
    new_merge = {c.merge: label for c, label in zip(choices, left, strict=True)}
    branches = {c.branch.at: c for c in choices if c.branch}
    between: list[int] = []
    for label in reversed(left):
        between += (*_one(code.BRANCH, label), *_one(code.LABEL, label))
    between += barrier
    for c, arm in zip(choices, arms, strict=True):
        between += _one(code.SELECTION_MERGE, c.merge, 0)
        between += (*_one(code.BRANCH_CONDITIONAL, c.condition, arm, c.merge),)
        between += _one(code.LABEL, arm)
    out = [*words[:_BOUND], bound + 2 * len(choices), words[_BOUND + 1]]
    function = next(i.at for i in shader.instructions if i.op == code.FUNCTION)
    tops = {c.before: c for c in choices}
    label = 0
    for i in shader.instructions:
        if i.at == function:
            out += constants
        if choices and i.at == choices[0].before:
            out += [w for j in shader.instructions if j.at in moved for w in _one(j.op, *j.words)]
        if i.at == lack.at:
            out += between
        own = list(i.words)
        if i.at in tops and i.op == code.SELECTION_MERGE:
            own[0] = new_merge[own[0]]
        elif i.at in branches:
            own[2] = new_merge[own[2]]
        elif i.op == code.LABEL and i.at < lack.at:
            label = own[0]
        elif i.op == code.PHI and i.at > lack.at and choices:
            own = [arms[-1] if w == label and k > 2 and k % 2 else w for k, w in enumerate(own)]
        if i.at not in moved:
            out += _one(i.op, *own)
    return out


def _one(op: int, *operands: int) -> tuple[int, ...]:
    """The words of an instruction."""
    return (len(operands) + 1 << 16 | op, *operands)


def _is_simple(choice: Construct) -> bool:
    """Whether it is a choice with nothing for those that do not come."""
    branch = choice.branch
    if choice.loop or branch is None or branch.op != code.BRANCH_CONDITIONAL:
        return False
    return branch.words[2] == choice.merge


def _needed(shader: Shader, choices: Sequence[Construct], at: int) -> set[int]:
    """Where the instructions are whose results are needed behind `at`, as well as before."""
    start = choices[0].before
    needed: set[int] = set()
    wanted = [c.condition for c in choices[1:]]
    for i in shader.instructions:
        if i.at >= at:
            wanted += i.values()
    while wanted:
        i = shader.made.get(wanted.pop())
        if i is None or not start < i.at < at or i.at in needed:
            continue
        if not shader.is_pure(i):
            raise UnorderedShaderError
        needed.add(i.at)
        wanted += i.values()
    return needed


def _barrier(
    words: Sequence[int], found: Sequence[Instruction]
) -> tuple[int, list[int], tuple[int, ...]]:
    """The next free name, the constants that a barrier needs besides, and the barrier."""
    uint = next(
        (i.words[0] for i in found if i.op == code.INT_TYPE and tuple(i.words[1:]) == (32, 0)), None
    )
    if uint is None:
        raise UnorderedShaderError
    names = {i.words[2]: i.words[1] for i in found if i.op == code.CONSTANT and i.words[0] == uint}
    bound, constants = words[_BOUND], list[int]()
    for number in (_SCOPE, _SEMANTICS):
        if number not in names:
            constants += _one(code.CONSTANT, uint, bound, number)
            names[number] = bound
            bound += 1
    scope = names[_SCOPE]
    return bound, constants, _one(code.BARRIER, scope, scope, names[_SEMANTICS])


def _fitted(words: Sequence[int], found: Sequence[Instruction], size: int) -> list[int]:
    """The words without as many names as make them `size`, and with gaps for the rest."""
    excess = len(words) - size
    left_out: set[int] = set()
    for i in sorted((i for i in found if i.op == code.NAME), key=lambda i: -len(i.words)):
        if excess > 0:
            excess -= 1 + len(i.words)
            left_out.add(i.at)
    if excess > 0:
        raise UnorderedShaderError
    out = list(words[: code.HEADER_WORDS])
    barrier = next(i.at for i in found if i.op == code.BARRIER)
    for i in found:
        if i.at == barrier:
            out += _one(code.NOP) * -excess
        if i.at not in left_out:
            out += _one(i.op, *i.words)
    return out


def _renew_checksums(module: bytearray) -> None:
    """Puts the new check sums into the records of a ZIP file."""
    if not module.startswith(_ZIP_RECORD):
        return
    with zipfile.ZipFile(io.BytesIO(module)) as file:
        entries, at = file.infolist(), file.start_dir
    for entry in entries:
        name, extra = struct.unpack_from("<HH", module, entry.header_offset + 26)
        start = entry.header_offset + 30 + name + extra
        new = struct.pack("<I", zlib.crc32(module[start : start + entry.file_size]))
        module[entry.header_offset + 14 : entry.header_offset + 18] = new
        module[at + 16 : at + 20] = new
        at += 46 + sum(struct.unpack_from("<HHH", module, at + 28))
