"""Writes `docs/primitives.md`, the table of primitives, from the primitives themselves.

`python docs/generate.py` writes it, `python docs/generate.py --check` fails when it is out of date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import xpr  # noqa: F401  registers the primitives
from xpr.core.primitive import Absent, Primitive, registry
from xpr.lowering import rules
from xpr.lowering.registry import rules as lowering_rules
from xpr.primitives import FAMILIES

TARGET = Path(__file__).parent / "primitives.md"

HEADER = """# Primitives

The operations that jaxprs are made of; everything else is composed from them. This table is made
by `python docs/generate.py` from the definitions in `xpr/primitives` and `lowering/rules`.

*Results*: one, or several. *Eager*: how it runs outside `jit` on host devices, by its NumPy
reference rule or compiled alone. *Compiled*: whether it has a lowering to StableHLO. *Derivative*,
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the file is out of date")
    arguments = parser.parse_args()
    text = table()
    if arguments.check:
        if not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
            print(f"{TARGET} is out of date: run python docs/generate.py", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET}: {len(registry)} primitives")
    return 0


if __name__ == "__main__":
    sys.exit(main())
