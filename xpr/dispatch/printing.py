"""Text of concrete arrays: NumPy's for `str`, JAX's `Array(...)` form for `repr`."""

from __future__ import annotations

from typing import Any

import numpy as np


def array_repr(value: np.ndarray[Any, Any], weak_type: bool) -> str:
    """`Array([1., 2.], dtype=float32)`, wrapped as NumPy wraps its own."""
    prefix = "Array("
    tail = f"dtype={value.dtype.name}" + (", weak_type=True)" if weak_type else ")")
    if value.size == 0:
        return f"{prefix}[], shape={value.shape}, {tail}"
    body = np.array2string(value, separator=", ", prefix=prefix, suffix=",")
    width = np.get_printoptions()["linewidth"]
    last_line = len(body) - (body.rfind("\n") + 1)
    # JAX leaves the prefix out of the count and starts no new line; programs compare its texts.
    gap = " " if last_line + len(tail) + 2 <= width else " " * len(prefix)
    return f"{prefix}{body},{gap}{tail}"
