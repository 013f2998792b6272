"""`python -m xpr.lowering.iree.port`: which facts about IREE hold for the installed release.

For the routine of a new release of IREE: install it beside the checkout, put it in front of
`PYTHONPATH`, and run this in the checkout. It checks

- **facts**: the pass lists, plugins and texts of `versions/`, and the version of the byte code;
- **shortcuts**: each alone, all and none, on the programs of `self_test.py`;
- **guards**: the tests of hazards, which fail where a fault is fixed or another one has come;
- **operations**: the operation table, compiled, with shortcuts and without.

It prints what differs from the report of another release (`--against`), and the decisions that are
left. `--save` writes the report. The tests take most of the time; `--only` leaves sections out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from xpr.lowering.iree import (
    compiler_library,
    installed,
    self_test,
    sessions,
    shortcuts,
    versions,
    vm_code,
)
from xpr.lowering.iree.shortcuts import DeclinedError
from xpr.lowering.passes import GUARDS
from xpr.lowering.targets import get_target

ROOT = Path(__file__).resolve().parents[2]
BASELINES = ROOT / "tests" / "lowering" / "iree_reports"
"""The reports of the releases that were tested, by their minor releases."""

Report = dict[str, dict[str, str]]
"""By section, the state of each thing: `RIGHT`, or what is wrong."""

RIGHT = "right"
FIXED = "IREE has mended this"
"""The words with which a test of a hazard fails once IREE has fixed the fault."""


def facts() -> Iterator[tuple[str, str]]:
    """Whether the compiler knows what `versions/` says of it."""
    library = compiler_library.load()
    version, release = library.version, versions.release(library.revision)
    yield "release", RIGHT if version.is_tested(release) else f"{release or '?'} is not tested"
    flags = get_target("cpu").flag_sets(self_test.PROGRAMS[0].hints)[0]
    with sessions.session(library, flags, "", parallel=False) as session:
        for name, passes in _lists(version):
            found = session.manager(passes)
            yield f"passes of {name}", RIGHT if isinstance(found, int) else _first_line(found)
    for plugin in version.unused_plugins:
        yield f"plugin {plugin}", RIGHT if plugin in library.plugins() else "does not exist"
    module, said = self_test.compiled(self_test.PROGRAMS[1], frozenset())
    try:
        yield "byte code", said or ("" if module is None else RIGHT * bool(_functions(module)))
    except vm_code.UnknownVersionError as error:
        yield "byte code", f"{error}"


def _functions(module: bytes) -> int:
    functions = vm_code.functions(module)
    return sum(1 for function in functions for _ in vm_code.instructions(module, function))


def _lists(version: versions.IreeVersion) -> Iterator[tuple[str, str]]:
    for branches in (False, True):
        kind = "branching" if branches else "straight"
        steps = version.steps(branches=branches, integers=True, hoists=True)
        for phase, step in steps.items():
            for i, passes in enumerate((*step.passes, *step.with_globals, *step.without)):
                yield f"{phase}, {kind}, list {i}", passes
    for name, pipelines in version.dispatches._asdict().items():
        for place, passes in pipelines._asdict().items():
            if passes is not None:
                yield f"dispatches, {name}, {place}", passes
    for reassociates in (False, True):
        yield f"translation, {reassociates}", version.translation(reassociates=reassociates)
    yield "timepoints", version.timepoints
    yield "deallocations", version.no_deallocations


def shortcuts_alone() -> Iterator[tuple[str, str]]:
    """Each shortcut, all and none: declined, wrong or right."""
    choices = {"none": frozenset[str](), "all": shortcuts.ALL}
    choices |= {name: frozenset({name}) for name in sorted(shortcuts.ALL)}
    for name, allowed in choices.items():
        declined: list[DeclinedError] = []
        said = [
            found
            for program in self_test.PROGRAMS
            if (found := self_test.fault_here(program, allowed, declined.append))
        ]
        said += [f"declines: {_first_line(error.reason)}" for error in declined]
        yield name, "; ".join(dict.fromkeys(said)) or RIGHT


def guards() -> Iterator[tuple[str, str]]:
    """The tests of hazards, each of which says whether a fault is still there."""
    files = [
        path
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "MENDED" in path.read_text(encoding="utf-8")
    ]
    yield from _tests([str(path.relative_to(ROOT)) for path in files])


def operations() -> Iterator[tuple[str, str]]:
    """The operation table, with the shortcuts of the release and without any."""
    for choice in ("on", "off"):
        for name, state in _tests(["tests/test_op_table.py"], XPR_SHORTCUTS=choice):
            yield f"{name}, shortcuts {choice}", state


def _tests(arguments: list[str], **environment: str) -> Iterator[tuple[str, str]]:
    """Runs tests: the states of those that fail, and how many passed or were skipped."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.xml")
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
                *(f"--junitxml={file}", *arguments),
            ],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            check=False,
        )
        if not file.exists():
            yield "the tests", "did not run"
            return
        passed = skipped = 0
        for case in ET.parse(file).iter("testcase"):
            bad = next((c for c in case if c.tag in ("failure", "error")), None)
            if bad is not None:
                text = f"{bad.get('message', '')}\n{bad.text or ''}"
                name = f"{case.get('classname', '')}.{case.get('name', '')}"
                yield name, FIXED if FIXED in text else _first_line(bad.get("message", "fails"))
            elif any(c.tag == "skipped" for c in case):
                skipped += 1
            else:
                passed += 1
    yield "tests that pass", f"{passed}"
    yield "tests that are skipped", f"{skipped}"


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:160] if lines else ""


