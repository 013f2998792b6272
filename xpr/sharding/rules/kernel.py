"""The user's own kernels: they see whole arrays, as they do on one device."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole
from xpr.sharding.rules._forms import register_all

register_all(("c_kernel", "device_kernel"), ShardedWhole("the kernel is written for whole arrays"))
