"""A model as C: the header with its functions, and the file with their schedules."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from xpr.lowering.no_runtime.c_body import BodyPrinter
from xpr.lowering.no_runtime.c_prelude import HELPERS, PRELUDE
from xpr.lowering.no_runtime.interface import Array, Entry, Group, Item, Model, arrays_of
from xpr.lowering.no_runtime.memory import ALIGNMENT
from xpr.lowering.no_runtime.program import Call

_ERRORS = (
    ("OK", "the results are in place"),
    ("NULL_POINTER", "an argument, a result or the workspace is missing"),
    ("MISALIGNED", f"a pointer is not at a multiple of {ALIGNMENT} bytes"),
    ("WORKSPACE_TOO_SMALL", "the workspace has fewer bytes than needed"),
    ("WRONG_KERNELS", "the object with the kernels is of another version"),
    ("KERNEL_FAILED", "a kernel reported an error"),
    ("FAILED", "the program ended with an error"),
)


def kernels_symbol(model: Model, entry: Entry, number: int) -> str:
    """The function that an object exports. Its name names the object's content.

    So an object of another version than the C file does not link.
    """
    digest = hashlib.sha256(entry.objects[number]).hexdigest()[:12]
    return f"{model.name}_{entry.name}_kernels{number}_{digest}"


def _struct(model: Model, entry: Entry, path: Sequence[str]) -> str:
    return "_".join((model.name, entry.name, *path))


def _structs(
    model: Model, entry: Entry, group: Group, path: tuple[str, ...], const: str
) -> Iterator[str]:
    """The types of a container, its members' first."""
    for member in group.members:
        if isinstance(member, Group):
            yield from _structs(model, entry, member, (*path, member.name), const)
    yield f"struct {_struct(model, entry, path)} {{"
    for member in group.members:
        if isinstance(member, Group):
            yield f"  struct {_struct(model, entry, (*path, member.name))} {member.name};"
        else:
            yield f"  {const}{member.c_type} *{member.name}; /* {member.described} */"
    if not group.members:
        yield "  char empty;"
    yield "};"


def prototype(model: Model, entry: Entry) -> str:
    """The declaration of an entry's function, without a semicolon."""
    parameters = []
    for item in entry.inputs:
        if isinstance(item, Group):
            struct = _struct(model, entry, (item.name,))
            parameters.append(f"const struct {struct} *{item.name}")
        else:
            parameters.append(f"const {item.c_type} *{item.name}")
    if isinstance(entry.output, Group):
        struct = _struct(model, entry, (entry.output.name,))
        parameters.append(f"const struct {struct} *{entry.output.name}")
    else:
        parameters.append(f"{entry.output.c_type} *{entry.output.name}")
    parameters += ["void *workspace", "size_t workspace_bytes"]
    begin = f"int {model.name}_{entry.name}("
    return begin + (",\n" + " " * len(begin)).join(parameters) + ")"


def header(model: Model) -> str:
    """The text of `model.h`."""
    upper = model.name.upper()
    lines = [
        f"/* {model.name}: compiled by {model.version} for {model.machine.triple}, "
        f"{model.machine.cpu}.",
        "   Written by xpr. Needs no runtime, heap or file; the functions are re-entrant. */",
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "/* What each function returns. */",
        "enum {",
        *(f"  {upper}_{name} = {i}, /* {text} */" for i, (name, text) in enumerate(_ERRORS)),
        "};",
        "",
        f"/* Arrays and workspaces begin at multiples of {ALIGNMENT} bytes:",
        f"   `static {upper}_ALIGNED float x[64];` */",
        f"#define {upper}_ALIGNMENT {ALIGNMENT}",
        "#if defined(_MSC_VER)",
        f"#define {upper}_ALIGNED __declspec(align({ALIGNMENT}))",
        "#else",
        f"#define {upper}_ALIGNED __attribute__((aligned({ALIGNMENT})))",
        "#endif",
        "",
        "/* The workspace that is enough for each function. */",
        f"#define {upper}_WORKSPACE_BYTES {max(_workspace(e) for e in model.entries)}u",
        f"size_t {model.name}_workspace_bytes(void);",
    ]
    for entry in model.entries:
        lines += ["", *_declarations(model, entry)]
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {upper}_H */", ""]
    return "\n".join(lines)


def _workspace(entry: Entry) -> int:
    return max(entry.program.workspace, ALIGNMENT)


