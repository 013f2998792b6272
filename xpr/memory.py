"""Memories beyond that of the device: where `device_put` may put arrays.

>>> import xpr, xpr.numpy as jnp
>>> x = xpr.device_put(jnp.ones(3), xpr.memory.Space.Host)
>>> x.sharding.memory_kind, xpr.typeof(x)
('pinned_host', ShapedArray(float32<host>[3]))
"""

from xpr.core.memory_spaces import MemorySpace as Space

__all__ = ["Space"]
