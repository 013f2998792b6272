"""The files beside a model's C source: an example that checks itself, CMake, a description."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xpr.lowering.no_runtime.c_source import _pointers, _struct
from xpr.lowering.no_runtime.interface import Array, Entry, Group, Item, Model, arrays_of
from xpr.lowering.no_runtime.memory import ALIGNMENT

_LARGEST_EXAMPLE = 1 << 20
MARK = "Written by xpr"

Example = tuple[Sequence[bytes], Sequence[bytes]]
"""The bytes of arguments, and of the results that they give."""


def example(model: Model, examples: Mapping[str, Example]) -> str:
    """A program that calls each function on recorded arguments and compares the results.

    Functions whose examples are larger than a megabyte, or that have none, are not called.
    """
    upper = model.name.upper()
    lines = [
        f"/* Runs {model.name} on recorded arguments and compares the results. {MARK}. */",
        "#include <stdio.h>",
        "",
        f'#include "{model.name}.h"',
        "",
        f"static {upper}_ALIGNED unsigned char workspace[{upper}_WORKSPACE_BYTES];",
        "",
    ]
    chosen = [e for e in model.entries if _fits(examples.get(e.name))]
    for kind in sorted({_comparison(a) for e in chosen for a in e.outputs if a.count}):
        lines += _COMPARISONS[kind].splitlines()
    for entry in chosen:
        lines += _example_of(model, entry, *examples[entry.name])
    lines += ["int main(void) {", "  int failed = 0;"]
    lines += [f"  failed |= check_{entry.name}();" for entry in chosen]
    lines += [
        '  printf("%s: a workspace of %lu bytes\\n", failed ? "failed" : "passed",',
        "         (unsigned long)sizeof workspace);",
        "  return failed;",
        "}",
        "",
    ]
    return "\n".join(lines)


def _fits(found: Example | None) -> bool:
    return found is not None and sum(map(len, (*found[0], *found[1]))) <= _LARGEST_EXAMPLE


def _comparison(array: Array) -> str:
    return array.c_type if array.c_type in ("float", "double") else "bytes"


_FLOATS = """static int same_{type}(const {type} *found, const {type} *expected, size_t count) {{
  size_t i;
  for (i = 0; i < count; ++i) {{
    {type} a = found[i], b = expected[i];
    {type} difference = a > b ? a - b : b - a, size = b < 0 ? -b : b;
    if (a != b && !(a != a && b != b) && !(difference <= {tolerance} * (1 + size))) return 0;
  }}
  return 1;
}}

"""
_COMPARISONS = {
    "float": _FLOATS.format(type="float", tolerance="1e-5f"),
    "double": _FLOATS.format(type="double", tolerance="1e-10"),
    "bytes": """static int same_bytes(const void *found, const void *expected, size_t count) {
  const unsigned char *a = (const unsigned char *)found, *b = (const unsigned char *)expected;
  size_t i;
  for (i = 0; i < count; ++i) {
    if (a[i] != b[i]) return 0;
  }
  return 1;
}

