"""Lowering of factorisations by Householder reflections: LAPACK in the host process."""

from __future__ import annotations

from xpr.lowering.numerics import linalg_householder as reflections
from xpr.lowering.rules._linalg_register import register_linalg
from xpr.primitives import _linalg_householder_host as host
from xpr.primitives.linalg_householder import (
    geqp3_p,
    geqrf_p,
    hessenberg_p,
    householder_product_p,
    tridiagonal_p,
)

register_linalg(geqrf_p, host.geqrf, reflections.geqrf, 2)
register_linalg(geqp3_p, host.geqp3, None, 2)
register_linalg(householder_product_p, host.householder_product, reflections.householder_product, 2)
register_linalg(hessenberg_p, host.hessenberg, None, 4)
register_linalg(tridiagonal_p, host.tridiagonal, None, 2)
