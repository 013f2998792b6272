"""Names of the types that the functions of xpr.numpy take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from xpr.core.array import Array as Array

# Whatever is an array or stands for one: never a list or a tuple.
if TYPE_CHECKING:
    ArrayLike: TypeAlias = Array | np.ndarray[Any, Any] | np.generic | bool | int | float | complex
else:  # libraries ask `isinstance(x, ArrayLike)`, which a generic class forbids
    ArrayLike = Array | np.ndarray | np.generic | bool | int | float | complex
# A NumPy dtype or its name, a scalar type of xpr.numpy or NumPy, or one of Python's number types.
DTypeLike: TypeAlias = Any
DType: TypeAlias = np.dtype[Any]
Axis: TypeAlias = int | Sequence[int] | None
Shape: TypeAlias = tuple[int, ...]
