"""Compiled modules with the numbers that were left out of their programs (`lowering/templates.py`).

Each of them is the operand of an instruction of the host's program that fills a register. Where
one is found elsewhere, or nowhere, the compiler has done something else with it, and the module is
of no use.
"""

from __future__ import annotations

import struct

from xpr.lowering.iree import vm_code
from xpr.lowering.templates import Template


def filled(module: bytes, template: Template) -> bytes | None:
    """The module of a template as that of the program; None if a number has no place in it."""
    places: dict[int, list[int]] = {mark: [] for mark in template.marks}
    try:
        for function in vm_code.functions(module):
            for found in vm_code.instructions(module, function):
                if found.code == vm_code.CONST_I32:
                    (place,) = found.numbers
                    mark = vm_code.number_at(module, place)
                    if mark in places:
                        places[mark].append(place)
    except (vm_code.UnknownVersionError, *vm_code.ERRORS):
        return None
    changed = bytearray(module)
    for mark, bits in zip(template.marks, template.bits, strict=True):
        if not places[mark] or module.count(struct.pack("<I", mark)) != len(places[mark]):
            return None
        for place in places[mark]:
            struct.pack_into("<I", changed, place, bits)
    vm_code.renew_checksum(module, changed)
    return bytes(changed)
