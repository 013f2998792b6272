"""Machine code that comes with xpr, in objects beside the native part, and is linked into programs.

A program names an object by `path(...)`, whose folder it does not know, so that its text is the
same wherever xpr is installed; the compile puts the folder in.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

FUNCTIONS = "xpr_"
"""How the names of functions in objects begin. They end in `_` and the object's kind."""

_PREFIX = "xpr-objects/"
_FOLDER = f"{Path(__file__).resolve().parents[1] / 'runtimes'}/"
_SUFFIX = ".o"


def path(name: str) -> str:
    """How a program names an object."""
    return f"{_PREFIX}{name}{_SUFFIX}"


@functools.cache
def content(name: str) -> bytes | None:
    """The object of that name, if xpr was installed with it."""
    file = Path(f"{_FOLDER}{name}{_SUFFIX}")
    return file.read_bytes() if file.exists() else None


@functools.cache
def digest(name: str) -> str:
    """What tells an object from another one of the same name; empty if there is none."""
    found = content(name)
    return "" if found is None else hashlib.sha256(found).hexdigest()[:16]


FILES = ("products", "few_rows", "convolutions", "complex_numbers", "matrices")
"""The sources of functions; each is an object for every kind of processor."""


@functools.cache
def defining(function: str) -> bytes | None:
    """The object that holds a function."""
    _, _, kind = function.rpartition("_")
    if not function.startswith(FUNCTIONS):
        return None
    found = (content(f"{file}_{kind}") for file in FILES)
    name = b"\0" + function.encode() + b"\0"
    return next((data for data in found if data is not None and name in data), None)


def objects() -> list[Path]:
    """The files of all objects."""
    return sorted(Path(_FOLDER).glob(f"*{_SUFFIX}"))


@functools.cache
def has(file: str, function: str) -> bool:
    """Whether xpr was installed with that object, and it holds the function.

    The Python files of a source tree may be newer than its objects.
    """
    data = content(f"{file}_{function.rpartition('_')[2]}")
    return data is not None and b"\0" + function.encode() + b"\0" in data


def with_objects(text: str) -> str:
    """A program with the objects' places on this machine."""
    return text.replace(f'path = "{_PREFIX}', f'path = "{_place()}')


def without_objects(text: str) -> str:
    """The program from `with_objects`, as it was."""
    return text.replace(f'path = "{_place()}', f'path = "{_PREFIX}')


_PLAIN = re.compile(r"[\w./+~-]+", re.ASCII)


@functools.cache
def _place() -> str:
    """The folder, by a name that IREE may give to the shell as it is."""
    if _PLAIN.fullmatch(_FOLDER):
        return _FOLDER
    own = tempfile.mkdtemp(prefix="xpr-objects-")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    os.symlink(_FOLDER, f"{own}/objects")
    return f"{own}/objects/"
