"""What pip builds xpr with: scikit-build-core, but for one thing in editable installs.

There it adds a finder that comes before all others, so that `PYTHONPATH` could not name another
copy of the sources any more. The line with the folder of the sources, which it adds, too, is
enough: several work trees can share one environment, and Python starts a few milliseconds sooner.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

from scikit_build_core import build as _build
from scikit_build_core.build import build_sdist as build_sdist
from scikit_build_core.build import build_wheel as build_wheel

get_requires_for_build_editable = _build.get_requires_for_build_editable
get_requires_for_build_sdist = _build.get_requires_for_build_sdist
get_requires_for_build_wheel = _build.get_requires_for_build_wheel

_FINDER = "_editable_skbc_xpr"


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Builds the extension in place, and a wheel that leads to the sources; returns its name."""
    name = _build.build_editable(wheel_directory, config_settings, metadata_directory)
    _remove_finder(Path(wheel_directory) / name)
    return name


def _remove_finder(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = {info.filename: archive.read(info) for info in archive.infolist()}
    for ending in (".py", ".start"):
        files.pop(f"{_FINDER}{ending}", None)
    lines = files[f"{_FINDER}.pth"].decode().splitlines(keepends=True)
    files[f"{_FINDER}.pth"] = "".join(li for li in lines if not li.startswith("import ")).encode()
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    files[record] = _record(files, record)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def _record(files: dict[str, bytes], record: str) -> bytes:
    """The list of a wheel's files, with digest and size of each but itself."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for name, data in files.items():
        if name != record:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            writer.writerow((name, f"sha256={digest.decode()}", len(data)))
    writer.writerow((record, "", ""))
    return text.getvalue().encode()
