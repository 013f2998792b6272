"""Rematerialised calls: the engines go into their programs."""

from __future__ import annotations

from xpr.sharding.rule import Structural, register

register("remat2", Structural("its program is partitioned, to be computed again by each device"))
