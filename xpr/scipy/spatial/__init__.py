"""Geometry in space: `transform`, which has rotations."""

from __future__ import annotations

from xpr.core.tracebacks import export_functions as _export_functions
from xpr.scipy.spatial import transform as transform

_export_functions(__name__)
