"""`jax.version`."""

from __future__ import annotations

from xpr.compat.version import JAX_VERSION as __version__
from xpr.compat.version import JAX_VERSION_INFO as __version_info__

__all__ = ["__version__", "__version_info__"]
