"""Makes `golden.npz`, the results of the cases with JAX 0.10.2: run where that is installed.

`python tests/image/make_golden.py` from the top of the repository.
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
    with jax.default_matmul_precision("highest"):
        found = cases.resized(jax.image, jax.numpy) | cases.moved(jax.image, jax.numpy)
    np.savez_compressed(HERE / "golden.npz", **{k: np.asarray(v) for k, v in found.items()})


if __name__ == "__main__":
    main()
