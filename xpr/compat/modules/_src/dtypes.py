"""`jax._src.dtypes`."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes as _public
from xpr.core.errors import TypePromotionError as TypePromotionError
from xpr.core.extended import ExtendedDType as ExtendedDType
from xpr.core.extended import extended as extended
from xpr.dtypes import finfo as finfo
from xpr.dtypes import issubdtype as issubdtype

DType = np.dtype

__all__ = [
    "DType",
    "ExtendedDType",
    "TypePromotionError",
    "extended",
    "finfo",
    "issubdtype",
    "supports_inf",
    "to_complex_dtype",
    "to_floating_dtype",
    "to_inexact_dtype",
]

_WIDE = {"int8": "float32", "uint8": "float32", "int16": "float32", "uint16": "float32"}


def __getattr__(name: str) -> Any:
    return getattr(_public, name)


def supports_inf(dtype: Any) -> bool:
    """Whether a dtype has infinities.

    >>> import ml_dtypes
    >>> supports_inf(np.float32), supports_inf(ml_dtypes.float8_e4m3fn), supports_inf(np.int32)
    (True, False, False)
    """
    if not issubdtype(dtype, np.inexact):
        return False
    with np.errstate(over="ignore"):
        return bool(np.isinf(np.array(np.inf).astype(dtype)))


def to_inexact_dtype(dtype: Any) -> np.dtype[Any]:
    """The floating or complex dtype that values of `dtype` are computed in.

    >>> to_inexact_dtype(np.int16), to_inexact_dtype(np.complex64)
    (dtype('float32'), dtype('complex64'))
    """
    found = np.dtype(dtype)
    if issubdtype(found, np.inexact):
        return found
    return np.dtype(_public.canonicalize_dtype(_WIDE.get(found.name, "float64")))


def to_floating_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype of the parts of `to_inexact_dtype`."""
    return np.real(np.zeros(1, to_inexact_dtype(dtype))).dtype


def to_complex_dtype(dtype: Any) -> np.dtype[Any]:
    """The complex dtype of numbers whose parts are of `dtype`.

    >>> to_complex_dtype(np.float32), to_complex_dtype(np.float64), to_complex_dtype("bfloat16")
    (dtype('complex64'), dtype('complex128'), dtype('complex64'))
    """
    wide = to_inexact_dtype(dtype).name in ("float64", "complex128")
    return np.dtype(np.complex128 if wide else np.complex64)
