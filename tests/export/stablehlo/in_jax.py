"""Runs xpr's programs in JAX: the figures of docs/stablehlo.md.

First, where xpr is, `python -m tests.export.stablehlo.in_jax write FOLDER` writes programs with
`serialize(format="jax")`, their operands and the expected results: the functions of
`make_golden.py` traced by xpr, with the results that JAX computed for its own, and the rows of the
operation table, with those of the reference rules. `write FOLDER table` and `write FOLDER programs`
write one of both. Then, where JAX and flatbuffers are and xpr need not be, `python
tests/export/stablehlo/in_jax.py run FOLDER` calls them by `jax.export.deserialize` and compares.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
import zlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

_LOOSER = 1e-4
_DTYPES = ("bfloat16", "int4", "uint4", "int2", "uint2")


# ---- arrays as files: NumPy's do not hold all dtypes


def _stored(arrays: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    found = [np.asarray(a) for a in arrays]
    about = [[a.dtype.name, list(a.shape)] for a in found]
    return about, {str(i): np.frombuffer(a.tobytes(), np.uint8) for i, a in enumerate(found)}


def _read(about: list[Any], files: Any) -> list[Any]:
    out = []
    for i, (name, shape) in enumerate(about):
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        out.append(files[str(i)].view(dtype).reshape(shape))
    return out


def _save(folder: Path, name: str, blob: bytes, arrays: list[Any], about: dict[str, Any]) -> None:
    about["arrays"], data = _stored(arrays)
    (folder / f"{name}.jax").write_bytes(blob)
    (folder / f"{name}.json").write_text(json.dumps(about), encoding="utf-8")
    np.savez(folder / f"{name}.npz", **data)


# ---- writing, with xpr


def _write_programs(folder: Path) -> None:
    import xpr  # noqa: PLC0415  not where JAX is
    from tests.export.stablehlo import make_golden  # noqa: PLC0415
    from tests.export.stablehlo.programs import jax_program  # noqa: PLC0415

    make_golden.jax, make_golden.jnp, make_golden.lax = xpr, xpr.numpy, xpr.lax
    for name, (function, args, shapes, vjp, kwargs) in make_golden.PROGRAMS.items():
        _, ins, outs = jax_program(name)
        try:
            with xpr.enable_x64(name == "wide_types"):
                specs = args
                if shapes is not None:
                    scope = xpr.export.SymbolicScope()
                    specs = tuple(
                        xpr.ShapeDtypeStruct(xpr.export.symbolic_shape(s, scope=scope), a.dtype)
                        for s, a in zip(shapes, args, strict=True)
                    )
                made = xpr.export.export(xpr.jit(function), platforms=("cpu",))(*specs, **kwargs)
                blob = bytes(made.serialize(vjp, format="jax"))
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}")
            continue
        ins = xpr.tree_util.tree_leaves((args, kwargs))
        about = {"ins": len(ins), "tolerances": [[1e-4, 1e-5]] * len(outs), "x64": False}
        about["x64"] = name == "wide_types"
        _save(folder, name, blob, [*ins, *outs], about)


def _write_table(folder: Path) -> None:
    import xpr  # noqa: PLC0415
    from tests.harness import run_reference  # noqa: PLC0415
    from tests.op_runs import operands_of  # noqa: PLC0415
    from tests.op_table import all_rows  # noqa: PLC0415

    for rows in all_rows().values():
        for row in rows:
            if "promise_in_bounds" in row.id:
                continue  # what happens out of bounds is left open
            dtypes = sorted(row.dtypes)
            dtype = dtypes[zlib.crc32(row.id.encode()) % len(dtypes)]
            operands = operands_of(row, dtype)
            try:
                with xpr.enable_x64(True):
                    function = xpr.jit(lambda *xs, f=row.function: f(*xs))
                    made = xpr.export.export(function, platforms=("cpu",))(*operands)
                    blob = bytes(made.serialize(format="jax"))
                    expected = run_reference([(row.function, operands)])[0]
            except Exception as error:
                print(f"{row.id} {dtype}: {type(error).__name__}: {error}")
                continue
            tolerances = []
            for one in expected:
                rtol, atol = row.tolerance_for(one.dtype)
                if one.dtype.kind in "fcV":
                    rtol, atol = max(rtol, _LOOSER), max(atol, _LOOSER)
                tolerances.append([rtol, atol])
            name = "".join(c if c.isalnum() or c in "-_." else "_" for c in f"{row.id}-{dtype}")
            about = {"ins": len(operands), "tolerances": tolerances, "x64": True}
            _save(folder, name, blob, [*operands, *expected], about)


# ---- running, with JAX


def _compare(found: Any, expected: Any, rtol: float, atol: float) -> str | None:
    x = np.asarray(found)
    if (x.shape, x.dtype) != (expected.shape, expected.dtype):
        if expected.dtype.kind == "f" and x.dtype.kind == "V":
            x = x.astype(expected.dtype)  # as NumPy's files hold it
        elif x.shape != expected.shape or x.dtype.itemsize * 4 < expected.dtype.itemsize:
            return f"{x.dtype}{x.shape} instead of {expected.dtype}{expected.shape}"
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, b = x.astype(wide), expected.astype(wide)
    if np.allclose(a, b, rtol, atol, equal_nan=True):
        return None
    return f"differs: {a.ravel()[:6]} instead of {b.ravel()[:6]}"


def _run(folder: Path) -> int:
    os.environ.setdefault("JAX_TRACEBACK_FILTERING", "off")
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    jax = importlib.import_module("jax")
    export = importlib.import_module("jax.export")
    good, bad = 0, 0
    for path in sorted(folder.glob("*.jax")):
        about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        arrays = _read(about["arrays"], np.load(path.with_suffix(".npz")))
        ins, outs = arrays[: about["ins"]], arrays[about["ins"] :]
        try:
            with jax.enable_x64(about["x64"]):
                made = export.deserialize(bytearray(path.read_bytes()))
                if made.nr_devices > 1:
                    mesh = jax.make_mesh((made.nr_devices,), ("devices",))
                    ins = jax.device_put(ins, jax.NamedSharding(mesh, jax.P()))
                args, kwargs = jax.tree.unflatten(made.in_tree, ins)
                found = jax.tree.leaves(made.call(*args, **kwargs))
            reason = None if len(found) == len(outs) else f"{len(found)} results"
            for x, y, (rtol, atol) in zip(found, outs, about["tolerances"], strict=False):
                reason = reason or _compare(x, y, rtol, atol)
        except Exception:
            reason = traceback.format_exc().strip().splitlines()[-1][:300]
        good, bad = good + (reason is None), bad + (reason is not None)
        if reason is not None:
            print(f"{path.stem}: {reason}", flush=True)
    print(f"{good} of {good + bad} programs give the expected results in JAX {jax.__version__}")
    return int(bad > 0)


def main() -> int:
    """Writes or runs."""
    mode, folder = sys.argv[1], Path(sys.argv[2])
    if mode == "run":
        return _run(folder)
    which = sys.argv[3:] or ["programs", "table"]
    folder.mkdir(parents=True, exist_ok=True)
    if "programs" in which:
        _write_programs(folder)
    if "table" in which:
        _write_table(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
