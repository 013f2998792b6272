"""Programs that stay untouched, run with `jax` naming xpr.

Their processes started by `multiprocessing` run so as well: what they are told to run as the main
module is this package, which finds the program in the environment.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from collections.abc import Sequence
from multiprocessing import spawn
from typing import Any

USAGE = "usage: python -m xpr.compat script.py | -m module | -c code [arguments]"
VARIABLE = "XPR_COMPAT_MAIN"
"""Tells child processes what the main module is: "file:path", "module:name" or "code:"."""

_CHILD = "xpr.compat.child"


def main(arguments: Sequence[str]) -> int:
    """Runs the program; the exit status 2, with the reason, if there is none to run."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    first, rest = arguments[0], list(arguments[1:])
    importlib.import_module("xpr.compat.jax")
    if first in ("-m", "-c"):
        if not rest:
            print(f"{first} needs an argument\n{USAGE}", file=sys.stderr)
            return 2
        what, rest = rest[0], rest[1:]
        if first == "-c":
            _start("code:", ["-c", *rest], "")
            exec(compile(what, "<string>", "exec"), sys.modules["__main__"].__dict__)
            return 0
        _start(f"module:{what}", [what, *rest], os.getcwd())
        runpy.run_module(what, run_name="__main__", alter_sys=True)
        return 0
    if first.startswith("-"):
        print(f"unknown option {first}\n{USAGE}", file=sys.stderr)
        return 2
    if not os.path.exists(first):
        print(f"xpr.compat: can't open file {first!r}: no such file", file=sys.stderr)
        return 2
    path = os.path.abspath(first)
    _start(f"file:{path}", [first, *rest], os.path.dirname(path))
    runpy.run_path(path, run_name="__main__")
    return 0


def _start(program: str, argv: list[str], folder: str) -> None:
    """Sets what a program finds: its arguments, and the folder it may import from."""
    os.environ[VARIABLE] = program
    _tell_children()
    sys.argv = argv
    sys.path[0] = folder


def _tell_children() -> None:
    """Has `multiprocessing` name `xpr.compat.child` as the main module to its children."""
    plain = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        data = plain(name)
        data.pop("init_main_from_path", None)
        data["init_main_from_name"] = _CHILD
        return data

    spawn.get_preparation_data = get_preparation_data


def run_in_child() -> dict[str, Any]:
    """In a child process: the names that the program's main module defines there."""
    importlib.import_module("xpr.compat.jax")
    kind, _, what = os.environ.get(VARIABLE, "code:").partition(":")
    if kind == "file":
        return runpy.run_path(what, run_name="__mp_main__")
    if kind == "module":
        return runpy.run_module(what, run_name="__mp_main__", alter_sys=True)
    return {}
