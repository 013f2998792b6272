"""The classes of the import system that finders and loaders derive from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:  # to import that module takes 10 ms, and what is needed of these classes is defined here
    Loader = MetaPathFinder = object

__all__ = ["Loader", "MetaPathFinder"]
