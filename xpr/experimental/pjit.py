"""The old name of `jit`, for programs that import it from here."""

from __future__ import annotations

from xpr.transforms.jit import jit as pjit

__all__ = ["pjit"]
