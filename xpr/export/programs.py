"""The programs of exported functions: traced ones, derived ones and stored ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr
from xpr.export.program_data import Arrays, Json, program_data, program_from_data

Sizes = tuple[int, ...]
"""The values of the open sizes, in the order of the scope's names."""


class Program:
    """What an exported function computes, for each choice of its open sizes."""

    scope: Any = None
    """The open sizes and what is required of them; None where all sizes are fixed."""

    in_avals: tuple[Any, ...]
    out_avals: tuple[Any, ...]

    def at(self, sizes: Sizes) -> ClosedJaxpr:
        """The program for these sizes."""
        raise NotImplementedError

    def data(self) -> tuple[Json, Arrays]:
        """The program as JSON, and the arrays that it names."""
        raise NotImplementedError

    def sizes(self, names: Sequence[str], avals: Sequence[ShapedArray]) -> Sizes:
        """The open sizes that arguments of these types tell.

        Raises ValueError, naming the argument, for types that do not fit.
        """
        for name, want, found in zip(names, self.in_avals, avals, strict=True):
            check_argument(name, want, found)
        return ()


def check_argument(name: str, want: Any, found: ShapedArray) -> None:
    """Raises ValueError unless the rank and dtype, and the shape if it is fixed, are as wanted."""
    if found.dtype != want.dtype:
        raise ValueError(f"Dtype mismatch for {name}: expected {want.dtype}, got {found.dtype}")
    if len(found.shape) != len(want.shape):
        raise ValueError(
            f"Rank mismatch for {name}: expected shape {want.shape}, got {found.shape}"
        )
    for axis, (size, given) in enumerate(zip(want.shape, found.shape, strict=True)):
        if isinstance(size, int) and size != given:
            raise ValueError(
                f"Shape mismatch for {name}.shape[{axis}]: expected {size}, got {given}"
            )


class FixedProgram(Program):
    """A program all sizes of which are known."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self._closed = closed
        self.in_avals = tuple(closed.in_avals)
        self.out_avals = tuple(closed.out_avals)

    def at(self, sizes: Sizes) -> ClosedJaxpr:
        return self._closed

    def data(self) -> tuple[Json, Arrays]:
        tables, arrays = program_data(self._closed)
        return {"scope": None, "tables": tables}, arrays


def stored_program(data: Json, arrays: Arrays) -> Program:
    """The program that `Program.data` wrote; ValueError for damaged data."""
    if data["scope"] is None:
        return FixedProgram(program_from_data(data["tables"], arrays))
    raise ValueError("the program has open sizes")


def derived_program(base: Program, rule: Callable[[ClosedJaxpr], ClosedJaxpr]) -> Program:
    """The program that `rule` makes of another, for each choice of its open sizes."""
    return FixedProgram(rule(base.at(())))


def trace_program(
    fun_jit: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Program, Any]:
    """The program of a jitted function for these arguments, and what `trace` gives for them."""
    traced = fun_jit.trace(*args, **kwargs)
    return FixedProgram(traced.jaxpr), traced
