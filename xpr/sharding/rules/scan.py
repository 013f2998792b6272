"""Loops of a known length: the engines go into the body."""

from __future__ import annotations

from xpr.sharding.rule import Structural, register

register(
    "scan",
    Structural("the carry of its body keeps its shardings; its length is whole"),
)