""",
}


def _words(upper: str, name: str, data: bytes, const: str) -> list[str]:
    """An array with these bytes: a union of numbers of 32 bits with what is asked for."""
    padded = data + b"\0" * (-len(data) % 4)
    numbers = [int.from_bytes(padded[i : i + 4], "little") for i in range(0, len(padded), 4)]
    rows = [", ".join(f"{n:#x}u" for n in numbers[i : i + 8]) for i in range(0, len(numbers), 8)]
    head = f"static {upper}_ALIGNED {const}uint32_t {name}[{max(len(numbers), 1)}] = {{"
    return [head, *(f"  {row}," for row in rows or ["0u"]), "};"]


def _pointer(item: Item, entry: str, numbers: Iterator[int], prefix: str, const: str) -> str:
    """The initializer of a pointer, or of a structure of them."""
    if isinstance(item, Array):
        return f"({const}{item.c_type} *){entry}_{prefix}{next(numbers)}"
    inner = ", ".join(_pointer(m, entry, numbers, prefix, const) for m in item.members)
    return f"{{{inner or '0'}}}"


def _example_of(
    model: Model, entry: Entry, inputs: Sequence[bytes], outputs: Sequence[bytes]
) -> list[str]:
    upper, name = model.name.upper(), entry.name
    lines: list[str] = []
    for i, data in enumerate(inputs):
        lines += _words(upper, f"{name}_input{i}", data, "const ")
    for i, (data, array) in enumerate(zip(outputs, entry.outputs, strict=True)):
        lines += [] if not array.count else _words(upper, f"{name}_expected{i}", data, "const ")
        words = max(-(-len(data) // 4), 1)
        lines.append(f"static {upper}_ALIGNED uint32_t {name}_output{i}[{words}];")
    lines += ["", f"static int check_{name}(void) {{"]
    passed: list[str] = []
    numbers = iter(range(len(inputs)))
    for item in entry.inputs:
        text = _pointer(item, name, numbers, "input", "const ")
        if isinstance(item, Group):
            lines.append(f"  struct {_struct(model, entry, (item.name,))} {item.name} = {text};")
            text = f"&{item.name}"
        passed.append(text)
    text = _pointer(entry.output, name, iter(range(len(outputs))), "output", "")
    if isinstance(entry.output, Group):
        struct = _struct(model, entry, (entry.output.name,))
        lines.append(f"  struct {struct} {entry.output.name} = {text};")
        text = f"&{entry.output.name}"
    passed += [text, "workspace", "sizeof workspace"]
    call = f"{model.name}_{name}("
    lines += [
        "  int same = 1;",
        f"  int status = {call}" + (",\n" + " " * (15 + len(call))).join(passed) + ");",
        f'  if (status) {{ printf("{name}: error %d\\n", status); return 1; }}',
    ]
    for i, array in enumerate(entry.outputs):
        kind = _comparison(array)
        if kind == "bytes":
            arguments = f"{name}_output{i}, {name}_expected{i}, {array.size}u"
        else:
            cast = f"(const {kind} *)"
            arguments = f"{cast}{name}_output{i}, {cast}{name}_expected{i}, {array.count}u"
        if array.count:
            lines.append(f"  same &= same_{kind}({arguments});")
    lines += [
        f'  printf("{name}: %s\\n", same ? "the expected results" : "OTHER RESULTS");',
        "  return !same;",
        "}",
        "",
    ]
    return lines


def cmake(model: Model, objects: Sequence[str]) -> str:
    """The text of `CMakeLists.txt`."""
    listed = "\n  ".join(f"${{CMAKE_CURRENT_SOURCE_DIR}}/{name}" for name in objects)
    return f"""# {MARK}: a library of the schedule and the kernels, and the example.
cmake_minimum_required(VERSION 3.13)
project({model.name} C)
add_library({model.name} STATIC {model.name}.c
  {listed})
set_source_files_properties(
  {listed}
  PROPERTIES EXTERNAL_OBJECT TRUE GENERATED FALSE)
target_include_directories({model.name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
set_target_properties({model.name} PROPERTIES C_STANDARD 99 POSITION_INDEPENDENT_CODE ON)
add_executable({model.name}_example main.c)
target_link_libraries({model.name}_example {model.name})
enable_testing()
add_test(NAME {model.name}_example COMMAND {model.name}_example)
"""


def description(model: Model, objects: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of `model.json`."""

    def array(found: Array, text: str) -> dict[str, Any]:
        return {
            "path": found.path,
            "c": text,
            "dtype": found.dtype,
            "shape": list(found.shape),
            "c_type": found.c_type,
            "bytes": found.size,
        }

    def entry(e: Entry) -> dict[str, Any]:
        inputs = [array(a, text) for item in e.inputs for a, text in _pointers(item)]
        return {
            "name": e.name,
            "function": f"{model.name}_{e.name}",
            "inputs": inputs,
            "outputs": [array(a, text) for a, text in _pointers(e.output)],
            "workspace_bytes": max(e.program.workspace, ALIGNMENT),
            "constant_bytes": sum(map(len, (*e.weights, *e.constants.values()))),
        }

    data = {
        "written_by": model.version,
        "mark": MARK,
        "model": model.name,
        "target": model.machine.name,
        "triple": model.machine.triple,
        "cpu": model.machine.cpu,
        "alignment": ALIGNMENT,
        "objects": {name: dict(facts) for name, facts in objects.items()},
        "functions": [entry(e) for e in model.entries],
    }
    return json.dumps(data, indent=1) + "\n"


def argument_bytes(entry: Entry) -> int:
    """The bytes of all arguments of a function."""
    return sum(a.size for a in arrays_of(entry.inputs))
