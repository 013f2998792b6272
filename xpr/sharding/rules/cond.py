"""Branches: the engines go into each of them."""

from __future__ import annotations

from xpr.sharding.rule import Structural, register

register("cond", Structural("its branches have the same shardings of operands and results"))
