"""The rules by primitive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.core.primitive import Primitive, registry
from xpr.lowering.loops import control, folding, indexing, moving, selecting
from xpr.lowering.loops.elementwise import FAMILIES, elementwise

Rule = Callable[..., Any]

_RULES: dict[str, Rule] = {
    "broadcast_in_dim": moving.broadcast_in_dim,
    "reshape": moving.reshape,
    "squeeze": moving.squeeze,
    "transpose": moving.transpose,
    "rev": moving.rev,
    "slice": moving.slice_,
    "dynamic_slice": moving.dynamic_slice,
    "dynamic_update_slice": moving.dynamic_update_slice,
    "pad": moving.pad,
    "concatenate": moving.concatenate,
    "split": moving.split,
    "stack": moving.stack,
    "unstack": moving.unstack,
    "tile": moving.tile,
    "argmax": selecting.argument,
    "argmin": selecting.argument,
    **dict.fromkeys(selecting.CUMULATIVE, selecting.cumulative),
    "iota": moving.iota,
    "gather": indexing.gather,
    "scatter": indexing.scatter,
    "scatter-add": indexing.scatter,
    "scatter-sub": indexing.scatter,
    "scatter-mul": indexing.scatter,
    "scatter-min": indexing.scatter,
    "scatter-max": indexing.scatter,
    **dict.fromkeys(folding.STARTS, folding.reduce),
    "dot_general": folding.dot_general,
    "scan": control.scan,
    "while": control.while_,
    "cond": control.cond,
    "jit": control.call("jaxpr"),
    "custom_jvp_call": control.call("call_jaxpr"),
    "custom_vjp_call": control.call("call_jaxpr"),
    "custom_partitioning": control.call("call"),
    "stop_gradient": control.same,
    "name": control.same,
    "optimization_barrier": control.same,
}


def rule_for(primitive: Primitive) -> Rule | None:
    """The rule of a primitive, if it has one; a program's own has none, whatever its name is."""
    if registry.get(primitive.name) is not primitive:
        return None
    own = _RULES.get(primitive.name)
    if own is not None:
        return own
    return elementwise if primitive.family in FAMILIES else None
