"""What the processor of this machine is."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys

# The lines of Linux's /proc/cpuinfo that tell instruction sets apart, on x86, Arm and RISC-V.
_FIELDS = (
    *("vendor_id", "cpu family", "model", "model name", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),
    *("isa", "uarch", "mvendorid", "marchid"),
)


@functools.cache
def description() -> str:
    """A text that differs between processors with different instruction sets.

    Modules are compiled for the host's instruction set, and a cache directory may be shared by
    several machines: running a module on a lesser processor would end the process.
    """
    parts = [platform.machine()]
    if sys.platform == "win32":
        parts.append(os.environ.get("PROCESSOR_IDENTIFIER", ""))
    elif sys.platform == "darwin":
        parts.append(_sysctl("machdep.cpu.brand_string"))
    elif os.path.exists("/proc/cpuinfo"):
        # The first few kilobytes hold the whole record of the first processor.
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as cpuinfo:
            record = cpuinfo.read(8192).split("\n\n", 1)[0]
        parts += [line for line in record.splitlines() if line.partition(":")[0].strip() in _FIELDS]
    return "\n".join(parts)


def _sysctl(name: str) -> str:
    """A text that the kernel of macOS tells about itself."""
    value, size = ctypes.create_string_buffer(256), ctypes.c_size_t(256)
    ctypes.CDLL(None).sysctlbyname(name.encode(), value, ctypes.byref(size), None, 0)
    return value.value.decode()
