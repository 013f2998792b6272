"""The primitive of `shard_map`: a program that each device runs on its own parts of the operands.

`in_specs` say how operands are cut over the axes of `mesh`, `out_specs` how results are put
together from what the devices give; axes of the mesh that a spec does not name have the same part
everywhere. The program, `jaxpr`, has the types of the parts. It may name the `manual_axes` in
collectives, and with `check_vma` its types say along which axes values vary (`xpr.core.manual`).

Transformations transform the program and say how its new operands and results are cut. A residual
that a device keeps for the derivative is a part of a whole: cut along its first axis over all the
axes of the mesh along which it varies. A cotangent of an operand that several devices shared is
the sum of theirs: with `check_vma` the program's own `pvary` says so when it is transposed;
without, the sum is added here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from xpr.core.aval import ShapedArray, reduced_axes, unreduced_axes
from xpr.core.context import context
from xpr.core.jaxpr import ClosedJaxpr, DropVar, JaxprEqn, eval_closed
from xpr.core.jaxpr_trace import JaxprTrace, trace_to_jaxpr
from xpr.core.manual import joined, with_vma
from xpr.core.primitive import Primitive, define
from xpr.core.references import AbstractRef
from xpr.core.trace import get_aval, set_current_trace
from xpr.interpreters.batching import BatchAxis, Dim, batch_jaxpr
from xpr.interpreters.jvp import jvp_jaxpr
from xpr.interpreters.linearize import LinearizeTrace, linearize_jaxpr
from xpr.interpreters.partial_eval import PartialEvalTrace, Split, partial_eval_jaxpr
from xpr.interpreters.references import (
    ProgramPrimitive,
    bind_on_values,
    check_once,
    discharged,
    has_references,
    register_on_values,
    value_of,
    written_back,
)
from xpr.interpreters.transpose import is_linear, transpose_jaxpr
from xpr.interpreters.zeros import Zero, cotangent_aval
from xpr.primitives import _ops as ops
from xpr.primitives._call_rules import call_dce, with_tangents
from xpr.primitives._shard_bodies import inside, manual_mesh, on_one_device
from xpr.primitives.collectives import psum_p
from xpr.sharding.mesh import AbstractMesh, AxisType
from xpr.sharding.named import NamedSharding
from xpr.sharding.spec import PartitionSpec, axes_of

Params = dict[str, Any]
Specs = tuple[PartitionSpec, ...]


# ---- types


def named_axes(spec: PartitionSpec) -> frozenset[str]:
    """The mesh axes that a spec names."""
    return frozenset(a for entry in spec.partitions for a in axes_of(entry))


def parts_along(mesh: Any, entry: Any) -> int:
    """Into how many parts an entry of a spec cuts an axis."""
    return math.prod(mesh.shape[a] for a in axes_of(entry))


def local_aval(
    aval: Any,
    spec: PartitionSpec,
    mesh: Any,
    manual_axes: frozenset[str],
    check_vma: bool,
) -> Any:
    """The type of one device's part; of a reference to a whole, one to a part."""
    if isinstance(aval, AbstractRef):
        return AbstractRef(local_aval(aval.inner_aval, spec, mesh, manual_axes, check_vma))
    shape = list(aval.shape)
    for i, entry in enumerate(spec.partitions):
        shape[i] //= parts_along(mesh, entry)
    vma = aval.vma | named_axes(spec) if check_vma else frozenset()
    sharding = None
    sets = spec if check_vma else PartitionSpec()
    if aval.sharding is not None or sets.unreduced or sets.reduced:
        known = () if aval.sharding is None else aval.sharding.spec.partitions
        entries = [tuple(a for a in axes_of(e) if a not in manual_axes) for e in known]
        sharding = _explicit(entries, manual_mesh(mesh, manual_axes), sets)
    return ShapedArray(tuple(shape), aval.dtype, aval.weak_type, sharding, vma)


