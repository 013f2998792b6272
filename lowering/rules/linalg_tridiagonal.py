"""Lowering of tridiagonal equations: LAPACK in the host process, or elimination elsewhere."""

from __future__ import annotations

from xpr.lowering.rules import _linalg_tridiagonal as loops
from xpr.lowering.rules._linalg_register import register_linalg
from xpr.primitives import _linalg_tridiagonal_host as host
from xpr.primitives.linalg_tridiagonal import tridiagonal_solve_p

register_linalg(tridiagonal_solve_p, host.tridiagonal_solve, loops.tridiagonal_solve, 1)
