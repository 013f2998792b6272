"""Writes data/key_arrays.json with real JAX: `python -m tests.random.make_key_array_golden`."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from tests.random.key_array_cases import CASES, shown

FILE = Path(__file__).parent / "data" / "key_arrays.json"


def main() -> None:
    module: Any = importlib.import_module("jax")
    found = {name: shown(module, case) for name, case in CASES.items()}
    text = json.dumps({"jax": module.__version__, "cases": found}, indent=1)
    FILE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
