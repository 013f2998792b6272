"""Lowering of factorisations: LAPACK in the host process, or loops over columns elsewhere."""

from __future__ import annotations

from xpr.lowering.numerics import linalg_householder as reflections
from xpr.lowering.numerics import linalg_loops as loops
from xpr.lowering.numerics import linalg_lu as lu
from xpr.lowering.rules import _linalg_jacobi as jacobi
from xpr.lowering.rules._linalg_register import register_linalg
from xpr.lowering.rules._small_factors import small_cholesky
from xpr.primitives import _linalg_host as host
from xpr.primitives import _linalg_householder_host as householder
from xpr.primitives.linalg import (
    cholesky_p,
    eigh_p,
    lu_p,
    qr_p,
    qr_pivoted_p,
    svd_p,
    triangular_solve_p,
)

register_linalg(cholesky_p, host.cholesky, loops.cholesky, 1 / 3, small=small_cholesky)
register_linalg(triangular_solve_p, host.triangular_solve, loops.triangular_solve, 1)
register_linalg(lu_p, host.lu, lu.lu, 2 / 3)
register_linalg(qr_p, householder.qr, reflections.qr, 4)
register_linalg(qr_pivoted_p, householder.qr_pivoted, None, 4)
register_linalg(eigh_p, host.eigh, jacobi.eigh, 9, prefers_host=True, many_loops=True)
register_linalg(svd_p, host.svd, jacobi.svd, 20, prefers_host=True, many_loops=True)
