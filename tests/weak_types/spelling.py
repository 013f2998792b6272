"""How calls are written down."""

from __future__ import annotations


def calls(module: str, names: str, arguments: str) -> list[str]:
    """The calls of several functions with the same arguments."""
    return [f"{module}.{name}({arguments})" for name in names.split()]
