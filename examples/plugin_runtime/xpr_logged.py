"""A runtime for xpr that runs programs on the CPU and logs every call.

It is the smallest package that adds a device. A runtime for new hardware implements the same
classes from the ground: `Runtime`, `Device`, `Buffer` and `Executable` of `xpr.runtimes.base`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from xpr.runtimes.base import Device, Executable, ExecutableSignature, type_str
from xpr.runtimes.cpu import CpuRuntime

_log = logging.getLogger("xpr_logged")


class LoggedExecutable(Executable):
    """A program of the CPU runtime that says what it was called with and how long it took."""

    def __init__(self, inner: Executable) -> None:
        self.inner = inner
        self.signature = inner.signature
        self.device = inner.device

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        start = time.perf_counter()
        results = self.inner(buffers)
        taken = ", ".join(map(type_str, self.signature.inputs))
        given = ", ".join(map(type_str, self.signature.outputs))
        ms = 1e3 * (time.perf_counter() - start)
        _log.info("%s: (%s) -> (%s) in %.3f ms", self.device, taken, given, ms)
        return results


class LoggedRuntime(CpuRuntime):
    """The CPU under another name. Programs are compiled for the target `cpu`."""

    name = "logged"
    platform = "logged"
    target = "cpu"
    priority = -1  # used only when it is asked for

    def load(
        self, program: bytes, signature: ExecutableSignature, device: Device, **options: Any
    ) -> Any:
        """Loads a `.vmfb` as the CPU runtime does."""
        return LoggedExecutable(super().load(program, signature, device, **options))