SECTIONS: dict[str, Callable[[], Iterable[tuple[str, str]]]] = {
    "facts": facts,
    "shortcuts": shortcuts_alone,
    "guards": guards,
    "operations": operations,
}

_COUNTS = ("tests that pass", "tests that are skipped")


def changes(report: Report, before: Report) -> list[str]:
    """What differs between two reports, in the sections that both have."""
    found: list[str] = []
    for section in report.keys() & before.keys():
        now, then = report[section], before[section]
        for name in sorted(now.keys() | then.keys()):
            a, b = then.get(name, RIGHT), now.get(name, RIGHT)
            if a != b and not name.startswith(_COUNTS):
                found.append(f"{section}: {name}: {a} -> {b}")
    return found


def decisions(report: Report, revision: str) -> list[str]:
    """What somebody has to decide before the release is supported."""
    version, release = versions.find(revision), versions.release(revision)
    found: list[str] = []
    if not version.is_known:
        found.append(f"describe {version.minor} in lowering/iree/versions/, from the nearest one")
    elif not version.is_tested(release):
        found.append(f"add {release} to `tested` of {version.minor}, once all below is settled")
    for name, state in report.get("facts", {}).items():
        if state != RIGHT and name != "release":
            found.append(f"fact: {name}: {state}")
    for name, state in report.get("shortcuts", {}).items():
        if state != RIGHT:
            found.append(f"shortcut {name}: correct its facts, or list it in `without`: {state}")
    for name, state in report.get("guards", {}).items():
        if state == FIXED:
            where = " or ".join(_guards_of(name)) or "its guard, outside of lowering/passes"
            found.append(f"fault fixed ({name}): `until={version.number}` for {where}")
        elif not name.startswith(_COUNTS):
            found.append(f"test of a hazard fails: {name}: {state}")
    for name, state in report.get("operations", {}).items():
        if not name.startswith(_COUNTS):
            found.append(f"operation: {name}: {state}")
    return found


def _guards_of(test: str) -> list[str]:
    """The guards whose rows name a test's file."""
    file = test.split("[")[0].rpartition(".")[0].replace(".", "/") + ".py"
    return [name for name, g in GUARDS.items() if any(file in h.tests for h in g.hazards)]


def main(arguments: list[str] | None = None) -> int:
    """Prints the report; the exit status says whether decisions are left."""
    parser = argparse.ArgumentParser(prog="python -m xpr.lowering.iree.port", description=__doc__)
    parser.add_argument("--only", help=f"sections, separated by commas: {', '.join(SECTIONS)}")
    parser.add_argument("--against", type=Path, help="the report to compare with")
    parser.add_argument("--save", type=Path, help="the file to write the report to")
    options = parser.parse_args(arguments)
    chosen = options.only.split(",") if options.only else list(SECTIONS)
    unknown = set(chosen) - SECTIONS.keys()
    if unknown:
        parser.error(f"sections are {', '.join(SECTIONS)}; got {', '.join(sorted(unknown))}")
    revision = installed.version()
    print(f"IREE {versions.release(revision) or revision}")
    report: Report = {}
    for section in chosen:
        begin = time.perf_counter()
        report[section] = dict(SECTIONS[section]())
        wrong = {n: s for n, s in report[section].items() if s != RIGHT}
        seconds = time.perf_counter() - begin
        right = len(report[section]) - len(wrong)
        print(f"\n{section} ({seconds:.0f} s): {right} right")
        for name, state in wrong.items():
            print(f"  {name}: {state}")
    against = options.against or _baseline(revision)
    if against is not None:
        print(f"\nchanged against {against.name}:")
        before = json.loads(against.read_text(encoding="utf-8"))
        for line in changes(report, before) or ["nothing"]:
            print(f"  {line}")
    if options.save is not None:
        options.save.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    left = decisions(report, revision)
    print("\nto decide:")
    for line in left or ["nothing"]:
        print(f"  {line}")
    return 1 if left else 0


def _baseline(revision: str) -> Path | None:
    """The report of the release before this one, or of this one."""
    number = versions.find(revision).number
    found = {
        tuple(map(int, path.stem.split("."))): path for path in sorted(BASELINES.glob("*.json"))
    }
    earlier = [known for known in found if known < number]
    return found[max(earlier)] if earlier else found.get(number)


if __name__ == "__main__":
    sys.exit(main())
