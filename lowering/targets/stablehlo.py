"""No device: the program as StableHLO, for whatever reads that."""

from __future__ import annotations

from xpr.lowering.targets.base import Target

stablehlo = Target(name="stablehlo", base_flags=(), plain=True)
