"""Runs one example and writes its results as JSON; run with JAX it makes the golden data.

    python run_example.py examples/optax_example.py golden/optax.json

An example defines `results`, a tree of arrays, and perhaps `coarse`, of which few digits agree.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np


def flat(jax: Any, tree: Any) -> list[list[float]]:
    """The leaves of a tree, each as its values in a row, to seven digits."""
    arrays = [np.asarray(x, np.float64).ravel() for x in jax.tree.leaves(tree)]
    return [[float(f"{v:.7g}") for v in a] for a in arrays]


def main(example: str, output: str) -> None:
    names = runpy.run_path(example)
    jax = sys.modules["jax"]
    found = {"jax": jax.__version__}
    for kind in ("results", "coarse"):
        found[kind] = flat(jax, names.get(kind, []))
    Path(output).write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
