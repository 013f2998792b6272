"""`jax._src.dtypes`."""

from __future__ import annotations

from xpr.core.errors import TypePromotionError as TypePromotionError
from xpr.dtypes import issubdtype as issubdtype

__all__ = ["TypePromotionError", "issubdtype"]
