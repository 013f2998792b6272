"""Rules that write an operation as a textbook would, in plain StableHLO.

They are for text that other compilers read (`targets/stablehlo.py`). An operation without one here
is written by its common rule, where that is plain StableHLO anyway.
"""

from __future__ import annotations

import functools
import importlib

_FILES = (
    "contractions",
    "conversions",
    "elementwise",
    "fourier",
    "host",
    "indexing",
    "lapack",
    "matrices",
    "ordering",
    "reductions",
)


@functools.cache
def load_all() -> None:
    """Imports the rules, which registers them."""
    for name in _FILES:
        importlib.import_module(f"{__name__}.{name}")
