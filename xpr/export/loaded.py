"""Bundles in a process of xpr's: modules on its devices, arrays of its own in and out."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.trace import Tracer, get_aval
from xpr.dispatch.array import ArrayImpl, array_from_host
from xpr.export import trees
from xpr.runtimes import registry
from xpr.runtimes.base import Buffer, Device, Executable, ExecutableSignature
from xpr.runtimes.bundle import ArgumentType, ArgumentTypeError
from xpr.runtimes.bundle.archive import open_bundle
from xpr.runtimes.bundle.arguments import symbolic_sizes
from xpr.runtimes.bundle.errors import naming
from xpr.runtimes.bundle.programs import Program
from xpr.runtimes.bundle.trees import flatten_call
from xpr.runtimes.hal_device import HalDevice


class _Entry:
    """The module made ready for one choice of the symbolic dimensions."""

    __slots__ = ("executable", "in_avals", "out_avals")

    def __init__(
        self, executable: Executable, in_avals: list[ShapedArray], out_avals: list[ShapedArray]
    ) -> None:
        self.executable = executable
        self.in_avals = in_avals
        self.out_avals = out_avals


_MAX_ENTRIES = 64


class LoadedBundle:
    """A bundle's program on a device of xpr's; made by `load`, called by `call`.

    `inputs` and `outputs` are the types of its arguments and results, `platform` the module that
    was chosen, `device` where it runs, `manifest` all that the bundle says of itself.

    >>> import pathlib, tempfile
    >>> import xpr
    >>> from xpr import export
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "double.xpr"
    ...     double = xpr.jit(lambda x: x * 2)
    ...     export.export(double)(xpr.ShapeDtypeStruct((3,), "float32")).save(path)
    ...     program = export.load(path)
    >>> program.platform, str(program.device)
    ('cpu', 'cpu:0')
    """

    def __init__(self, program: Program, manifest: dict[str, Any], device: Device) -> None:
        self.manifest = manifest
        self.name = str(manifest["name"])
        self.platform = program.platform
        self.device = device
        self.inputs, self.outputs = program.inputs, program.outputs
        self._program = program
        self._weights: list[Buffer] = [
            device.runtime.buffer_from_host(w, device, copy=True) for w in program.weights
        ]
        self._entries: dict[tuple[int, ...], _Entry] = {}
        self._by_types: dict[tuple[ShapedArray, ...], _Entry] = {}
        # Whether the arguments are arrays in a row, and the result is a single array.
        positional, named = program.in_tree["children"]
        float0 = any(t.given_no_values for t in (*self.inputs, *self.outputs))
        self._plain = not named["children"] and not float0
        self._plain &= all(c["type"] == "leaf" for c in positional["children"])
        self._single = program.out_tree["type"] == "leaf" and not float0
        if all(t.fixed for t in (*self.inputs, *self.outputs)):
            entry = self._entry({})
            if self._plain:
                self._by_types[tuple(entry.in_avals)] = entry

    def _entry(self, sizes: dict[str, int]) -> _Entry:
        """The module for these sizes, loaded when they are first seen."""
        key = tuple(sizes[n] for n in sorted(sizes))
        found = self._entries.get(key)
        if found is None:
            if len(self._entries) >= _MAX_ENTRIES:
                self._entries.clear()
                self._by_types.clear()
            in_avals = [_aval(t, sizes) for t in self.inputs]
            out_avals = [_aval(t, sizes) for t in self.outputs]
            signature = ExecutableSignature(
                "main",
                (*((w.shape, w.dtype) for w in self._weights), *_kinds(in_avals)),
                _kinds(out_avals),
                cost=self._program.cost,
                straight_line=self._program.straight_line,
            )
            executable = self.device.runtime.load(self._program.vmfb, signature, self.device)
            found = self._entries[key] = _Entry(executable, in_avals, out_avals)
        return found

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the program; arguments and result have the structure of the exported function.

        Raises TypeError for a wrong number, structure or dtype and ValueError for wrong shapes,
        both with the name of the argument, and TypeError when called from traced code.
        """
        if not kwargs and self._plain:
            buffers, avals = list(self._weights), []
            device, committed = self.device, False
            for a in args:
                if type(a) is not ArrayImpl or a._buffers[0].device is not device:
                    break
                buffers.append(a._buffers[0])
                avals.append(a.aval)
                committed = committed or a._committed
            else:
                entry = self._by_types.get(tuple(avals))
                if entry is not None:
                    results = entry.executable(buffers)
                    if self._single:
                        return ArrayImpl(entry.out_avals[0], (results[0],), committed)
                    return self._result(entry, results, committed)
        leaves = flatten_call(self._program.in_tree, args, kwargs, trees.custom_children)
        return self._result(*self._run(leaves))

    __call__ = call

    def call_flat(self, leaves: Sequence[Any]) -> list[Any]:
        """Calls the program with its flat inputs and gives its flat results."""
        return self._arrays(*self._run(leaves))

    def _run(self, leaves: Sequence[Any]) -> tuple[_Entry, list[Buffer], bool]:
        if len(leaves) != len(self.inputs):
            raise ArgumentTypeError(
                f"the program takes {len(self.inputs)} arrays, got {len(leaves)}"
            )
        avals = [_checked(t, x) for t, x in zip(self.inputs, leaves, strict=True)]
        sizes = symbolic_sizes(self.inputs, [a.shape for a in avals], self._program.constraints)
        entry = self._entry(sizes)
        buffers: list[Buffer] = list(self._weights)
        committed = False
        for kind, want, x in zip(self.inputs, entry.in_avals, leaves, strict=True):
            if kind.given_no_values:
                continue
            if type(x) is ArrayImpl and x.dtype == want.dtype:
                buffer = x._buffers[0]
                committed = committed or x._committed
                if buffer.device is not self.device:
                    buffer = array_from_host(buffer.host_view(), x.aval, self.device)._buffers[0]
                buffers.append(buffer)
            else:
                host = np.asarray(x, want.dtype)
                buffers.append(self.device.runtime.buffer_from_host(host, self.device, copy=False))
        if self._plain and all(
            a.dtype == want.dtype for a, want in zip(avals, entry.in_avals, strict=True)
        ):
            self._by_types[tuple(avals)] = entry
        return entry, entry.executable(buffers), committed

    def _arrays(self, entry: _Entry, results: Sequence[Buffer], committed: bool) -> list[Any]:
        rest = iter(results)
        return [
            np.zeros(aval.shape, dtypes.float0)
            if kind.given_no_values
            else ArrayImpl(aval, (next(rest),), committed)
            for kind, aval in zip(self.outputs, entry.out_avals, strict=True)
        ]

    def _result(self, entry: _Entry, results: Sequence[Buffer], committed: bool) -> Any:
        return trees.unflatten(self._program.out_tree, self._arrays(entry, results, committed))


