"""`xpr replay`: a recorded call, run again equation by equation."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from xpr.cli.errors import CommandError
from xpr.recording import RecordingError, Replay, replay
from xpr.recording.calls import Recording


def run(options: argparse.Namespace) -> int:
    """Shows where each call stops; on a terminal a session follows."""
    for file in _files(options.files):
        try:
            recording = Recording.load(file, most_bytes=options.most_bytes)
        except RecordingError as error:
            raise CommandError(f"{file}: {error}") from error
        print(recording)
        if options.info:
            continue
        try:
            args = [np.load(name, allow_pickle=False) for name in options.input]
            found = replay(
                recording,
                args=args,
                at=options.at,
                iteration=options.iteration,
                condition=options.condition,
                against=options.against,
            )
        except ValueError as error:
            raise CommandError(str(error)) from error
        print(found)
        _go_on(found, options)
    return 0


def _files(given: list[str]) -> list[Path]:
    """The files, those of a folder by their time: that of several processes' calls."""
    found: list[Path] = []
    for name in given:
        path = Path(name)
        inside = path.glob("*.xprrec") if path.is_dir() else [path]
        found += sorted(inside, key=lambda p: p.stat().st_mtime_ns if p.exists() else 0)
    if not found:
        raise CommandError(f"no recorded calls in {', '.join(given)}")
    return found


def _go_on(found: Replay, options: argparse.Namespace) -> None:
    if options.shrink is not None:
        print(found.shrink(options.shrink), end="")
    elif options.debug or (sys.stdin.isatty() and not options.no_session):
        found.debug()
