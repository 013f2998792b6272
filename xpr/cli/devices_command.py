"""`xpr devices`: what there is to run on."""

from __future__ import annotations

import argparse
import importlib.util
import os

import xpr
from xpr.distributed import launchers
from xpr.lowering.iree import self_test
from xpr.runtimes.extension import native


def run(options: argparse.Namespace) -> int:
    """Prints the table of devices, with the reason for each runtime that does not work here."""
    xpr.print_devices()
    print(f"\nnative part: {native().describe()}")
    print(f"compiler: {_compiler()}")
    print(f"several processes: {_launcher()}")
    return 0


def _compiler() -> str:
    """The release of IREE's compiler, and whether xpr was tested with it."""
    if importlib.util.find_spec("iree.compiler") is None:
        return "iree-base-compiler is not installed; programs in the compile cache run without"
    return f"iree-base-compiler {self_test.remembered()}"


def _launcher() -> str:
    """What `xpr launch` would start processes with, or why it cannot."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed (pip install 'xpr[mpi]')"
    try:
        found = launchers.find(os.environ)
    except launchers.LauncherMissingError as error:
        return str(error)
    return f"`xpr launch -n 4 program.py`, by {found.path} ({found.version})"
