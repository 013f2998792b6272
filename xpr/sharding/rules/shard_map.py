"""Functions of one device's parts: the engine runs the body as it is."""

from __future__ import annotations

from xpr.sharding.rule import Structural, register

register("shard_map", Structural("its body says itself what each device computes"))
