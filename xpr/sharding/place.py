"""Where a device stands in the mesh, and what it exchanges with others, as parts of a program.

Everything here binds primitives on one device's values: collectives over groups of devices, which
are numbered row by row through the mesh, and index arithmetic on the device's own number.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.context import context
from xpr.core.jaxpr import JaxprEqn
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives.group_collective import group_collective_p
from xpr.runtimes.collectives.base import Collective
from xpr.sharding.layout import Sizes, count
from xpr.sharding.rule import Axes

Groups = tuple[tuple[int, ...], ...]


class MeshPlace:
    """The place of the device that runs the program, whose number is the tracer `number`."""

    def __init__(self, sizes: Sizes, number: Any) -> None:
        self.sizes = sizes
        self._number = number
        self._strides: dict[str, int] = {}
        stride = 1
        for name, size in reversed(list(sizes.items())):
            self._strides[name] = stride
            stride *= size
        self.devices = stride
        self._groups: dict[Axes, Groups] = {}
        self._indices: dict[tuple[Any, Axes], Any] = {}
        self._borders: dict[Any, tuple[Any, Any]] = {}
        self._collectives = itertools.count()
        self.eqn: JaxprEqn | None = None
        """The equation of the whole program that is being partitioned."""

    def count(self, axes: Axes) -> int:
        """The number of devices along `axes`."""
        return count(axes, self.sizes)

    def groups(self, axes: Axes) -> Groups:
        """The devices that differ in `axes` only, each group in row-major order of these axes."""
        found = self._groups.get(axes)
        if found is None:
            numbers = np.arange(self.devices).reshape(tuple(self.sizes.values()))
            names = list(self.sizes)
            along = [names.index(a) for a in axes]
            others = [i for i in range(len(names)) if i not in along]
            rows = numbers.transpose([*others, *along]).reshape(-1, self.count(axes))
            found = self._groups[axes] = tuple(tuple(int(n) for n in row) for row in rows)
        return found

    def index(self, axes: Axes) -> Any:
        """The device's row-major place along `axes`, an int32 of rank 0."""
        key = (context.trace, axes)
        found = self._indices.get(key)
        if found is None:
            for a in axes:
                own = self._number
                stride, size = self._strides[a], self.sizes[a]
                if stride != 1:
                    own = ops.div(own, np.int32(stride))
                if stride * size != self.devices:
                    own = ops.bind("rem", own, np.int32(size))
                found = own if found is None else ops.add(ops.mul(found, np.int32(size)), own)
            if found is None:
                found = np.int32(0)
            self._indices[key] = found
        return found

    @property
    def source(self) -> str:
        """The operation of the whole program that is being partitioned, and the user's line."""
        eqn = self.eqn
        return "" if eqn is None else f"{eqn.primitive.name} at {eqn.source_info}"

    # ---- collectives

    def everybody(self, kind: str) -> Collective:
        """A collective of all devices."""
        group = (tuple(range(self.devices)),)
        return Collective(kind, group, number=next(self._collectives), source=self.source)

    def collect(self, x: Any, kind: str, groups: Groups, **fields: Any) -> Any:
        """The result of one collective on `x`; of each device alone it is `x`."""
        if kind != "permute" and all(len(g) == 1 for g in groups):
            return x
        collective = Collective(
            kind, groups, number=next(self._collectives), source=self.source, **fields
        )
        return group_collective_p.bind(x, collective=collective)[0]

    def reduce(self, x: Any, axes: Axes, op: str) -> Any:
        """The reduction by `op` of everybody's `x` along `axes`."""
        return self.collect(x, "all_reduce", self.groups(axes), op=op) if axes else x

    def gather(self, x: Any, axes: Axes, dim: int) -> Any:
        """Everybody's `x` along `axes`, one after the other along the axis `dim`."""
        return self.collect(x, "all_gather", self.groups(axes), axis=dim) if axes else x

    def scatter_sum(self, x: Any, axes: Axes, dim: int) -> Any:
        """One's own part, along the axis `dim`, of the sum of everybody's `x`."""
        return self.collect(x, "reduce_scatter", self.groups(axes), op="sum", axis=dim)

    def exchange(self, x: Any, axes: Axes, split: int, concat: int) -> Any:
        """The parts of the axis `split` meant for this device, joined along the axis `concat`."""
        return self.collect(x, "all_to_all", self.groups(axes), axis=split, concat_axis=concat)

    def permute(self, x: Any, pairs: Sequence[tuple[int, int]]) -> Any:
        """The `x` of the device that `pairs` (sources, destinations) name; zeros without one."""
        everybody = (tuple(range(self.devices)),)
        return self.collect(x, "permute", everybody, pairs=tuple(pairs))

    def shift(self, x: Any, axes: Axes, by: int) -> Any:
        """The `x` of the device `by` places before along `axes`; zeros where there is none."""
        pairs = []
        for group in self.groups(axes):
            for i, rank in enumerate(group):
                if 0 <= i + by < len(group):
                    pairs.append((rank, group[i + by]))
        return self.permute(x, pairs)

    def exchange_places(self, x: Any, axes: Axes, sources: Sequence[int]) -> Any:
        """The `x` of the device at place `sources[i]` along `axes`, for the one at place i."""
        groups = self.groups(axes)
        return self.permute(x, [(g[s], g[i]) for g in groups for i, s in enumerate(sources)])

    def border(self, x: Any, axes: Axes, dim: int, start: int, stop: int, by: int) -> Any:
        """Elements along `dim` of the `x` of the device `by` places before; asked for once."""
        key = (context.trace, id(x), axes, dim, start, stop, by)
        found = self._borders.get(key)
        if found is None:
            moved = self.shift(elements(x, dim, start, stop), axes, by)
            found = self._borders[key] = (moved, x)  # what is kept does not share its identity
        return found[0]

    def cut(self, x: Any, axes: Axes, dim: int) -> Any:
        """This device's part along `dim` of an array that all devices along `axes` have."""
        shape = get_aval(x).shape
        size = -(-shape[dim] // self.count(axes))
        x = padded(x, dim, 0, size * self.count(axes) - shape[dim])
        starts: list[Any] = [np.int32(0)] * len(shape)
        starts[dim] = ops.mul(self.index(axes), np.int32(size))
        return ops.bind(
            "dynamic_slice",
            x,
            *starts,
            slice_sizes=(*shape[:dim], size, *shape[dim + 1 :]),
        )


def padded(x: Any, dim: int, low: int, high: int, value: Any = 0) -> Any:
    """`x` with so many elements `value` before and after it along the axis `dim`."""
    if not low and not high:
        return x
    aval = get_aval(x)
    config = [(0, 0, 0)] * aval.ndim
    config[dim] = (low, high, 0)
    fill = np.asarray(value).astype(aval.dtype)[()]
    return ops.bind("pad", x, fill, padding_config=tuple(config))


def first_elements(x: Any, dim: int, size: int) -> Any:
    """The first `size` elements of `x` along the axis `dim`."""
    return elements(x, dim, 0, size)


def elements(x: Any, dim: int, start: int, stop: int) -> Any:
    """The elements of `x` from `start` up to `stop` along the axis `dim`."""
    shape = get_aval(x).shape
    if start == 0 and stop == shape[dim]:
        return x
    rank = len(shape)
    return ops.bind(
        "slice",
        x,
        start_indices=tuple(start if i == dim else 0 for i in range(rank)),
        limit_indices=tuple(stop if i == dim else n for i, n in enumerate(shape)),
        strides=None,
    )
