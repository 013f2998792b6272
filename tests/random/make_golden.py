"""Makes `data/*.npz`, the results of the cases with JAX 0.10.2: run where that is installed.

Those of `original_*.npz` are with `jax_threefry_partitionable=False`.

`python tests/random/make_golden.py` from the top of the repository. Results do not change between
releases of JAX, which promises that its keys give the same numbers, or says when they do not.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


def main() -> None:
    jax: Any = importlib.import_module("jax")
    cases: Any = importlib.import_module("cases")
    for seed in cases.SEEDS:
        results = {}
        for case in cases.CASES:
            with jax.enable_x64(case.x64):
                found = np.asarray(case.draw(jax.random, jax.random.key(seed)))
            # NumPy's files know no bfloat16.
            results[case.name] = found.view(np.uint16) if found.dtype.name == "bfloat16" else found
        np.savez_compressed(HERE / "data" / f"seed_{seed}.npz", **results)
    seed = cases.ORIGINAL_SEED
    results = {}
    with jax.threefry_partitionable(False):
        for case in cases.ORIGINAL_CASES:
            with jax.enable_x64(case.x64):
                found = np.asarray(case.draw(jax.random, jax.random.key(seed)))
            results[case.name] = found.view(np.uint16) if found.dtype.name == "bfloat16" else found
    np.savez_compressed(HERE / "data" / f"original_{seed}.npz", **results)


if __name__ == "__main__":
    main()
