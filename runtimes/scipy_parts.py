"""SciPy's compiled modules, without the packages that they are in.

To load `scipy.fft` or `scipy.linalg` takes 0.2 to 0.4 s, most of it for what stands beside the
module that is wanted, such as all of `scipy.special`. That is what somebody waits for who asks for
one transform at a prompt. A compiled module needs none of it. It is loaded under its own name, so
that SciPy finds it there should it be imported later, and its package then gets it as an attribute.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Sequence
from importlib import _bootstrap
from importlib.abc import MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from xpr.runtimes import fork

_lock = threading.RLock()


@fork.in_child
def _renew_lock() -> None:
    """Makes the lock new: a thread that held it in the parent does not exist here."""
    global _lock
    _lock = threading.RLock()


@functools.cache
def compiled_module(name: str) -> Any:
    """SciPy's compiled module `name`, as `linalg.cython_lapack`.

    None where SciPy has no file of that kind: it may do without another one in another version.
    """
    full = f"scipy.{name}"
    with _lock:
        if full not in sys.modules:
            spec = _spec(full)
            if spec is None:
                return None
            if _packages not in sys.meta_path:
                sys.meta_path.insert(0, _packages)
            # It holds the lock of the module, for which imports in other threads wait.
            _bootstrap._load(spec)  # pyright: ignore[reportAttributeAccessIssue]
        return sys.modules[full]


def compiled_or_imported(name: str) -> Any:
    """The same, imported with its packages where it is no file."""
    return compiled_module(name) or importlib.import_module(f"scipy.{name}")


def _spec(full: str) -> ModuleSpec | None:
    """Where the file of a compiled module is; None if there is none."""
    # On Windows the package says where its libraries lie.
    package, *folders, _ = full.split(".")
    found = importlib.util.find_spec(package) if os.name != "nt" else None
    if found is None or found.submodule_search_locations is None:
        return None
    places = [os.path.join(place, *folders) for place in found.submodule_search_locations]
    spec = PathFinder.find_spec(full, places)
    return spec if spec is not None and isinstance(spec.loader, ExtensionFileLoader) else None


class _Packages(MetaPathFinder):
    """Finds packages of SciPy's whose modules were loaded without them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The package, which will have those modules as attributes."""
        del target
        if not fullname.startswith("scipy.") or not _loaded_of(fullname):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Package(spec.loader.name, spec.loader.path)
        return spec


class _Package(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        for name, loaded in _loaded_of(module.__name__).items():
            setattr(module, name, loaded)
        super().exec_module(module)


def _loaded_of(package: str) -> dict[str, ModuleType]:
    """The modules of a package that are loaded."""
    found = {name.rpartition("."): module for name, module in list(sys.modules.items())}
    return {last: module for (parent, _, last), module in found.items() if parent == package}


_packages = _Packages()
