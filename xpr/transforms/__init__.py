"""Engines that make functions from functions: tracing, jit; no per-primitive rule lives here."""
