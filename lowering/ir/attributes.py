"""Attributes of operations that are more than numbers; `str` gives their MLIR text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.lowering.ir.types import dense_text


def attribute_text(value: Any) -> str:
    """The text of a boolean, a number of 64 bits, an array of such, or what spells itself.

    >>> attribute_text((1, 2)), attribute_text(0), attribute_text(False)
    ('array<i64: 1, 2>', '0 : i64', 'false')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, tuple):
        return f"array<i64: {', '.join(map(str, value))}>" if value else "array<i64>"
    return str(value)


def _fields(**fields: tuple[int, ...]) -> str:
    return ", ".join(f"{key} = {list(value)}" for key, value in fields.items())


@dataclass(frozen=True, slots=True)
class Integer32:
    """A number of 32 bits."""

    value: int

    def __str__(self) -> str:
        return f"{self.value} : i32"


@dataclass(frozen=True, slots=True)
class GatherNumbers:
    """Which axes of a gather correspond: StableHLO's `gather_dimension_numbers`."""

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    index_vector_dim: int
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()

    def __str__(self) -> str:
        fields = _fields(
            offset_dims=self.offset_dims,
            collapsed_slice_dims=self.collapsed_slice_dims,
            operand_batching_dims=self.operand_batching_dims,
            start_indices_batching_dims=self.start_indices_batching_dims,
            start_index_map=self.start_index_map,
        )
        return f"#stablehlo.gather<{fields}, index_vector_dim = {self.index_vector_dim}>"


@dataclass(frozen=True, slots=True)
class ScatterNumbers:
    """Which axes of a scatter correspond: StableHLO's `scatter_dimension_numbers`."""

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    index_vector_dim: int
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()

    def __str__(self) -> str:
        batching: dict[str, tuple[int, ...]] = {}
        if self.input_batching_dims:
            batching["input_batching_dims"] = self.input_batching_dims
            batching["scatter_indices_batching_dims"] = self.scatter_indices_batching_dims
        fields = _fields(
            update_window_dims=self.update_window_dims,
            inserted_window_dims=self.inserted_window_dims,
            **batching,
            scatter_dims_to_operand_dims=self.scatter_dims_to_operand_dims,
        )
        return f"#stablehlo.scatter<{fields}, index_vector_dim = {self.index_vector_dim}>"


@dataclass(frozen=True, slots=True)
class Padding:
    """What a window adds to each axis before and behind it."""

    edges: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        edges = [list(e) for e in self.edges]
        return f"dense<{edges}> : tensor<{len(edges)}x2xi64>"


class Table:
    """The elements of a constant."""

    __slots__ = ("values",)

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        mine, others = self.values, other.values
        same_type = mine.dtype == others.dtype and mine.shape == others.shape
        return same_type and mine.tobytes() == others.tobytes()

    def __hash__(self) -> int:
        return hash((self.values.shape, self.values.tobytes()))

    def __str__(self) -> str:
        return dense_text(self.values)
