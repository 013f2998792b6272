"""`jax._src.dtypes`."""

from __future__ import annotations

import numpy as np

from xpr.core.errors import TypePromotionError as TypePromotionError
from xpr.core.extended import ExtendedDType as ExtendedDType
from xpr.core.extended import extended as extended
from xpr.dtypes import finfo as finfo
from xpr.dtypes import issubdtype as issubdtype

DType = np.dtype

__all__ = ["DType", "ExtendedDType", "TypePromotionError", "extended", "finfo", "issubdtype"]
