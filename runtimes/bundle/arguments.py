"""The types of inputs and results: dtypes, and shapes with symbolic dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xpr.core.polynomials import Monomial, evaluate, variables
from xpr.runtimes.bundle.errors import ArgumentTypeError, ArgumentValueError
from xpr.runtimes.bundle.tensors import Array, named_dtype


class ArgumentType:
    """One input or result: where it stands, its dtype, and its shape.

    An extent is a number, or a polynomial in the symbolic dimensions.
    """

    def __init__(self, entry: dict[str, Any]) -> None:
        self.path = str(entry["path"])
        self.given_no_values = entry["dtype"] == "float0"
        self.dtype = np.dtype(bool) if self.given_no_values else named_dtype(entry["dtype"])
        self.weak = bool(entry.get("weak_type"))
        self.extents = tuple(
            e if isinstance(e, int) else _terms(e["terms"]) for e in entry["shape"]
        )
        self.texts = tuple(str(e) if isinstance(e, int) else e["text"] for e in entry["shape"])
        self.fixed = all(isinstance(e, int) for e in self.extents)

    def shape(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """The shape for these symbolic dimensions."""
        return tuple(_value(e, sizes) for e in self.extents)

    def __str__(self) -> str:
        return f"{'float0' if self.given_no_values else self.dtype.name}[{','.join(self.texts)}]"


def _terms(written: Sequence[tuple[int, Sequence[str]]]) -> Mapping[Monomial, int]:
    """A polynomial as a manifest has it, `[[factor, [name, ...]], ...]`."""
    return {tuple(names): int(factor) for factor, names in written}


def _value(extent: int | Mapping[Monomial, int], sizes: Mapping[str, int]) -> int:
    return extent if isinstance(extent, int) else evaluate(extent, sizes)


def _solve(extent: Mapping[Monomial, int], found: int, sizes: dict[str, int]) -> None:
    """Takes a symbolic dimension from an extent that has no other one, if that can be done
    exactly."""
    unknown = variables(extent) - set(sizes)
    if len(unknown) != 1:
        return
    (name,) = unknown
    linear = [names for names in extent if name in variables({names: 1})]
    if linear != [(name,)]:
        return
    rest = {names: f for names, f in extent.items() if names != (name,)}
    quotient, remainder = divmod(found - evaluate(rest, sizes), extent[(name,)])
    if remainder == 0:
        sizes[name] = quotient


def symbolic_sizes(
    types: Sequence[ArgumentType],
    shapes: Sequence[tuple[int, ...]],
    constraints: Sequence[dict[str, Any]],
) -> dict[str, int]:
    """The symbolic dimensions that the arguments' shapes tell, by name.

    Raises ArgumentValueError, naming the argument and the sizes, for shapes that do not fit.
    """
    sizes: dict[str, int] = {}
    for _ in range(2):  # extents of two symbolic dimensions may wait for one that comes later
        for kind, shape in zip(types, shapes, strict=True):
            if len(shape) == len(kind.extents):
                for extent, found in zip(kind.extents, shape, strict=True):
                    if not isinstance(extent, int):
                        _solve(extent, found, sizes)
    told = "".join(f", where {n} is {v}" for n, v in sorted(sizes.items()))
    for kind, shape in zip(types, shapes, strict=True):
        known = all(isinstance(e, int) or variables(e) <= set(sizes) for e in kind.extents)
        if len(shape) != len(kind.extents) or not known or kind.shape(sizes) != shape:
            found = ",".join(map(str, shape))
            raise ArgumentValueError(
                f"argument {kind.path}: expected {kind}, got shape [{found}]{told}"
            )
    for name, value in sizes.items():
        if value < 1:
            raise ArgumentValueError(
                f"the symbolic dimension {name} must be at least 1, got {value}"
            )
    for constraint in constraints:
        left, right = (
            evaluate(_terms(side), sizes) for side in (constraint["left"], constraint["right"])
        )
        if not _HOLDS[constraint["relation"]](left, right):
            values = ", ".join(f"{n} = {v}" for n, v in sorted(sizes.items()))
            raise ArgumentValueError(
                f"the constraint {constraint['text']} does not hold for {values}"
            )
    return sizes


_HOLDS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    ">=": lambda a, b: a >= b,
    "mod": lambda a, b: a % b == 0,
}


def checked_argument(kind: ArgumentType, value: Any) -> Array:
    """An argument as an array of the right dtype.

    Python numbers take the dtype they stand for; arrays must have it.
    """
    if type(value) in (bool, int, float, complex) and not kind.extents:
        rank = "biufc".find(kind.dtype.kind)
        needs = {bool: 0, int: 1, float: 3, complex: 4}[type(value)]
        if (kind.dtype.kind == "b") == (needs == 0) and (rank < 0 or rank >= needs):
            return np.asarray(value, kind.dtype)
    array = value if type(value) is np.ndarray else np.asarray(value)
    if kind.given_no_values:
        return array
    if array.dtype != kind.dtype:
        raise ArgumentTypeError(
            f"argument {kind.path}: expected dtype {kind.dtype.name}, got {array.dtype.name}"
        )
    return array