def _declarations(model: Model, entry: Entry) -> list[str]:
    upper = f"{model.name}_{entry.name}".upper()
    lines = [f"/* {entry.name}"]
    for what, items in (("takes", entry.inputs), ("gives", (entry.output,))):
        for array in arrays_of(items):
            lines.append(
                f"     {what} {array.path}: {array.described}, {array.count} of {array.c_type}"
            )
    lines += [
        "   No result may overlap an argument or the workspace. */",
        f"#define {upper}_WORKSPACE_BYTES {_workspace(entry)}u",
    ]
    for item in entry.inputs:
        if isinstance(item, Group):
            lines += _structs(model, entry, item, (item.name,), "const ")
    if isinstance(entry.output, Group):
        lines += _structs(model, entry, entry.output, (entry.output.name,), "")
    return [*lines, prototype(model, entry) + ";"]


def _words(name: str, data: bytes) -> list[str]:
    """A constant, as numbers of 32 bits."""
    padded = data + b"\0" * (-len(data) % 4)
    numbers = [int.from_bytes(padded[i : i + 4], "little") for i in range(0, len(padded), 4)]
    rows = [", ".join(f"{n:#x}u" for n in numbers[i : i + 8]) for i in range(0, len(numbers), 8)]
    head = f"static XPR_ALIGNED const uint32_t {name}[{max(len(numbers), 1)}] = {{"
    return [head, *(f"  {row}," for row in rows or ["0u"]), "};"]


def source(model: Model) -> str:
    """The text of `model.c`."""
    upper = model.name.upper()
    lines = [
        f"/* {model.name}: the order in which kernels run. Written by xpr ({model.version}). */",
        f'#include "{model.name}.h"',
        "",
        "#include <string.h> /* memcpy, memset: all that is needed of a C library */",
        "",
        f"#if !({model.machine.condition})",
        f'#error "{model.name} is compiled for {model.machine.triple}"',
        "#endif",
        "#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__",
        '#error "the constants are in little-endian order"',
        "#endif",
        "",
        "#define XPR_ASSERT(name, condition) typedef char xpr_assert_##name[(condition) ? 1 : -1]",
        f"#define XPR_ALIGNMENT {upper}_ALIGNMENT",
        f"#define XPR_ALIGNED {upper}_ALIGNED",
    ]
    shared = _Constants(model)
    bodies = [_functions(model, e, shared) for e in model.entries]
    text = "\n".join(line for body in bodies for line in body)
    lines += [f"#define XPR_{name} {upper}_{name}" for name, _ in _ERRORS]
    lines += [*_assertions(model), PRELUDE]
    lines += [helper for name, helper in HELPERS.items() if f"{name}(" in text]
    for name, data in shared.named.items():
        lines += _words(name, data)
    lines += ["", text, "", f"size_t {model.name}_workspace_bytes(void) {{"]
    lines += [f"  return {upper}_WORKSPACE_BYTES;", "}", ""]
    return "\n".join(lines)


class _Constants:
    """The constants of all entries; equal ones are one array."""

    def __init__(self, model: Model) -> None:
        self.named: dict[str, bytes] = {}
        self._names: dict[bytes, str] = {}

    def name(self, data: bytes) -> str:
        found = self._names.get(data)
        if found is None:
            found = self._names[data] = f"xpr_constant{len(self._names)}"
            self.named[found] = data
        return found


def _assertions(model: Model) -> list[str]:
    """Checks of what the C compiler's types are."""
    found = {"pointer": f"sizeof(void *) == {model.machine.pointer_bytes}"}
    for entry in model.entries:
        for array in [*arrays_of(entry.inputs), *entry.outputs]:
            if array.count:
                found[array.c_type] = f"sizeof({array.c_type}) == {array.size // array.count}"
    return [f"XPR_ASSERT({name}_size, {condition});" for name, condition in found.items()]


