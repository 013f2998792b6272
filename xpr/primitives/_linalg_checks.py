"""What the operations on matrices ask of their operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.trace import get_aval, is_valid_value
from xpr.primitives.convert import convert_type

_TYPES = tuple(map(np.dtype, (np.float32, np.float64, np.complex64, np.complex128)))


# JAX's words where its functions do not say "The input to ... must be a square matrix".
_NOT_SQUARE = {
    "hessenberg": "Argument to Hessenberg reduction must have shape [..., n, n], got shape {}",
    "triangular_solve": (
        "The first input to triangular_solve must be a square matrix. Got shape {}."
    ),
}


def check_matrices(name: str, x: ShapedArray, *, square: bool = False) -> None:
    """Refuses other dtypes than those of LAPACK, rank below 2, and with `square` other shapes."""
    if x.ndim < 2:
        raise TypeError(f"Input 0 to {name} must have rank at least 2, but got shape={x.shape}")
    if square and x.shape[-1] != x.shape[-2]:
        usual = f"The input to {name} must be a square matrix. Got shape {{}}."
        raise ValueError(_NOT_SQUARE.get(name, usual).format(x.shape))
    if x.dtype not in _TYPES:
        accepted = ", ".join(t.name for t in _TYPES)
        raise TypeError(f"{name} does not accept dtype {x.dtype}; it accepts {accepted}")


def check_alike(name: str, *avals: ShapedArray, ranks: tuple[int, ...]) -> None:
    """Refuses operands of several dtypes, or of other leading axes than the first one's.

    `ranks` says how many axes of each operand are its own (2: matrices, 1: vectors).
    """
    first = avals[0]
    batches = [x.ndim - rank for x, rank in zip(avals, ranks, strict=True)]
    if any(count != batches[0] for count in batches):
        raise TypeError(
            f"All inputs to {name} must have the same number of batch dimensions, but got "
            f"{batches} batch dimensions for the inputs."
        )
    if any(x.dtype != first.dtype for x in avals):
        found = ", ".join(str(x.dtype) for x in avals)
        raise TypeError(f"{name} requires operands of one dtype, got {found}")
    leading = [x.shape[: x.ndim - rank] for x, rank in zip(avals, ranks, strict=True)]
    short = any(x.ndim < rank for x, rank in zip(avals, ranks, strict=True))
    if short or any(shape != leading[0] for shape in leading):
        shapes = ", ".join(str(x.shape) for x in avals)
        raise TypeError(f"{name} requires operands with the same leading axes, got shapes {shapes}")


def real_type(x: ShapedArray) -> np.dtype[Any]:
    """The dtype of the parts of the elements of `x`."""
    return np.dtype(f"f{x.dtype.itemsize // 2}") if dtypes.is_complex(x.dtype) else x.dtype


def complex_type(x: ShapedArray) -> np.dtype[Any]:
    """The complex dtype whose parts have the precision of `x`."""
    return np.dtype(f"c{2 * real_type(x).itemsize}")


def as_weak_as(x: Any, first: Any, *rest: Any) -> Any:
    """The results of an operation on `x`, the inexact ones as weakly typed as `x` is.

    The rules of the primitives are about strongly typed operands; a weak type goes around them.
    """
    found = (first, *rest)
    if get_aval(x).weak_type:
        found = tuple(
            convert_type(v, v.dtype, True) if dtypes.is_inexact(v.dtype) else v for v in found
        )
    return found if rest else found[0]


def strong(x: Any) -> Any:
    """`x` without a weak type; what is no array as it is, for the primitive to refuse it."""
    if not is_valid_value(x):
        return x
    aval = get_aval(x)
    return convert_type(x, aval.dtype, False) if aval.weak_type else x
