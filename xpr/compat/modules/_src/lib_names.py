"""`jax._src.lib`: the version of jaxlib; there are no bindings of CUDA or of XLA."""

from __future__ import annotations

from xpr.compat.modules import _jaxlib as jaxlib
from xpr.compat.modules._jaxlib import _jax as _jax
from xpr.compat.version import JAX_VERSION_INFO as version

version_str = jaxlib.__version__
# The number that JAX 0.10.2's library has for its interface.
jaxlib_extension_version = 10_000 + version[1] * 100 + version[2]
cuda_versions = None
"""None, as in a JAX without CUDA."""

__all__ = ["cuda_versions", "jaxlib", "jaxlib_extension_version", "version", "version_str"]
