"""`QuantizedArray`: an array in low precision that functions take in an array's place."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.nn._operands import array_of
from xpr.nn.quantize.formats import Affine, Format, Gguf, format_named
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.primitives.blocks import LAYOUTS
from xpr.transforms.tracing import eval_shape
from xpr.tree_util import GetAttrKey, register_pytree_with_keys_class


@register_pytree_with_keys_class
class QuantizedArray:
    """Parts in low precision, and the `format` that says which float32 array they stand for.

    `quantize` and `from_blocks` make them. Functions of `xpr.numpy`, `lax.dot_general` and
    operators take it as an array of `shape` and `dtype` float32; `jnp.take` and indices of the
    leading axes read the rows that are asked for alone. It is a pytree whose leaves are the
    `parts`. Derivatives pass through products to the other operand.

    >>> import xpr.numpy as jnp
    >>> from xpr.nn.quantize import quantize
    >>> w = quantize(jnp.eye(32), "q4_0")
    >>> w[:2].shape, jnp.take(w, jnp.array([3]), axis=0).argmax().item()
    ((2, 32), 3)
    """

    __slots__ = ("format", "parts")

    serialized_name = "xpr.QuantizedArray"
    """How exported functions write that they take or return one."""

    def __init__(self, parts: Sequence[Any], format: Format) -> None:
        self.parts = tuple(parts)
        self.format = format

    # ---- what arrays have

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array that it stands for."""
        if isinstance(self.format, Gguf):
            form = LAYOUTS[self.format.layout]
            *lead, size = self.parts[0].shape
            return (*lead, size // form.size * form.numbers)
        return eval_shape(self.format.dequantize, self.parts).shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Float32."""
        return np.dtype(np.float32)

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all parts."""
        return sum(math.prod(p.shape) * np.dtype(p.dtype).itemsize for p in self.parts)

    @property
    def T(self) -> Array:
        """The axes in reverse, dequantized; products read the parts directly where they can."""
        return self.__jax_array__().T

    def astype(self, dtype: DTypeLike) -> Array:
        """Dequantized, in another dtype."""
        return self.__jax_array__().astype(dtype)

    def __jax_array__(self) -> Array:
        return self.format.dequantize(self.parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        del copy
        found = np.asarray(self.__jax_array__())
        return found if dtype is None else found.astype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> QuantizedArray:
        """Along the leading axes, still in low precision; the last one has to stay whole."""
        entries = index if isinstance(index, tuple) else (index,)
        if any(e is Ellipsis for e in entries) or len(entries) >= self.ndim:
            raise IndexError(
                "a QuantizedArray is indexed along its leading axes, since blocks lie along the "
                f"last one: shape {self.shape}, index {index!r}; dequantize(w) has all of them"
            )
        return QuantizedArray([jnp.asarray(p)[index] for p in self.parts], self.format)

    def __matmul__(self, other: Any) -> Array:
        return jnp.matmul(self.__jax_array__(), other)

    def __rmatmul__(self, other: Any) -> Array:
        return jnp.matmul(other, self.__jax_array__())

    def __repr__(self) -> str:
        try:
            return (
                f"QuantizedArray(shape={self.shape}, format={str(self.format)!r}, "
                f"nbytes={self.nbytes})"
            )
        except (AttributeError, TypeError):  # parts that are no arrays, inside tree_map
            return f"QuantizedArray({self.parts!r}, {str(self.format)!r})"

    # ---- trees

    def tree_flatten_with_keys(self) -> tuple[Any, Format]:
        """The parts with their names, and the format."""
        return (
            tuple((GetAttrKey(f"parts[{i}]"), p) for i, p in enumerate(self.parts)),
            self.format,
        )

    @classmethod
    def tree_unflatten(cls, format: Format, parts: Sequence[Any]) -> QuantizedArray:
        """Put together from what `tree_flatten_with_keys` gives."""
        return cls(parts, format)

    @staticmethod
    def write_format(format: Format) -> bytes:
        """A format of this package as bytes, for exported functions; ValueError for others."""
        if not isinstance(format, (Gguf, Affine)):
            raise ValueError(
                f"exported functions take QuantizedArrays in formats of xpr, got {format!r}: let "
                "the function take its parts, and put it together inside"
            )
        return json.dumps([type(format).__name__, dataclasses.asdict(format)]).encode()

    @staticmethod
    def read_format(data: bytes) -> Format:
        """The format that `write_format` wrote; ValueError for anything else."""
        try:
            name, fields = json.loads(data)
            return {"Gguf": Gguf, "Affine": Affine}[name](**fields)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"no format of a QuantizedArray is written as {data!r}") from error

    # ---- rows

    def __xpr_take__(self, indices: Any, axis: int | None, mode: Any, fill: Any) -> Array | None:
        """What `jnp.take` gives, of the rows that it needs; None where it needs all."""
        if axis is None or not -self.ndim <= axis < self.ndim or axis % self.ndim == self.ndim - 1:
            return None
        if mode not in (None, "fill", "clip", "wrap"):
            return None
        axis %= self.ndim
        size = self.shape[axis]
        given = jnp.asarray(indices)
        if not jnp.issubdtype(given.dtype, jnp.integer) or size == 0:
            return None
        if mode in (None, "fill"):
            given = jnp.where(given < 0, given + size, given)
        inside = jnp.logical_and(given >= 0, given < size)
        how = "wrap" if mode == "wrap" else "clip"
        parts = [jnp.take(p, given, axis=axis, mode=how) for p in self.parts]
        rows = self.format.dequantize(parts)
        if mode in ("clip", "wrap"):
            return rows
        inside = inside.reshape(*inside.shape, *(1,) * (rows.ndim - axis - given.ndim))
        return jnp.where(inside, rows, np.float32(np.nan if fill is None else fill))


def quantize(x: ArrayLike, format: str | Format = "q8_0") -> QuantizedArray:
    """`x` rounded to blocks along its last axis, in the format named or given.

    Names: GGUF's "q8_0", "q4_0", "q4_k" and "q6_k"; "int8", "int4" and "int2" in blocks of 32 with
    a float32 scale (`Affine` has more of them). `x` of shape (..., K) and any real dtype is rounded
    as float32. Each number is the nearest one that its block's scale allows. Raises ValueError for
    an unknown name and where K is no multiple of the block size.

    >>> import numpy as np
    >>> from xpr.nn.quantize import dequantize, quantize
    >>> x = np.linspace(-1, 1, 64, dtype=np.float32)
    >>> bool(np.abs(np.asarray(dequantize(quantize(x, "q8_0"))) - x).max() < 0.005)
    True
    """
    form = format_named(format) if isinstance(format, str) else format
    whole = array_of("quantize", x)
    if np.dtype(whole.dtype).kind == "c":
        raise TypeError(f"quantize requires real numbers, got {whole.dtype}")
    return QuantizedArray(form.quantize(whole.astype(np.float32)), form)


def dequantize(x: QuantizedArray, dtype: DTypeLike = np.float32) -> Array:
    """The array that `x` stands for, as `dtype`. Raises TypeError for other arguments.

    >>> import xpr.numpy as jnp
    >>> from xpr.nn.quantize import dequantize, quantize
    >>> dequantize(quantize(jnp.ones((1, 32)), "int8"), jnp.bfloat16).dtype
    dtype(bfloat16)
    """
    if not isinstance(x, QuantizedArray):
        raise TypeError(f"dequantize requires a QuantizedArray, got {type(x).__name__}")
    return x.__jax_array__().astype(dtype)


def from_blocks(data: Any, layout: str, *, activations: str = "int8") -> QuantizedArray:
    """Bytes in a layout of GGUF as an array: nothing is converted.

    `data`, uint8 of shape (..., bytes of a row), may be a mapped file. `activations` is explained
    at `Gguf`. Raises ValueError for an unknown layout, TypeError for a part of a block.

    >>> import numpy as np
    >>> from xpr.nn.quantize import from_blocks
    >>> from_blocks(np.zeros((3, 2 * 18), np.uint8), "q4_0").shape
    (3, 64)
    """
    form = Gguf(layout.lower(), activations)
    size = LAYOUTS[form.layout].size
    if data.dtype != np.uint8 or not data.shape or data.shape[-1] % size:
        raise TypeError(
            f"from_blocks requires uint8 with a last axis of whole blocks, {size} bytes each in "
            f"the layout {form.layout!r}, got {data.dtype} of shape {data.shape}"
        )
    return QuantizedArray((data,), form)
