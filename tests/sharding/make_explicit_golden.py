"""Makes `explicit_golden.json`, what JAX 0.10.2 says of the programs: run where that is installed.

`python tests/sharding/make_explicit_golden.py` from the top of the repository. The texts of errors
are printed, and not kept.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


def main() -> None:
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    jax: Any = importlib.import_module("jax")
    importlib.import_module("jax.scipy.linalg")
    table: Any = importlib.import_module("explicit_programs")
    mesh = jax.make_mesh((2, 2), ("X", "Y"))
    found: dict[str, dict[str, str]] = {}
    with jax.set_mesh(mesh):
        for program, operands in table.cases():
            result, text = table.outcome(jax, mesh, program, operands)
            found.setdefault(program, {})[operands] = result
            if "-v" in sys.argv:
                print(f"{program}    {operands}\n    {result}  {text[:400]}")
    (HERE / "explicit_golden.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
