"""Exported functions as bytes: what `Exported.serialize` writes.

The bytes are a safetensors file: the arrays, and in its metadata a document in JSON, which holds
the program as data, and the SHA-256 of the file. Where the digest itself stands, the file is
hashed as if there were zeros. `deserialization.py` reads them.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from xpr.export import trees
from xpr.export.program_data import Arrays
from xpr.export.tensors import write_tensors

if TYPE_CHECKING:
    from xpr.export.exported import Exported

FORMAT = "xpr-exported"
DIGEST = "sha256"
BLANK = "0" * 64
"""What stands for the digest while the file is hashed."""


def serialized(exported: Exported, vjp_order: int) -> bytearray:
    """What `Exported.serialize` returns."""
    if vjp_order < 0:
        raise ValueError(f"vjp_order must not be negative, got {vjp_order}")
    arrays: Arrays = {}
    entries: list[Any] = []
    current = exported
    for order in range(vjp_order + 1):
        current = current.vjp() if order else current
        data, found = current.program.data()
        arrays |= {f"{order}.{name}": a for name, a in found.items()}
        entries.append(
            {
                "name": current.fun_name,
                "in_tree": trees.tree_data(current.in_tree),
                "out_tree": trees.tree_data(current.out_tree),
                "types": {n: [a.dtype.name, list(a.shape)] for n, a in found.items()},
                "program": data,
                "layout": None if current.layout is None else current.layout.data(),
            }
        )
    document = {
        "format": FORMAT,
        "version": exported.calling_convention_version,
        "platforms": exported.platforms,
        "disabled_checks": [str(c) for c in exported.disabled_safety_checks],
        "programs": entries,
    }
    text = json.dumps(document, separators=(",", ":"))
    data = bytearray(write_tensors(arrays, {DIGEST: BLANK, FORMAT: text}))
    place = data.index(BLANK.encode())  # the first of the metadata, which come before all else
    data[place : place + len(BLANK)] = hashlib.sha256(data).hexdigest().encode()
    return data
