"""The programs that reshard arrays of several processes, for those who cannot make programs.

A program places its arguments, for which an array may have to be resharded, and that takes a
program again. So this file knows nothing of programs: `install_reshard_program` says who makes
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.sharding import NamedSharding

_Program = Callable[[Sequence[Any]], list[Any]]
_Maker = Callable[[ShapedArray, NamedSharding, NamedSharding], _Program]
_make: _Maker


def install_reshard_program(make: _Maker) -> None:
    """Sets the function that `reshard_program` calls."""
    global _make
    _make = make


def reshard_program(aval: ShapedArray, source: NamedSharding, target: NamedSharding) -> _Program:
    """The program that does nothing but reshard its one argument.

    Raises ValueError where the axes of the two meshes do not nest.
    """
    return _make(aval, source, target)
