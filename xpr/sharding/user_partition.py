"""Partitioning of functions that say themselves how: equations of `custom_partitioning`.

The shardings that propagation found go to the user's `partition`. Operands are moved to where it
wants them, and the function that it gives runs on each device's parts, with the axes of the mesh
bound for collectives. Where a `shard_map` around it is manual over all axes of the mesh, devices
compute what the function itself says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.primitives._shard_bodies import inside
from xpr.sharding.flatten import flattened
from xpr.sharding.layout import local_shape, replicated
from xpr.sharding.propagate import Specs, propagate
from xpr.sharding.user_propagation import UserRules, as_sharding, mesh_of, spec_from

if TYPE_CHECKING:
    from xpr.sharding.partition import Held, Walk


def custom_partitioning(walk: Walk, eqn: JaxprEqn) -> list[Held]:
    """The results of an equation, from what the user's functions say."""
    call: ClosedJaxpr = eqn.params["call"]
    sizes = {a: n for a, n in walk.sizes.items() if a not in walk.manual}
    if not sizes:
        found = _walked(walk, call, [walk.read(v)[0] for v in eqn.invars])
        return [(x, replicated(v.aval.ndim)) for x, v in zip(found, eqn.outvars, strict=True)]
    rules: UserRules = eqn.params["rules"]
    mesh = mesh_of(walk.specs.mesh, walk.sizes)
    operands, results = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    own_mesh, function, shardings, result_shardings = rules.partitioned(
        mesh,
        operands,
        [as_sharding(mesh, walk.read(v)[1]) for v in eqn.invars],
        results,
        [as_sharding(mesh, walk.specs.of(v)) for v in eqn.outvars],
    )
    if dict(own_mesh.shape) != dict(mesh.shape):
        raise ValueError(
            "custom_partitioning: partition must return a mesh whose axes are those of the "
            f"program's, {dict(mesh.shape)}, got {own_mesh}"
        )
    in_specs = [spec_from(s, sizes, a.shape) for s, a in zip(shardings, operands, strict=True)]
    specs = [spec_from(s, sizes, a.shape) for s, a in zip(result_shardings, results, strict=True)]
    parts = [
        ShapedArray(local_shape(a.shape, s, sizes), a.dtype, a.weak_type)
        for a, s in zip(operands, in_specs, strict=True)
    ]
    bound = {"mesh": mesh, "manual_axes": frozenset(sizes), "check_vma": False}
    with inside(bound):
        closed = trace_to_jaxpr(function, parts, call.jaxpr.debug_info)
    wanted = [
        ShapedArray(local_shape(a.shape, s, sizes), a.dtype)
        for a, s in zip(results, specs, strict=True)
    ]
    have = closed.out_avals
    if [(a.shape, a.dtype) for a in have] != [(a.shape, a.dtype) for a in wanted]:
        raise ValueError(
            "custom_partitioning: the function that partition returned gives each device "
            f"{_shown(have)}, the result shardings want {_shown(wanted)}. Mismatch in result "
            "shapes."
        )
    found = _walked(
        walk,
        flattened(closed),
        [walk.read_as(v, s) for v, s in zip(eqn.invars, in_specs, strict=True)],
        frozenset(sizes),
    )
    return list(zip(found, specs, strict=True))


def _shown(avals: Sequence[ShapedArray]) -> str:
    return "[" + ", ".join(a.str_short() for a in avals) + "]"


def _walked(
    walk: Walk, closed: ClosedJaxpr, operands: Sequence[Any], manual: frozenset[str] = frozenset()
) -> list[Any]:
    """The results of a program of one device's parts, with `manual` axes bound."""
    outer, jaxpr = walk.specs, closed.jaxpr
    propagate(
        Specs({}, outer.known, outer.pinned, outer.open_dims, outer.rules, mesh=outer.mesh), jaxpr
    )
    inner = walk.nested()
    inner.manual = walk.manual | manual
    for variables, values in ((jaxpr.invars, operands), (jaxpr.constvars, closed.consts)):
        inner.assign(
            variables,
            [(x, replicated(v.aval.ndim)) for x, v in zip(values, variables, strict=True)],
        )
    inner.equations(jaxpr)
    return [inner.read(v)[0] for v in jaxpr.outvars]
