"""Linear algebra on stacks of matrices, under the names of `jax.numpy.linalg`.

Matrices are the last two axes. Integers are converted to floats; 16-bit floats are refused where a
matrix is factored.

>>> import xpr.numpy as jnp
>>> jnp.linalg.norm(jnp.array([3.0, 4.0]))
Array(5., dtype=float32)
"""

from __future__ import annotations

from xpr.core.tracebacks import export_functions as _export_functions
from xpr.numpy.linalg.determinants import SlogdetResult as SlogdetResult
from xpr.numpy.linalg.determinants import det as det
from xpr.numpy.linalg.determinants import slogdet as slogdet
from xpr.numpy.linalg.eigenvalues import EighResult as EighResult
from xpr.numpy.linalg.eigenvalues import EigResult as EigResult
from xpr.numpy.linalg.eigenvalues import eig as eig
from xpr.numpy.linalg.eigenvalues import eigh as eigh
from xpr.numpy.linalg.eigenvalues import eigvals as eigvals
from xpr.numpy.linalg.eigenvalues import eigvalsh as eigvalsh
from xpr.numpy.linalg.factorizations import QRResult as QRResult
from xpr.numpy.linalg.factorizations import SVDResult as SVDResult
from xpr.numpy.linalg.factorizations import cholesky as cholesky
from xpr.numpy.linalg.factorizations import qr as qr
from xpr.numpy.linalg.factorizations import svd as svd
from xpr.numpy.linalg.factorizations import svdvals as svdvals
from xpr.numpy.linalg.least_squares import lstsq as lstsq
from xpr.numpy.linalg.least_squares import pinv as pinv
from xpr.numpy.linalg.norms import cond as cond
from xpr.numpy.linalg.norms import matrix_norm as matrix_norm
from xpr.numpy.linalg.norms import matrix_rank as matrix_rank
from xpr.numpy.linalg.norms import norm as norm
from xpr.numpy.linalg.norms import vector_norm as vector_norm
from xpr.numpy.linalg.products import cross as cross
from xpr.numpy.linalg.products import diagonal as diagonal
from xpr.numpy.linalg.products import matrix_power as matrix_power
from xpr.numpy.linalg.products import multi_dot as multi_dot
from xpr.numpy.linalg.products import outer as outer
from xpr.numpy.linalg.products import trace as trace
from xpr.numpy.linalg.solvers import inv as inv
from xpr.numpy.linalg.solvers import solve as solve
from xpr.numpy.linalg.solvers import tensorinv as tensorinv
from xpr.numpy.linalg.solvers import tensorsolve as tensorsolve
from xpr.numpy.manipulation import matrix_transpose as matrix_transpose
from xpr.numpy.products import matmul as matmul
from xpr.numpy.products import tensordot as tensordot
from xpr.numpy.products import vecdot as vecdot

_export_functions(__name__)
