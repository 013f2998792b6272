"""The programs of the tests: their archives, and how results are compared."""

from __future__ import annotations

import io
import json
import os
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parent / "golden"
TOLERANCES = {
    "float64": 1e-9,
    "complex128": 1e-9,
    "float32": 2e-4,
    "complex64": 2e-4,
    "float16": 5e-3,
    "bfloat16": 4e-2,
}


@cache
def members(name: str) -> dict[str, bytes]:
    """The files of an archive."""
    out = {}
    with tarfile.open(GOLDEN / name) as archive:
        for member in archive:
            opened = archive.extractfile(member)
            assert opened is not None
            out[member.name] = opened.read()
    return out


@cache
def stablehlo_programs() -> dict[str, tuple[str, str]]:
    """StableHLO's test programs by name, each with how it compares: all of them where
    XPR_STABLEHLO_DATA names a folder, else the sample."""
    folder = os.environ.get("XPR_STABLEHLO_DATA")
    if folder:
        kinds = json.loads((Path(folder) / "kinds.json").read_text(encoding="utf-8"))
        files = {p.name: p.read_bytes() for p in sorted(Path(folder).glob("*.mlir"))}
    else:
        files = dict(members("programs.tar.xz"))
        kinds = json.loads(files["kinds.json"])
    return {n: (f.decode(), kinds[n]) for n, f in files.items() if n.endswith(".mlir")}


def jax_names() -> list[str]:
    """The programs that JAX exported."""
    return [n.removesuffix(".jax") for n in members("jax.tar.xz") if n.endswith(".jax")]


def jax_program(name: str) -> tuple[bytes, list[Any], list[Any]]:
    """The bytes of a program of JAX's, its flat inputs and JAX's results."""
    files = members("jax.tar.xz")
    arrays = np.load(io.BytesIO(files[f"{name}.npz"]))
    ins = [arrays[f"in{i}"] for i in range(len(arrays)) if f"in{i}" in arrays]
    outs = [arrays[f"out{i}"] for i in range(len(arrays)) if f"out{i}" in arrays]
    return files[f"{name}.jax"], ins, outs


def difference(found: Any, expected: Any, exact: bool) -> str | None:
    """How two results differ; None where they agree."""
    a, b = np.asarray(found), np.asarray(expected)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return f"{a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
    if exact or a.dtype.name not in TOLERANCES:
        same = a.tobytes() == b.tobytes() or np.array_equal(
            a, b, equal_nan=a.dtype.name in TOLERANCES and a.dtype.kind != "V"
        )
        return None if same else f"{np.sum(a != b)} of {a.size} elements differ"
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    tolerance = TOLERANCES[a.dtype.name]
    parts = [(x.real, y.real), (x.imag, y.imag)] if a.dtype.kind == "c" else [(x, y)]
    for p, q in parts:
        if not np.allclose(p, q, tolerance, tolerance, equal_nan=True):
            return f"they differ by up to {np.nanmax(np.abs(p - q))}"
    return None
