"""Loops over small values as one dispatch: the state in registers."""
