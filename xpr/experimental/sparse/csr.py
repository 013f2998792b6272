"""The older formats of matrices row by row and column by column: JAX's module of that name."""

from __future__ import annotations

from xpr.experimental.sparse._array import JAXSparse as JAXSparse
from xpr.experimental.sparse._missing import missing_names as _missing_names
from xpr.experimental.sparse._parts import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from xpr.experimental.sparse.matrices import CSC as CSC
from xpr.experimental.sparse.matrices import CSR as CSR
from xpr.experimental.sparse.matrices import COOInfo as COOInfo
from xpr.experimental.sparse.matrices import csr_fromdense as csr_fromdense
from xpr.experimental.sparse.matrices import csr_matmat as csr_matmat
from xpr.experimental.sparse.matrices import csr_matvec as csr_matvec
from xpr.experimental.sparse.matrices import csr_todense as csr_todense

__all__ = [
    "COOInfo",
    "CSC",
    "CSR",
    "CuSparseEfficiencyWarning",
    "JAXSparse",
    "csr_fromdense",
    "csr_matmat",
    "csr_matvec",
    "csr_todense",
]

__getattr__ = _missing_names(__name__)
