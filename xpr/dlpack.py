"""Arrays of other libraries, handed over by the DLPack protocol.

>>> import numpy as np, xpr
>>> xpr.dlpack.from_dlpack(np.arange(2, dtype=np.int32))
Array([0, 1], dtype=int32)
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from xpr.core.array import Array
from xpr.numpy import interchange
from xpr.numpy._typing import DTypeLike
from xpr.numpy.dtype_api import as_numpy_dtype

_SUPPORTED = frozenset(
    np.dtype(d)
    for d in (
        *(f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)),
        *("bool", "float16", "float32", "float64", "complex64", "complex128"),
        ml_dtypes.bfloat16,
    )
)


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """A copy of the array of another library, on `device` or the default one.

    The other library may write to its array, so it is always copied; `copy=False` raises
    ValueError. An array of xpr is not copied unless `copy` says so. Raises TypeError for what does
    not speak DLPack.

    >>> import numpy as np
    >>> from_dlpack(np.ones(2, np.float32))
    Array([1., 1.], dtype=float32)
    """
    return interchange.from_dlpack(external_array, device=device, copy=copy)


def is_supported_dtype(dtype: DTypeLike) -> bool:
    """Whether DLPack can hand over arrays of `dtype`; TypeError for None.

    >>> is_supported_dtype("float32")
    True
    >>> is_supported_dtype("datetime64[s]")
    False
    """
    if dtype is None:
        raise TypeError("is_supported_dtype requires a dtype, got None")
    return as_numpy_dtype(dtype) in _SUPPORTED
