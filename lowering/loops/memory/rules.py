"""The rules by primitive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.core.primitive import Primitive, registry
from xpr.lowering.loops.calls import CALLS, SOLVES
from xpr.lowering.loops.memory import (
    control,
    data_movement,
    indexing,
    ordered_reductions,
    reductions,
    rewritten,
)
from xpr.lowering.loops.memory.elementwise import elementwise
from xpr.lowering.loops.registers.table import PRIVATE
from xpr.lowering.numerics import linalg_householder as reflections
from xpr.lowering.numerics import linalg_loops as matrices
from xpr.lowering.numerics import linalg_lu as lu
from xpr.primitives import ELEMENTWISE_FAMILIES

Rule = Callable[..., Any]

_RULES: dict[str, Rule] = {
    "broadcast_in_dim": data_movement.broadcast_in_dim,
    "reshape": data_movement.reshape,
    "squeeze": data_movement.squeeze,
    "transpose": data_movement.transpose,
    "rev": data_movement.rev,
    "slice": data_movement.slice_,
    "dynamic_slice": data_movement.dynamic_slice,
    "dynamic_update_slice": data_movement.dynamic_update_slice,
    "pad": data_movement.pad,
    "concatenate": data_movement.concatenate,
    "split": data_movement.split,
    "stack": data_movement.stack,
    "unstack": data_movement.unstack,
    "tile": data_movement.tile,
    "argmax": ordered_reductions.argument,
    "argmin": ordered_reductions.argument,
    **dict.fromkeys(ordered_reductions.CUMULATIVE, ordered_reductions.cumulative),
    "iota": data_movement.iota,
    "gather": indexing.gather,
    "scatter": indexing.scatter,
    "scatter-add": indexing.scatter,
    "scatter-sub": indexing.scatter,
    "scatter-mul": indexing.scatter,
    "scatter-min": indexing.scatter,
    "scatter-max": indexing.scatter,
    **dict.fromkeys(reductions.STARTS, reductions.reduce),
    "dot_general": reductions.dot_general,
    "threefry2x32": rewritten.of_keys(rewritten.threefry2x32),
    "random_bits": rewritten.of_keys(rewritten.random_bits),
    "random_split": rewritten.of_keys(rewritten.random_split),
    "random_fold_in": rewritten.of_keys(rewritten.random_fold_in),
    "sort": rewritten.rewritten(rewritten.sort),
    "cholesky": rewritten.of_small_matrices(matrices.cholesky),
    "triangular_solve": rewritten.of_small_matrices(matrices.triangular_solve),
    "lu": rewritten.of_small_matrices(lu.lu),
    "qr": rewritten.of_small_matrices(reflections.qr),
    "scan": control.scan,
    "while": control.while_,
    "cond": control.cond,
    **{name: control.call(parameter) for name, parameter in (CALLS | SOLVES).items()},
    "stop_gradient": control.same,
    "name": control.same,
    "optimization_barrier": control.same,
}


def rule_for(primitive: Primitive) -> Rule | None:
    """The rule of a primitive, if it has one; a program's own has none, whatever its name is."""
    if primitive in PRIVATE:
        return elementwise
    if registry.get(primitive.name) is not primitive:
        return None
    own = _RULES.get(primitive.name)
    if own is not None:
        return own
    return elementwise if primitive.family in ELEMENTWISE_FAMILIES else None
