"""``python -m benchmarks.gpu.kit FOLDER``: makes the folder that goes to a machine with a GPU.

It holds xpr's files, the rows, a compile cache filled for devices that are not here, the wheels
that such a machine lacks, Debian's Vulkan loader, and the script that runs them (`unpack.py`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu import __main__ as rows_command
from xpr.version import __version__

ROOT = Path(__file__).parents[2]
DEVICES = ("cuda:sm_90", "vulkan:nvidia")
MOST_BYTES = 40_000_000
PYTHON = "3.12"

_WHEELS = (
    *("iree-base-runtime==3.13.*", "optree", "platformdirs", "threadpoolctl"),
    "typing_extensions",  # optree's
)
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64", "any")
_LOADER = "libvulkan1"
_ORACLES = ("tests/primitives/index_oracle.py", "tests/nn/block_layouts.py")
# xpr's own links to the two folders become folders.
_SOURCES = ("xpr", "benchmarks", "tests/op_rows", *_ORACLES)
_TESTS = ("__init__", "op_table", "op_row", "op_gaps")
_LEFT_OUT = ("__pycache__", ".so", ".o", ".pyc", "native", "absent.egg-info")


class KitError(RuntimeError):
    """The kit cannot be made; the message says why."""


def make(
    folder: Path,
    *,
    devices: Sequence[str] = DEVICES,
    only: str | None = None,
    quick: bool = False,
    wheels: Path | None = None,
    loader: Path | None = None,
    python: str = PYTHON,
) -> int:
    """Makes a kit in an empty folder; its size in bytes. It is for one version of Python.

    `wheels` is a folder of wheels and `loader` a Debian package to take in place of what pip and
    apt download. Raises `KitError` if a row fails, a download does, or the kit is too large.
    """
    if folder.exists() and any(folder.iterdir()):
        raise KitError(f"{folder} is not empty")
    folder.mkdir(parents=True, exist_ok=True)
    flags = ["--quick"] if quick else []
    with tempfile.TemporaryDirectory(prefix="xpr-kit-") as work:
        cache = Path(work) / "cache"
        cache.mkdir()
        for device in devices:
            command = ["--absent", device, "--cache", str(cache), *flags]
            if only is not None:
                command += ["--only", only]
            if rows_command.main(command) != rows_command.RIGHT:
                raise KitError(f"some rows failed for {device}: see above")
        _pack(folder / "cache.tar.xz", cache, [(cache, ".")])
    _pack(folder / "source.tar.xz", ROOT, _sources())
    _take(folder / "wheels", wheels, python)
    if loader is not None:
        shutil.copy(loader, folder)
    elif any(device.startswith("vulkan") for device in devices):
        _download_loader(folder)
    shutil.copy(Path(__file__).with_name("unpack.py"), folder / "gpu_kit.py")
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    manifest = {
        "xpr": __version__,
        "devices": list(devices),
        "flags": flags + ([] if only is None else ["--only", only]),
        "files": {
            str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files
        },
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    if size > MOST_BYTES:
        raise KitError(f"the kit has {size} bytes, more than {MOST_BYTES}")
    return size


def _sources() -> list[tuple[Path, str]]:
    found = [(ROOT / name, name) for name in _SOURCES]
    found += [(ROOT / "tests" / f"{name}.py", f"tests/{name}.py") for name in _TESTS]
    return found


def _pack(file: Path, root: Path, parts: Sequence[tuple[Path, str]]) -> None:
    """Writes files and folders to an archive, links as what they point to."""

    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        name = member.name.rsplit("/", 1)[-1]
        if name.endswith(_LEFT_OUT) and (not member.isdir() or name in _LEFT_OUT):
            return None
        # Who made it and when does not matter, and makes archives of the same files differ.
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(file, "w:xz", dereference=True) as archive:
        for path, name in parts:
            if not path.exists():
                raise KitError(f"{path} is missing in {root}")
            archive.add(path, name, filter=kept)


def _take(into: Path, given: Path | None, python: str) -> None:
    into.mkdir()
    if given is None:
        _download_wheels(into, python)
        return
    found = sorted(given.glob("*.whl"))
    if not found:
        raise KitError(f"{given} holds no wheels")
    for wheel in found:
        shutil.copy(wheel, into)


def _download_wheels(into: Path, python: str) -> None:
    platforms = [word for p in _PLATFORMS for word in ("--platform", p)]
    abi = f"cp{python.replace('.', '')}"
    abis = [word for a in (abi, "abi3", "none") for word in ("--abi", a)]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    _call(
        [
            *(*pip, f"--python-version={python}", "--implementation=cp", *abis, *platforms),
            *("--dest", str(into), *_WHEELS),
        ],
        "the wheels",
    )


def _download_loader(into: Path) -> None:
    apt = shutil.which("apt-get")
    if apt is None:
        raise KitError(f"no apt-get to download {_LOADER} with: name a package by --loader")
    _call([apt, "download", "--quiet", _LOADER], _LOADER, into)


def _call(command: Sequence[str], what: str, folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise KitError(f"{what} cannot be downloaded: {said[-1] if said else 'no reason is known'}")


def main(arguments: list[str] | None = None) -> int:
    """Makes a kit as the command line says; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.kit", description="Make a kit.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", action="append", help=f"by default {' and '.join(DEVICES)}")
    parser.add_argument("--only", metavar="WORDS", help="rows whose names contain one of these")
    parser.add_argument("--quick", action="store_true", help="small sizes, on software devices")
    parser.add_argument(
        "--python", default=PYTHON, help=f"the Python that runs it (default: {PYTHON})"
    )
    parser.add_argument(
        "--wheels", type=Path, help="a folder of wheels, so that none is downloaded"
    )
    parser.add_argument("--loader", type=Path, help="a Debian package with the Vulkan loader")
    options = parser.parse_args(arguments)
    try:
        size = make(
            options.folder,
            devices=options.device or DEVICES,
            only=options.only,
            quick=options.quick,
            wheels=options.wheels,
            loader=options.loader,
            python=options.python,
        )
    except KitError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{options.folder}: {size / 1e6:.1f} MB", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
