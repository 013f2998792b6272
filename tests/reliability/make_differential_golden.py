"""Makes `differential_golden.npz`, results of the programs of `differential` with JAX 0.10.2.

`python -m tests.reliability.make_differential_golden 600` from the top of the repository, where JAX
is and xpr need not be: the programs are run operation by operation. Exact results are kept as
digests, others as the first of their numbers.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tests.reliability import differential_programs as programs
from tests.reliability.differential import Library

FILE = Path(__file__).parent / "differential_golden.npz"
KEPT = 4
"""How many numbers of an inexact result are kept."""


def summary(x: Any, exact: bool) -> tuple[str, list[float]]:
    """The type of a result with a digest of what must be equal, and what must be close."""
    found = np.asarray(x)
    name = f"{found.dtype.name}{list(found.shape)}"
    if exact:
        # Zeros have no sign here, and NaNs no payload.
        plain = found + found.dtype.type(0) if found.dtype.name != "bool" else found
        wide = plain.astype(np.float64) if plain.dtype.kind not in "biuc" else plain
        return f"{name}{hashlib.sha256(wide.tobytes()).hexdigest()[:12]}", []
    wide = found.reshape(-1)[:KEPT].astype(np.complex128)
    return name, [v for z in wide.tolist() for v in (z.real, z.imag)]


def summaries(lib: Library, number: int, arrays: list[Any]) -> list[tuple[str, list[float]]]:
    """Those of all results of a program."""
    notes: list[bool] = []
    made = programs.results(programs.program(number), arrays, lib, notes)
    return [summary(x, exact) for x, exact in zip(made, notes, strict=True)]


def main() -> None:
    jax: Any = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    jnp, lax, nn = (importlib.import_module(f"jax.{name}") for name in ("numpy", "lax", "nn"))
    lib = Library(jnp, lax, nn, jax)
    names: list[list[str]] = []
    numbers: list[float] = []
    for k in range(int(sys.argv[1])):
        arrays = [lib.jnp.asarray(x) for x in programs.program(k).operands]
        found = summaries(lib, k, arrays)
        names.append([name for name, _ in found])
        for _, values in found:
            numbers += values
        if k % 20 == 19:
            kept = np.array(numbers, np.float32)
            np.savez_compressed(FILE, names=json.dumps(names), numbers=kept)
            print(k + 1, flush=True)


if __name__ == "__main__":
    main()