def global_aval(
    aval: ShapedArray, spec: PartitionSpec, mesh: Any, manual_axes: frozenset[str]
) -> ShapedArray:
    """The type of the whole that parts of type `aval` make up."""
    shape = list(aval.shape)
    for i, entry in enumerate(spec.partitions):
        shape[i] *= parts_along(mesh, entry)
    known = () if aval.sharding is None else aval.sharding.spec.partitions
    entries = [
        (*(a for a in axes_of(outer) if mesh.axis_type(a) is AxisType.Explicit), *axes_of(inner))
        for outer, inner in itertools.zip_longest(spec.partitions, known)
    ]
    sharding = _explicit(entries, mesh.abstract_mesh, spec)
    return ShapedArray(tuple(shape), aval.dtype, aval.weak_type, sharding, aval.vma - manual_axes)


def _explicit(
    entries: Sequence[tuple[str, ...]], mesh: AbstractMesh, sets: PartitionSpec
) -> NamedSharding | None:
    """The sharding that an explicit type shows; None if there is nothing to show."""
    if not any(entries) and not sets.unreduced and not sets.reduced:
        return None
    shown = [e[0] if len(e) == 1 else e or None for e in entries]
    return NamedSharding(
        mesh, PartitionSpec(*shown, unreduced=sets.unreduced, reduced=sets.reduced)
    )


def _abstract(
    *avals: ShapedArray,
    jaxpr: ClosedJaxpr,
    mesh: Any,
    in_specs: Specs,
    out_specs: Specs,
    manual_axes: frozenset[str],
    check_vma: bool,
) -> list[ShapedArray]:
    if not len(avals) == len(jaxpr.in_avals) == len(in_specs):
        raise TypeError(f"shard_map takes {len(jaxpr.in_avals)} operands, got {len(avals)}")
    for i, (found, want, spec) in enumerate(zip(avals, jaxpr.in_avals, in_specs, strict=True)):
        part = local_aval(found, spec, mesh, manual_axes, check_vma)
        if part.shape != want.shape or part.dtype != want.dtype:
            raise TypeError(
                f"shard_map: operand {i} cut as {spec} should give parts of type "
                f"{want.str_short()}, got {part.str_short()}"
            )
    return [
        global_aval(a, spec, mesh, manual_axes)
        for a, spec in zip(jaxpr.out_avals, out_specs, strict=True)
    ]


def _vma(avals: Sequence[ShapedArray], found: Any, params: Params) -> list[ShapedArray]:
    """In the body of another shard_map: the inner types say it, if they are known at all."""
    if params["check_vma"]:
        return list(found)
    union = joined(avals)
    return [with_vma(a, union) for a in found]


# ---- calls of other programs on the same mesh


def _changed(
    params: Params, jaxpr: ClosedJaxpr, in_specs: Sequence[Any], out_specs: Sequence[Any]
) -> Params:
    return params | {
        "jaxpr": jaxpr,
        "in_specs": tuple(in_specs),
        "out_specs": tuple(out_specs),
    }


def _record(trace: JaxprTrace, operands: Sequence[Any], params: Params) -> list[Any]:
    return list(trace.process_primitive(shard_map_p, operands, params))


def _where(items: Sequence[Any], marks: Sequence[bool]) -> list[Any]:
    return [x for x, m in zip(items, marks, strict=True) if m]


# ---- forward mode


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    nonzero = tuple(type(t) is not Zero for t in tangents)
    with inside(params):
        program, marks = jvp_jaxpr(params["jaxpr"], nonzero, False)
    in_specs, out_specs = params["in_specs"], params["out_specs"]
    changed = _changed(
        params,
        program,
        [*in_specs, *_where(in_specs, nonzero)],
        [*out_specs, *_where(out_specs, marks)],
    )
    found = shard_map_p.bind(*primals, *_where(tangents, nonzero), **changed)
    out = list(found[: len(marks)])
    return out, with_tangents(out, marks, found[len(marks) :])


