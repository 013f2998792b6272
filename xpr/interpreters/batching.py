"""Vectorisation: one program run on many examples, with a batch axis added to its operations.

A `BatchTracer` is an array with one axis more than its type says; `dim` is that axis's place. Each
primitive's batching rule gets the operands with the batch axis and where it is (None for operands
without one), and gives the result and where its batch axis is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from xpr.core.aval import ShapedArray, with_dim, without_dim
from xpr.core.config import state
from xpr.core.context import context
from xpr.core.jaxpr import ClosedJaxpr, as_function
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.primitive import Absent, Primitive, get_primitive
from xpr.core.references import Ref, read, slice_of_ref, write
from xpr.core.trace import Trace, Tracer, check_leaks, get_aval, set_current_trace
from xpr.interpreters.caching import weak_jaxpr_cache
from xpr.interpreters.zeros import full, is_float0, zeros

Dim = int | None


class BatchAxis:
    """The axis that a function is mapped over: its size, and its name if it has one.

    `spmd_names` are the axes of a mesh over which it is to be cut, see `vmap`; `sharding` is that
    of an array of this axis alone, where types carry one.
    """

    __slots__ = ("name", "sharding", "size", "spmd_names")

    def __init__(
        self,
        size: int,
        name: Hashable = None,
        spmd_names: tuple[Hashable, ...] = (),
        sharding: Any = None,
    ) -> None:
        self.size = size
        self.name = name
        self.spmd_names = spmd_names
        self.sharding = sharding

    @property
    def mesh_axes(self) -> tuple[Any, ...]:
        """The mesh axes that it is sharded over."""
        return () if self.sharding is None else self.sharding.normalized_spec(1)[0]

    def added_to(self, sharding: Any, ndim: int, dim: int) -> Any:
        """The sharding of an array of `ndim` axes with this one more, at `dim`; None for None."""
        if sharding is None:
            return None
        spec = sharding.normalized_spec(ndim)
        parts = (*spec[:dim], self.mesh_axes, *spec[dim:])
        return sharding.with_spec(sharding.spec.update(partitions=parts))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BatchAxis)
            and self.size == other.size
            and self.name == other.name
            and self.spmd_names == other.spmd_names
            and self.sharding == other.sharding
        )

    def __hash__(self) -> int:
        return hash((self.size, self.name, self.spmd_names, self.sharding))

    def __repr__(self) -> str:
        return f"BatchAxis(size={self.size}, name={self.name!r})"


class mapped_axis:
    """Makes `axis` known by its name, and by its mesh axes, inside a `with` block."""

    __slots__ = ("_axis", "_old")

    def __init__(self, axis: BatchAxis) -> None:
        self._axis = axis

    def __enter__(self) -> None:
        self._old = context.axis_env, context.spmd_names
        context.spmd_names = (*context.spmd_names, *self._axis.spmd_names)
        if self._axis.name is not None:
            context.axis_env = (*context.axis_env, (self._axis.name, self._axis.size))

    def __exit__(self, *_: object) -> None:
        context.axis_env, context.spmd_names = self._old


def without_axis(aval: ShapedArray, dim: Dim, size: int | None = None) -> ShapedArray:
    """The type of one example of a batch, of `size` examples."""
    if dim is not None and aval.is_high:
        return aval.dec_rank(size, dim)  # type: ignore[attr-defined]
    return aval if dim is None else without_dim(aval, dim)


def with_axis(aval: ShapedArray, dim: Dim, axis: BatchAxis) -> ShapedArray:
    """The type of a batch of examples of type `aval`."""
    if dim is None:
        return aval
    if aval.is_high:
        return aval.inc_rank(axis.size, dim)  # type: ignore[attr-defined]
    if aval.sharding is None and axis.sharding is not None:
        spec = axis.sharding.spec.update(partitions=(None,) * aval.ndim)
        aval = aval.update(sharding=axis.sharding.with_spec(spec))
    return with_dim(aval, dim, axis.size, axis.mesh_axes)


class BatchTracer(Tracer):
    """One example of a batch, standing for all of them."""

    __slots__ = ("_batch_dim", "_batched")

    def __init__(self, trace: BatchTrace, val: Any, dim: int) -> None:
        self._trace = trace
        self.aval = without_axis(get_aval(val), dim, trace.axis.size)
        self._batched = val
        self._batch_dim = dim

    @property
    def val(self) -> Any:
        """The batch."""
        return self._batched

    def __repr__(self) -> str:
        batched = get_aval(self._batched)
        return (
            f"VmapTracer(aval={self.aval.dtype.name}[{_sizes(self.aval)}], "
            f"batched={batched.dtype.name}[{_sizes(batched)}])"
        )


def _sizes(aval: ShapedArray) -> str:
    return ",".join(map(str, aval.shape))


class BatchTrace(Trace):
    """Applies the batching rule of each primitive, under the trace that was current before."""

    def __init__(self, parent: Trace, axis: BatchAxis, tag: object = None) -> None:
        self.parent = parent
        self.axis = axis
        self.alive = True
        # The same for all traces that stand for one batch: rules of functions may run under another
        # trace than the function, and close over values of the first one.
        self.tag: object = self if tag is None else tag

    def runs_eagerly(self) -> bool:
        return self.parent.runs_eagerly()

    def pair(self, x: Any) -> tuple[Any, Dim]:
        if isinstance(x, BatchTracer) and x._trace.tag is self.tag:
            return x._batched, x._batch_dim
        return x, None

    def state_of(self, x: Any) -> Any:
        """The state of a value of a mutable high type."""
        return self.parent.state_of(self.pair(x)[0])

    def wrap(self, val: Any, dim: Dim) -> Any:
        if dim is None:
            return val
        if Trace.any_high and get_aval(val).is_high:
            from xpr.core.high import made_high  # noqa: PLC0415  only for high types

            return made_high(BatchTracer, self, val, dim)
        return BatchTracer(self, val, dim)

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        vals: list[Any] = []
        dims: list[Dim] = []
        batched = False
        tag = self.tag
        for x in args:
            if isinstance(x, BatchTracer) and x._trace.tag is tag:
                vals.append(x._batched)
                dims.append(x._batch_dim)
                batched = True
            else:
                vals.append(x)
                dims.append(None)
        if not batched and not self._is_named_by(primitive, params):
            with set_current_trace(self.parent):
                return primitive.bind(*vals, **params)
        rule = batching_rule(primitive)
        with set_current_trace(self.parent):
            out, out_dims = rule(self.axis, vals, dims, **params)
        if primitive.multiple_results:
            return [self.wrap(v, d) for v, d in zip(out, out_dims, strict=True)]
        return self.wrap(out, out_dims)

    def _is_named_by(self, primitive: Primitive, params: dict[str, Any]) -> bool:
        """Whether an operation is about this axis, although no operand has it."""
        if self.axis.name is None or primitive.axis_names is None:
            return False
        return self.axis.name in primitive.axis_names(params)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, args: Sequence[Any], params: dict[str, Any]
    ) -> Sequence[Any]:
        vals, dims = self._split(args)
        call = primitive.batched(self, dims, params["name"])
        with set_current_trace(self.parent):
            out = self.parent.process_custom_jvp_call(
                primitive, call.function(fun), call.jvp(jvp), vals, params
            )
        return [call.result(x) for x in out]

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, args: Sequence[Any], params: Any
    ) -> Sequence[Any]:
        if any(type(x) is Ref and x.home is self for x in args):
            from xpr.interpreters.references import vjp_call_on_values  # noqa: PLC0415  rare

            return vjp_call_on_values(self, primitive, (fun, fwd, bwd), args, params)
        vals, dims = self._split(args)
        call = primitive.batched(self, dims, params["name"])
        batched_fwd, batched_bwd = call.vjp(fwd, bwd)
        with set_current_trace(self.parent):
            out = self.parent.process_custom_vjp_call(
                primitive, call.function(fun), batched_fwd, batched_bwd, vals, params
            )
        return [call.result(x) for x in out]

    def _split(self, args: Sequence[Any]) -> tuple[list[Any], list[Dim]]:
        pairs = [self.pair(x) for x in args]
        return [v for v, _ in pairs], [d for _, d in pairs]


def batching_rule(primitive: Primitive) -> Callable[..., Any]:
    """The batching rule of `primitive`; NotImplementedError, with the reason, when it has none."""
    rule = primitive.batch
    if isinstance(rule, Absent):
        raise NotImplementedError(
            f"Batching rule for '{primitive.name}' not implemented: {rule.reason}"
        )
    return rule


def _write_references(
    trace: BatchTrace, args: Sequence[Any], vals: Sequence[Any], dims: Sequence[Dim]
) -> None:
    """Writes what a function wrote to its references to those that these were made of."""
    for x, v, d in zip(args, vals, dims, strict=True):
        if d is not None and isinstance(x, Ref) and x.written:
            write(v, at_place(trace.axis, *trace.pair(x.value), d))


def batch_flat(
    fun: Callable[..., Sequence[Any]],
    axis: BatchAxis,
    vals: Sequence[Any],
    dims: Sequence[Dim],
    tag: object = None,
) -> tuple[list[Any], list[Dim]]:
    """Results of a function of flat arguments on a batch, and where their batch axes are.

    `tag` is that of the trace whose values `fun` may close over, if it stands for the same batch.
    """
    trace = BatchTrace(context.trace, axis, tag)
    args = [
        Ref(slice_of_ref(v.aval, d), trace, trace.wrap(read(v), d))
        if d is not None and isinstance(v, Ref)
        else trace.wrap(v, d)
        for v, d in zip(vals, dims, strict=True)
    ]
    try:
        with set_current_trace(trace), mapped_axis(axis):
            out = fun(*args)
        pairs = [trace.pair(x) for x in out]
        _write_references(trace, args, vals, dims)
    finally:
        trace.alive = False
    if state.check_tracer_leaks:
        del args, out
        check_leaks(trace)
    return [v for v, _ in pairs], [d for _, d in pairs]


# ---- moving and making batch axes: used by the engine and by rules


def move_axis(x: Any, source: int, target: int) -> Any:
    """`x` with its axis `source` moved to the place `target`."""
    ndim = len(get_aval(x).shape)
    if source == target:
        return x
    order = [i for i in range(ndim) if i != source]
    order.insert(target, source)
    return get_primitive("transpose").bind(x, permutation=tuple(order))


def broadcast_batch(x: Any, axis: BatchAxis | int, target: int = 0) -> Any:
    """`x`, which has no batch axis, with one (or one of that size) at the place `target`."""
    aval = get_aval(x)
    size = axis if isinstance(axis, int) else axis.size
    shape = (*aval.shape[:target], size, *aval.shape[target:])
    sharding = None
    if not isinstance(axis, int) and axis.mesh_axes:
        sharding = with_axis(aval, target, axis).sharding
    if is_float0(aval):
        return zeros(ShapedArray(shape, aval.dtype))
    if not aval.shape and not isinstance(x, Tracer) and not hasattr(x, "addressable_shards"):
        # A Python or NumPy number stays a literal of the program.
        return full(ShapedArray(shape, aval.dtype, aval.weak_type, sharding), x)
    dims = tuple(i for i in range(len(shape)) if i != target)
    return get_primitive("broadcast_in_dim").bind(
        x, shape=shape, broadcast_dimensions=dims, sharding=sharding
    )


def at_place(axis: BatchAxis, x: Any, dim: Dim, target: int) -> Any:
    """`x` with its batch axis at the place `target`, broadcast if it has none."""
    aval = get_aval(x)
    if aval.is_high:
        if dim is not None and dim == (target or aval.leading_axis_spec()):  # type: ignore[attr-defined]
            return x
        raise NotImplementedError(
            f"a value of type {aval}, which is mapped over by {dim}, cannot be made one that is "
            f"mapped over by {target}"
        )
    if dim is None:
        return broadcast_batch(x, axis, target)
    return move_axis(x, dim, target)


def at_front(axis: BatchAxis, x: Any, dim: Dim) -> Any:
    """`x` with its batch axis first, broadcast if it has none."""
    return at_place(axis, x, dim, 0)


def require_arrays(name: str, avals: Sequence[ShapedArray], dims: Sequence[Dim]) -> None:
    """Raises NotImplementedError if a value of a high type differs between examples.

    High types say how to add a batch axis and to remove it, not how to move it.
    """
    if not Trace.any_high:
        return
    for aval, dim in zip(avals, dims, strict=True):
        if aval.is_high and dim is not None:
            raise NotImplementedError(
                f"vmap of {name} with values of the high type {aval} that differ between examples"
            )


def require_choice(what: str, avals: Sequence[ShapedArray]) -> None:
    """Raises NotImplementedError if examples cannot choose between values: of high types."""
    for aval in avals:
        if aval.is_high:
            raise NotImplementedError(
                f"{what}: examples cannot choose between values of the high type {aval}"
            )


def moved_to_front(x: Any, dim: Dim) -> Any:
    """`x` with its batch axis first; unchanged if it has none."""
    return x if dim is None else move_axis(x, dim, 0)


class BatchedJaxpr:
    """A program on batches: see `batch_jaxpr`."""

    __slots__ = ("closed", "out_dims")

    def __init__(self, closed: ClosedJaxpr, out_dims: tuple[Dim, ...]) -> None:
        self.closed = closed
        self.out_dims = out_dims


@weak_jaxpr_cache
def batch_jaxpr(
    closed: ClosedJaxpr,
    axis: BatchAxis,
    in_dims: tuple[Dim, ...],
    force: tuple[bool, ...] | None = None,
) -> BatchedJaxpr:
    """The program on batches with axes at `in_dims`, and where its results' batch axes are.

    Results that `force` names get a batch axis in any case, at the front, as do all that have one.
    """
    avals = [with_axis(a, d, axis) for a, d in zip(closed.in_avals, in_dims, strict=True)]
    forced = force or (False,) * len(closed.out_avals)
    out_dims: list[Dim] = []

    def flat(*vals: Any) -> Sequence[Any]:
        out, dims = batch_flat(as_function(closed), axis, vals, in_dims)
        out = [
            at_front(axis, x, d) if want else x
            for x, d, want in zip(out, dims, forced, strict=True)
        ]
        out_dims.extend(0 if want else d for d, want in zip(dims, forced, strict=True))
        return out

    program = trace_to_jaxpr(flat, avals, closed.jaxpr.debug_info)
    return BatchedJaxpr(program, tuple(out_dims))
