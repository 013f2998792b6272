"""Arrays with their elements row by row: JAX's module of that name."""

from __future__ import annotations

from xpr.experimental.sparse._array import JAXSparse as JAXSparse
from xpr.experimental.sparse._array import SparseInfo as SparseInfo
from xpr.experimental.sparse._missing import missing_names as _missing_names
from xpr.experimental.sparse._parts import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from xpr.experimental.sparse._parts import SparseEfficiencyWarning as SparseEfficiencyWarning
from xpr.experimental.sparse._rows import BCSR as BCSR
from xpr.experimental.sparse.rows import bcsr_broadcast_in_dim as bcsr_broadcast_in_dim
from xpr.experimental.sparse.rows import bcsr_concatenate as bcsr_concatenate
from xpr.experimental.sparse.rows import bcsr_dot_general as bcsr_dot_general
from xpr.experimental.sparse.rows import bcsr_fromdense as bcsr_fromdense
from xpr.experimental.sparse.rows import bcsr_sum_duplicates as bcsr_sum_duplicates
from xpr.experimental.sparse.rows import bcsr_todense as bcsr_todense
from xpr.experimental.sparse.samples import bcsr_extract as bcsr_extract

__all__ = [
    "BCSR",
    "CuSparseEfficiencyWarning",
    "JAXSparse",
    "SparseEfficiencyWarning",
    "SparseInfo",
    "bcsr_broadcast_in_dim",
    "bcsr_concatenate",
    "bcsr_dot_general",
    "bcsr_extract",
    "bcsr_fromdense",
    "bcsr_sum_duplicates",
    "bcsr_todense",
]

__getattr__ = _missing_names(__name__)
