"""Linear algebra, under the names of `jax.scipy.linalg`.

Matrices are the last two axes. Integers are converted to floats; 16-bit floats are refused where a
matrix is factored.

>>> import xpr.numpy as jnp
>>> from xpr.scipy import linalg
>>> linalg.solve_triangular(jnp.array([[2.0, 0.0], [1.0, 4.0]]), jnp.ones(2), lower=True)
Array([0.5  , 0.125], dtype=float32)
"""

from __future__ import annotations

from xpr.core.tracebacks import export_functions as _export_functions
from xpr.scipy.linalg.decompositions import cho_factor as cho_factor
from xpr.scipy.linalg.decompositions import cholesky as cholesky
from xpr.scipy.linalg.decompositions import lu as lu
from xpr.scipy.linalg.decompositions import lu_factor as lu_factor
from xpr.scipy.linalg.decompositions import polar as polar
from xpr.scipy.linalg.decompositions import qr as qr
from xpr.scipy.linalg.decompositions import qr_multiply as qr_multiply
from xpr.scipy.linalg.decompositions import svd as svd
from xpr.scipy.linalg.eigenvalues import eigh as eigh
from xpr.scipy.linalg.eigenvalues import eigh_tridiagonal as eigh_tridiagonal
from xpr.scipy.linalg.eigenvalues import hessenberg as hessenberg
from xpr.scipy.linalg.eigenvalues import rsf2csf as rsf2csf
from xpr.scipy.linalg.eigenvalues import schur as schur
from xpr.scipy.linalg.functions_of_matrices import expm as expm
from xpr.scipy.linalg.functions_of_matrices import expm_frechet as expm_frechet
from xpr.scipy.linalg.functions_of_matrices import funm as funm
from xpr.scipy.linalg.functions_of_matrices import sqrtm as sqrtm
from xpr.scipy.linalg.solvers import cho_solve as cho_solve
from xpr.scipy.linalg.solvers import det as det
from xpr.scipy.linalg.solvers import inv as inv
from xpr.scipy.linalg.solvers import lu_solve as lu_solve
from xpr.scipy.linalg.solvers import solve as solve
from xpr.scipy.linalg.solvers import solve_sylvester as solve_sylvester
from xpr.scipy.linalg.solvers import solve_triangular as solve_triangular
from xpr.scipy.linalg.special_matrices import block_diag as block_diag
from xpr.scipy.linalg.special_matrices import circulant as circulant
from xpr.scipy.linalg.special_matrices import companion as companion
from xpr.scipy.linalg.special_matrices import convolution_matrix as convolution_matrix
from xpr.scipy.linalg.special_matrices import dft as dft
from xpr.scipy.linalg.special_matrices import fiedler as fiedler
from xpr.scipy.linalg.special_matrices import fiedler_companion as fiedler_companion
from xpr.scipy.linalg.special_matrices import hadamard as hadamard
from xpr.scipy.linalg.special_matrices import hankel as hankel
from xpr.scipy.linalg.special_matrices import helmert as helmert
from xpr.scipy.linalg.special_matrices import hilbert as hilbert
from xpr.scipy.linalg.special_matrices import invhilbert as invhilbert
from xpr.scipy.linalg.special_matrices import invpascal as invpascal
from xpr.scipy.linalg.special_matrices import leslie as leslie
from xpr.scipy.linalg.special_matrices import pascal as pascal
from xpr.scipy.linalg.special_matrices import toeplitz as toeplitz

_export_functions(__name__)
