"""What programs say about where arrays are: constraints for the partitioner.

As values they are the identity. The partitioner (`xpr/sharding/partition.py`) does what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.effects import INSPECT
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, eval_closed, sub_jaxprs
from xpr.core.manual import of_programs
from xpr.core.memory_spaces import placed_value
from xpr.core.primitive import NOT_LINEAR, NotBatchable, NotDifferentiable, Primitive, define
from xpr.core.trace import Tracer, context
from xpr.interpreters.batching import BatchTracer
from xpr.interpreters.zeros import Zero, instantiate
from xpr.primitives.rules import BatchAxis, Dim, LinearJVP, at_front
from xpr.sharding.named import NamedSharding, explicit_sharding

_FAMILY = "sharding"
_NdArray = np.ndarray[Any, np.dtype[Any]]


def _same_aval(x: ShapedArray, **_: Any) -> ShapedArray:
    return x


def _same(x: _NdArray, **_: Any) -> _NdArray:
    return x


# ---- constraints


def _constraint_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    out = sharding_constraint_p.bind(*primals, **params)
    return out, sharding_constraint_p.bind(instantiate(tangents[0]), **params)


def _constraint_transpose(ct: Any, x: Any, **params: Any) -> list[Any]:
    del x
    return [sharding_constraint_p.bind(ct, **params)]


def _with_axis(sharding: Any, ndim: int, dim: int, names: tuple[Any, ...]) -> Any:
    """The sharding of an array with one axis more, at `dim`, over those axes of the mesh."""
    spec = [axes if axes else None for axes in sharding.normalized_spec(ndim)]
    used = {n for axes in spec if axes for n in axes}
    if used.intersection(names):
        raise ValueError(
            f"vmap spmd_axis_name {names} cannot appear in with_sharding_constraint spec, but got "
            f"spec {sharding.spec}"
        )
    spec.insert(dim, names or None)
    return sharding.with_spec(type(sharding.spec)(*spec))


def _constraint_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    sharding: Any,
    unconstrained_dims: frozenset[int],
    **params: Any,
) -> Any:
    (x,), (dim,) = args, dims
    if dim is None:
        return sharding_constraint_p.bind(
            x, sharding=sharding, unconstrained_dims=unconstrained_dims, **params
        ), None
    names = axis.spmd_names
    free = frozenset(d + (d >= dim) for d in unconstrained_dims) | ({dim} if not names else set())
    moved = _with_axis(sharding, x.ndim - 1, dim, names)
    found = sharding_constraint_p.bind(x, sharding=moved, unconstrained_dims=free, **params)
    return found, dim


sharding_constraint_p = define(
    "sharding_constraint",
    family=_FAMILY,
    doc="x, sharded as the parameter says.",
    abstract=_same_aval,
    reference=_same,
    jvp=_constraint_jvp,
    transpose=_constraint_transpose,
    batch=_constraint_batch,
    eager="spmd",
)


# ---- moves between devices


def _place_abstract(x: ShapedArray, *, sharding: Any, source: Any) -> ShapedArray:
    del source
    shown = explicit_sharding(sharding, x.ndim) if isinstance(sharding, NamedSharding) else None
    return x.update(sharding=shown)


def _place_reference(x: _NdArray, *, sharding: Any, source: Any) -> _NdArray:
    """In a program: devices are those of the whole."""
    del sharding, source
    return x


class _Place(Primitive):
    """Moves values that are known at once, whatever transformation is under way."""

    def bind(self, *args: Any, **params: Any) -> Any:
        if not isinstance(args[0], Tracer) and context.trace.runs_eagerly():
            return placed_value(args[0], params["sharding"])
        return super().bind(*args, **params)


def place(x: Any, sharding: Any, source: Any = None) -> Any:
    """`x` where `sharding` says; `source` is where it was before, to which cotangents go back."""
    return place_p.bind(x, sharding=sharding, source=source)


def _place_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, sharding: Any, source: Any
) -> Any:
    """The operand's own devices are known here, if ever: cotangents go back to them."""
    (x,), (t,) = primals, tangents
    source = _where(x) if source is None else source
    return place(x, sharding, source), place(instantiate(t), sharding, source)


