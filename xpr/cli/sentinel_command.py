"""`xpr sentinel`: what the sentinel found."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from xpr.recording.sentinel import default_folder


def run(options: argparse.Namespace) -> int:
    """Prints the alarms and the summaries; the status is 1 where there are alarms."""
    folder = default_folder() if options.folder is None else Path(options.folder)
    alarms = sorted((folder / "alarms").glob("*.txt"))
    for file in alarms:
        said, call = file.read_text(encoding="utf-8"), file.with_suffix(".xprrec")
        print(f"{said}replay: xpr replay {call} --against cpu\n")
    for path in sorted(folder.glob("summary-*.json")):
        counts = json.loads(path.read_text(encoding="utf-8"))
        parts = [f"{counts.get(kind, 0)} {kind}" for kind in ("right", "wrong", "unknown")]
        print(f"{path.stem.removeprefix('summary-')}: {', '.join(parts)}")
    if not alarms:
        print(f"no alarms in {folder}")
    return 1 if alarms else 0
