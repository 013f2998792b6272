"""Collectives."""

from __future__ import annotations

from xpr.export.stablehlo.importer import Rule

RULES: dict[str, Rule] = {}