# ---- programs cut in two


class _SplitBody:
    """The two programs of a split one, with residuals in a form that can be cut over devices.

    A residual that the known program returns is cut along its first axis over the axes along which
    it varies; one of rank 0 that varies gets an axis for it. One that is an operand is cut as that.
    """

    def __init__(self, split: Split, count: int, in_specs: Sequence[Any], params: Params) -> None:
        returned = split.known.out_avals[count:]
        self.returned_specs = [_residual_spec(a, params) for a in returned]
        widened = [
            not a.shape and len(s) > 0 for a, s in zip(returned, self.returned_specs, strict=True)
        ]
        given, wide = iter(self.returned_specs), iter(widened)
        self.specs: list[PartitionSpec] = []
        marks: list[bool] = []
        for place in split.forwarded:
            self.specs.append(next(given) if place is None else in_specs[place])
            marks.append(next(wide) if place is None else False)
        self.known, self.unknown = split.known, split.unknown
        if any(widened):
            with inside(params):
                self.known = _with_axes(split.known, [False] * count + widened)
                self.unknown = _without_axes(split.unknown, marks)


def _residual_spec(aval: ShapedArray, params: Params) -> PartitionSpec:
    # What is cut over these axes is the batch around, and not a residual of one example.
    axes: frozenset[str] = params["manual_axes"] - frozenset(context.spmd_names)
    if params["check_vma"]:
        axes = axes & aval.vma
    names = tuple(a for a in params["mesh"].axis_names if a in axes)
    sets = {"unreduced": unreduced_axes(aval), "reduced": reduced_axes(aval)}
    return PartitionSpec(names, **sets) if names else PartitionSpec(**sets)


def _with_axes(closed: ClosedJaxpr, marks: Sequence[bool]) -> ClosedJaxpr:
    """The program, whose marked results of rank 0 get an axis of size 1."""

    def flat(*args: Any) -> list[Any]:
        out = eval_closed(closed, args)
        return [ops.reshape(x, (1,)) if m else x for x, m in zip(out, marks, strict=True)]

    return trace_to_jaxpr(flat, closed.in_avals, closed.jaxpr.debug_info)


def _without_axes(closed: ClosedJaxpr, marks: Sequence[bool]) -> ClosedJaxpr:
    """The program, whose first operands, where marked, come with an axis of size 1."""
    rest = len(closed.in_avals) - len(marks)
    whole = [*marks, *[False] * rest]
    avals = [a.update(shape=(1,)) if m else a for a, m in zip(closed.in_avals, whole, strict=True)]

    def flat(*args: Any) -> list[Any]:
        return eval_closed(
            closed, [ops.reshape(x, ()) if m else x for x, m in zip(args, whole, strict=True)]
        )

    return trace_to_jaxpr(flat, avals, closed.jaxpr.debug_info)


def _linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: Params
) -> Any:
    nonzero = tuple(type(t) is not Zero for t in tangents)
    with inside(params):
        linearized = linearize_jaxpr(params["jaxpr"], nonzero)
    marks = linearized.nonzeros_out
    in_specs, out_specs = params["in_specs"], params["out_specs"]
    body = _SplitBody(linearized.split, len(marks), in_specs, params)
    known = _changed(params, body.known, in_specs, [*out_specs, *body.returned_specs])
    with set_current_trace(trace.parent):
        found = shard_map_p.bind(*primals, **known)
    out = list(found[: len(marks)])
    residuals = linearized.split.residuals(primals, found[len(marks) :])
    unknown = _changed(
        params,
        body.unknown,
        [*body.specs, *_where(in_specs, nonzero)],
        _where(out_specs, marks),
    )
    moved = _record(trace.tangents, [*residuals, *_where(tangents, nonzero)], unknown)
    return out, with_tangents(out, marks, moved)


