"""What may be done with parts of a sum before it is complete: operations that are linear in them.

A value may be *unreduced* along mesh axes: each device along them holds a part of a sum. An
operation that is linear in such operands can be done on the parts, and its result is unreduced,
too; for every other one the sum has to be completed first.
"""

from __future__ import annotations

from collections.abc import Sequence

Unreduced = frozenset[str]

_ALL = frozenset(
    {"add", "add_any", "sub", "neg", "real", "imag", "conj", "complex", "concatenate", "stack"}
    | {"unstack", "split", "tile", "copy", "convert_element_type", "reduce_precision"}
    | {"optimization_barrier", "broadcast_in_dim", "reshape", "transpose", "squeeze", "rev"}
    | {"slice", "reduce_sum", "cumsum", "stop_gradient", "name", "mesh_cast"}
)
"""Linear in all operands together: all are parts of the same sums."""

_SOME = {
    "pad": (0,),
    "div": (0,),
    "dynamic_slice": (0,),
    "dynamic_update_slice": (0, 1),
    "gather": (0,),
    "scatter-add": (0, 2),
    "reduce_window_sum": (0,),
}
"""Linear in some operands together, by their places."""

_EACH = frozenset({"mul", "dot_general", "conv_general_dilated"})
"""Linear in each operand, the others given."""


def summands(name: str, count: int) -> tuple[int, ...]:
    """The places of the operands, of `count`, in which an operation is linear together."""
    if name in _ALL:
        return tuple(range(count))
    if name == "select_n":
        return tuple(range(1, count))
    return _SOME.get(name, ())


def unreduced_result(name: str, operands: Sequence[Unreduced]) -> Unreduced:
    """Along which axes the result is unreduced when the operation is done on parts of sums.

    Nothing when it cannot be: the sums must be completed first.

    >>> parts, whole = frozenset({"x"}), frozenset()
    >>> unreduced_result("add", [parts, parts]), unreduced_result("add", [parts, whole])
    (frozenset({'x'}), frozenset())
    >>> unreduced_result("mul", [whole, parts])
    frozenset({'x'})
    """
    some = [i for i, axes in enumerate(operands) if axes]
    if not some:
        return frozenset()
    axes = operands[some[0]]
    if name in _EACH:
        return axes if len(some) == 1 else frozenset()
    together = summands(name, len(operands))
    same = set(some) == set(together) and all(operands[i] == axes for i in some)
    return axes if same else frozenset()
