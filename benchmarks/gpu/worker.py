"""The process in which rows run: names come in as lines, and each row's outcome goes out as JSON.

Without `--with-compiler` none is found, as on the machine that the kit is for: a program that is
not in the cache is a row that failed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import sys
import time
import traceback
import warnings
from typing import Any

_FALLBACK = "the compiler cannot compile"


def _hide_compiler() -> None:
    """Has nothing find the compiler's package."""
    find, version = importlib.util.find_spec, importlib.metadata.version

    def find_spec(name: str, package: str | None = None) -> Any:
        return None if name == "iree.compiler" else find(name, package)

    def version_of(name: str) -> str:
        if name == "iree-base-compiler":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    importlib.util.find_spec = find_spec
    importlib.metadata.version = version_of


def main() -> None:
    """Runs rows until the lines end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.worker")
    parser.add_argument("--runtime", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--with-compiler", action="store_true")
    options = parser.parse_args()
    # What libraries print goes elsewhere: the lines are this process's only output.
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if not options.with_compiler:
        _hide_compiler()
    from benchmarks.gpu.rows import Setting, all_rows  # noqa: PLC0415  after the above

    setting = Setting(options.runtime, options.quick)
    rows = all_rows()
    for line in sys.stdin:
        name = line.strip()
        start = time.perf_counter()
        outcome: dict[str, Any] = {"row": name, "runtime": setting.runtime}
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                outcome |= rows[name].run(setting)
                outcome["ok"] = True
            except Exception as error:
                outcome |= {"ok": False, **_described(error)}
        fallbacks = [str(w.message) for w in told if _FALLBACK in str(w.message)]
        if fallbacks:
            outcome["fallbacks"] = fallbacks
        outcome["seconds"] = round(time.perf_counter() - start, 3)
        lines.write(json.dumps(outcome, default=str) + "\n")
        lines.flush()


def _described(error: Exception) -> dict[str, Any]:
    text = f"{type(error).__name__}: {error}"
    facts: dict[str, Any] = {"failure": text[:2000]}
    if "requires iree-base-compiler" in text:
        facts["miss"] = True
    path = getattr(error, "stablehlo_path", None)
    if path:
        facts["stablehlo"] = str(path)
    facts["where"] = traceback.format_exception(error)[-3:]
    return facts


if __name__ == "__main__":
    main()
