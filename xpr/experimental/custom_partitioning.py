"""Names of JAX's module of that name."""

from __future__ import annotations

from xpr.primitives.sharding import custom_partitioning_p as custom_partitioning_p
from xpr.sharding.user_rule import BATCHING as BATCHING
from xpr.sharding.user_rule import ArrayMapping as ArrayMapping
from xpr.sharding.user_rule import CompoundFactor as CompoundFactor
from xpr.sharding.user_rule import SdyShardingRule as SdyShardingRule
from xpr.transforms.custom_partitioning import custom_partitioning as custom_partitioning
