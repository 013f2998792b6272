"""Avals, jaxprs, primitives, traces, source lines and errors; imports NumPy and ml_dtypes only."""
