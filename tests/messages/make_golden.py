"""Writes golden.json with JAX: run by hand, in an environment that has JAX and not xpr.

    python make_golden.py FOLDER

FOLDER holds lists of public names, a name of `jax` on each line of its files.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from calls import LEFT_OUT, TYPES, calls, find, parameters, raised, stem


def joined(rows: dict[str, list[str]]) -> dict[str, str]:
    return {name: " ".join(labels) for name, labels in rows.items()}


def main(folder: Path) -> None:
    jax: Any = importlib.import_module("jax")
    names: dict[str, None] = {}
    for file in sorted(folder.glob("*.txt")):
        names |= dict.fromkeys(n.removeprefix("jax.") for n in file.read_text().split())
    key = jax.random.key(0)
    functions: dict[str, Any] = {}
    accepted: dict[str, list[str]] = {}
    strict: dict[str, list[str]] = {}
    table: dict[str, dict[str, dict[str, list[str]]]] = {}
    for name in names:
        try:
            function = find(jax, name)
        except (AttributeError, ImportError):
            continue
        if LEFT_OUT.match(name) or not callable(function):
            continue
        if name.startswith("Array.") and isinstance(getattr(jax.Array, name[6:]), property):
            continue
        if isinstance(function, type) and name not in TYPES:
            continue
        if "typing" in type(function).__module__ or name == "Array":
            continue
        whole = getattr(jax.Array, name[6:]) if name.startswith("Array.") else function
        count, named = parameters(name, whole)
        functions[name] = [count, named]
        for label, args, kwargs in calls(name, count, named, key):
            found = raised(jax, function, args, kwargs)
            if found is None:
                accepted.setdefault(name, []).append(label)
                with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
                    if raised(jax, function, args, kwargs) is None:
                        strict.setdefault(name, []).append(label)
                continue
            classes, message = found
            public = next(c for c in classes if not c.startswith("_"))
            rows = table.setdefault(public, {}).setdefault(stem(name, message), {})
            rows.setdefault(name, []).append(label)
    golden = {
        "version": jax.__version__,
        "functions": functions,
        "accepted": joined(accepted),
        "strict": joined(strict),
        "raised": {c: {m: joined(r) for m, r in rows.items()} for c, rows in table.items()},
    }
    text = json.dumps(golden, indent=0, separators=(",", ":"), sort_keys=True)
    (Path(__file__).parent / "golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
