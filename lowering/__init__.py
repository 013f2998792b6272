"""Jaxprs to StableHLO text to compiled modules."""
