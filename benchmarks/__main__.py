"""``python -m benchmarks``: time xpr next to NumPy, and next to JAX where there is one.

JAX is taken from this interpreter if it is installed here (`pip install 'xpr[bench]'`), else from
the one that ``--jax-python`` or ``XPR_BENCH_JAX_PYTHON`` names, which then works behind pipes and
takes its turns like the others. Results are compared with NumPy's before anything is timed. The
exit status tells whether all were right.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from benchmarks import between, busy, checkpoints, compile_times, implementations, processes
from benchmarks.cases import Case, ProgramCase, worst_error
from benchmarks.report import Row, findings, machine, progress, render
from benchmarks.sessions import CASES, LocalSession, Session, WorkerSession, version_in
from benchmarks.timing import Measurement, take_turns


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Time xpr next to NumPy and JAX."
    )
    parser.add_argument(
        "--only",
        metavar="WORDS",
        help="run only cases whose name or group contains one of these, separated by commas",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes and few samples")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--rounds", type=int, help="samples of each figure (default: 9, quick 3)")
    parser.add_argument(
        "--jax-python",
        default=os.environ.get("XPR_BENCH_JAX_PYTHON"),
        help="an interpreter that has JAX (default: $XPR_BENCH_JAX_PYTHON)",
    )
    parser.add_argument(
        "--busy",
        action="store_true",
        help="measure each case once more beside a process that keeps one core busy",
    )
    parser.add_argument(
        "--iree",
        action="store_true",
        help="measure compiled programs once more where IREE's runtime runs them",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    options = parser.parse_args(arguments)
    if options.rounds is None:
        options.rounds = 3 if options.quick else 9
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}")
    return options


def _selected(only: str | None) -> tuple[list[Case], list[frozenset[str]]]:
    """The cases and the names of each module of `_APART` that ``--only`` asks for."""
    words = [word.strip().lower() for word in (only or "").split(",") if word.strip()]

    def asked(name: str, group: str) -> bool:
        return not words or any(word in f"{group} {name}".lower() for word in words)

    cases = [case for case in CASES.values() if asked(case.name, case.group)]
    names = [
        frozenset(name for name in module.NAMES if asked(name, group))
        for group, module in _APART.items()
    ]
    return cases, names


# Compiled programs of xpr in a process where IREE's runtime runs them.
_BY_IREE = "xpr iree"

# What starts processes of its own, by the group of its rows.
_APART = {
    "processes": processes,
    "between": between,
    "checkpoints": checkpoints,
    "compile": compile_times,
}


def _pythons(jax_python: str | None) -> dict[str, str]:
    """The interpreter of each library that was found."""
    pythons = {"numpy": sys.executable}
    if implementations.installed("xpr"):
        pythons["xpr"] = sys.executable
    if implementations.installed("jax"):
        pythons["jax"] = sys.executable
    elif jax_python:
        if version_in(jax_python, "jax") is None:
            raise SystemExit(f"--jax-python {jax_python}: there is no JAX")
        pythons["jax"] = jax_python
    return pythons


def _timed(
    case: Case, sessions: dict[str, Session], options: argparse.Namespace
) -> dict[str, Measurement]:
    """Seconds per call; of programs on several devices the least of many short samples.

    Such a program wants all cores at once, and the least is what it takes when it gets them.
    """
    least = 0.005 if options.quick else 0.05
    if not case.devices:
        return take_turns(sessions, options.rounds, least)
    found = take_turns(sessions, 4 * options.rounds, least / 4)
    return {mode: Measurement((m.least,)) for mode, m in found.items()}


def _measure(
    case: Case, pythons: dict[str, str], options: argparse.Namespace, worker: WorkerSession | None
) -> list[Row]:
    """The row of a case, and with ``--busy`` the one beside a busy process."""
    sessions: dict[str, Session] = {}
    started: list[Session] = []
    remarks: list[str] = []
    expected = (
        case.reference(implementations.load("numpy"), options.quick)
        if isinstance(case, ProgramCase)
        else None
    )
    modes = [*case.modes, _BY_IREE] if options.iree and "xpr jit" in case.modes else case.modes
    for mode in modes:
        library = mode.split()[0]
        if library not in pythons:
            continue
        session: Session = LocalSession()
        if mode == _BY_IREE:
            session = WorkerSession(pythons[library], case.devices, case.cores, XPR_NATIVE="calls")
        elif case.devices:
            session = WorkerSession(pythons[library], case.devices, case.cores)
        elif library == "jax" and worker is not None:
            session = worker
        started.append(session)
        try:
            results = session.prepare(case.name, mode.replace(_BY_IREE, "xpr jit"), options.quick)
        except Exception as error:
            remarks.append(f"{mode} failed: {type(error).__name__}: {error}")
            continue
        if expected is not None and isinstance(case, ProgramCase):
            error, wrong = worst_error(results, expected)
            if not error <= case.tolerance:
                wrong = wrong or f"error {error:.1e}, allowed {case.tolerance:.0e}"
                remarks.append(f"{mode} is wrong: {wrong}")
                continue
        sessions[mode] = session
    measured = _timed(case, sessions, options) if sessions else {}
    rows = [Row(case.name, case.group, measured, remarks=tuple(remarks))]
    if options.busy and sessions:
        with busy.one_busy_core():
            measured = _timed(case, sessions, options)
        rows.append(Row(case.name + busy.BESIDE, case.group, measured))
    for session in started:
        if session is not worker:
            session.close()
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 0 if every implementation ran and was right."""
    options = parse_arguments(arguments)
    cases, names = _selected(options.only)
    if options.list:
        print(
            "\n".join([case.name for case in cases] + [n for found in names for n in sorted(found)])
        )
        return 0
    if not cases and not any(names):
        print(f"no case contains any of {options.only!r}", file=sys.stderr)
        return 2
    process_names, between_names, checkpoint_names, compile_names = names
    pythons = _pythons(options.jax_python)
    for library in ("xpr", "jax"):
        if library not in pythons:
            progress(f"{library} is not installed: its columns are left out")

    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        # Cold compiles must be cold, and leave nothing in the user's cache.
        os.environ["XPR_CACHE_DIR"] = folder
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        apart = pythons.get("jax", sys.executable) != sys.executable
        worker = WorkerSession(pythons["jax"]) if apart else None
        try:
            for case in cases:
                progress(case.name)
                rows += _measure(case, pythons, options, worker)
        finally:
            if worker is not None:
                worker.close()
        if process_names:
            progress("new processes")
            rows += processes.measure(pythons, options.rounds, process_names)
        if between_names:
            rows += between.measure(options.rounds, between_names)
        if checkpoint_names:
            progress("checkpoints")
            rows += checkpoints.measure(min(options.rounds, 5), checkpoint_names, options.quick)
        if compile_names:
            rounds = min(options.rounds, 3)
            rows += compile_times.measure(pythons, rounds, compile_names, options.quick)

    print("\n".join(machine()))
    if "jax" in pythons:
        print(f"jax {version_in(pythons['jax'], 'jax')}")
    print("Medians with half the interquartile range; ratios below 1 mean that xpr takes less.")
    if options.quick:
        print("Quick: sizes are smaller than the names say, so the figures only show that it runs.")
    print("\n" + render(rows, options.markdown))
    if compile_names:
        print(compile_times.breakdown(rows, options.markdown) + "\n")
    found = findings(rows) + busy.findings(rows)
    for finding in found + between.findings(rows) + checkpoints.findings(rows):
        print(f"- {finding}")
    return 1 if any(row.remarks for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
