"""In which memory the results of operations are: that of the operands, who have to agree."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import sub_jaxprs
from xpr.core.primitive import Primitive


class MemorySpace(enum.Enum):
    """Where an array lies, whatever devices and kinds of memory there are.

    >>> from xpr.memory import Space
    >>> [space.name for space in Space]
    ['Device', 'Host', 'Any']
    """

    Device = "device"
    Host = "host"
    Any = "any"

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"


_move: Callable[[Any, str], Any] | None = None


def install_move(move: Callable[[Any, str], Any]) -> None:
    """Sets what moves concrete arrays: see `xpr/dispatch/memories.py`."""
    global _move
    _move = move


def moved_array(x: Any, memory_space: str) -> Any:
    """A concrete array in that memory space of its devices."""
    if _move is None:
        raise RuntimeError("xpr is only half imported: import xpr before using its parts")
    return _move(x, memory_space)


_place: Callable[[Any, Any], Any] | None = None


def install_place(place: Callable[[Any, Any], Any]) -> None:
    """Sets the function that puts concrete values on devices: see `xpr/dispatch/transfer.py`."""
    global _place
    _place = place


def placed_value(x: Any, sharding: Any) -> Any:
    """A concrete value as an array that is spread as the sharding says."""
    if _place is None:
        raise RuntimeError("xpr is only half imported: import xpr before using its parts")
    return _place(x, sharding)


def in_same_memory(
    primitive: Primitive,
    operands: Sequence[ShapedArray],
    params: dict[str, Any],
    found: Sequence[ShapedArray],
) -> list[ShapedArray]:
    """`found`, the types of the results, in the memory of the operands (literals left out).

    Numbers beside arrays are taken from anywhere; ValueError for arrays in different memories. A
    transfer's result is where it says, and those of programs inside an operation where these say.
    """
    if primitive.name in ("device_put", "place") or any(True for _ in sub_jaxprs(params)):
        return list(found)
    operands = [a for a in operands if a.ndim] or operands
    first = operands[0]
    for other in operands:
        if other.memory_space != first.memory_space:
            raise ValueError(
                f"memory_space of all inputs passed to `{primitive.name}` must be the same. Got "
                f"one operand with type: {first.strip_weak_type()} and another operand with type: "
                f"{other.strip_weak_type()}"
            )
    return [a.update(memory_space=first.memory_space) for a in found]
