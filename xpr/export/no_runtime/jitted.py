"""What `save` of a jitted function calls for programs without a runtime."""

from __future__ import annotations

import inspect
from typing import Any

from xpr.export.exported import export
from xpr.export.no_runtime.writing import save
from xpr.transforms.signature import signature_of


def save_jitted(function: Any, path: Any, args: Any, kwargs: Any, target: str | None) -> None:
    """Writes a jitted function for the types of these arguments, which are the example's."""
    exported = export(function)(*args, **kwargs)
    name = exported.fun_name
    leaves = function.take_apart(args, kwargs).leaves
    save(
        path,
        {name: exported},
        target=target or "baseline",
        examples={name: leaves},
        argument_names={name: _names(function)},
    )


def _names(function: Any) -> list[str]:
    """The names of a function's positional arguments that are not static."""
    signature = signature_of(function.__wrapped__)
    if signature is None:
        return []
    static = function._options.roles.static_argnums
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [p.name for p in signature.parameters.values() if p.kind in kinds]
    return [name for i, name in enumerate(named) if i not in static]
