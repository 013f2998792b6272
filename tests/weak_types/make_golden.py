"""Makes `golden.json`, the types of the results with JAX 0.10.2: run where that is installed.

`python tests/weak_types/make_golden.py` from the top of the repository.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))


def main() -> None:
    jax: Any = importlib.import_module("jax")
    operands: Any = importlib.import_module("tests.weak_types.operands")
    warnings.simplefilter("ignore")
    rows: dict[str, list[str]] = {}
    for cases in operands.groups().values():
        for case in cases:
            (found,) = operands.traced(jax, [case])
            # What needs values is tried with them, and marked.
            failed = [i for i, c in enumerate(found) if c.startswith("!")]
            again = operands.at_once(jax, [(case[0], [case[1][i] for i in failed])])[0]
            for i, known in zip(failed, again, strict=True):
                found[i] = known if known.startswith("!") else f"@{known}"
            # Many rows are the same.
            rows.setdefault(" ".join(c or "-" for c in found), []).append(case[0])
    (HERE / "golden.json").write_text(json.dumps(rows, indent=0) + "\n")


if __name__ == "__main__":
    main()
