"""Random sparse arrays: JAX's module of that name."""

from __future__ import annotations

from xpr.experimental.sparse._missing import missing_names as _missing_names
from xpr.experimental.sparse.creation import random_bcoo as random_bcoo

__all__ = [
    "random_bcoo",
]

__getattr__ = _missing_names(__name__)
