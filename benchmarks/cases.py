"""What a case is: something that every implementation does, and how right it must be."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from benchmarks.implementations import Implementation

# A program takes the array module (`numpy` or one like it), the module of what NumPy lacks
# (`lax` or `benchmarks.numpy_lax`) and the arrays.
Program = Callable[..., Any]
MakeInputs = Callable[[numpy.random.Generator, bool], Sequence[numpy.ndarray]]
Call = Callable[[], Any]

SEED = 20_240_229


@dataclass(frozen=True, kw_only=True)
class Case(ABC):
    """One row of the table.

    ``modes`` are the implementations that take part. ``wait_each`` tells whether each call is
    waited for, as for kernels, or only the last of many calls in a row, as for overheads. A case
    with ``devices`` runs in new processes that have so many, on ``cores`` of the cores (0: all).
    """

    name: str
    group: str
    modes: tuple[str, ...] = ("numpy", "xpr eager", "xpr jit", "jax jit")
    wait_each: bool = True
    devices: int = 0
    cores: int = 0

    @abstractmethod
    def prepare(self, implementation: Implementation, quick: bool) -> Call:
        """What is timed, ready to be called."""

    @property
    def checked(self) -> bool:
        """Whether results can be compared with `reference`."""
        return False


@dataclass(frozen=True, kw_only=True)
class ProgramCase(Case):
    """A program on arrays, the same source for every library.

    ``numpy_program`` replaces ``program`` for NumPy where NumPy has another way to say it.
    ``tolerance`` is the greatest error allowed, in parts of the greatest value of the result.
    """

    program: Program
    inputs: MakeInputs
    numpy_program: Program | None = None
    tolerance: float = 1e-5

    def prepare(self, implementation: Implementation, quick: bool) -> Call:
        program = self._program(implementation)
        function = implementation.jit(
            functools.partial(program, implementation.np, implementation.lax)
        )
        return functools.partial(function, *map(implementation.put, self._inputs(quick)))

    @property
    def checked(self) -> bool:
        return True

    def reference(self, numpy_implementation: Implementation, quick: bool) -> list[numpy.ndarray]:
        """The results by NumPy, computed in double precision."""
        arrays = [
            x.astype(numpy.float64) if x.dtype.kind == "f" else x for x in self._inputs(quick)
        ]
        program = self._program(numpy_implementation)
        return numpy_implementation.host(
            program(numpy_implementation.np, numpy_implementation.lax, *arrays)
        )

    def _program(self, implementation: Implementation) -> Program:
        if implementation.library == "numpy" and self.numpy_program is not None:
            return self.numpy_program
        return self.program

    def _inputs(self, quick: bool) -> Sequence[numpy.ndarray]:
        return self.inputs(numpy.random.default_rng(SEED), quick)


@dataclass(frozen=True, kw_only=True)
class ActionCase(Case):
    """Something other than running a program: tracing or compiling one, say."""

    action: Callable[[Implementation, bool], Call]

    def prepare(self, implementation: Implementation, quick: bool) -> Call:
        return self.action(implementation, quick)


def worst_error(
    found: Sequence[numpy.ndarray], expected: Sequence[numpy.ndarray]
) -> tuple[float, str]:
    """The greatest error in parts of the greatest value expected, and a word on what is wrong.

    The word is empty unless the number of results, a shape or a kind of dtype differs, or NaN or an
    infinity stands where none belongs.
    """
    if len(found) != len(expected):
        return float("inf"), f"{len(found)} results for {len(expected)}"
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape:
            return float("inf"), f"shape {a.shape} for {b.shape}"
        if a.dtype.kind not in {"f": "f", "c": "c", "i": "iu", "u": "iu", "b": "b"}[b.dtype.kind]:
            return float("inf"), f"dtype {a.dtype} for {b.dtype}"
        if b.size == 0:
            continue
        wide = numpy.complex128 if b.dtype.kind == "c" else numpy.float64
        error = numpy.max(numpy.abs(a.astype(wide) - b.astype(wide)))
        if not numpy.isfinite(error):
            return float("inf"), "NaN or infinity"
        scale = float(numpy.max(numpy.abs(b)))
        worst = max(worst, float(error) / scale if scale > 0 else float(error))
    return worst, ""
