"""Arrays with an index for each specified element: JAX's module of that name."""

from __future__ import annotations

from xpr.experimental.sparse._array import BCOO as BCOO
from xpr.experimental.sparse._array import JAXSparse as JAXSparse
from xpr.experimental.sparse._array import SparseInfo as SparseInfo
from xpr.experimental.sparse._missing import missing_names as _missing_names
from xpr.experimental.sparse._parts import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from xpr.experimental.sparse._parts import SparseEfficiencyError as SparseEfficiencyError
from xpr.experimental.sparse._parts import SparseEfficiencyWarning as SparseEfficiencyWarning
from xpr.experimental.sparse.arithmetic import bcoo_extract as bcoo_extract
from xpr.experimental.sparse.arithmetic import bcoo_multiply_dense as bcoo_multiply_dense
from xpr.experimental.sparse.arithmetic import bcoo_multiply_sparse as bcoo_multiply_sparse
from xpr.experimental.sparse.arithmetic import bcoo_reduce_sum as bcoo_reduce_sum
from xpr.experimental.sparse.convolution import (
    bcoo_conv_general_dilated as bcoo_conv_general_dilated,
)
from xpr.experimental.sparse.creation import bcoo_fromdense as bcoo_fromdense
from xpr.experimental.sparse.creation import bcoo_todense as bcoo_todense
from xpr.experimental.sparse.layout import bcoo_update_layout as bcoo_update_layout
from xpr.experimental.sparse.pieces import bcoo_concatenate as bcoo_concatenate
from xpr.experimental.sparse.pieces import bcoo_dynamic_slice as bcoo_dynamic_slice
from xpr.experimental.sparse.pieces import bcoo_rev as bcoo_rev
from xpr.experimental.sparse.pieces import bcoo_slice as bcoo_slice
from xpr.experimental.sparse.products import bcoo_dot_general as bcoo_dot_general
from xpr.experimental.sparse.reordering import bcoo_broadcast_in_dim as bcoo_broadcast_in_dim
from xpr.experimental.sparse.reordering import bcoo_reshape as bcoo_reshape
from xpr.experimental.sparse.reordering import bcoo_sort_indices as bcoo_sort_indices
from xpr.experimental.sparse.reordering import bcoo_squeeze as bcoo_squeeze
from xpr.experimental.sparse.reordering import bcoo_sum_duplicates as bcoo_sum_duplicates
from xpr.experimental.sparse.reordering import bcoo_transpose as bcoo_transpose
from xpr.experimental.sparse.samples import bcoo_dot_general_sampled as bcoo_dot_general_sampled

__all__ = [
    "BCOO",
    "CuSparseEfficiencyWarning",
    "JAXSparse",
    "SparseEfficiencyError",
    "SparseEfficiencyWarning",
    "SparseInfo",
    "bcoo_broadcast_in_dim",
    "bcoo_concatenate",
    "bcoo_conv_general_dilated",
    "bcoo_dot_general",
    "bcoo_dot_general_sampled",
    "bcoo_dynamic_slice",
    "bcoo_extract",
    "bcoo_fromdense",
    "bcoo_multiply_dense",
    "bcoo_multiply_sparse",
    "bcoo_reduce_sum",
    "bcoo_reshape",
    "bcoo_rev",
    "bcoo_slice",
    "bcoo_sort_indices",
    "bcoo_squeeze",
    "bcoo_sum_duplicates",
    "bcoo_todense",
    "bcoo_transpose",
    "bcoo_update_layout",
]

__getattr__ = _missing_names(__name__)
