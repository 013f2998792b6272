"""Geometry in space: `transform`, which has rotations."""

from __future__ import annotations

from xpr.scipy.spatial import transform as transform
