"""Clusters of vectors: `vq`, which finds the nearest one."""

from __future__ import annotations

from xpr.core.tracebacks import export_functions as _export_functions
from xpr.scipy.cluster import vq as vq

_export_functions(__name__)
