"""Arrays as safetensors data: a header in JSON, then their bytes one after the other.

The format is that of https://github.com/huggingface/safetensors (format description in its README).
Types that it has no name for are stored as bytes; the reader is told their types elsewhere.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from xpr.runtimes.bundle.tensors import SAFETENSORS_TYPES

_NAMES = {name: code for code, name in SAFETENSORS_TYPES.items()}
_ALIGNMENT = 64


def has_name(dtype: np.dtype[Any]) -> bool:
    """Whether the format has a name for the elements of that type."""
    return dtype.name in _NAMES


def write_tensors(
    arrays: dict[str, np.ndarray[Any, Any]], metadata: dict[str, str] | None = None
) -> bytes:
    """The bytes of a safetensors file with these arrays, in their order, and this metadata."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    parts, offset = [], 0
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).tobytes()
        code = _NAMES.get(array.dtype.name)
        header[name] = {
            "dtype": code or "U8",
            "shape": list(array.shape) if code else [len(data)],
            "data_offsets": [offset, offset + len(data)],
        }
        parts.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    # Spaces up to a multiple, so that whoever maps the file finds the values aligned.
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    return b"".join((len(text).to_bytes(8, "little"), text, *parts))
