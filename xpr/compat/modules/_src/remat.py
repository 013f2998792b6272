"""What `jax._src.ad_checkpoint` has beside public names."""

from __future__ import annotations

from xpr.primitives.checkpoint import remat_p as remat_p

__all__ = ["remat_p"]
