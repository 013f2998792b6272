"""The older format of matrices with an index for each element: JAX's module of that name."""

from __future__ import annotations

from xpr.experimental.sparse._array import JAXSparse as JAXSparse
from xpr.experimental.sparse._missing import missing_names as _missing_names
from xpr.experimental.sparse._parts import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from xpr.experimental.sparse.matrices import COO as COO
from xpr.experimental.sparse.matrices import COOInfo as COOInfo
from xpr.experimental.sparse.matrices import coo_fromdense as coo_fromdense
from xpr.experimental.sparse.matrices import coo_matmat as coo_matmat
from xpr.experimental.sparse.matrices import coo_matvec as coo_matvec
from xpr.experimental.sparse.matrices import coo_todense as coo_todense

__all__ = [
    "COO",
    "COOInfo",
    "CuSparseEfficiencyWarning",
    "JAXSparse",
    "coo_fromdense",
    "coo_matmat",
    "coo_matvec",
    "coo_todense",
]

__getattr__ = _missing_names(__name__)
