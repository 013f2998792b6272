"""Spares LLVM the functions that IREE adds to each library of dispatches.

Those are a software `fma`, conversions of half floats, `memcpy` and the like, which LLVM may come
to call once it has chosen instructions. Dispatches hardly ever do, but nothing takes the functions
out again: of a dispatch with three instructions LLVM spends three quarters of its time on them.

LLVM adds to functions the attributes that a file lists, and reads the file anew in each run of its
passes. Where it was given `options`, and inside of `spared`, it lists these functions as `optnone`.
What is compiled so is only of use if no dispatch calls them, which the linker finds out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator

from xpr.runtimes import fork

_files: list[int] = []
"""The descriptor of the file in memory that LLVM reads, once it does."""


def options() -> list[str]:
    """What LLVM is given to read the file, in a process that compiles one program after the other.

    The process must not close the file, which rules out those of users.
    """
    if not hasattr(os, "memfd_create"):
        return []
    file = os.memfd_create("xpr-attributes")
    path = f"/proc/self/fd/{file}"
    if not os.access(path, os.R_OK):  # where /proc is not mounted
        os.close(file)
        return []
    _files.append(file)
    return [f"-forceattrs-csv-path={path}"]


def are_spared() -> bool:
    """Whether `spared` changes anything."""
    return bool(_files)


@contextlib.contextmanager
def spared(names: Collection[str]) -> Iterator[None]:
    """Inside the block LLVM does without optimizing these functions."""
    (file,) = _files
    listed = "".join(f"{name},{a}\n" for name in sorted(names) for a in ("noinline", "optnone"))
    os.pwrite(file, listed.encode(), 0)
    try:
        yield
    finally:
        os.ftruncate(file, 0)


@fork.in_child
def _own_files() -> None:
    """Takes a file of its own to where LLVM looks for it: the parent has the other one."""
    for file in _files:
        own = os.memfd_create("xpr-attributes")
        os.dup2(own, file, inheritable=False)
        os.close(own)
