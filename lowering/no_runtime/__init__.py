"""Compiled modules as programs that need no runtime: the schedule of a module, printed as code."""
