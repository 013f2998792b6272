"""Bytes that programs move between devices, in xpr and in JAX: ``python -m benchmarks.moved``.

xpr tells them before the program runs (`Lowered.communication`); for JAX they are read from the
text of the compiled program. Both are counted by the same formulas, those of algorithms on a ring:
what each device receives in one run.

``--jax-python PYTHON`` names an interpreter that has JAX. ``--child LIBRARY`` prints JSON, for the
command itself.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.sharded_programs import PROGRAMS, Program, on_mesh

DEVICES = 8
_SIZES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s16": 2, "u16": 2}
_SIZES |= {"f32": 4, "s32": 4, "u32": 4, "f64": 8, "s64": 8, "u64": 8, "c64": 8}


def moved_by(library: str, program: Program) -> tuple[float, list[str], list[str]]:
    """Bytes per device of one run, the collectives in words, and the shardings of the results."""
    root: Any = importlib.import_module(library)
    np: Any = importlib.import_module(f"{library}.numpy")
    lax: Any = importlib.import_module(f"{library}.lax")
    function, arguments = program.build(on_mesh(root, np, lax, program.mesh))
    lowered = root.jit(function).lower(*arguments)
    if library == "xpr":
        found = lowered.communication()
        words = [f"{t.kind} {t.bytes:.0f} x{t.times} {t.source}" for t in found.transfers]
        # Compiling would tell, too, and take most of the time.
        results = lowered._spmd.out_shardings
        return found.bytes, words, _parts(root, lowered.out_info, results)
    compiled = lowered.compile()
    transfers = list(collectives(compiled.as_text()))
    total = sum(count * times for _, count, times in transfers)
    words = [f"{kind} {count:.0f} x{times}" for kind, count, times in transfers]
    shardings = root.tree_util.tree_leaves(compiled.output_shardings)
    return total, words, _parts(root, lowered.out_info, shardings)


def _parts(root: Any, results: Any, shardings: Sequence[Any]) -> list[str]:
    """The shape of each device's part of each result."""
    leaves = root.tree_util.tree_leaves(results)
    return [
        "x".join(map(str, s.shard_shape(x.shape))) or "1"
        for x, s in zip(leaves, shardings, strict=True)
    ]


