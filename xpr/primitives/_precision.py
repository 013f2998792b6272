"""How exactly a contraction should be computed: the enums that `precision=` takes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.config import state


class Precision(enum.Enum):
    """Precision of a contraction on hardware that offers several.

    The CPU computes at the highest whatever is asked for. GPUs with tensor cores make a product of
    float32 of three products of bfloat16 for HIGH and DEFAULT, where one of them is given.

    >>> Precision("high")
    Precision.HIGH
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return _NAMES.get(value) if isinstance(value, str) else None

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


_NAMES = {
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "default": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
}


@dataclass(frozen=True)
class DotAlgorithm:
    """The types that a contraction rounds its operands to and sums in.

    It states the least that is wanted: the CPU computes float32 and wider types exactly as they
    are, and sums 16-bit floats in float32.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> algorithm = lax.DotAlgorithm(jnp.float32, jnp.float32, jnp.float32)
    >>> algorithm.accumulation_type
    <class 'xpr.numpy.float32'>
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


_BF16, _F16 = dtypes.bfloat16, np.dtype(np.float16)
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


class DotAlgorithmPreset(enum.Enum):
    """Dot algorithms by name, to be given as `precision`.

    >>> str(DotAlgorithmPreset.F32_F32_F32)
    'F32_F32_F32'
    """

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()

    def __repr__(self) -> str:
        return f"DotAlgorithmPreset.{self.name}"

    def __str__(self) -> str:
        return self.name


PrecisionLike = Any


def canonicalize_precision(
    precision: PrecisionLike,
) -> tuple[Precision, Precision] | DotAlgorithm | DotAlgorithmPreset | None:
    """The stored form of a `precision` argument; ValueError for anything else.

    None stands for the setting `default_matmul_precision`.

    >>> canonicalize_precision("highest")
    (Precision.HIGHEST, Precision.HIGHEST)
    """
    if precision is None:
        precision = state.default_matmul_precision
        if precision is None:
            return None
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    if isinstance(precision, str) and precision in DotAlgorithmPreset.__members__:
        return DotAlgorithmPreset[precision]
    pair = precision if isinstance(precision, tuple) else (precision, precision)
    if len(pair) == 2:
        left, right = map(_one, pair)
        if left is not None and right is not None:
            return left, right
    raise ValueError(
        "Precision argument must be one of:\n- None,\n"
        f"- a string in {[*_NAMES, None]},\n- a lax.Precision value,\n"
        "- a tuple of two lax.Precision values or strings,\n"
        "- a lax.DotAlgorithmPreset or the name of one of these presets, or\n"
        f"- a lax.DotAlgorithm value;\nbut got {precision}."
    )


def _one(precision: Any) -> Precision | None:
    if isinstance(precision, Precision):
        return precision
    return _NAMES.get(precision) if isinstance(precision, str) else None
