"""Loops with a condition: the engines go into condition and body."""

from __future__ import annotations

from xpr.sharding.rule import Structural, register

register("while", Structural("its body has the same shardings of the carry before and after"))
