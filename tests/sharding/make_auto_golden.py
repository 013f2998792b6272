"""Makes `auto_golden.json`, the shardings that JAX 0.10.2 gives results: run where it is installed.

`python tests/sharding/make_auto_golden.py` from the top of the repository.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


def main() -> None:
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    jax: Any = importlib.import_module("jax")
    table: Any = importlib.import_module("auto_programs")
    sharding = jax.sharding
    names, sizes = zip(*table.MESH, strict=True)
    mesh = sharding.Mesh(np.array(jax.devices()).reshape(sizes), names)
    found: dict[str, list[str]] = {}
    for name, function, operands in table.cases(jax):
        arrays = []
        for shape, spec in map(table.parsed, operands):
            place = sharding.NamedSharding(mesh, sharding.PartitionSpec(*spec))
            arrays.append(jax.device_put(np.ones(shape, np.float32), place))
        results = jax.tree.leaves(jax.jit(function)(*arrays))
        found[name] = [table.shown(r.sharding.spec, r.ndim) for r in results]
    (HERE / "auto_golden.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
