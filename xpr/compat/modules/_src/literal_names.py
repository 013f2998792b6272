"""`jax._src.literals`: Python numbers with a dtype, which xpr takes as numbers and never makes."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray


class TypedInt(int):
    """An int with a dtype."""

    dtype: np.dtype[Any]

    def __new__(cls, value: int, dtype: np.dtype[Any]) -> TypedInt:
        made = super().__new__(cls, value)
        made.dtype = np.dtype(dtype)
        return made

    @property
    def aval(self) -> ShapedArray:
        """The type: a scalar with weak type."""
        return ShapedArray((), self.dtype, weak_type=True)


class TypedFloat(float):
    """A float with a dtype."""

    dtype: np.dtype[Any]

    def __new__(cls, value: float, dtype: np.dtype[Any]) -> TypedFloat:
        made = super().__new__(cls, value)
        made.dtype = np.dtype(dtype)
        return made

    @property
    def aval(self) -> ShapedArray:
        """The type: a scalar with weak type."""
        return ShapedArray((), self.dtype, weak_type=True)


class TypedComplex(complex):
    """A complex number with a dtype."""

    dtype: np.dtype[Any]

    def __new__(cls, value: complex, dtype: np.dtype[Any]) -> TypedComplex:
        made = super().__new__(cls, value)
        made.dtype = np.dtype(dtype)
        return made

    @property
    def aval(self) -> ShapedArray:
        """The type: a scalar with weak type."""
        return ShapedArray((), self.dtype, weak_type=True)


class TypedNdArray(np.ndarray[Any, Any]):
    """An array of NumPy that JAX keeps the type of; here no value is one."""


typed_scalar_types: set[type] = {TypedInt, TypedFloat, TypedComplex}

__all__ = ["TypedComplex", "TypedFloat", "TypedInt", "TypedNdArray", "typed_scalar_types"]
