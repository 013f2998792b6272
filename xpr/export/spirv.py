"""What the SPIR-V in a compiled module asks of a Vulkan device.

A SPIR-V module is a row of 32-bit words. Behind five of a header, of which the first is a fixed
number, come the capabilities that a device must have, each an instruction of two words (SPIR-V
specification 1.6, sections 2.3 and 2.4).
"""

from __future__ import annotations

import re

_MAGIC = re.compile((0x07230203).to_bytes(4, "little"))
_HEADER = 5
_CAPABILITY = (2 << 16) | 17
# Capabilities that devices may lack, by their numbers (section 3.31), with their names here.
_NAMES = {
    9: "float16",
    10: "float64",
    11: "int64",
    22: "int16",
    39: "int8",
    4433: "storage16",
    4448: "storage8",
}


def spirv_needs(module: bytes) -> frozenset[str]:
    """The types that a `.vmfb` for Vulkan computes with or stores, beside those of 32 bits.

    >>> words = [0x07230203, 0x10000, 0, 1, 0, 0x20011, 1, 0x20011, 10, 0x3000E, 0, 1]
    >>> spirv_needs(b"".join(w.to_bytes(4, "little") for w in words))
    frozenset({'float64'})
    """
    found: set[str] = set()
    for match in _MAGIC.finditer(module):
        place = match.start() + 4 * _HEADER
        while int.from_bytes(module[place : place + 4], "little") == _CAPABILITY:
            number = int.from_bytes(module[place + 4 : place + 8], "little")
            if number in _NAMES:
                found.add(_NAMES[number])
            place += 8
    return frozenset(found)
