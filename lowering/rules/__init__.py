"""Lowering rules, one file per family, named as in `xpr.primitives`."""

from __future__ import annotations

import functools
import importlib

from xpr.primitives import FAMILIES


@functools.cache
def load_all() -> None:
    """Imports the rules of each family, which registers them."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
