"""The script of a GPU kit: looks whether the kit is whole, unpacks it, and runs its rows.

    python3 gpu_kit.py                         # CUDA, then Vulkan, all rows
    python3 gpu_kit.py --runtime cuda --minutes 8 --lines /tmp/out/gpu.jsonl

It needs Python's own library alone; the programs need NumPy, ml_dtypes, SciPy and opt_einsum, which
are looked for first. Other options go to `python -m benchmarks.gpu`. The exit status is the
greatest of the runs, or 4 for a kit that is damaged or does not fit the machine.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

UNUSABLE = 4
_NEEDED = ("numpy", "ml_dtypes", "scipy", "opt_einsum")
_ICD = "/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json"
_BLOCK = 1 << 20
_LEAST_FREE = 1 << 30


class UnusableKitError(Exception):
    """The kit cannot be used; the message says why, in one line."""


def verify(kit: Path) -> dict[str, object]:
    """The manifest of a kit whose files are all as they were made."""
    try:
        manifest = json.loads((kit / "manifest.json").read_text(encoding="utf-8"))
        digests = dict(manifest["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnusableKitError(f"the kit in {kit} is damaged: manifest.json: {error}") from None
    for name, digest in digests.items():
        try:
            found = hashlib.sha256((kit / name).read_bytes()).hexdigest()
        except OSError as error:
            raise UnusableKitError(f"the kit in {kit} is damaged: {name}: {error}") from None
        if found != digest:
            raise UnusableKitError(f"the kit in {kit} is damaged: {name} is not as it was made")
    return manifest


def check_machine(kit: Path) -> None:
    """Raises for a machine on which the kit's wheels do not run."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise UnusableKitError(
            f"the kit is for Linux on x86-64, and this is {platform.system()} on "
            f"{platform.machine()}"
        )
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UnusableKitError(f"the kit needs {', '.join(missing)}, which this Python lacks")
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    for wheel in sorted((kit / "wheels").glob("*.whl")):
        python, abi = wheel.stem.split("-")[2:4]
        fits = abi == "none" or tag in python.split(".")
        fits |= abi == "abi3" and int(python.removeprefix("cp3")) <= sys.version_info[1]
        if not fits:
            raise UnusableKitError(f"{wheel.name} is for another Python than this one, {tag}")


def unpack(kit: Path, into: Path) -> dict[str, str]:
    """Unpacks a kit; what the environment of its programs has to say."""
    free = shutil.disk_usage(into).free
    if free < _LEAST_FREE:
        raise UnusableKitError(f"{into} has {free >> 20} MiB left, and the kit needs 1024 MiB")
    for name in ("source", "cache"):
        with tarfile.open(kit / f"{name}.tar.xz") as archive:
            archive.extractall(into / name, filter="data")
    # The cache reads files that the user alone may write.
    for path in ((into / "cache"), *(into / "cache").rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    site = into / "site"
    for wheel in sorted((kit / "wheels").glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    folders = [str(into / "source"), str(site), os.environ.get("PYTHONPATH", "")]
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, folders)),
        "XPR_CACHE_DIR": str(into / "cache"),
    }
    for package in sorted(kit.glob("*.deb")):
        _unpack_deb(package, into / "loader")
        found = [str(p.parent) for p in (into / "loader").rglob("libvulkan.so.1")]
        paths = [*found, os.environ.get("LD_LIBRARY_PATH", "")]
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    if os.path.exists(_ICD) and "VK_DRIVER_FILES" not in os.environ:
        environment["VK_DRIVER_FILES"] = environment["VK_ICD_FILENAMES"] = _ICD
    return environment


def _unpack_deb(package: Path, into: Path) -> None:
    """Unpacks the files of a Debian package: an `ar` archive with one of tar in it."""
    content = package.read_bytes()
    if not content.startswith(b"!<arch>\n"):
        raise UnusableKitError(f"the kit is damaged: {package.name} is no Debian package")
    at = 8
    while at + 60 <= len(content):
        name = content[at : at + 16].decode("ascii", "replace").strip().rstrip("/")
        size = int(content[at + 48 : at + 58])
        if name.startswith("data.tar"):
            data = content[at + 60 : at + 60 + size]
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                archive.extractall(into, filter="data")
            return
        at += 60 + size + size % 2
    raise UnusableKitError(f"the kit is damaged: {package.name} has no files")


def main(arguments: list[str] | None = None) -> int:
    """Runs the kit beside this file."""
    parser = argparse.ArgumentParser(prog="gpu_kit.py", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--into", type=Path, help="unpack there, and leave it")
    parser.add_argument("--runtime", action="append", help="cuda, vulkan, ...; several, in order")
    options, rest = parser.parse_known_args(arguments)
    kit = Path(__file__).resolve().parent
    try:
        manifest = verify(kit)
        check_machine(kit)
        with tempfile.TemporaryDirectory(prefix="xpr-gpu-") as folder:
            into = options.into or Path(folder)
            into.mkdir(parents=True, exist_ok=True)
            environment = {**os.environ, **unpack(kit, into)}
            flags = [str(flag) for flag in manifest.get("flags", [])]  # type: ignore[attr-defined]
            statuses = [0]
            for runtime in options.runtime or ["cuda", "vulkan"]:
                command = [sys.executable, "-m", "benchmarks.gpu", "--runtime", runtime]
                done = subprocess.run([*command, *flags, *rest], env=environment, check=False)
                statuses.append(done.returncode)
            return max(statuses)
    except UnusableKitError as error:
        print(error, file=sys.stderr)
        return UNUSABLE


if __name__ == "__main__":
    sys.exit(main())
