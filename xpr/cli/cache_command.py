"""`xpr cache`: the compiled programs that are kept on disk."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from xpr.cli.errors import CommandError, UsageError
from xpr.cli.inspect_command import size_text
from xpr.lowering.cache import CompileCache, default_cache
from xpr.lowering.cache_archive import BadArchiveError, export_cache, import_cache
from xpr.lowering.iree.fallbacks import HOST, SEPARATE

# The programs that did not compile as they are.
_FALLBACKS = {
    SEPARATE: "compiled only with operations one by one",
    HOST: "compiled only with operations left to NumPy",
}


def run(options: argparse.Namespace) -> int:
    """Lists, clears, verifies, fills or ships."""
    cache = default_cache()
    if cache is None:
        raise CommandError("the cache is switched off by XPR_CACHE")
    given: list[str] = options.arguments
    actions = {"ls": _list, "clear": _clear, "verify": _verify}
    if options.action in actions:
        if given:
            raise UsageError(f"{options.action} takes no arguments, got {given[0]!r}")
        return actions[options.action](cache)
    if options.action == "warm":
        if not given:
            raise UsageError("warm takes a script and its arguments")
        return _warm(cache, given)
    if len(given) != 1:
        raise UsageError(f"{options.action} takes one file, got {len(given)}")
    file = Path(given[0])
    return _export(cache, file) if options.action == "export" else _import(cache, file)


def _warm(cache: CompileCache, command: list[str]) -> int:
    """Runs a script, whose programs are in the cache then."""
    before = {entry.key for entry in cache.entries()}
    status = subprocess.run([sys.executable, *command], env=dict(os.environ), check=False)
    new = {entry.key for entry in cache.entries()} - before
    print(f"{cache.directory}: {_count(len(new))} added by {command[0]}")
    if status.returncode:
        raise CommandError(f"{command[0]} ended with status {status.returncode}")
    return 0


def _export(cache: CompileCache, file: Path) -> int:
    print(f"{file}: {_count(export_cache(cache, file))} from {cache.directory}")
    return 0


def _import(cache: CompileCache, file: Path) -> int:
    try:
        good, bad = import_cache(cache, file)
    except BadArchiveError as error:
        raise CommandError(f"{error}") from error
    print(f"{cache.directory}: {_count(good)} added from {file}, {bad} damaged")
    return 1 if bad else 0


def _list(cache: CompileCache) -> int:
    entries = cache.entries()
    now = time.time()
    for entry in sorted(entries, key=lambda e: e.used, reverse=True):
        print(f"{entry.key.hex()[:16]}  {size_text(entry.size):>9}  {_age(now - entry.used)}")
    total = sum(entry.size for entry in entries)
    limit = size_text(cache.max_bytes)
    print(f"{cache.directory}: {_count(len(entries))}, {size_text(total)} of at most {limit}")
    return 0


def _clear(cache: CompileCache) -> int:
    print(f"{cache.directory}: {_count(cache.clear())} removed")
    return 0


def _verify(cache: CompileCache) -> int:
    entries = cache.entries()
    bad = 0
    for entry in entries:
        fault = cache.fault(entry.key)
        if fault is not None:
            bad += 1
            cache.discard(entry.key)
            left = ", and could not be removed" if cache.path(entry.key).exists() else ", removed"
            print(f"{entry.key.hex()}: {fault}{left}")
    print(f"{cache.directory}: {_count(len(entries))} checked, {bad} damaged")
    for fallback, words in _FALLBACKS.items():
        number = sum(note.get("fallback") == fallback for note in cache.notes())
        if number:
            print(f"{_count(number, 'program', 'programs')} {words}")
    return 1 if bad else 0


def _count(number: int, one: str = "entry", several: str = "entries") -> str:
    return f"{number} {one if number == 1 else several}"


def _age(seconds: float) -> str:
    """How long ago, to the greatest unit that it fills.

    >>> _age(5), _age(7300), _age(1e6)
    ('just now', '2 hours ago', '11 days ago')
    """
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        number = int(seconds // length)
        if number:
            return f"{number} {unit}{'s' if number > 1 else ''} ago"
    return "just now"