def _where(x: Any) -> Any:
    """The sharding of a value that is known, under whatever transformations; None for others."""
    if not isinstance(x, Tracer):
        return getattr(x, "sharding", None)
    if not isinstance(x, BatchTracer):
        inner = x._concrete()
        return None if inner is None else _where(inner)
    whole, dim = _where(x._batched), x._batch_dim
    if not isinstance(whole, NamedSharding):
        return whole
    spec = whole.normalized_spec(x.ndim + 1)
    return whole.with_spec(whole.spec.update(partitions=(*spec[:dim], *spec[dim + 1 :])))


def _place_transpose(ct: Any, x: Any, *, sharding: Any, source: Any) -> list[Any]:
    del x
    return [ct if source is None else place(ct, source, sharding)]


def _place_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, sharding: Any, source: Any
) -> Any:
    (x,), (dim,) = args, dims
    if dim is not None:
        sharding, source = (_of_batch(axis, s, x.ndim - 1, dim) for s in (sharding, source))
    return place(x, sharding, source), dim


def _of_batch(axis: BatchAxis, sharding: Any, ndim: int, dim: int) -> Any:
    """The sharding of the whole batch of arrays that are spread as `sharding` says."""
    return axis.added_to(sharding, ndim, dim) if isinstance(sharding, NamedSharding) else sharding


place_p = define(
    "place",
    family=_FAMILY,
    doc="x, on other devices: a move between programs, and a constraint inside one.",
    abstract=_place_abstract,
    reference=_place_reference,
    jvp=_place_jvp,
    transpose=_place_transpose,
    batch=_place_batch,
    eager="inline",
    kind=_Place,
)


# ---- explicit resharding


def _reshard_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    out = reshard_p.bind(*primals, **params)
    return out, reshard_p.bind(instantiate(tangents[0]), **params)


def _reshard_transpose(ct: Any, x: Any, *, sharding: Any, **params: Any) -> list[Any]:
    """The cotangent goes back to where the operand came from."""
    del x, sharding, params  # which the engine sees to, as for every cotangent
    return [ct]


def _reshard_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, sharding: Any, **params: Any
) -> Any:
    (x,), (dim,) = args, dims
    if dim is not None:
        sharding = axis.added_to(sharding, x.ndim - 1, dim)
    return reshard_p.bind(x, sharding=sharding, **params), dim


reshard_p = define(
    "reshard",
    family=_FAMILY,
    doc="x, moved to another sharding, which its type shows.",
    abstract=_same_aval,
    reference=_same,
    jvp=_reshard_jvp,
    transpose=_reshard_transpose,
    batch=_reshard_batch,
    eager="spmd",
)


# ---- other types of mesh axes


def _mesh_cast_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, sharding: Any
) -> Any:
    (x,), (dim,) = args, dims
    if dim is not None:
        sharding = axis.added_to(sharding, x.ndim - 1, dim)
    return mesh_cast_p.bind(x, sharding=sharding), dim


mesh_cast_p = define(
    "mesh_cast",
    family=_FAMILY,
    doc="x, where it is; its type has another sharding, or none: its mesh has other axis types.",
    abstract=_same_aval,
    reference=_same,
    jvp=LinearJVP(),
    transpose=lambda ct, x, **_: [ct],
    batch=_mesh_cast_batch,
)


# ---- arrays that are sharded alike


def _alike_abstract(x: ShapedArray, y: ShapedArray) -> list[ShapedArray]:
    if x.shape != y.shape:
        raise ValueError(
            "shard_alike requires its arguments to have the same shape, got "
            f"{x.str_short()} and {y.str_short()}"
        )
    return [x, y]


