"""``python -m benchmarks.gpu``: check and time a device, one line of JSON for each row.

    python -m benchmarks.gpu                       # the CUDA device, with what is in the cache
    python -m benchmarks.gpu --runtime vulkan --only hazards,timings --minutes 8
    python -m benchmarks.gpu --rehearse            # here, on Vulkan's software device
    python -m benchmarks.gpu tables lines.jsonl    # what came of it, as Markdown

The exit status is 0 if every row is right, 1 if one failed, 2 for a bad command line, and 3 where
the device cannot be used.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.gpu import report
from benchmarks.gpu.rows import Outcome, chosen, sample
from benchmarks.gpu.runner import Worker, read_lines, run_rows

RIGHT, FAILED, USAGE, NO_DEVICE = 0, 1, 2, 3

# How much longer a row may take where its programs are compiled.
_COMPILING = 20.0


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description="Check and time a device."
    )
    parser.add_argument("--runtime", default="cuda", help="the runtime to run on (default: cuda)")
    parser.add_argument("--only", metavar="WORDS", help="rows whose names contain one of these")
    parser.add_argument("--minutes", type=float, help="begin no row after so many minutes")
    parser.add_argument(
        "--lines",
        type=Path,
        default=Path("gpu.jsonl"),
        help="the file of outcomes; rows that it has are not run again (default: gpu.jsonl)",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, on software devices")
    parser.add_argument(
        "--with-compiler", action="store_true", help="compile what the cache does not have"
    )
    parser.add_argument(
        "--absent",
        metavar="DEVICE",
        help="fill the cache for a device that is not here: cuda:sm_90, vulkan:nvidia or "
        "vulkan:device; then run everything again without the compiler and count what is missing",
    )
    parser.add_argument(
        "--rehearse",
        action="store_true",
        help="fill a cache for this machine's Vulkan device, and run the rows there without the "
        "compiler; without --only some of the operation table's",
    )
    parser.add_argument(
        "--cache", type=Path, help="the compile cache, in place of the one that xpr would use"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument(
        "tables", nargs="*", help="the word 'tables' and files of lines: print what came of them"
    )
    options = parser.parse_args(arguments)
    if options.tables and (options.tables[0] != "tables" or len(options.tables) < 2):
        parser.error("expected no words, or: tables FILE...")
    if options.minutes is not None and options.minutes <= 0:
        parser.error(f"--minutes must be positive, got {options.minutes:g}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Does what the command line says; the exit status."""
    options = parse_arguments(arguments)
    try:
        if options.tables:
            print(report.tables([o for f in options.tables[1:] for o in _lines_of(Path(f))]))
            return RIGHT
        names = chosen(options.only)
    except ValueError as error:
        print(error, file=sys.stderr)
        return USAGE
    if options.list:
        print("\n".join(names))
        return RIGHT
    if options.rehearse:
        return _rehearse(names, options)
    if options.absent is not None:
        return _fill(names, options, options.absent)
    words = _unusable(options.runtime)
    if words is not None:
        print(words, file=sys.stderr)
        return NO_DEVICE
    return _run(names, options, options.runtime, options.lines)


def _lines_of(file: Path) -> list[Outcome]:
    if not file.exists():
        raise ValueError(f"there is no file {file}")
    return read_lines(file)


def _unusable(runtime: str) -> str | None:
    """One line that says why no row can run; None if the device works."""
    worker = Worker(runtime, (), {})
    try:
        outcome, _ = worker.run("device/table", 60)
    finally:
        worker.end()
    if outcome["ok"]:
        found = f"{outcome['kind']} ({outcome['features']})"
        count = outcome["devices"]
        first = "" if count == 1 else f", the first of {count} devices"
        print(f"{runtime}: {found}{first}", file=sys.stderr)
        return None
    said = str(outcome.get("failure", "")).splitlines()
    return f"{runtime} cannot be used: {said[0] if said else 'no reason is known'}"


def _run(
    names: list[str],
    options: argparse.Namespace,
    runtime: str,
    file: Path,
    *,
    with_compiler: bool = False,
    absent: str | None = None,
) -> int:
    environment = {} if absent is None else {"XPR_ABSENT": absent}
    if options.cache is not None:
        environment["XPR_CACHE_DIR"] = str(options.cache)
    flags = ["--quick"] if options.quick else []
    if with_compiler or options.with_compiler:
        flags.append("--with-compiler")
    outcomes = run_rows(
        *(names, runtime, file),
        options=flags,
        environment=environment,
        minutes=options.minutes,
        patience=_COMPILING if "--with-compiler" in flags else 1.0,
        tell=_tell,
    )
    print(f"{runtime}: {report.summary(outcomes, len(names))}", file=sys.stderr)
    return RIGHT if all(o["ok"] for o in outcomes) else FAILED


def _tell(outcome: Outcome) -> None:
    word = "right" if outcome["ok"] else "FAILED"
    print(f"{word:7}{outcome['seconds']:8.2f} s  {outcome['row']}", file=sys.stderr, flush=True)
    if not outcome["ok"]:
        said = str(outcome.get("failure", "")).splitlines()
        print(f"        {said[0][:200] if said else ''}", file=sys.stderr, flush=True)


def _fill(names: list[str], options: argparse.Namespace, device: str) -> int:
    """Compiles for an absent device, and looks whether all is found without the compiler."""
    status = RIGHT
    with tempfile.TemporaryDirectory() as folder:
        for with_compiler in (True, False):
            file = Path(folder) / f"{with_compiler}.jsonl"
            status = _run(
                *(names, options, "absent", file), with_compiler=with_compiler, absent=device
            )
            if status != RIGHT:
                break
            if options.cache is not None:
                # Another Python or NumPy finds programs by their texts alone.
                for known in options.cache.glob("*/*.program"):
                    known.unlink()
    return status


def _rehearse(names: list[str], options: argparse.Namespace) -> int:
    """All of it on this machine: the fill, and the run of a device that finds what it needs."""
    options.quick = True
    if options.only is None:
        names = sample(names)
    words = _unusable("vulkan")
    if words is not None:
        print(words, file=sys.stderr)
        return NO_DEVICE
    with tempfile.TemporaryDirectory() as folder:
        if options.cache is None:
            options.cache = Path(folder) / "cache"
        status = _fill(names, options, "vulkan:device")
        if status == RIGHT:
            file = Path(folder) / "lines.jsonl"
            status = _run(names, options, "vulkan", file)
            print(report.tables(read_lines(file)))
    return status


if __name__ == "__main__":
    sys.exit(main())
