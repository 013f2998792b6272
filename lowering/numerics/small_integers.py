"""Which integers take less than a byte."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes

_SMALL = frozenset(dtypes.SMALL_INT_TYPES)


def is_small(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is an integer of less than a byte (`passes/small_integers.py`)."""
    return dtype in _SMALL