def _alike_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    out = shard_alike_p.bind(*primals)
    if all(type(t) is Zero for t in tangents):
        return out, list(tangents)
    return out, shard_alike_p.bind(*map(instantiate, tangents))


def _alike_transpose(cts: Sequence[Any], *args: Any) -> list[Any]:
    del args
    return list(shard_alike_p.bind(*map(instantiate, cts)))


def _alike_batch(axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim]) -> Any:

    if all(d is None for d in dims):
        return shard_alike_p.bind(*args), dims
    operands = [at_front(axis, x, d) for x, d in zip(args, dims, strict=True)]
    return shard_alike_p.bind(*operands), (0, 0)


shard_alike_p = define(
    "shard_alike",
    family=_FAMILY,
    doc="x and y, both sharded in the same way, whichever way that is.",
    abstract=_alike_abstract,
    reference=lambda x, y: (x, y),
    jvp=_alike_jvp,
    transpose=_alike_transpose,
    batch=_alike_batch,
    multiple_results=True,
    eager="spmd",
)


# ---- functions that say themselves how they are partitioned


def _own_abstract(*avals: ShapedArray, call: ClosedJaxpr, **_: Any) -> list[ShapedArray]:
    if len(avals) != len(call.in_avals):
        raise TypeError(
            f"custom_partitioning takes {len(call.in_avals)} operands, got {len(avals)}"
        )
    return list(call.out_avals)


def _own_reference(*args: Any, call: ClosedJaxpr, **_: Any) -> list[Any]:
    return eval_closed(call, args)


_PRINTED = (
    "decode_shardings",
    "in_tree",
    "infer_sharding_from_operands",
    "out_tree",
    "partition",
    "propagate_user_sharding",
    "sharding_rule",
    "static_args",
)


custom_partitioning_p = define(
    "custom_partitioning",
    family=_FAMILY,
    doc="Calls a function whose author says how several devices compute it.",
    abstract=_own_abstract,
    reference=_own_reference,
    jvp=NotDifferentiable("it is computed by the user's rules: a custom_vjp around it has some"),
    transpose=NOT_LINEAR,
    batch=NotBatchable("its rules are for arrays as they are: a custom_vmap around it has some"),
    multiple_results=True,
    eager="inline",
    pp_params=lambda params: {
        "call": params["call"],
        **{name: getattr(params["rules"], name) for name in _PRINTED},
    },
    vma=of_programs,
)


# ---- looking at shardings


def _inspect_reference(x: Any, *, callback: Callable[[Any], None]) -> list[Any]:
    """Outside of programs the array itself tells; inside they were told when it was compiled."""
    if not isinstance(x, np.ndarray):
        callback(x.sharding)
    return []


def _inspect_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    del tangents
    return list(inspect_sharding_p.bind(*primals, **params)), []


def _inspect_transpose(cts: Sequence[Any], *args: Any, **_: Any) -> list[Any]:
    """Nothing: it has no results, so the engine never has a cotangent to pass on."""
    del cts
    return [None for _ in args]


def _inspect_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[list[Any], list[Dim]]:
    """The sharding of the whole batch."""
    del axis, dims
    return list(inspect_sharding_p.bind(*args, **params)), []


inspect_sharding_p = define(
    "inspect_sharding",
    family=_FAMILY,
    doc="Tells a function how x is sharded when the program is compiled.",
    abstract=lambda _, **__: [],
    reference=_inspect_reference,
    jvp=_inspect_jvp,
    transpose=_inspect_transpose,
    batch=_inspect_batch,
    multiple_results=True,
    eager="inline",
    effects=lambda _: frozenset((INSPECT,)),
)


def inspectors(jaxpr: Jaxpr) -> Iterator[Callable[[Any], None]]:
    """The functions that want to be told of shardings in a program."""
    for eqn in jaxpr.eqns:
        if eqn.primitive is inspect_sharding_p:
            yield eqn.params["callback"]
        elif INSPECT in eqn.effects:
            for sub in sub_jaxprs(eqn.params):
                yield from inspectors(sub)
