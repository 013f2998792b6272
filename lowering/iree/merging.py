"""Several small programs in one module, which takes a third of the time of one after the other.

Much of what the compiler does is done once for each module: sets of rewrite patterns, the library
of mathematical functions, the linker. So small programs that are asked for together are compiled
as functions of one module. Each program is then the whole module, in which its own function, and no
other, has the name that programs are called by.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from xpr.lowering.iree.vm_code import data_start, renew_checksum

ENTRY = "main"
LONGEST_TEXT = 16000
"""The characters of a program that counts as small."""

MOST = 8
"""The programs that share a module at most."""

REVISION = "merged 1"

_MODULE = re.compile(r"\s*module @\w+ \{\n(.*)\n\}\s*", re.S)
_SYMBOL = re.compile(r"@(\w+)")
# Names that are written in another way, calls of the host, and text that is no code.
_UNUSUAL = re.compile(r'@(?!\w)|@xpr\b|"[^"\n]*@|func\.func public @(?!main\b)')


class NotMergedError(Exception):
    """A module does not hold the functions that it was made of."""


def is_mergeable(text: str) -> bool:
    """Whether a program may share a module with others."""
    return (
        len(text) <= LONGEST_TEXT
        and text.count(f"func.func public @{ENTRY}(") == 1
        and _MODULE.fullmatch(text) is not None
        and _UNUSUAL.search(text) is None
    )


def _name(index: int) -> str:
    """The name of a program's function: one as long as that which it gets in the end."""
    return f"m{index:03d}"


def merged(texts: Sequence[str]) -> str:
    """One module with the functions of programs that are mergeable."""
    bodies = []
    for i, text in enumerate(texts):
        found = _MODULE.fullmatch(text)
        assert found is not None

        def renamed(symbol: re.Match[str], index: int = i) -> str:
            name = symbol[1]
            return "@" + (_name(index) if name == ENTRY else f"p{index}_{name}")

        bodies.append(_SYMBOL.sub(renamed, found[1]))
    return "module @merged {\n" + "\n".join(bodies) + "\n}\n"


def programs(module: bytes, count: int) -> list[bytes]:
    """The compiled module as each of the programs that it was made of.

    Raises `NotMergedError` if one of their functions is not in it.
    """
    return [program(module, i) for i in range(count)]


def program(module: bytes, index: int) -> bytes:
    """The compiled module as the program at `index` of those it was made of.

    Raises `NotMergedError` if there is no such function in it.
    """
    start = data_start(module)
    (size,) = struct.unpack_from("<I", module, start)
    data = module[start : start + size]
    old, new = _name(index).encode(), ENTRY.encode()
    # A string of the module's tables: its length, its characters and a zero.
    mark = struct.pack("<I", len(old)) + old + b"\0"
    if data.count(mark) != 1:
        raise NotMergedError(_name(index))
    data = data.replace(mark, mark.replace(old, new))
    data = data.replace(b"func @" + old + b"(", b"func @" + new + b"(")
    changed = bytearray(module)
    changed[start : start + size] = data
    renew_checksum(module, changed)
    return bytes(changed)
