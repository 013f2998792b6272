"""Factorisations of stacks of matrices, under the names of `jax.lax.linalg`.

>>> from xpr import lax
>>> import xpr.numpy as jnp
>>> lax.linalg.cholesky(4 * jnp.eye(2))
Array([[2., 0.],
       [0., 2.]], dtype=float32)
"""

from __future__ import annotations

from xpr.lax.matrix_updates import cholesky_update as cholesky_update
from xpr.lax.matrix_updates import symmetric_product as symmetric_product
from xpr.lax.pivots import lu_pivots_to_permutation as lu_pivots_to_permutation
from xpr.lax.polar import qdwh as qdwh
from xpr.primitives.linalg import EighImplementation as EighImplementation
from xpr.primitives.linalg import SvdAlgorithm as SvdAlgorithm
from xpr.primitives.linalg import cholesky as cholesky
from xpr.primitives.linalg import cholesky_p as cholesky_p
from xpr.primitives.linalg import eigh as eigh
from xpr.primitives.linalg import eigh_p as eigh_p
from xpr.primitives.linalg import lu as lu
from xpr.primitives.linalg import lu_p as lu_p
from xpr.primitives.linalg import qr as qr
from xpr.primitives.linalg import qr_p as qr_p
from xpr.primitives.linalg import svd as svd
from xpr.primitives.linalg import svd_p as svd_p
from xpr.primitives.linalg import triangular_solve as triangular_solve
from xpr.primitives.linalg import triangular_solve_p as triangular_solve_p
from xpr.primitives.linalg_general import EigImplementation as EigImplementation
from xpr.primitives.linalg_general import eig as eig
from xpr.primitives.linalg_general import eig_p as eig_p
from xpr.primitives.linalg_general import schur as schur
from xpr.primitives.linalg_general import schur_p as schur_p
from xpr.primitives.linalg_householder import hessenberg as hessenberg
from xpr.primitives.linalg_householder import hessenberg_p as hessenberg_p
from xpr.primitives.linalg_householder import householder_product as householder_product
from xpr.primitives.linalg_householder import householder_product_p as householder_product_p
from xpr.primitives.linalg_householder import ormqr as ormqr
from xpr.primitives.linalg_householder import tridiagonal as tridiagonal
from xpr.primitives.linalg_householder import tridiagonal_p as tridiagonal_p
from xpr.primitives.linalg_tridiagonal import tridiagonal_solve as tridiagonal_solve
from xpr.primitives.linalg_tridiagonal import tridiagonal_solve_p as tridiagonal_solve_p
