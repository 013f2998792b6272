"""Writes `golden/programs.tar.xz`: a sample of StableHLO's own test programs.

`python make_sample.py FOLDER` takes the folder with all of them. Each is a program of the
repository openxla/stablehlo (Apache-2.0, folder stablehlo/testdata, commit 3c9301c) whose `main`
takes nothing and returns its results, and then the results that are expected; `kinds.json` says how
they compare. The sample has some of each operation, and is the same each time.
"""

from __future__ import annotations

import io
import json
import random
import re
import sys
import tarfile
from pathlib import Path

EACH, MOST = 2, 16_000
NOTE = (
    "A sample of the test programs of StableHLO (openxla/stablehlo, stablehlo/testdata, commit\n"
    "3c9301c), Copyright The StableHLO Authors, under the Apache License, Version 2.0:\n"
    "https://www.apache.org/licenses/LICENSE-2.0. Changed: `main` returns what it compared.\n"
)
_TYPE = re.compile(r"_(b?float|u?int|complex|bool|f\d|i\d|ui\d|quant|c\d).*")


def main(folder: Path) -> None:
    """Writes the archive."""
    kinds = json.loads((folder / "kinds.json").read_text(encoding="utf-8"))
    groups: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.mlir")):
        if path.stat().st_size < MOST:
            groups.setdefault(_TYPE.sub("", path.stem), []).append(path.name)
    rng = random.Random(0)
    names = [n for g in groups.values() for n in rng.sample(g, min(EACH, len(g)))]
    wanted = {"LICENSE-NOTE.txt": NOTE.encode()}
    wanted["kinds.json"] = json.dumps({n: kinds[n] for n in sorted(names)}, indent=0).encode()
    wanted |= {n: (folder / n).read_bytes() for n in sorted(names)}
    path = Path(__file__).parent / "golden" / "programs.tar.xz"
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name, content in wanted.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
