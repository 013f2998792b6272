"""What the types of operands say together, and the shardings that follow from the factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.errors import ShardingTypeError
from xpr.core.physical import physical_aval
from xpr.core.primitive import Primitive
from xpr.sharding.mesh import AbstractMesh
from xpr.sharding.rule import Axes, Spec, Structural, rule_of
from xpr.sharding.spec import PartitionSpec

Avals = Sequence[ShapedArray]
Params = dict[str, Any]
Specs = Sequence[Spec | None]
"""The spec of each result. None is for a type that says nothing: it agrees with every other."""

TypeRule = Callable[[Avals, Params, Avals], Specs]
"""Operands, parameters and results without shardings -> the spec of each result."""


def mesh_of(operands: Avals) -> AbstractMesh | None:
    """The one mesh that the types of the operands name; None when they name none."""
    mesh: AbstractMesh | None = None
    for a in operands:
        if a.sharding is None or a.sharding.mesh is mesh:
            continue
        if mesh is not None:
            raise ValueError(
                f"Mesh for all inputs should be equal. Got one mesh: {mesh} and another mesh: "
                f"{a.sharding.mesh}. Put the arrays on one mesh with xpr.device_put."
            )
        mesh = a.sharding.mesh
    return mesh


def spec_of(aval: ShapedArray) -> Spec:
    """For each axis of a type the mesh axes that it is sharded over."""
    if aval.sharding is None:
        return ((),) * aval.ndim
    return aval.sharding.normalized_spec(aval.ndim)


def named_spec(spec: Spec) -> PartitionSpec:
    """The partition spec of a normalised one.

    >>> named_spec((("x",), (), ("y", "z")))
    P('x', None, ('y', 'z'))
    """
    return PartitionSpec(*(axes or None for axes in spec))


def entries(spec: Spec) -> tuple[Any, ...]:
    """`spec` as messages show it."""
    return named_spec(spec).partitions


def forward(primitive: Primitive, operands: Avals, params: Params, found: Avals) -> list[Spec]:
    """The specs of the results by the factor rule.

    Rules are about numbers: arrays of keys count as what stands for them, whose last axis is whole.
    """
    made = rule_of(primitive)
    assert not isinstance(made, Structural)
    ranks = [aval.ndim for aval in found]
    operands = [physical_aval(aval) for aval in operands]
    rule = made(operands, [physical_aval(aval) for aval in found], params)
    chosen: list[Axes] = [()] * len(rule.sizes)
    for aval, dims in zip(operands, rule.operands, strict=True):
        if aval.sharding is None:
            continue
        for dim, (axes, factors) in enumerate(zip(spec_of(aval), dims, strict=True)):
            if not axes:
                continue
            if not factors and aval.shape[dim] == 1:
                continue  # one element, over mesh axes of one device
            if len(factors) != 1 or factors[0] in rule.whole:
                raise _needed_whole(primitive, aval, dim)
            if chosen[factors[0]] not in ((), axes):
                raise _conflict(primitive, operands)
            chosen[factors[0]] = axes
    return [
        tuple(sum((chosen[f] for f in fs), ()) for fs in dims[:rank])
        for dims, rank in zip(rule.results, ranks, strict=True)
    ]


def _needed_whole(primitive: Primitive, aval: ShapedArray, dim: int) -> ShardingTypeError:
    return ShardingTypeError(
        f"{primitive} needs axis {dim} of its operand whole, got the type {aval}. Reshard the "
        "operand with xpr.sharding.reshard, or wrap the operation in xpr.sharding.auto_axes."
    )


def _conflict(primitive: Primitive, operands: Avals) -> ShardingTypeError:
    shown = ", ".join(str(entries(spec_of(a))) for a in operands)
    return ShardingTypeError(
        f"{primitive} got incompatible shardings for broadcasting: {shown}. Reshard one of the "
        f"operands, of types {', '.join(map(str, operands))}, with xpr.sharding.reshard."
    )
