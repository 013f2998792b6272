"""Views of arrays in host memory, as results."""

from __future__ import annotations

from typing import Any

import numpy as np

Host = np.ndarray[Any, Any]

# A small view of a large array is copied: it must not keep the large one alive, and a few
# kilobytes cost no more to copy than to refer to.
_COPY_BYTES = 4096


def detached(view: Host, x: Host) -> Host:
    """`view` of `x`, copied where the view is small or would keep much more memory alive."""
    size = view.nbytes
    if size <= _COPY_BYTES or size * 8 <= x.nbytes:
        return view.copy()
    return view