def _partial_eval(trace: PartialEvalTrace, args: Sequence[Any], params: Params) -> list[Any]:
    unknown = tuple(trace.is_unknown(x) for x in args)
    known = [not u for u in unknown]
    with inside(params):
        split = partial_eval_jaxpr(params["jaxpr"], unknown)
    out_known = [not u for u in split.out_unknown]
    in_specs, out_specs = params["in_specs"], params["out_specs"]
    known_specs = _where(in_specs, known)
    body = _SplitBody(split, sum(out_known), known_specs, params)
    first = _changed(
        params, body.known, known_specs, [*_where(out_specs, out_known), *body.returned_specs]
    )
    known_args = _where(args, known)
    with set_current_trace(trace.parent):
        found = shard_map_p.bind(*known_args, **first)
    results = iter(found[: sum(out_known)])
    residuals = split.residuals(known_args, found[sum(out_known) :])
    rest = _changed(
        params,
        body.unknown,
        [*body.specs, *_where(in_specs, unknown)],
        _where(out_specs, split.out_unknown),
    )
    recorded = iter(_record(trace.unknown, [*residuals, *_where(args, unknown)], rest))
    return [next(recorded) if u else next(results) for u in split.out_unknown]


# ---- reverse mode


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    linear = tuple(is_linear(x) for x in args)
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    in_specs = params["in_specs"]
    ct_in = [s.to_ct_spec() for s in params["out_specs"]]
    ct_out = [s.to_ct_spec() for s in in_specs]
    with inside(params):
        program, marks = transpose_jaxpr(params["jaxpr"], linear, nonzero)
        if not params["check_vma"]:
            wanted = _where(_where(ct_out, linear), marks)
            program = _summed(program, [_unnamed(s, params) for s in wanted])
    given = _where(cts, nonzero)
    if not params["check_vma"]:
        # A result that is the same on several devices is that of one of them; each of them gets a
        # share of its cotangent, and the shares are summed with what they become.
        given = [
            _shared(ct, _unnamed(s, params), params["mesh"])
            for ct, s in zip(given, _where(ct_in, nonzero), strict=True)
        ]
    values = [x for x, lin in zip(args, linear, strict=True) if not lin]
    changed = _changed(
        params,
        program,
        [*_where(in_specs, [not lin for lin in linear]), *_where(ct_in, nonzero)],
        _where(_where(ct_out, linear), marks),
    )
    found = iter(shard_map_p.bind(*values, *given, **changed))
    kinds = iter(marks)
    return [
        (next(found) if next(kinds) else Zero(cotangent_aval(x.aval))) if lin else None
        for x, lin in zip(args, linear, strict=True)
    ]


def _unnamed(spec: PartitionSpec, params: Params) -> tuple[str, ...]:
    """The manual axes that a spec does not name, in the mesh's order.

    Along those that it names unreduced, devices have parts of one sum, not one value; along those
    over which a batch around is cut, they have other examples.
    """
    axes = params["manual_axes"] - named_axes(spec) - spec.unreduced
    axes = axes.difference(context.spmd_names)
    return tuple(a for a in params["mesh"].axis_names if a in axes)


def _shared(ct: Any, axes: tuple[str, ...], mesh: Any) -> Any:
    count = math.prod(mesh.shape[a] for a in axes)
    return ct if count == 1 else ops.div(ct, get_aval(ct).dtype.type(count))


def _summed(closed: ClosedJaxpr, axes: Sequence[tuple[str, ...]]) -> ClosedJaxpr:
    """The program, each of whose results is summed over the axes given for it."""

    def flat(*args: Any) -> list[Any]:
        out = eval_closed(closed, args)
        return [
            psum_p.bind(x, axes=names, axis_index_groups=None) if names else x
            for x, names in zip(out, axes, strict=True)
        ]

    return trace_to_jaxpr(flat, closed.in_avals, closed.jaxpr.debug_info)


# ---- batching


