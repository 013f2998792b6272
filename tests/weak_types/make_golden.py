"""Makes `golden.json` and `golden_x64.json`, the types of the results with JAX 0.10.2.

`python tests/weak_types/make_golden.py` from the top of the repository, where JAX is installed.
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
    for name, groups, wide in (
        ("golden.json", operands.groups(), False),
        ("golden_x64.json", operands.wide_groups(), True),
    ):
        jax.config.update("jax_enable_x64", wide)
        rows = make_rows(jax, operands, groups)
        (HERE / name).write_text(json.dumps(rows, indent=0) + "\n")


def make_rows(jax: Any, operands: Any, groups: dict[str, Any]) -> dict[str, list[str]]:
    """The outcomes of all calls, each with the expressions that have it."""
    rows: dict[str, list[str]] = {}
    for cases in groups.values():
        for case in cases:
            (found,) = operands.traced(jax, [case])
            # What needs values is tried with them, and marked.
            failed = [i for i, c in enumerate(found) if c.startswith("!")]
            again = operands.at_once(jax, [(case[0], [case[1][i] for i in failed])])[0]
            for i, known in zip(failed, again, strict=True):
                found[i] = known if known.startswith("!") else f"@{known}"
            # Many rows are the same.
            rows.setdefault(" ".join(c or "-" for c in found), []).append(case[0])
    return rows


if __name__ == "__main__":
    main()
