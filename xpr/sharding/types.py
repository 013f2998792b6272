"""Types of results: the shardings that follow from those that the types of operands carry.

On meshes with Explicit axes an array's type says how it is sharded, and every operation says how
its results are. That follows from the factor rules (`rule.py`): an axis of a result is sharded as
the operands' axes with the same factors are. Operations that move elements between devices, or that
need one axis whole, have rules of their own in `type_rules.py`. Where it is not clear how a result
should be sharded there is no default: `ShardingTypeError` says so, and how to say it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.errors import ShardingTypeError
from xpr.core.primitive import Primitive
from xpr.sharding.mesh import AbstractMesh
from xpr.sharding.named import NamedSharding, explicit_sharding
from xpr.sharding.rule import Spec, Structural, rule_of
from xpr.sharding.rules import load_all
from xpr.sharding.sum_types import shows_sets, with_sets
from xpr.sharding.type_rules import TYPE_RULES
from xpr.sharding.type_specs import (
    Avals,
    Params,
    Specs,
    TypeRule,
    entries,
    forward,
    mesh_of,
    named_spec,
)

KEEP = frozenset({"place", "sharding_constraint", "shard_alike", "shard_map"})
"""Primitives whose abstract rule gives the shardings of the results."""

MOVES = frozenset({"reshard", "mesh_cast"})
"""Primitives whose result is sharded, unreduced and reduced as the parameter says."""

_load_rules = functools.cache(load_all)


_CALLBACKS = frozenset({"io_callback", "pure_callback"})
"""Their parameter `sharding` says which device calls the function, not how results are sharded."""


def typed_results(
    primitive: Primitive, operands: Avals, params: Params, found: Sequence[ShapedArray]
) -> list[ShapedArray]:
    """`found`, the types of the results without shardings, with those that they have.

    Raises ShardingTypeError when the shardings of the operands contradict each other or leave open
    how a result is sharded.

    >>> import numpy as np
    >>> from xpr.core.primitive import get_primitive
    >>> from xpr.sharding import AbstractMesh, AxisType, PartitionSpec as P
    >>> mesh = AbstractMesh((2,), ("x",), (AxisType.Explicit,))
    >>> x = ShapedArray((8, 4), np.dtype("float32"), False, NamedSharding(mesh, P("x", None)))
    >>> typed_results(get_primitive("reduce_sum"), [x], {"axes": (1,)}, [x.update(shape=(8,))])
    [ShapedArray(float32[8@x])]
    """
    if primitive.name in KEEP:
        return list(found)
    _load_rules()
    given = params.get("out_sharding")
    if given is None and primitive.name not in _CALLBACKS:
        given = params.get("sharding")
    rule = TYPE_RULES.get(primitive.name)
    if rule is None and isinstance(rule_of(primitive), Structural):
        return list(found)
    has_sets = any(map(shows_sets, operands))
    bare = [a if a.sharding is None else a.update(sharding=None) for a in found]
    if given is not None:
        found = [_typed(bare[0], given), *bare[1:]]
        if rule is not None:  # says which operands are wrong with any sharding of the result
            rule(operands, params, found)
        if primitive.name not in MOVES and (has_sets or any(map(shows_sets, found))):
            return with_sets(primitive, operands, params, found, given)
        return found
    typed = _specs(primitive, operands, params, bare, rule)
    return with_sets(primitive, operands, params, typed, None) if has_sets else typed


def _specs(
    primitive: Primitive, operands: Avals, params: Params, bare: Avals, rule: TypeRule | None
) -> list[ShapedArray]:
    """The types of results with the mesh axes over which each of their axes is sharded."""
    try:
        mesh = mesh_of(operands)
        if mesh is None:
            return list(bare)
        if rule is not None:
            specs: Specs = rule(operands, params, bare)
        else:
            specs = forward(primitive, operands, params, bare)
        return [
            a if s is None else _sharded(primitive, operands, a, mesh, s)
            for a, s in zip(bare, specs, strict=True)
        ]
    except ShardingTypeError:
        if state.loose_types:
            return list(bare)
        raise


def _typed(aval: ShapedArray, sharding: NamedSharding) -> ShapedArray:
    """`aval` with the sharding that the user gave; ValueError if its sizes cannot be divided."""
    shown = explicit_sharding(sharding, aval.ndim)
    if shown is None:
        return aval
    shape, spec = shown.mesh.shape, shown.normalized_spec(aval.ndim)
    for dim, (size, axes) in enumerate(zip(aval.shape, spec, strict=True)):
        parts = 1
        for axis in axes:
            parts *= shape[axis]
        if size % parts:
            raise ValueError(
                f"Sharding spec {entries(spec)} implies that array axis "
                f"{dim} is partitioned {parts} times, but does not evenly divide the dimension "
                f"size {size}. Got shape: {aval.shape} and sharding {shown}"
            )
    return aval.update(sharding=shown)


def _sharded(
    primitive: Primitive, operands: Avals, aval: ShapedArray, mesh: AbstractMesh, spec: Spec
) -> ShapedArray:
    used = [a for axes in spec for a in axes]
    if len(used) != len(set(used)):
        shapes = ", ".join(a.str_short() for a in operands)
        sizes = (
            f"{n}@{','.join(axes)}" if axes else str(n)
            for n, axes in zip(aval.shape, spec, strict=True)
        )
        raise ShardingTypeError(
            f"{primitive} operation with inputs: {shapes} produces an illegally sharded result: "
            f"{aval.dtype.name}[{', '.join(sizes)}], which names a mesh axis twice. Reshard an "
            "operand with xpr.sharding.reshard."
        )
    return aval.update(sharding=NamedSharding(mesh, named_spec(spec)))
