"""Numerical algorithms written in StableHLO, for what IREE computes badly or not at all."""
