"""Runs the programs of the gallery: their pictures, and how far they are from NumPy's results.

`python gallery_run.py FOLDER` writes `<name>.png` and `results.json` there; `PYTHONPATH` is the
folder of the repository. The pages are written
by `gallery.py`, which calls this where a program, a picture or the library has changed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from gallery_pictures import SCENES
from gallery_texts import slug
from matplotlib.figure import Figure

import xpr
import xpr.numpy
from benchmarks.programs.all_programs import PROGRAMS
from benchmarks.programs.program import Program


def _several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def operands(program: Program) -> tuple[Any, ...]:
    """What a program is shown with."""
    scene = SCENES.get(program.name)
    size = program.sizes[0] if scene is None or scene.size is None else scene.size
    made = program.inputs if scene is None or scene.inputs is None else scene.inputs
    return made(size)


def run(program: Program, call: Any, inputs: tuple[Any, ...], folder: Path) -> dict[str, Any]:
    """Runs a program, draws its picture if it has one, and compares it with NumPy."""
    scene = SCENES.get(program.name)
    results = tuple(np.asarray(x) for x in _several(call(*inputs)))
    plain = tuple(np.asarray(x) for x in _several(program.plain(*inputs)))
    for found, wanted in zip(results, plain, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8, err_msg=program.name)
    largest = max(float(np.max(np.abs(x - y))) for x, y in zip(results, plain, strict=True))
    if scene is not None:
        figure = Figure(figsize=(5.6, 3.5), layout="constrained")
        scene.draw(figure, inputs, results, call)
        figure.savefig(folder / f"{slug(program.name)}.png", dpi=100)
    return {
        "operands": [xpr.typeof(x).str_short() for x in inputs],
        "results": [xpr.typeof(x).str_short() for x in results],
        "difference": largest,
    }


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    xpr.config.update("enable_x64", True)
    calls = [
        (program, xpr.jit(program.traced(xpr.numpy, xpr.lax)), operands(program))
        for program in PROGRAMS
    ]
    xpr.compile_ahead([(call, *inputs) for _, call, inputs in calls])
    found = {p.name: run(p, call, inputs, folder) for p, call, inputs in calls}
    (folder / "results.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
