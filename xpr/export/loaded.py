"""Bundles in a process of xpr's: modules on its devices, arrays of its own in and out."""

from __future__ import annotations

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
from xpr.runtimes.base import Buffer, Device, ExecutableSignature
from xpr.runtimes.bundle import (
    ArgumentType,
    ArgumentTypeError,
    ArgumentValueError,
    Program,
    flatten_call,
    open_bundle,
)


class LoadedBundle:
    """A bundle's program on a device of xpr's; made by `load`, called by `call`."""

    def __init__(self, program: Program, manifest: dict[str, Any], device: Device) -> None:
        self.manifest = manifest
        self.name = str(manifest["name"])
        self.platform = program.platform
        self.device = device
        self.inputs, self.outputs = program.inputs, program.outputs
        self._program = program
        self._in_avals = tuple(map(_aval, self.inputs))
        self._out_avals = tuple(map(_aval, self.outputs))
        self._weights: list[Buffer] = [
            device.runtime.buffer_from_host(w, device, copy=True) for w in program.weights
        ]
        signature = ExecutableSignature(
            "main",
            (*((w.shape, w.dtype) for w in self._weights), *_kinds(self._in_avals)),
            _kinds(self._out_avals),
            cost=program.cost,
        )
        self._executable = device.runtime.load(program.vmfb, signature, device)
        # Whether the arguments are arrays in a row and the result is a single array.
        positional, named = program.in_tree["children"]
        self._plain = not named["children"] and all(
            c["type"] == "leaf" for c in positional["children"]
        )
        self._float0 = any(t.given_no_values for t in (*self.inputs, *self.outputs))
        self._single = program.out_tree["type"] == "leaf" and not self._float0

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the program; arguments and result have the structure of the exported function.

        Raises TypeError for a wrong number, structure or dtype and ValueError for wrong shapes,
        both with the name of the argument, and TypeError when called from traced code.
        """
        if not kwargs and self._plain and len(args) == len(self._in_avals) and not self._float0:
            buffers = list(self._weights)
            device, committed = self.device, False
            for a, want in zip(args, self._in_avals, strict=True):
                if type(a) is not ArrayImpl or a.aval is not want:
                    break
                buffer = a._buffers[0]
                if buffer.device is not device:
                    break
                committed = committed or a._committed
                buffers.append(buffer)
            else:
                results = self._executable(buffers)
                if self._single:
                    return ArrayImpl(self._out_avals[0], (results[0],), committed)
                return self._result(results, committed)
        leaves = flatten_call(self._program.in_tree, args, kwargs, trees.custom_children)
        return self._result(*self._run(leaves))

    __call__ = call

    def call_flat(self, leaves: Sequence[Any]) -> list[Any]:
        """Calls the program with its flat inputs and gives its flat results."""
        return self._arrays(*self._run(leaves))

    def _run(self, leaves: Sequence[Any]) -> tuple[list[Buffer], bool]:
        if len(leaves) != len(self._in_avals):
            raise ArgumentTypeError(
                f"the program takes {len(self._in_avals)} arrays, got {len(leaves)}"
            )
        buffers: list[Buffer] = list(self._weights)
        committed = False
        for kind, want, x in zip(self.inputs, self._in_avals, leaves, strict=True):
            if isinstance(x, Tracer):
                raise TypeError(
                    f"argument {kind.path} is traced: a loaded bundle is compiled code; in "
                    "transformed code call the exported function itself (xpr.export.deserialize)"
                )
            found = get_aval(x)
            weak = found.weak_type and not want.shape and not found.shape
            if found.dtype != want.dtype and not (weak and _weaker(found.dtype, want.dtype)):
                raise ArgumentTypeError(
                    f"argument {kind.path}: expected dtype {want.dtype}, got {found.dtype}"
                )
            if found.shape != want.shape:
                raise ArgumentValueError(
                    f"argument {kind.path}: expected {kind}, got shape "
                    f"[{','.join(map(str, found.shape))}]"
                )
            if kind.given_no_values:
                continue
            if type(x) is ArrayImpl:
                buffer = x._buffers[0]
                committed = committed or x._committed
                if buffer.device is not self.device:
                    buffer = array_from_host(buffer.host_view(), x.aval, self.device)._buffers[0]
                buffers.append(buffer)
            else:
                host = np.asarray(x, want.dtype)
                buffers.append(self.device.runtime.buffer_from_host(host, self.device, copy=False))
        return self._executable(buffers), committed

    def _arrays(self, results: Sequence[Buffer], committed: bool) -> list[Any]:
        rest = iter(results)
        return [
            np.zeros(aval.shape, dtypes.float0)
            if kind.given_no_values
            else ArrayImpl(aval, (next(rest),), committed)
            for kind, aval in zip(self.outputs, self._out_avals, strict=True)
        ]

    def _result(self, results: Sequence[Buffer], committed: bool) -> Any:
        return trees.unflatten(self._program.out_tree, self._arrays(results, committed))


def _aval(kind: ArgumentType) -> ShapedArray:
    dtype = dtypes.float0 if kind.given_no_values else kind.dtype
    return ShapedArray(kind.shape({}), dtype, kind.weak)


def _kinds(avals: Sequence[ShapedArray]) -> tuple[Any, ...]:
    return tuple((a.shape, a.dtype) for a in avals if a.dtype != dtypes.float0)


def _weaker(found: np.dtype[Any], want: np.dtype[Any]) -> bool:
    """Whether a Python number of one kind may stand for a value of another type."""
    order = "biufc"
    return (
        order.find(dtypes.kind(found)) <= order.find(dtypes.kind(want)) and dtypes.kind(want) != "b"
    )


def load(
    source: str | os.PathLike[str] | bytes,
    *,
    platform: str | None = None,
    device: Device | None = None,
    hmac_key: bytes | None = None,
    public_key: Any = None,
    order: int = 0,
    check_cpu: bool = True,
) -> LoadedBundle:
    """The program of a bundle (a path, or its bytes), ready to be called with arrays of xpr's.

    `platform` names a runtime or one of the bundle's modules, `device` a device; without either,
    the first module that fits this machine runs on its runtime's first device. `hmac_key` and
    `public_key` ask for a signature. `order` picks the function (0) or one of its derivatives.

    **A module for a CPU is native code: load only what you would run as a program.**

    Raises the errors of `xpr.runtimes.bundle.Bundle`, all of them ValueErrors, before any of the
    bundle's code is loaded; RuntimeError when the platform does not work on this machine.
    """
    if device is not None and platform is None:
        platform = device.runtime.name
    members = open_bundle(source, hmac_key=hmac_key, public_key=public_key)
    program = Program(members, order, platform, check_cpu)
    if device is None:
        device = registry.devices(program.runtime)[0]
    if device.runtime.name != program.runtime:
        raise ValueError(f"the module {program.platform!r} cannot run on {device!r}")
    return LoadedBundle(program, members.manifest, device)
