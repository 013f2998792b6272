"""Clusters of vectors: `vq`, which finds the nearest one."""

from __future__ import annotations

from xpr.scipy.cluster import vq as vq
