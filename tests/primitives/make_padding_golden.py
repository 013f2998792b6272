"""Makes `padding_golden.npz`, the results of `padding_cases.py` with JAX 0.10.2.

`python tests/primitives/make_padding_golden.py` from the top of the repository, where JAX is.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


def main() -> None:
    lax: Any = importlib.import_module("jax.lax")
    cases: Any = importlib.import_module("padding_cases")
    shapes: dict[str, list[int]] = {}
    values = []
    for name, result in cases.results(lax):
        found = np.asarray(result)
        shapes[name] = list(found.shape)
        values.append(found.reshape(-1))
    # Infinities, the maxima of nothing, are the only numbers that are not small integers.
    flat = np.clip(np.concatenate(values), -999, 999).astype(np.int16)
    np.savez_compressed(HERE / "padding_golden.npz", shapes=json.dumps(shapes), values=flat)


if __name__ == "__main__":
    main()
