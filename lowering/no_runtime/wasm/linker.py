"""Objects in WebAssembly, linked by the linker that comes with IREE's compiler."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from xpr.lowering.iree import installed
from xpr.lowering.no_runtime.elf import QUERY
from xpr.lowering.no_runtime.refusal import RefusedError
from xpr.lowering.no_runtime.wasm.binary import Module

_STACK_BYTES = 65536


def _query(number: int) -> bytes:
    """The name of an object's function, as long as IREE's name for it."""
    tag = b"%04d" % number
    return QUERY.encode()[: -len(tag)] + tag


def linked(objects: Sequence[bytes]) -> Module:
    """The objects as one module, with their kernels in one table."""
    package = installed.package()
    if package is None:
        raise RefusedError("linking WebAssembly needs iree-base-compiler")
    linker = os.path.join(package, "_mlir_libs", "iree-lld")
    with tempfile.TemporaryDirectory() as folder:
        files, exports = [], []
        for i, data in enumerate(objects):
            query = _query(i)
            # A name of the same length can be replaced in the file as it is.
            data = data.replace(QUERY.encode(), query)
            files.append(os.path.join(folder, f"{i}.o"))
            exports.append(f"--export={query.decode()}")
            Path(files[-1]).write_bytes(data)
        output = os.path.join(folder, "linked.wasm")
        command = [linker, "-flavor", "wasm", "--no-entry", "--stack-first", "-O2"]
        command += ["-z", f"stack-size={_STACK_BYTES}", "--export=__heap_base", *exports]
        done = subprocess.run([*command, *files, "-o", output], capture_output=True, text=True)
        if done.returncode != 0:
            raise RefusedError(f"its kernels cannot be linked: {done.stderr.strip()[:500]}")
        return Module(Path(output).read_bytes())


@functools.lru_cache(maxsize=8)
def kernel_names(data: bytes) -> tuple[str, ...]:
    """The names of the kernels in an object, in the order of their table."""
    return tuple(linked([data]).table())
