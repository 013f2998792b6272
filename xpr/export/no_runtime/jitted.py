"""What `save` of a jitted function calls for programs without a runtime."""

from __future__ import annotations

from typing import Any

from xpr.export.exported import export
from xpr.export.no_runtime.writing import save


def save_jitted(function: Any, path: Any, args: Any, kwargs: Any, target: str | None) -> None:
    """Writes a jitted function for the types of these arguments, which are the example's."""
    exported = export(function)(*args, **kwargs)
    leaves = function.take_apart(args, kwargs).leaves
    save(path, exported, target=target, examples={exported.fun_name: leaves})
