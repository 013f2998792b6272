"""Functions of sparse arrays of any format: JAX's module of that name."""

from __future__ import annotations

from xpr.experimental.sparse import empty as empty
from xpr.experimental.sparse import eye as eye
from xpr.experimental.sparse._array import BCOO as BCOO
from xpr.experimental.sparse._array import JAXSparse as JAXSparse
from xpr.experimental.sparse._missing import missing_names as _missing_names
from xpr.experimental.sparse._rows import BCSR as BCSR
from xpr.experimental.sparse.matrices import COO as COO
from xpr.experimental.sparse.matrices import CSC as CSC
from xpr.experimental.sparse.matrices import CSR as CSR
from xpr.experimental.sparse.rows import todense as todense

__all__ = [
    "BCOO",
    "BCSR",
    "COO",
    "CSC",
    "CSR",
    "JAXSparse",
    "empty",
    "eye",
    "todense",
]

__getattr__ = _missing_names(__name__)
