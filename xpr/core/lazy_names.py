"""Names of a package whose files are loaded when one of them is first used (PEP 562).

Most programs use few of the names that `xpr`, `xpr.numpy` and `xpr.lax` have, and loading a file
costs a third of a millisecond of a process's start.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from xpr.core.tracebacks import exported


def lazy_names(
    package: str,
    names: Mapping[str, str],
    submodules: Iterable[str] = (),
    export: Callable[[Any], Any] = exported,
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """The ``__getattr__``, ``__dir__`` and ``__all__`` of a package with such names.

    ``names`` maps a module to the names that the package has from it, with spaces between them,
    and ``own=theirs`` where the module has another name for it;
    ``submodules`` are modules and packages below it. ``export`` makes of a module's value the
    package's: functions become API boundaries. For type checkers the package imports the
    same, which a test compares. A file that has the name of one of its functions cannot be lazy:
    loading it would put the module in the function's place.
    """
    module_of = {
        name.partition("=")[0]: module for module, found in names.items() for name in found.split()
    }
    module_of.update((name, "") for name in submodules)
    here = vars(sys.modules[package])

    def get(name: str) -> object:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not module:
            return importlib.import_module(f"{package}.{name}")
        loaded = importlib.import_module(module)
        for each in names[module].split():
            own, _, theirs = each.partition("=")
            if own not in here:  # the user may have put one there
                here[own] = export(getattr(loaded, theirs or own))
                setattr(loaded, theirs or own, here[own])
        return here[name]

    def names_and_lazy_ones() -> list[str]:
        return sorted({*here, *module_of})

    # What `import *` takes; it would leave out what is not loaded.
    every = [name for name in names_and_lazy_ones() if not name.startswith("_")]
    return get, names_and_lazy_ones, every
