"""Grids of devices for meshes, under JAX's name of the module."""

from __future__ import annotations

from xpr.sharding.device_meshes import create_device_mesh as create_device_mesh
from xpr.sharding.device_meshes import create_hybrid_device_mesh as create_hybrid_device_mesh
