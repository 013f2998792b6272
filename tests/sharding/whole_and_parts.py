"""Runs partitioned programs without a compiler: NumPy rules, and a thread for each device."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr import tree_util
from xpr.core.jaxpr_trace import hoist_consts
from xpr.dispatch.spmd_run import Runner
from xpr.runtimes.host import HostBuffer
from xpr.sharding.layout import Sizes, fitting, replicated
from xpr.sharding.partition import Partitioned, partition
from xpr.sharding.rule import Spec
from xpr.sharding.rules import load_all

Host = np.ndarray[Any, Any]


def own_part(x: Host, spec: Spec, sizes: Sizes, rank: int) -> Host:
    """The part of `x` that the device number `rank` holds."""
    place = dict(zip(sizes, np.unravel_index(rank, tuple(sizes.values())), strict=True))
    for dim, axes in enumerate(spec):
        index, count = 0, 1
        for a in axes:
            index, count = index * sizes[a] + int(place[a]), count * sizes[a]
        size = x.shape[dim] // count
        x = np.take(x, range(index * size, (index + 1) * size), dim)
    return x


def partitioned(
    f: Callable[..., Any],
    sizes: Mapping[str, int],
    in_specs: Sequence[Spec | None],
    args: Sequence[Any],
    out_specs: Sequence[Spec | None] | None = None,
) -> tuple[Partitioned, list[Host]]:
    """The program of one device, and the flat values of what it takes."""
    load_all()
    closed = xpr.make_jaxpr(f)(*args)
    found = partition(
        closed,
        sizes,
        [replicated(np.ndim(c)) for c in closed.consts],
        in_specs,
        out_specs or [None] * len(closed.out_avals),
    )
    flat = tree_util.tree_leaves(args)
    values = [np.asarray(x) for x in (*closed.consts, *found.more_consts)]
    values += [
        np.asarray(x).astype(a.dtype, copy=False)
        for x, a in zip(flat, closed.in_avals, strict=True)
    ]
    return found, values


def run(found: Partitioned, sizes: Sizes, values: Sequence[Host]) -> list[list[Host]]:
    """What each device gives."""
    count = math.prod(sizes.values())
    devices = xpr.devices("cpu")[:count]
    closed, made = hoist_consts(found.closed)
    columns: list[list[Any]] = [[np.asarray(c)] * count for c in made]
    columns.append([np.asarray(np.int32(r)) for r in range(count)])
    for v, spec in zip(values, found.in_specs, strict=True):
        columns.append([own_part(v, spec, sizes, r) for r in range(count)])
    buffers = [
        [HostBuffer(x, d) for x, d in zip(column, devices, strict=True)] for column in columns
    ]
    results = Runner(closed, "program", devices, [], interpreted=True).run(buffers)
    return [[column[r].host_view() for column in results] for r in range(count)]


def check(
    f: Callable[..., Any],
    sizes: Mapping[str, int],
    in_specs: Sequence[Spec | None],
    *args: Any,
    out_specs: Sequence[Spec | None] | None = None,
    rtol: float = 2e-5,
    atol: float = 1e-5,
) -> Partitioned:
    """Compares each device's results with its parts of what `f` gives on the whole arrays."""
    found, values = partitioned(f, sizes, in_specs, args, out_specs)
    results = run(found, sizes, values)
    wanted = [np.asarray(x) for x in tree_util.tree_leaves(f(*map(jnp.asarray, args)))]
    for rank, device_results in enumerate(results):
        for got, want, spec in zip(device_results, wanted, found.out_specs, strict=True):
            part = own_part(want, spec, sizes, rank)
            assert got.dtype == part.dtype
            if part.dtype.kind in "biu":
                np.testing.assert_array_equal(got, part)
            else:
                # Sums in another order round relative to their largest terms.
                scale = max(1.0, float(np.max(np.abs(want), initial=0)))
                np.testing.assert_allclose(got, part, rtol=rtol, atol=atol * scale)
    return found


def kinds(found: Partitioned) -> list[str]:
    """The collectives of a program without loops, in order."""
    return [
        e.params["collective"].kind
        for e in found.closed.eqns
        if e.primitive.name == "group_collective"
    ]


def all_specs(rank: int, axes: Sequence[str]) -> list[Spec]:
    """Every way to shard an array of `rank` axes over some of the mesh axes, one or two each."""
    choices: list[tuple[str, ...]] = [(), *((a,) for a in axes), tuple(axes)]
    return [
        spec
        for spec in itertools.product(choices, repeat=rank)
        if len(set(itertools.chain(*spec))) == sum(map(len, spec))
    ]


def random_spec(rng: np.random.Generator, shape: Sequence[int], sizes: Sizes) -> Spec:
    """A spec for an array of that shape that divides it."""
    names = [str(a) for a in rng.permutation(list(sizes))]
    spec: list[tuple[str, ...]] = [()] * len(shape)
    for a in names:
        dim = int(rng.integers(len(shape) + 1)) if shape else 0
        if dim < len(shape):
            longer = (*spec[dim], a)
            if fitting(longer, shape[dim], sizes) == longer:
                spec[dim] = longer
    return tuple(spec)
