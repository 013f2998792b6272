"""Calls: the engines go into their programs."""

from __future__ import annotations

from xpr.sharding.rule import Structural, register

register("jit", Structural("its program is partitioned with the rest"))