def _checked(kind: ArgumentType, x: Any) -> ShapedArray:
    """The type of an argument, whose dtype must be right; Python numbers take the one wanted."""
    if isinstance(x, Tracer):
        raise TypeError(
            f"argument {kind.path} is traced: a loaded bundle is compiled code; in transformed "
            "code call the exported function itself (xpr.export.deserialize)"
        )
    try:
        found = get_aval(x)
    except TypeError as error:
        raise ArgumentTypeError(f"argument {kind.path}: {error}") from None
    want = dtypes.float0 if kind.given_no_values else kind.dtype
    weak = found.weak_type and not kind.extents and not found.shape
    if found.dtype != want and not (weak and _weaker(found.dtype, want)):
        raise ArgumentTypeError(f"argument {kind.path}: expected dtype {want}, got {found.dtype}")
    return found


def _aval(kind: ArgumentType, sizes: dict[str, int]) -> ShapedArray:
    dtype = dtypes.float0 if kind.given_no_values else kind.dtype
    return ShapedArray(kind.shape(sizes), dtype, kind.weak)


def _kinds(avals: Sequence[ShapedArray]) -> tuple[Any, ...]:
    return tuple((a.shape, a.dtype) for a in avals if a.dtype != dtypes.float0)


def _weaker(found: np.dtype[Any], want: np.dtype[Any]) -> bool:
    """Whether a Python number of one kind may stand for a value of another type."""
    order = "biufc"
    return (
        order.find(dtypes.kind(found)) <= order.find(dtypes.kind(want)) and dtypes.kind(want) != "b"
    )


def _told(device: Device | None, runtime: str) -> str:
    """What the driver tells about a device, by default a runtime's first one."""
    asked = registry.first_device(runtime) if device is None else device
    return asked.told() if isinstance(asked, HalDevice) else ""


def load(
    source: str | os.PathLike[str] | bytes,
    *,
    platform: str | None = None,
    device: Device | None = None,
    hmac_key: bytes | None = None,
    public_key: Any = None,
    order: int = 0,
    check_machine: bool = True,
) -> LoadedBundle:
    """The program of a bundle (a path, or its bytes), ready to be called with arrays of xpr's.

    `platform` names a runtime or one of the bundle's modules, `device` a device; without either,
    the first module that fits this machine runs on its runtime's first device. `hmac_key` and
    `public_key` ask for a signature. `order` picks the function (0) or one of its derivatives.
    `check_machine=False` skips the comparison of the module's needs with this machine.

    **A module for a CPU is native code: load only what you would run as a program.**

    Raises the errors of `xpr.runtimes.bundle.Bundle`, all of them ValueErrors, before any of the
    bundle's code is loaded.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import xpr
    >>> from xpr import export
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "double.xpr"
    ...     double = xpr.jit(lambda x: x * 2)
    ...     export.export(double)(xpr.ShapeDtypeStruct((3,), "float32")).save(path)
    ...     export.load(path).call(np.arange(3, dtype="float32"))
    Array([0., 2., 4.], dtype=float32)
    """
    if device is not None and platform is None:
        platform = device.runtime.name
    with naming(source):
        members = open_bundle(source, hmac_key=hmac_key, public_key=public_key)
        program = Program(members, order, platform, check_machine, functools.partial(_told, device))
    if device is None:
        device = registry.first_device(program.runtime)
    if device.runtime.name != program.runtime:
        raise ValueError(f"the module {program.platform!r} cannot run on {device!r}")
    return LoadedBundle(program, members.manifest, device)
