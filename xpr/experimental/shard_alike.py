"""Names of JAX's module of that name."""

from __future__ import annotations

from xpr.transforms.constraints import shard_alike as shard_alike
