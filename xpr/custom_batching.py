"""Functions with batching rules of their own: JAX's module of that name."""

from __future__ import annotations

from xpr.transforms.custom_vmap import custom_vmap as custom_vmap
from xpr.transforms.custom_vmap import sequential_vmap as sequential_vmap
