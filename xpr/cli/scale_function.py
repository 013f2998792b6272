"""`xpr bench --scale`: how long a step of a function would take on many processes."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import xpr
from xpr.cli.errors import UsageError
from xpr.cli.specs import cpu_mesh, load_function, mesh_text, parse_axes, parse_types
from xpr.cli.times import time_text
from xpr.core.progress import phase
from xpr.core.units import shown_bytes
from xpr.dispatch.lone import lone_seconds
from xpr.sharding import Mesh, NamedSharding, set_mesh
from xpr.sharding.scaling import ASSUMPTIONS, Network, communication_seconds


@dataclass(frozen=True)
class _Row:
    """The prediction for one number of processes."""

    processes: int
    devices: int
    compute: float
    sending: float
    tree: float
    sent: float

    @property
    def step(self) -> float:
        return self.compute + self.sending


def scale_lines(options: argparse.Namespace) -> Iterator[str]:
    """The prediction, line by line. Nothing runs on more than one device."""
    processes = _counts(options.scale)
    per_process = options.devices_per_process
    if per_process < 1:
        raise UsageError(f"--devices-per-process must be at least 1, got {per_process}")
    if options.compute is not None and not options.compute >= 0:
        raise UsageError(f"--compute must be at least 0 milliseconds, got {options.compute:g}")
    if options.mesh is None:
        raise UsageError("--scale is about a mesh: give its axes by --mesh, such as data=8")
    try:
        network = Network(
            options.latency * 1e-6,
            options.bandwidth * 1e9,
            options.reduction * 1e9,
            options.overhead * 1e-6,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    sizes = parse_axes(options.mesh)
    axis = options.axis or next(iter(sizes))
    if axis not in sizes:
        raise UsageError(f"--axis names {axis!r}, and the mesh has {options.mesh}")
    others = math.prod(sizes.values()) // sizes[axis]
    meshes = {}
    for count in processes:
        length, rest = divmod(count * per_process, others)
        if rest:
            raise UsageError(
                f"{count} processes with {per_process} devices each do not make a mesh whose other "
                f"axes have {others} devices"
            )
        meshes[count] = sizes | {axis: length}
    # The largest mesh comes first, for the number of CPU devices is set once.
    cpu_mesh(max(*meshes.values(), sizes, key=lambda m: m[axis]))
    given = cpu_mesh(sizes)
    positional, named = parse_types(options.args, (), given)
    function = load_function(options.program)
    rows: list[_Row] = []
    compute: dict[Any, float] = {}
    for count in processes:
        mesh = cpu_mesh(meshes[count])
        grow = Fraction(
            1 if options.strong else meshes[count][axis], 1 if options.strong else sizes[axis]
        )
        with set_mesh(mesh), phase(f"{count} processes"):
            arguments = [_resized(s, mesh, axis, grow) for s in positional]
            by_name = {k: _resized(s, mesh, axis, grow) for k, s in named.items()}
            lowered = function.trace(*arguments, **by_name).lower()
            sent = lowered.communication()
            if options.compute is not None:
                seconds = options.compute * 1e-3
            else:
                key = tuple(a.str_short() for a in lowered._spmd.local.in_avals)
                if key not in compute:
                    compute[key] = lone_seconds(lowered._spmd)
                seconds = compute[key]
        rows.append(
            _Row(
                count,
                mesh.size,
                seconds,
                communication_seconds(sent, network, per_process),
                communication_seconds(sent, network, per_process, "tree"),
                sent.bytes,
            )
        )
    yield f"function   {options.program}"
    yield f"mesh       {mesh_text(given)}, grown along {axis}"
    yield (
        "sizes      stay (strong scaling)"
        if options.strong
        else f"sizes      those sharded over {axis} grow with it (weak scaling)"
    )
    yield (
        f"network    {options.latency:g} + {options.overhead:g} us a message, "
        f"{options.bandwidth:g} GB/s each way, reduction at {options.reduction:g} GB/s"
    )
    measured = "given" if options.compute is not None else "measured here on one device"
    yield f"compute    {measured}"
    yield ""
    yield from _table(rows)
    yield ""
    yield "assumed:"
    for sentence in ASSUMPTIONS:
        yield f"  {sentence}"


def _counts(text: str) -> list[int]:
    """The numbers of processes that `8,64,512` names, in growing order."""
    entries = text.replace(" ", "").split(",")
    if not all(e.isdecimal() and int(e) for e in entries):
        raise UsageError(f"--scale takes numbers of processes, such as 8,64,512, got {text!r}")
    return sorted({int(e) for e in entries})


def _resized(struct: Any, mesh: Mesh, axis: str, grow: Fraction) -> Any:
    """An argument's type on `mesh`, those of its sizes that are sharded over `axis` grown."""
    sharding = struct.sharding
    if not isinstance(sharding, NamedSharding):
        return struct
    shape = tuple(
        size * grow if axis in names else Fraction(size)
        for size, names in zip(
            struct.shape, sharding.normalized_spec(len(struct.shape)), strict=True
        )
    )
    if any(size.denominator != 1 for size in shape):
        raise UsageError(
            f"the size of {struct} cannot be {float(grow):g} times as large, as the axis {axis} is"
        )
    return xpr.ShapeDtypeStruct(
        tuple(int(size) for size in shape),
        struct.dtype,
        sharding=NamedSharding(mesh, sharding.spec),
    )


def _table(rows: Sequence[_Row]) -> Iterator[str]:
    head = ("processes", "devices", "sent", "compute", "direct", "step", "efficiency", "tree")
    cells = [
        head,
        *(
            (
                str(r.processes),
                str(r.devices),
                shown_bytes(r.sent),
                time_text(r.compute),
                time_text(r.sending),
                time_text(r.step),
                f"{r.compute / r.step:.1%}",
                time_text(r.tree),
            )
            for r in rows
        ),
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for row in cells:
        yield "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True))
