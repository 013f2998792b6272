"""Makes `golden.json`, the results of the programs with JAX 0.10.2: run where that is installed.

`python tests/transforms/closures/make_golden.py` from the top of the repository. Each line has the
numbers of one result, or the name of the error that JAX raises.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent.parent))


def main() -> None:
    jax: Any = importlib.import_module("jax")
    importlib.import_module("jax.custom_batching")
    programs: Any = importlib.import_module("tests.transforms.closures.programs")
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    for name in programs.names():
        try:
            found[name] = [float(f"{x:.7g}") for x in programs.run(jax, name)]
        except Exception as error:
            found[name] = type(error).__name__
    lines = ",\n".join(f"{json.dumps(n)}: {json.dumps(v)}" for n, v in found.items())
    (HERE / "golden.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
