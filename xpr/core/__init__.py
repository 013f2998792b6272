"""Avals, jaxprs, primitives, traces, source lines and errors; imports NumPy and ml_dtypes only."""

# Jaxprs know nothing of how they are printed; the first tells them. The second has to know when
# the process began.
from xpr.core import printing as printing
from xpr.core import sources as sources
