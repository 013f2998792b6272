"""What `jax._src.typing` has beside public names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import Array as Array
from xpr.core.array import Array as BasicArray
from xpr.core.extended import ExtendedDType as ExtendedDType

DType = np.dtype[Any]
DTypeLike = str | type[Any] | np.dtype[Any]
DTypeLikeFloat = type[float] | DTypeLike
DimSize = int | Any
Shape = Sequence[DimSize]

__all__ = ["Array", "BasicArray", "DType", "DTypeLike", "DimSize", "ExtendedDType", "Shape"]