def _functions(model: Model, entry: Entry, shared: _Constants) -> list[str]:
    """The schedule of an entry, and the function that checks its arguments and runs it."""
    program, name = entry.program, f"{model.name}_{entry.name}"
    constants = {n: shared.name(data) for n, data in entry.constants.items()}
    weights = [f"XPR_BYTES({shared.name(data)})" for data in entry.weights]
    body = BodyPrinter(program, constants, weights).lines()
    symbols = {n: kernels_symbol(model, entry, n) for n in program.executables}
    lines = _extern_c(
        [f"const struct xpr_library *{s}(uint32_t, const void *);" for s in symbols.values()]
    )
    lines += [
        f"static int {name}_schedule(uint8_t *const *arguments, uint8_t *const *results,",
        f"{' ' * len(f'static int {name}_schedule(')}uint8_t *workspace) {{",
    ]
    lines += [f"  const xpr_kernel *kernels{i};" for i in range(len(symbols))]
    lines += [f"  const struct xpr_library *library{i};" for i in range(len(symbols))]
    declared = [line for line in body if not line.startswith((" ", "block"))]
    rest = body[len(declared) :]
    lines += [f"  {line}" for line in declared]
    lines += ["  (void)arguments;", "  (void)results;", "  (void)workspace;"]
    for i, (number, symbol) in enumerate(symbols.items()):
        count = 1 + max(_kernels(entry, number), default=-1)
        lines += [
            f"  library{i} = {symbol}(XPR_LIBRARY_VERSION, &xpr_no_environment);",
            f"  if (!library{i} || library{i}->header->version != XPR_LIBRARY_VERSION ||",
            f"      library{i}->kernel_count < {count}u)",
            "    return XPR_WRONG_KERNELS;",
            f"  kernels{i} = library{i}->kernels;",
            f"  (void)kernels{i};",
        ]
    lines += [*rest, "}", "", prototype(model, entry) + " {", *_checked_call(model, entry), "}", ""]
    return lines


def _extern_c(lines: Sequence[str]) -> list[str]:
    begin = ["#ifdef __cplusplus", 'extern "C" {', "#endif"]
    return [*begin, *lines, "#ifdef __cplusplus", "}", "#endif", ""] if lines else []


def _kernels(entry: Entry, number: int) -> list[int]:
    return [
        s.kernel
        for s in entry.program.statements()
        if isinstance(s, Call) and s.executable == number
    ]


def _leaves(item: Item, text: str) -> Iterator[tuple[Array, str]]:
    """The arrays of an item, each with the C expression of its address."""
    if isinstance(item, Array):
        yield item, text
        return
    for member in item.members:
        yield from _leaves(member, f"{text}.{member.name}")


def _pointers(item: Item) -> list[tuple[Array, str]]:
    if isinstance(item, Array):
        return [(item, item.name)]
    return [
        pair for member in item.members for pair in _leaves(member, f"{item.name}->{member.name}")
    ]


def _checked_call(model: Model, entry: Entry) -> list[str]:
    upper = f"{model.name}_{entry.name}".upper()
    sides = {
        "arguments": [p for item in entry.inputs for p in _pointers(item)],
        "results": _pointers(entry.output),
    }
    lines = [f"  uint8_t *{side}[{max(len(found), 1)}] = {{0}};" for side, found in sides.items()]
    lines += ["  xpr_float_mode mode;", "  int status;", "  size_t i;"]
    groups = [i.name for i in (*entry.inputs, entry.output) if isinstance(i, Group)]
    missing = " || ".join(f"!{name}" for name in [*groups, "workspace"])
    lines += [f"  if ({missing}) return XPR_NULL_POINTER;"]
    lines += [
        f"  if (workspace_bytes < {upper}_WORKSPACE_BYTES) return XPR_WORKSPACE_TOO_SMALL;",
        "  if (xpr_misaligned(workspace)) return XPR_MISALIGNED;",
    ]
    for side, found in sides.items():
        for i, (array, text) in enumerate(found):
            # Nothing is read or written in an empty array, whose pointer may be any.
            used = text if array.size else "workspace"
            lines += [f"  {side}[{i}] = XPR_BYTES({used});"]
            lines += [] if array.size else [f"  (void){text};"]
        if not found:
            continue
        lines += [
            f"  for (i = 0; i < {len(found)}u; ++i) {{",
            f"    if (!{side}[i]) return XPR_NULL_POINTER;",
            f"    if (xpr_misaligned({side}[i])) return XPR_MISALIGNED;",
            "  }",
        ]
    if not any(sides.values()):
        lines.remove("  size_t i;")
    return [
        *lines,
        "  mode = xpr_flush();",
        f"  status = {model.name}_{entry.name}_schedule(arguments, results, (uint8_t *)workspace);",
        "  xpr_restore(mode);",
        "  return status;",
    ]
