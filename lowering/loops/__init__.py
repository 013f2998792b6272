"""Loops: as one dispatch, on registers or in memory, and in StableHLO."""
