"""`xpr inspect`: what a bundle or a module holds, or what a function does on several devices."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xpr.cli.errors import UsageError
from xpr.cli.exported_files import exported_lines, is_exported
from xpr.cli.modules import Function, Module, describe, open_type_text, type_text
from xpr.cli.programs import is_bundle
from xpr.runtimes.bundle import ArgumentType, CorruptBundleError
from xpr.runtimes.bundle.archive import SIGNATURE, Members, open_bundle
from xpr.runtimes.bundle.errors import naming

_FUNCTION = re.compile(r".+:[A-Za-z_][\w.]*")
_WEIGHTS = "weights.safetensors"


def run(options: argparse.Namespace) -> int:
    """Prints the description."""
    if is_function(options.program):
        from xpr.cli.inspect_function import function_lines  # noqa: PLC0415  it loads all of xpr

        print("\n".join(function_lines(options)))
        return 0
    if options.args or options.mesh is not None or options.explicit:
        raise UsageError("--args, --mesh and --explicit are for functions, named like model.py:f")
    path = Path(options.program)
    if is_exported(path):
        print("\n".join(exported_lines(path)))
        return 0
    if is_bundle(path):
        with naming(path):
            members = open_bundle(path)
            try:
                lines = list(_bundle_lines(members, path))
            except (KeyError, TypeError, AttributeError, IndexError) as error:
                raise CorruptBundleError(f"the manifest is damaged: {error!r}") from error
    else:
        lines = list(_module_lines(describe(path.read_bytes(), str(path)), path.name))
    print("\n".join(lines))
    return 0


def is_function(text: str) -> bool:
    """Whether a command line names a function, as in `model.py:predict`, and no file.

    >>> is_function("model.py:predict"), is_function("model.xpr")
    (True, False)
    """
    return _FUNCTION.fullmatch(text) is not None and not Path(text).exists()


def _line(kind: str, text: str) -> str:
    return f"{kind:<10} {text}"


# ---- modules


def _module_lines(module: Module, name: str) -> Iterator[str]:
    yield _line("module", f"{name}, {size_text(module.size)}")
    yield from (_line("function", _signature(function)) for function in module.functions)
    yield from (_line("device", name) for name in module.devices)
    yield from (_line("format", name) for name in module.formats)
    yield from (_line(kind, text) for kind, text in module.details)
    yield from (_line("part", f"{name}, {size_text(size)}") for name, size in module.parts)
    yield from (_line("dispatch", name) for name in module.dispatches)


def _signature(function: Function) -> str:
    if function.inputs is None or function.outputs is None:
        return f"{function.name}: the module does not state its types"
    inputs = ", ".join(map(type_text, function.inputs))
    outputs = ", ".join(map(type_text, function.outputs))
    return f"{function.name}({inputs}) -> ({outputs})"


# ---- bundles


def _bundle_lines(members: Members, path: Path) -> Iterator[str]:
    manifest = members.manifest
    yield _line("bundle", f"{manifest['name']}, {size_text(path.stat().st_size)}")
    yield _line("made by", f"xpr {manifest['xpr']}, IREE {manifest['iree']}")
    signed = "by whom can only be told with a key" if SIGNATURE in members.files else "no"
    yield _line("signed", signed)
    if _WEIGHTS in members.files:
        yield _line("weights", size_text(len(members.files[_WEIGHTS])))
    yield from (_line("constraint", str(c["text"])) for c in manifest["constraints"])
    for name, description in manifest["platforms"].items():
        yield _line("target", f"{name} ({_target_text(description)})")
    for program in manifest["programs"]:
        yield from _program_lines(program, members)


def _target_text(description: dict[str, Any]) -> str:
    parts = [f"runtime {description['runtime']}"]
    parts += [str(description[key]) for key in ("triple", "cpu") if key in description]
    if description["runtime"] not in ("cpu",) and "architecture" in description:
        parts.append(str(description["architecture"]))
    if description.get("features"):
        parts.append(f"{len(description['features'])} CPU features")
    if description.get("needs"):
        parts.append(f"needs {' '.join(description['needs'])}")
    return ", ".join(parts)


def _program_lines(program: dict[str, Any], members: Members) -> Iterator[str]:
    yield _line("function", str(program["name"]))
    for side, kind in (("inputs", "input"), ("outputs", "result")):
        for entry in program[side]:
            argument = ArgumentType(entry)
            yield _line(f"  {kind}", f"{argument.path}: {open_type_text(argument)}")
    for target, file in program["modules"].items():
        module = describe(members.files[file], file)
        count = len(module.dispatches)
        about = f"{size_text(module.size)}, {count} dispatch{'' if count == 1 else 'es'}"
        yield _line("  module", f"{file} for {target}, {about}")
        yield from (_line("", f"  {name}") for name in module.dispatches)


def size_text(size: int) -> str:
    """Bytes as people read them.

    >>> size_text(13366), size_text(5 << 20), size_text(7)
    ('13.4 kB', '5.2 MB', '7 bytes')
    """
    if size < 1000:
        return f"{size} bytes"
    scaled = float(size)
    for unit in ("kB", "MB"):
        scaled /= 1000
        if scaled < 1000:
            return f"{scaled:.1f} {unit}"
    return f"{scaled / 1000:.1f} GB"
