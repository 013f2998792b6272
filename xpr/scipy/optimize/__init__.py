"""Minimization, under the names of `jax.scipy.optimize`.

>>> import xpr, xpr.numpy as jnp
>>> found = minimize(lambda x: jnp.sum((x - 3) ** 2), jnp.zeros(2), method="BFGS")
>>> found.x, bool(found.success)
(Array([3., 3.], dtype=float32), True)
"""

from __future__ import annotations

from xpr.core.tracebacks import export_functions as _export_functions
from xpr.scipy.optimize._minimize import OptimizeResults as OptimizeResults
from xpr.scipy.optimize._minimize import minimize as minimize

__all__ = ["OptimizeResults", "minimize"]

_export_functions(__name__)
