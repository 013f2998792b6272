"""Finds `jax` and its submodules in xpr.

`jax.<path>` is `xpr.compat.modules.<path>` where there is such a module, which is so for what only
JAX's clients need; else it is the module `xpr.<path>` itself, the same object under a second name.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from xpr.compat.aliases import AliasLoader, is_alias
from xpr.compat.loading import Loader, MetaPathFinder
from xpr.compat.unavailable import UnavailableLoader, advice

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PAGE = "docs/jax_compat.md lists what is missing"

_OWN = "xpr.compat.modules"
# Folders of xpr that are not JAX's, though their names might suggest it.
NOT_JAX = frozenset(
    {"cli", "compat", "dispatch", "lowering", "primitives", "runtimes", "transforms"}
    | {"callbacks", "contexts", "environment", "__main__"}
)


class _Loader(Loader):
    """Gives a module of xpr's as one of JAX's."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._target)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has put JAX's name there; the module stays xpr's.
        module.__spec__ = self._spec


class JaxFinder(MetaPathFinder):
    """Finds JAX's modules, before real ones of that name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        root, _, rest = name.partition(".")
        if root in ("jax", "jaxlib") and advice(name) is not None:
            return ModuleSpec(name, UnavailableLoader(), is_package=True)
        if root == "jaxlib":
            found = f"{_OWN}._jaxlib" + (f".{rest}" if rest else "")
            return _spec(name, found) if _exists(found) else None
        if root != "jax":
            return None
        found = target_of(rest)
        if found is None and is_alias(rest):
            return ModuleSpec(name, AliasLoader(), is_package=True)
        if found is None:
            raise ModuleNotFoundError(f"xpr has no {name}: {PAGE}", name=name)
        return _spec(name, found)

    def find_distributions(self, context: Any = None) -> Iterable[Distribution]:
        """Answers `importlib.metadata.version("jax")`, which clients ask."""
        # What it needs takes long to load, and is loaded when it is asked for.
        from xpr.compat.distribution import JaxDistribution  # noqa: PLC0415

        wanted = getattr(context, "name", None)
        return [JaxDistribution(n) for n in ("jax", "jaxlib") if wanted in (None, n)]


def target_of(path: str) -> str | None:
    """The module of xpr's that `jax.<path>` names; `path` may be empty. None if there is none."""
    if not path:
        return _OWN
    if is_own(path):
        return f"{_OWN}.{path}"
    if path.split(".")[0] in NOT_JAX or any(p.startswith("_") for p in path.split(".")):
        return None
    return f"xpr.{path}" if _exists(f"xpr.{path}") else None


def is_own(path: str) -> bool:
    """Whether `jax.<path>` is a module that only JAX's clients need."""
    return _exists(f"{_OWN}.{path}")


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it would be in
        return False


def _spec(name: str, target: str) -> ModuleSpec:
    found = importlib.util.find_spec(target)
    is_package = found is not None and found.submodule_search_locations is not None
    return ModuleSpec(name, _Loader(target), is_package=is_package)


def install() -> None:
    """Makes `jax` name xpr from now on. Raises ImportError if JAX itself is loaded."""
    if any(isinstance(finder, JaxFinder) for finder in sys.meta_path):
        return
    loaded = sys.modules.get("jax")
    if loaded is not None:
        raise ImportError(
            f"jax is loaded already, from {getattr(loaded, '__file__', 'somewhere')}: import "
            "xpr.compat.jax before anything that imports jax"
        )
    sys.meta_path.insert(0, JaxFinder())
