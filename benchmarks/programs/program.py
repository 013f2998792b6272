"""What a program is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

Inputs = tuple[numpy.ndarray, ...]


@dataclass(frozen=True)
class Program:
    """One program in three sizes.

    ``inputs(size)`` makes its operands, ``traced(np, lax)`` gives the function that is compiled,
    and ``plain`` is the same in NumPy. ``source`` says where its definition is from.
    """

    name: str
    sizes: tuple[int, int, int]
    inputs: Callable[[int], Inputs]
    traced: Callable[[Any, Any], Callable[..., Any]]
    plain: Callable[..., Any]
    source: str


def random(*shape: int, seed: int = 0) -> numpy.ndarray:
    """Standard normal numbers in float64."""
    return numpy.random.default_rng(seed).standard_normal(shape)
