"""Derivatives with respect to the elements of sparse arrays: JAX's module of that name."""

from __future__ import annotations

from xpr.experimental.sparse._missing import missing_names as _missing_names
from xpr.experimental.sparse.transform import grad as grad
from xpr.experimental.sparse.transform import is_sparse as is_sparse
from xpr.experimental.sparse.transform import jacfwd as jacfwd
from xpr.experimental.sparse.transform import jacobian as jacobian
from xpr.experimental.sparse.transform import jacrev as jacrev
from xpr.experimental.sparse.transform import value_and_grad as value_and_grad

__all__ = [
    "grad",
    "is_sparse",
    "jacfwd",
    "jacobian",
    "jacrev",
    "value_and_grad",
]

__getattr__ = _missing_names(__name__)
