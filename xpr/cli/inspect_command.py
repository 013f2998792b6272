"""`xpr inspect`: what a bundle or a module holds."""

from __future__ import annotations

import argparse
from pathlib import Path

from xpr.cli.modules import Function, Module, describe, type_text


def run(options: argparse.Namespace) -> int:
    """Prints the description."""
    path = Path(options.program)
    data = path.read_bytes()
    print("\n".join(_module_lines(describe(data, str(path)))))
    return 0


def _module_lines(module: Module) -> list[str]:
    lines = [f"module     {module.name}, {size_text(module.size)}"]
    lines += [f"function   {_signature(f)}" for f in module.functions]
    lines += [f"device     {name}" for name in module.devices]
    lines += [f"format     {name}" for name in module.formats]
    lines += [f"{kind:<10} {text}" for kind, text in module.details]
    lines += [f"part       {name}, {size_text(size)}" for name, size in module.parts]
    lines += [f"dispatch   {name}" for name in module.dispatches]
    return lines


def _signature(function: Function) -> str:
    if function.inputs is None or function.outputs is None:
        return f"{function.name}: the module does not state its types"
    inputs = ", ".join(map(type_text, function.inputs))
    outputs = ", ".join(map(type_text, function.outputs))
    return f"{function.name}({inputs}) -> ({outputs})"


def size_text(size: int) -> str:
    """Bytes as people read them.

    >>> size_text(13366), size_text(5 << 20), size_text(7)
    ('13.4 kB', '5.2 MB', '7 bytes')
    """
    if size < 1000:
        return f"{size} bytes"
    for unit in ("kB", "MB", "GB"):
        size_in_unit = size / 1000 ** (1 + ("kB", "MB", "GB").index(unit))
        if size_in_unit < 1000 or unit == "GB":
            return f"{size_in_unit:.1f} {unit}"
    raise AssertionError("the last unit holds every size")
