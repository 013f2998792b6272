"""`jaxlib.version`."""

from __future__ import annotations

from xpr.compat.version import JAX_VERSION

__version__ = JAX_VERSION
