"""Loops over arrays in memory as one dispatch: a program of our own, written from the jaxpr."""
