"""Operations outside `jit` on arrays that several devices hold: each is a program of its own.

On devices whose memory the host sees nothing is compiled: the reference rules run on each device's
parts. Programs are kept by operation, types, parameters and shardings; of those that are one
operation of each device the native part takes note, and does the next one by itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from xpr.core.aval import reduced_axes, unreduced_axes, without_replication
from xpr.core.config import state
from xpr.core.errors import ShardingTypeError
from xpr.core.fingerprint import fingerprint
from xpr.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, sub_jaxprs
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.primitive import Primitive
from xpr.core.trace import get_aval
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.meshes import Places
from xpr.dispatch.sharded_array import ShardedArrayImpl
from xpr.dispatch.spmd import SpmdProgram
from xpr.dispatch.spmd_alone import lone_equation
from xpr.runtimes.extension import native
from xpr.sharding import Mesh, NamedSharding, Sharding
from xpr.sharding.mesh import latest_of

_native: Any = native().module
_kept: OrderedDict[Any, SpmdProgram] = OrderedDict()
_MAX_KEPT = 512


def apply(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """The result of one primitive on arrays some of which are on several devices."""
    avals: list[Any] = []
    shardings: list[Sharding | None] = []
    for a in args:
        if type(a) is ShardedArrayImpl:
            avals.append(a.aval)
            shardings.append(a._sharding)
        else:
            avals.append(get_aval(a))
            shardings.append(a.sharding if isinstance(a, ArrayImpl) and a.committed else None)
    key: Any = None
    program: SpmdProgram | None = None
    try:
        key = (
            primitive,
            *avals,
            *shardings,
            # The body of a loop or of a shard_map is traced at each call, and is mostly the same.
            tuple([(k, fingerprint(v), type(v)) for k, v in params.items()]) if params else (),
            state.trace_key,
            state.meshes,
        )
        program = _kept.get(key)
    except TypeError:  # a parameter that cannot be hashed
        key = None
    if program is None:
        program = _program(primitive, args, avals, shardings, params)
        if key is not None:
            _kept[key] = program
            if len(_kept) > _MAX_KEPT:
                _kept.popitem(last=False)
    out = program(args)
    if primitive.multiple_results:
        return out
    if _native is not None and key is not None and not (state.debug_nans or state.debug_infs):
        found = lone_equation(program, args)
        if found is not None:
            eqn, source = found
            _native.learn_apply_on_devices(
                primitive, eqn.primitive.reference, args, params, eqn.params, out[0], source
            )
    return out[0]


def _program(
    primitive: Primitive,
    args: Sequence[Any],
    avals: Sequence[Any],
    shardings: Sequence[Sharding | None],
    params: dict[str, Any],
) -> SpmdProgram:
    def flat(*xs: Any) -> Sequence[Any]:
        out = primitive.bind(*xs, **params)
        return out if primitive.multiple_results else [out]

    closed: ClosedJaxpr = (
        params["jaxpr"] if primitive.name == "jit" else _traced(flat, avals, primitive.name)
    )
    name = params["name"] if primitive.name == "jit" else primitive.name
    places = Places(name)
    places.add_arguments(args, [chr(ord("x") + i) if i < 3 else str(i) for i in range(len(args))])
    places.add_program(closed)
    mesh = places.chosen()
    if primitive.name == "shard_map":
        _check_abstract(params["mesh"], mesh)
    given = params.get("sharding") or params.get("out_sharding")
    if mesh is None and isinstance(given, NamedSharding):
        # The type of an array that a derivative is taken at names its mesh without the devices.
        mesh = latest_of(given.mesh.abstract_mesh)
    if mesh is None:
        raise ValueError(
            f"{name} names axes of a mesh, but there is none: give arrays a sharding, or set a "
            "mesh with xpr.set_mesh"
        )
    return SpmdProgram(
        closed,
        name,
        mesh,
        shardings,
        [None] * len(closed.out_avals),
        interpreted=_is_interpreted(mesh, closed.jaxpr),
        refinement=places.refinement(),
    )


def _check_abstract(asked: Any, found: Mesh | None) -> None:
    """ValueError where no array says which devices the mesh of a `shard_map` has."""
    if isinstance(asked, Mesh):
        return
    if found is None:
        raise ValueError(
            "Please pass `xpr.Array`s with a `NamedSharding` as input to `shard_map` when passing "
            f"`AbstractMesh` to the mesh argument, or set a mesh with xpr.set_mesh: got {asked}"
        )
    if found.shape_tuple != asked.shape_tuple:
        raise ValueError(
            f"Mesh shape of the input {found.shape_tuple} does not match the mesh shape passed to "
            f"shard_map {asked.shape_tuple}"
        )


def _traced(flat: Any, avals: Sequence[Any], name: str) -> ClosedJaxpr:
    """The program of an operation.

    Outside of programs constants that a function makes on its way lie on all devices. Their types
    say so, other than those of constants in programs, and would contradict those of arguments.
    """
    info = DebugInfo(func_name=name)
    try:
        return trace_to_jaxpr(flat, avals, info)
    except ShardingTypeError:
        if any(unreduced_axes(a) or reduced_axes(a) for a in avals):
            raise
        open_avals = list(map(without_replication, avals))
        if all(a.sharding is None for a in open_avals):
            raise
        return trace_to_jaxpr(flat, open_avals, info)


def _is_interpreted(mesh: Mesh, jaxpr: Jaxpr) -> bool:
    """Whether NumPy computes the program: on host devices, if its rules are not far too slow."""
    on_host = all(d.runtime.is_host for d in mesh.flat_devices)
    return on_host and not _has_slow_rules(jaxpr)


_WALKED = frozenset({"jit", "remat2", "custom_jvp_call", "custom_vjp_call"})


def _has_slow_rules(jaxpr: Jaxpr) -> bool:
    return any(
        (e.primitive.eager == "compile" and e.primitive.name not in _WALKED)
        or any(map(_has_slow_rules, sub_jaxprs(e.params)))
        for e in jaxpr.eqns
    )


def clear() -> None:
    """Forgets every program."""
    _kept.clear()
