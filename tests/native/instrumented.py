"""Run a module of the tests with a native part that a sanitizer has instrumented.

`python tests/native/instrumented.py EXTENSION MODULE [ARGUMENT...]` is `python -m MODULE
ARGUMENT...` with the native part in the file EXTENSION. The sanitizer's library has to be loaded
first (`LD_PRELOAD`); processes that this one starts, such as the compiler's, are not watched.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from importlib.machinery import ModuleSpec

_NAME = "xpr.runtimes._native"


class _Finder:
    """Finds the native part in a file of its own."""

    def __init__(self, path: str) -> None:
        self.path = path

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != _NAME:
            return None
        return importlib.util.spec_from_file_location(name, self.path)


def _main() -> None:
    _, extension, module, *arguments = sys.argv
    os.environ.pop("LD_PRELOAD", None)
    os.environ["XPR_NATIVE"] = "1"
    sys.meta_path.insert(0, _Finder(extension))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert sys.modules[_NAME].__file__ == extension


if __name__ == "__main__":
    _main()
