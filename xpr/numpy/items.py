"""`x[index]`."""

from __future__ import annotations

from typing import Any

from xpr.numpy._host_index import host_read


def getitem(x: Any, index: Any) -> Any:
    """`x[index]`: NumPy's rules, except that an index out of bounds means the nearest element."""
    found = host_read(x, index)
    if found is not None:
        return found
    from xpr.numpy.indexing import read  # noqa: PLC0415  concrete arrays do without these files

    return read(x, index)