# ---- the text of XLA's compiled programs

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) (?:\([^\n]*)?\{$")
_COLLECTIVE = re.compile(
    r"= (?P<type>\(.*?\)|\S+) (?P<kind>all-reduce|all-gather|reduce-scatter|all-to-all|"
    r"collective-permute)(?:-start)?\("
)
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")


def collectives(text: str) -> Iterator[tuple[str, float, int]]:
    """Kind, bytes that each device receives, and times per run of each collective in `text`."""
    bodies = _computations(text)
    entry = re.search(r"^ENTRY %?([\w.\-]+)", text, re.MULTILINE)
    if entry is None:
        raise ValueError("the text of a compiled program has an ENTRY, got none")
    yield from _collectives(bodies, entry.group(1), 1)


def _computations(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        head = _COMPUTATION.match(line)
        if head:
            current = found[head.group(1)] = []
        else:
            current.append(line)
    return found


def _collectives(
    bodies: dict[str, list[str]], name: str, times: int
) -> Iterator[tuple[str, float, int]]:
    for line in bodies[name]:
        found = _COLLECTIVE.search(line)
        if found:
            kind = found.group("kind")
            yield kind, _received(kind, found.group("type"), line), times
            continue
        rounds = 1
        if " while(" in line:
            trips = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', line)
            rounds = int(trips.group(1)) if trips else 1
        for called in re.findall(r"(?:body|calls|to_apply)=%?([\w.\-]+)", line):
            yield from _collectives(bodies, called, times * rounds)
        for branches in re.findall(r"branch_computations=\{([^}]*)\}", line):
            for branch in branches.split(","):
                yield from _collectives(bodies, branch.strip().lstrip("%"), times * rounds)


def _received(kind: str, result: str, line: str) -> float:
    size = sum(
        _SIZES[dtype] * math.prod(int(n) for n in shape.split(",") if n)
        for dtype, shape in _ARRAY.findall(result)
        if dtype in _SIZES
    )
    if kind == "collective-permute":
        return float(size)
    n = _group_size(line)
    share = (n - 1) / n
    # The sizes are those of results: all that a reduce-scatter adds up is n times as large.
    return {
        "all-reduce": 2 * share * size,
        "all-gather": share * size,
        "reduce-scatter": (n - 1) * size,
        "all-to-all": share * size,
    }[kind]


def _group_size(line: str) -> int:
    listed = re.search(r"replica_groups=\{\{([\d,]*)\}", line)
    if listed:
        return len(listed.group(1).split(","))
    short = re.search(r"replica_groups=\[(\d+),(\d+)\]", line)
    if short:
        return int(short.group(2))
    named = re.search(r"replica_groups=mesh\[([^\]]*)\](?:,? ?device_ids=\S+)? \{([^}]*)\}", line)
    if named:
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", named.group(1)))
        groups = re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", named.group(2))
        return math.prod(int(part or sizes[axis]) for axis, part in groups)
    if "replica_groups={}" in line:
        return DEVICES
    raise ValueError(f"a collective has replica groups, got {line.strip()}")


# ---- the command


def _child(python: str, library: str, only: str) -> dict[str, Any]:
    flags = f"--xla_force_host_platform_device_count={DEVICES}"
    done = subprocess.run(
        [python, "-m", "benchmarks.moved", "--child", library, "--only", only],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
    )
    return json.loads(done.stdout.splitlines()[-1])


def _asked(only: str) -> list[Program]:
    words = [w.strip().lower() for w in only.split(",") if w.strip()]
    return [p for p in PROGRAMS if not words or any(w in p.name.lower() for w in words)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 1 if xpr moves more than JAX anywhere."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.moved", description=__doc__)
    parser.add_argument("--only", default="", help="programs whose name has one of these words")
    parser.add_argument("--jax-python", default=os.environ.get("XPR_BENCH_JAX_PYTHON"))
    parser.add_argument("--child", choices=("xpr", "jax"), help=argparse.SUPPRESS)
    parser.add_argument("--verbose", action="store_true", help="print the collectives, too")
    options = parser.parse_args(arguments)
    if options.child:
        if options.child == "xpr":
            root: Any = importlib.import_module("xpr")
            root.config.update("num_cpu_devices", DEVICES)
        found = {p.name: moved_by(options.child, p) for p in _asked(options.only)}
        print(json.dumps(found))
        return 0
    own = _child(sys.executable, "xpr", options.only)
    other = _child(options.jax_python, "jax", options.only) if options.jax_python else {}
    worse = False
    print("| program | devices | xpr | JAX | xpr / JAX |\n| --- | --- | ---: | ---: | ---: |")
    for p in _asked(options.only):
        mine, words, shardings = own[p.name]
        mesh = " x ".join(f"{n} {a}" for a, n in p.mesh.items())
        theirs = other.get(p.name)
        cells = ["", ""] if theirs is None else [f"{theirs[0]:,.0f}", _ratio(mine, theirs[0])]
        print(f"| {p.name} | {mesh} | {mine:,.0f} | {' | '.join(cells)} |")
        if theirs is not None:
            worse = worse or mine > theirs[0]
            if shardings != theirs[2]:
                print(f"  parts of the results: {shardings}, JAX {theirs[2]}", file=sys.stderr)
        if options.verbose:
            for title, lines in (("xpr", words), ("JAX", [] if theirs is None else theirs[1])):
                print(*(f"    {title}: {line}" for line in lines), sep="\n")
    return 1 if worse else 0


def _ratio(a: float, b: float) -> str:
    return f"{a / b:.2f}" if b else ("1.00" if not a else "∞")


if __name__ == "__main__":
    sys.exit(main())
