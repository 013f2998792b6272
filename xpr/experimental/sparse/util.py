"""What the formats share: JAX's module of that name."""

from __future__ import annotations

from xpr.experimental.sparse._array import SparseInfo as SparseInfo
from xpr.experimental.sparse._missing import missing_names as _missing_names
from xpr.experimental.sparse._parts import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from xpr.experimental.sparse._parts import SparseEfficiencyError as SparseEfficiencyError
from xpr.experimental.sparse._parts import SparseEfficiencyWarning as SparseEfficiencyWarning

__all__ = [
    "CuSparseEfficiencyWarning",
    "SparseEfficiencyError",
    "SparseEfficiencyWarning",
    "SparseInfo",
]

__getattr__ = _missing_names(__name__)
