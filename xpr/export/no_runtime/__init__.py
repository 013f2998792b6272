"""Exported functions as programs that need no runtime: C with objects, and WebAssembly."""
