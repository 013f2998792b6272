"""Integrals of sampled functions, under the name of `jax.scipy.integrate`.

>>> import xpr, xpr.numpy as jnp
>>> xpr.scipy.integrate.trapezoid(jnp.array([1, 2, 3]), dx=0.5)
Array(2., dtype=float32)
"""

from __future__ import annotations

from xpr.core.tracebacks import export_functions as _export_functions

# SciPy and NumPy have one meaning for it.
from xpr.numpy.calculus import trapezoid as trapezoid

__all__ = ["trapezoid"]

_export_functions(__name__)
