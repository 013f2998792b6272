"""Writes the tables of primitives: `docs/primitives.md` and `docs/support_table.md`.

The first comes from the primitives themselves, the second from the operation table of the tests.
`python docs/generate.py` writes them, and `--check` fails when one is out of date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from xpr.core.primitive import Absent, Primitive, registry
from xpr.lowering import rules
from xpr.lowering.registry import rules as lowering_rules
from xpr.lowering.targets import get_target
from xpr.primitives import FAMILIES, load_all

DOCS = Path(__file__).parent

HEADER = """# Primitives

The operations that jaxprs are made of; everything else is composed from them. This table is made
by `python docs/generate.py` from the definitions in `xpr/primitives` and `lowering/rules`.

*Results*: one, or several. *Eager*: how it runs outside `jit` on host devices: by its NumPy
reference rule, compiled alone, by the operations it stands for (inline), or as a program of all
devices of a mesh (spmd). *Compiled*: whether it has a lowering to StableHLO. *Derivative*,
*transpose* and *batching*: "yes", or why there is none; "-" where the rule is not written yet.
"""


def _rule(rule: object) -> str:
    if isinstance(rule, Absent):
        return rule.reason
    return "-" if rule is None else "yes"


def _row(p: Primitive) -> str:
    cells = [
        f"`{p.name}`",
        p.doc.replace("|", "\\|"),
        "several" if p.multiple_results else "one",
        p.eager,
        "yes" if p.name in lowering_rules else "no",
        _rule(p.jvp),
        _rule(p.transpose),
        _rule(p.batch),
    ]
    return "| " + " | ".join(cells) + " |"


def table() -> str:
    """The whole document."""
    load_all()
    rules.load_all()
    out = [HEADER]
    for family in FAMILIES:
        members = sorted((p for p in registry.values() if p.family == family), key=lambda p: p.name)
        out.append(f"\n## {family}\n")
        out.append(
            "| name | meaning | results | eager | compiled | derivative | transpose | batching |"
        )
        out.append("|---|---|---|---|---|---|---|---|")
        out += [_row(p) for p in members]
    return "\n".join(out) + "\n"


# ---- what runs where

SUPPORT_HEADER = """# What runs where

Made by `python docs/generate.py` from the operation table (`tests/op_rows`) and the list of its
gaps (`tests/op_gaps.py`), which the tests check.

*dtypes*: those that the table runs the primitive in. `b` is bool, `i` and `u` are all signed and
unsigned integers, `f` all floats (float16, bfloat16, float32, float64), `c` both complex types;
others are named. Those of 64 bits need `enable_x64`.

*cpu* and *reference* run all of it. *vulkan* runs it in the types that the device has: a program
with another type is refused before it is compiled, with an error that names the device, the type
and the line. *vmvx*, IREE's interpreter, refuses complex numbers and 16-bit floats in the same way:
where it has not all the types, its column has those that there are. The tests run a selection of
the rows on both each time, and on the CPU each row in one of two narrow dtypes that are lowered
alike; `--runtime=cpu`, `--runtime=vulkan` or `--runtime=vmvx` runs all of them. For *cuda*,
*rocm* and *metal* programs are lowered, and a dozen rows are compiled for the first two; none has
run on such a device yet. A number is that of a reason at the end.

Primitives that hold programs run wherever those do: {holders}. Callbacks need a device that calls
the host (cpu, reference, vmvx).
"""

_GROUPS = {
    "b": ("bool",),
    "i": ("int8", "int16", "int32", "int64"),
    "u": ("uint8", "uint16", "uint32", "uint64"),
    "f": ("float16", "bfloat16", "float32", "float64"),
    "c": ("complex64", "complex128"),
}
_GPUS = ("cuda", "rocm", "metal")


def _short(names: set[str]) -> str:
    """The dtypes, whole groups by their letters."""
    words = []
    for letter, members in _GROUPS.items():
        if names.issuperset(members):
            words.append(letter)
        else:
            words += [name for name in members if name in names]
    known = {name for members in _GROUPS.values() for name in members}
    return " ".join([*words, *sorted(names - known)])


def support_table() -> str:
    """The document on what runs where."""
    sys.path.insert(0, str(DOCS.parent))  # the tests are no package of the project's
    from tests.op_gaps import GAPS  # noqa: PLC0415
    from tests.op_table import WITHOUT_ROWS, all_rows  # noqa: PLC0415

    interpreted = get_target("vmvx").missing_types
    reasons: list[str] = []
    beside = ("callback", "check", "ref", "kernel", "ffi")
    holders = ", ".join(family for family in WITHOUT_ROWS if family not in beside)
    out = [SUPPORT_HEADER.format(holders=holders)]
    for family, rows in all_rows().items():
        out += [
            f"\n## {family}\n",
            "| primitive | dtypes | cpu, reference | vulkan | vmvx | cuda, rocm, metal |",
            "|---|---|---|---|---|---|",
        ]
        for name in sorted({row.primitive for row in rows}):
            names = {d for row in rows if row.primitive == name for d in row.dtypes}
            here = [gap for gap in GAPS if gap.primitive == name]
            for gap in here:
                if gap.reason not in reasons:
                    reasons.append(gap.reason)

            def cell(runtimes: tuple[str, ...], word: str, here: list[Any] = here) -> str:
                met = [gap for gap in here if set(runtimes) & set(gap.runtimes)]
                notes = ", ".join(str(reasons.index(gap.reason) + 1) for gap in met)
                if any(gap.refused for gap in met):
                    return f"no ({notes})"
                return f"{word} ({notes})" if met else word

            cells = [
                f"`{name}`",
                _short(names),
                "yes",
                cell(("vulkan",), "yes"),
                cell(
                    ("vmvx",),
                    "yes" if not names & interpreted else _short(names - interpreted) or "no",
                ),
                cell(_GPUS, "lowered"),
            ]
            out.append("| " + " | ".join(cells) + " |")
    out.append("\n## Reasons\n")
    out += [f"{i}. {reason[0].upper()}{reason[1:]}." for i, reason in enumerate(reasons, 1)]
    return "\n".join(out) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when a file is out of date")
    arguments = parser.parse_args()
    failed = False
    for name, text in (("primitives.md", table()), ("support_table.md", support_table())):
        path = DOCS / name
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is out of date: run python docs/generate.py", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
