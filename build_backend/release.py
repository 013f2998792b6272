"""Builds what a release ships, and tries each file in fresh environments of every Python found.

`make release` builds a source distribution, and from it, with each Python from 3.11 to 3.14 that
there is, a wheel with the native part and one without. Each wheel is installed where nothing else
is, and a program runs on it far from these sources. For the Pythons that are not here pip says
whether there are wheels of everything that ours need. The files are left in `dist/`; a table says
what went well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MINORS = range(11, 15)
NO_COMPILER = {"CC": "/nonexistent", "CXX": "/nonexistent"}

PROGRAM = """
import pathlib, tempfile
import numpy as np
import xpr
import xpr.numpy as xnp
from xpr import export

x = np.linspace(0, 1, 12, dtype="float32").reshape(3, 4)
f = xpr.jit(lambda x: xnp.tanh(x @ x.T).sum())
np.testing.assert_allclose(np.asarray(f(x)), np.tanh(x @ x.T).sum(), rtol=1e-5)
slope = np.asarray(xpr.jit(xpr.grad(f))(x))
moved = x + np.float32(1e-3) * slope
assert np.asarray(f(moved)) > np.asarray(f(x))
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "f.xpr"
    export.export(f)(xpr.ShapeDtypeStruct((3, 4), "float32")).save(path)
    np.testing.assert_allclose(np.asarray(export.load(path).call(x)), np.asarray(f(x)), rtol=1e-6)
from xpr.runtimes.extension import native
print("native" if native().module is not None else "pure")
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds sdist and wheels, and tries them.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the files go")
    parser.add_argument("--pythons", nargs="+", help="interpreters, instead of those in PATH")
    chosen = parser.parse_args()
    pythons = dict(interpreters(chosen.pythons or [f"python3.{m}" for m in MINORS]))
    if not pythons:
        print("no Python from 3.11 to 3.14 was found", file=sys.stderr)
        return 1
    chosen.out.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[str, str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        sdist = source_distribution(next(iter(pythons.values())), Path(folder), chosen.out)
        for version, python in pythons.items():
            for kind, extra in (("native", {}), ("pure", NO_COMPILER)):
                place = Path(folder) / f"{version}-{kind}"
                rows.append((version, kind, tried(python, kind, extra, sdist, place, chosen.out)))
        if chosen.pythons is None:
            absent = [f"3.{m}" for m in MINORS if f"3.{m}" not in pythons]
            rows += [(v, "", resolved(v, Path(folder), chosen.out)) for v in absent]
    for row in rows:
        print("{:8} {:8} {}".format(*row))
    return 0 if all(said.startswith("good") for *_, said in rows) else 1


def interpreters(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The interpreters that start, by their version."""
    for name in names:
        path = shutil.which(name)
        if path is None:
            continue
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() in {f"3.{m}" for m in MINORS}:
            yield done.stdout.strip(), path
        else:
            print(f"{path} is left out: {done.stderr.strip() or done.stdout.strip()}")


def environment(python: str, place: Path) -> Path:
    """A fresh environment; returns its interpreter."""
    run(python, "-m", "venv", place)
    return interpreter_in(place)


def interpreter_in(place: Path) -> Path:
    return place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def source_distribution(python: str, folder: Path, out: Path) -> Path:
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    builder = environment(python, folder / "builder")
    run(builder, "-m", "pip", "install", "--quiet", *requires)
    code = (
        "import sys; sys.path.insert(0, 'build_backend'); import backend; "
        "print(backend.build_sdist(sys.argv[1]))"
    )
    return out / run(builder, "-c", code, out.resolve()).strip().splitlines()[-1]


def tried(
    python: str, kind: str, extra: dict[str, str], sdist: Path, place: Path, out: Path
) -> str:
    """Builds a wheel, installs it and runs the program: what came of it."""
    try:
        fresh = environment(python, place / "environment")
        options = ("--quiet", "--no-deps", "--wheel-dir", place)
        run(fresh, "-m", "pip", "wheel", *options, sdist.resolve(), settings=extra)
        (wheel,) = place.glob("*.whl")
        run(fresh, "-m", "pip", "install", "--quiet", wheel)
        # Nothing of what was compiled before, and nothing of these sources.
        settings = {"XPR_CACHE_DIR": str(place / "cache"), "PYTHONPATH": ""}
        found = run(fresh, "-I", "-c", PROGRAM, cwd=place, settings=settings).strip()
    except subprocess.CalledProcessError as error:
        return f"failed: {error.cmd[1:5]}\n{error.stdout}{error.stderr}"
    if found != kind:
        return f"failed: the wheel is {found}"
    kept = out / kind / wheel.name
    kept.parent.mkdir(exist_ok=True)
    shutil.copy2(wheel, kept)
    return f"good: {kind}/{wheel.name}"


def resolved(version: str, folder: Path, out: Path) -> str:
    """For a Python that is not here: whether pip finds wheels of all that xpr needs with it."""
    python = interpreter_in(folder / "builder")
    pip = (python, "-m", "pip", "install", "--dry-run", "--quiet")
    options = ("--only-binary", ":all:", "--python-version", version, "--ignore-installed")
    for kind in ("native", "pure"):
        # A native wheel for a later version does not fit an earlier one.
        for wheel in sorted((out / kind).glob("*.whl")):
            try:
                run(*pip, *options, "--target", folder / "none", wheel)
            except subprocess.CalledProcessError:
                continue
            return f"good: not here, and not run; all wheels are there for {kind}/{wheel.name}"
    return "failed: not here, and pip finds no wheels for it"


def run(*command: str | Path, cwd: Path = ROOT, settings: dict[str, str] | None = None) -> str:
    """What a command prints. Raises CalledProcessError where it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **(settings or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
