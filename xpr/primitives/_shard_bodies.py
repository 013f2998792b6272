"""The body of a `shard_map`: what is bound inside it, and what it computes, on one device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xpr.core.context import context
from xpr.core.jaxpr import ClosedJaxpr, eval_closed
from xpr.core.trace import get_aval
from xpr.interpreters.batching import BatchAxis, batch_flat, moved_to_front
from xpr.primitives import _ops as ops
from xpr.sharding.context import use_abstract_mesh
from xpr.sharding.mesh import AbstractMesh, AxisType
from xpr.sharding.spec import PartitionSpec, axes_of

Params = dict[str, Any]


def manual_mesh(mesh: Any, manual_axes: frozenset[str]) -> AbstractMesh:
    """The mesh as the body sees it: the axes that it is cut over are manual."""
    return mesh.abstract_mesh.update_axis_types({a: AxisType.Manual for a in manual_axes})


@contextmanager
def inside(params: Params) -> Iterator[None]:
    """The names of the manual axes are bound; with `check_vma` it is known how values vary."""
    mesh, new = params["mesh"], params["manual_axes"]
    names = [a for a in mesh.axis_names if a in new]
    old_env, old_manual = context.axis_env, context.manual_axes
    context.axis_env = (*old_env, *((a, mesh.shape[a]) for a in names))
    if params["check_vma"]:
        bound = frozenset(names) | frozenset(old_manual)
        context.manual_axes = tuple(a for a in mesh.axis_names if a in bound)
    else:
        context.manual_axes = ()
    try:
        with use_abstract_mesh(manual_mesh(mesh, new)):
            yield
    finally:
        context.axis_env, context.manual_axes = old_env, old_manual


# ---- the meaning: every device's program in turn, as a batch of them


def on_one_device(*args: Any, **params: Any) -> list[Any]:
    """The results of a `shard_map`, from whole operands and on one device.

    Every device's part becomes an example of a batch with one axis for each manual axis of the
    mesh; collectives over these are those of `vmap`.
    """
    mesh, specs = params["mesh"], params["in_specs"]
    names = [a for a in mesh.axis_names if a in params["manual_axes"]]
    parts = [cut_up(x, s, mesh, names) for x, s in zip(args, specs, strict=True)]
    operands = [x for x, _ in parts]
    places = [d for _, d in parts]
    devices = _AllDevices(params["jaxpr"], mesh, names, places)
    found = devices.run(0, operands)
    return [
        put_together(x, kept, s, mesh)
        for x, kept, s in zip(found, devices.kept, params["out_specs"], strict=True)
    ]


def cut_up(x: Any, spec: PartitionSpec, mesh: Any, names: Sequence[str]) -> tuple[Any, list[str]]:
    """The parts of `x`, with axes in front for those of `names` that `spec` cuts over."""
    if spec.unreduced:
        return _cut_sums(x, spec, mesh, names)
    shape: list[int] = []
    place: dict[str, int] = {}
    local: list[int] = []
    entries = [*spec.partitions, *[None] * (get_aval(x).ndim - len(spec))]
    for size, entry in zip(get_aval(x).shape, entries, strict=True):
        for axis in axes_of(entry):
            place[axis] = len(shape)
            shape.append(mesh.shape[axis])
            size //= mesh.shape[axis]
        local.append(len(shape))
        shape.append(size)
    if not place:
        return x, []
    cut = [n for n in names if n in place]
    return ops.transpose(ops.reshape(x, shape), [*(place[n] for n in cut), *local]), cut


def _cut_sums(
    x: Any, spec: PartitionSpec, mesh: Any, names: Sequence[str]
) -> tuple[Any, list[str]]:
    """The parts of `x` as sums over the axes along which `spec` is unreduced: the first has all."""
    x, cut = cut_up(x, spec.update(unreduced=frozenset()), mesh, names)
    for name in (n for n in names if n in spec.unreduced):
        place = sum(c in names[: names.index(name)] for c in cut)
        aval = get_aval(x)
        x = ops.reshape(x, (*aval.shape[:place], 1, *aval.shape[place:]))
        config = [(0, 0, 0)] * (aval.ndim + 1)
        config[place] = (0, mesh.shape[name] - 1, 0)
        nothing = np.zeros((), aval.dtype)[()]
        x = ops.bind("pad", x, nothing, padding_config=tuple(config))
        cut.insert(place, name)
    return x, cut


def put_together(x: Any, kept: Sequence[str], spec: PartitionSpec, mesh: Any) -> Any:
    """The whole that parts make up; where parts are the same, the first of them."""
    if spec.unreduced:
        sums = [i for i, n in enumerate(kept) if n in spec.unreduced]
        x = ops.reduce_sum(x, sums) if sums else x
        for n in spec.unreduced.difference(kept):  # each has the same part of the sum
            x = ops.mul(x, get_aval(x).dtype.type(mesh.shape[n]))
        kept = [n for n in kept if n not in spec.unreduced]
    wanted = [a for entry in spec.partitions for a in axes_of(entry)]
    for n in reversed(range(len(kept))):
        if kept[n] not in wanted:
            x = _first(x, n)
    have = [n for n in kept if n in wanted]
    missing = [n for n in wanted if n not in have]
    for n in missing:
        x = _repeated(x, mesh.shape[n])
        have.insert(0, n)
    count = len(have)
    local = get_aval(x).shape[count:]
    entries = [*spec.partitions, *[None] * (len(local) - len(spec))]
    order: list[int] = []
    shape: list[int] = []
    for i, entry in enumerate(entries):
        size = local[i]
        for axis in axes_of(entry):
            order.append(have.index(axis))
            size *= mesh.shape[axis]
        order.append(count + i)
        shape.append(size)
    return ops.reshape(ops.transpose(x, order), shape) if count else x


def _first(x: Any, axis: int) -> Any:
    shape = get_aval(x).shape
    part = ops.bind(
        "slice",
        x,
        start_indices=(0,) * len(shape),
        limit_indices=(*shape[:axis], 1, *shape[axis + 1 :]),
        strides=None,
    )
    return ops.reshape(part, (*shape[:axis], *shape[axis + 1 :]))


def _repeated(x: Any, count: int) -> Any:
    shape = get_aval(x).shape
    return ops.broadcast_in_dim(x, (count, *shape), range(1, len(shape) + 1))


class _AllDevices:
    """A program run for all devices at once, and along which mesh axes each result differs."""

    def __init__(
        self, closed: ClosedJaxpr, mesh: Any, names: Sequence[str], cut: Sequence[Sequence[str]]
    ) -> None:
        self.closed, self.mesh, self.names, self.cut = closed, mesh, names, cut
        self.kept: list[list[str]] = [[] for _ in closed.out_avals]

    def run(self, level: int, vals: Sequence[Any]) -> list[Any]:
        """Results for all places along the axes from `level` on; these axes stand in front."""
        if level == len(self.names):
            return eval_closed(self.closed, vals)
        name = self.names[level]
        axis = BatchAxis(self.mesh.shape[name], name)
        dims = [0 if name in c else None for c in self.cut]
        out, found = batch_flat(lambda *xs: self.run(level + 1, xs), axis, vals, dims)
        for names, dim in zip(self.kept, found, strict=True):
            if dim is not None:
                names.insert(0, name)
        return [moved_to_front(x, d) for x, d in zip(out, found, strict=True)]