def _batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[list[Any], tuple[Dim, ...]]:
    """Each device has its part of each example; or its part of the examples, too.

    With `spmd_axis_name` the batch is cut over those axes of the mesh.
    """
    mesh, names = params["mesh"], tuple(map(str, axis.spmd_names))
    inner = axis
    if names:
        taken = params["manual_axes"] & frozenset(names)
        if taken != frozenset(names):
            raise ValueError(
                f"vmap of a shard_map with spmd_axis_name={names} requires them to be among its "
                f"manual axes {sorted(params['manual_axes'])}"
            )
        count = math.prod(mesh.shape[a] for a in names)
        if axis.size % count:
            raise ValueError(
                f"vmap with spmd_axis_name={names} requires a batch that the {count} places along "
                f"these axes can share, got size {axis.size}"
            )
        for what in ("in_specs", "out_specs"):
            _refuse_named(names, what, params[what])
        inner = BatchAxis(axis.size // count, axis.name)
    in_specs = [
        s if d is None else _with_entry(s, d, names)
        for s, d in zip(params["in_specs"], dims, strict=True)
    ]
    with inside(params):
        closed: ClosedJaxpr = params["jaxpr"]
        if names and params["check_vma"]:
            # Batched operands vary along more axes than the program was traced for.
            closed = _varying_more(closed, dims, frozenset(names))
        batched = batch_jaxpr(closed, inner, tuple(dims))
    out_dims = batched.out_dims
    if names and None in out_dims:
        with inside(params):
            batched = batch_jaxpr(closed, inner, tuple(dims), (True,) * len(out_dims))
        out_dims = batched.out_dims
    out_specs = [
        s if d is None else _with_entry(s, d, names)
        for s, d in zip(params["out_specs"], out_dims, strict=True)
    ]
    changed = _changed(params, batched.closed, in_specs, out_specs)
    return list(shard_map_p.bind(*args, **changed)), out_dims


def _refuse_named(names: tuple[str, ...], what: str, specs: Specs) -> None:
    """ValueError for a spec that cuts examples over an axis over which the batch is cut."""
    for spec in specs:
        twice = named_axes(spec).intersection(names)
        if twice:
            raise ValueError(
                f"vmap spmd_axis_name cannot appear in shard_map {what}: the batch is cut over "
                f"{names}, and {spec} cuts each example over {sorted(twice)}"
            )


def _varying_more(closed: ClosedJaxpr, dims: Sequence[Dim], names: frozenset[str]) -> ClosedJaxpr:
    avals = [
        a if d is None else with_vma(a, a.vma | names)
        for a, d in zip(closed.in_avals, dims, strict=True)
    ]
    return trace_to_jaxpr(lambda *args: eval_closed(closed, args), avals, closed.jaxpr.debug_info)


def _with_entry(spec: PartitionSpec, place: int, names: tuple[str, ...]) -> PartitionSpec:
    """The spec of an array that has one more axis, cut over `names`."""
    entries = list(spec.partitions)
    if place > len(entries):
        if not names:
            return spec
        entries += [None] * (place - len(entries))
    entry = None if not names else names[0] if len(names) == 1 else names
    entries.insert(place, entry)
    return spec.update(partitions=entries)


# ---- what nobody reads, what is shown


def _dce(used_outputs: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    """Drops the results nobody reads, and the operands only they needed."""
    smaller, used_inputs, outvars = call_dce(used_outputs, eqn)
    if not eqn.effects and all(isinstance(v, DropVar) for v in outvars):
        return None
    params = _changed(
        eqn.params,
        ClosedJaxpr(smaller, eqn.params["jaxpr"].consts),
        _where(eqn.params["in_specs"], used_inputs),
        _where(eqn.params["out_specs"], used_outputs),
    )
    return eqn.replace(invars=_where(eqn.invars, used_inputs), outvars=outvars, params=params)


def _printed(params: Params) -> Params:
    names = [repr(a) for a in params["mesh"].axis_names if a in params["manual_axes"]]
    shown_axes = f"frozenset({{{', '.join(names)}}})"
    return {
        "check_vma": params["check_vma"],
        "in_specs": params["in_specs"],
        "jaxpr": params["jaxpr"],
        "mesh": params["mesh"],
        "newly_manual_axes": shown_axes,
        "out_specs": params["out_specs"],
    }


def _named(params: Params) -> tuple[Any, ...]:
    """The names of axes that collectives in the program use and this call does not bind."""
    found = _collective_names(params["jaxpr"].jaxpr)
    return tuple(found - params["manual_axes"])


def _collective_names(jaxpr: Any) -> frozenset[Any]:
    names: frozenset[Any] = frozenset()
    for eqn in jaxpr.eqns:
        if eqn.primitive.axis_names is not None:
            names |= frozenset(eqn.primitive.axis_names(eqn.params))
    return names


# ---- values of high types


class _ShardMap(ProgramPrimitive):
    """A primitive whose program has no primitives on high values where it is about to run."""

    __slots__ = ()

    def bind(self, *args: Any, **params: Any) -> Any:
        trace = context.trace
        if not trace.keeps_refs and has_references(params):
            return bind_on_values(self, args, params)
        if trace.lowers and trace.any_high:
            from xpr.core.high import has_high  # noqa: PLC0415  only for high types

            if has_high(params["jaxpr"].jaxpr):
                consts, params = _on_arrays(params)
                args = (*consts, *args)
        return Primitive.bind(self, *args, **params)


# ---- references


def _on_values(primitive: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    """The new value of a reference is cut as the old one was.

    Raises ValueError for one that varies along axes of the mesh over which it is not cut.
    """
    check_once(args, primitive.name)
    closed: ClosedJaxpr = params["jaxpr"]
    with inside(params):
        found = discharged(closed)
    count, in_specs = len(closed.out_avals), params["in_specs"]
    written = [in_specs[i] for i in found.written]
    for spec, aval in zip(written, found.closed.out_avals[count:], strict=True):
        varying = aval.vma & params["manual_axes"] - named_axes(spec)
        if varying:
            raise ValueError(
                f"shard_map: {closed.jaxpr.debug_info.describe()} writes a value of type {aval} to "
                f"a reference that is cut as {spec}: it has to be the same along "
                f"{sorted(varying)}, or in_specs must name these axes"
            )
    in_specs = (*(PartitionSpec() for _ in found.consts), *in_specs)
    changed = _changed(params, found.closed, in_specs, [*params["out_specs"], *written])
    out = primitive.bind(*found.consts, *map(value_of, args), **changed)
    return written_back(args, found.written, out, count)


register_on_values("shard_map", _on_values)


def _on_arrays(params: Params) -> tuple[list[Any], Params]:
    """Operands in front, and the parameters with a program on arrays.

    Raises NotImplementedError if the program takes or returns values of high types.
    """
    from xpr.interpreters.high import lowered  # noqa: PLC0415  only for high types

    with inside(params):
        low = lowered(params["jaxpr"])
    if not low.is_plain:
        raise NotImplementedError(
            "shard_map: values of high types cannot be cut over devices; its function may make and "
            "use them, but not take, return or close over them"
        )
    specs = (*(PartitionSpec() for _ in low.consts), *params["in_specs"])
    return low.consts, params | {"jaxpr": low.closed, "in_specs": specs}


shard_map_p = define(
    "shard_map",
    kind=_ShardMap,
    family="shard_map",
    doc="Calls a program on each device, with its parts of the operands.",
    abstract=_abstract,
    reference=on_one_device,
    multiple_results=True,
    eager="spmd",
    pp_params=_printed,
    dce=_dce,
    jvp=_jvp,
    linearize=_linearize,
    partial_eval=_partial_eval,
    transpose=_transpose,
    batch=_batch,
    axis_names=_named,
    vma=_vma,
)
