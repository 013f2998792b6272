"""SciPy's compiled modules, without the packages that they are in.

To load `scipy.fft` or `scipy.linalg` takes 0.2 to 0.4 s, most of it for what stands beside the
module that is wanted, such as all of `scipy.special`. That is what somebody waits for who asks for
one transform at a prompt. A compiled module needs none of it. It is loaded under its own name, so
that SciPy finds it there should it be imported later.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType


@functools.cache
def compiled_module(name: str) -> ModuleType:
    """SciPy's compiled module `name`, as `linalg.cython_lapack`.

    Where it is not found as a file, or is loaded already, it is imported as others are.
    """
    full = f"scipy.{name}"
    # On Windows the package says where its libraries lie.
    if full not in sys.modules and os.name != "nt":
        spec = _spec(full)
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            sys.modules[full] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[full]
                raise
            return module
    return importlib.import_module(full)


def _spec(full: str) -> importlib.machinery.ModuleSpec | None:
    """Where the file of a compiled module is; None if there is none."""
    package, *folders, _ = full.split(".")
    found = importlib.util.find_spec(package)
    if found is None or found.submodule_search_locations is None:
        return None
    places = [os.path.join(place, *folders) for place in found.submodule_search_locations]
    spec = importlib.machinery.PathFinder.find_spec(full, places)
    if spec is None or not isinstance(spec.loader, importlib.machinery.ExtensionFileLoader):
        return None
    return spec
