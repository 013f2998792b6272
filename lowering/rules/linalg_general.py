"""Lowering of eigenvalues and Schur forms of general matrices: LAPACK in the host process."""

from __future__ import annotations

from xpr.lowering.rules._linalg_register import register_linalg
from xpr.primitives import _linalg_general_host as host
from xpr.primitives.linalg_general import eig_p, schur_p

register_linalg(eig_p, host.eig, None, 25)
register_linalg(schur_p, host.schur, None, 25)
