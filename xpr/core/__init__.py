"""Avals, jaxprs, primitives, traces, source lines and errors; imports NumPy and ml_dtypes only."""

# Jaxprs know nothing of how they are printed; this tells them.
from xpr.core import printing as printing
