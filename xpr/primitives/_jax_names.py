"""Primitives by the names that JAX gives them: `sin_p`, `scatter_add_p`, ..."""

from __future__ import annotations

from xpr.core.primitive import Primitive, find_primitive, registry
from xpr.primitives import load_all

# Primitives whose names are others than JAX's.
_OTHER_NAMES = {
    "add_jaxvals": "add_any",
    "linear_solve": "custom_linear_solve",
    "remat": "remat2",
    "scatter_add": "scatter-add",
    "scatter_max": "scatter-max",
    "scatter_min": "scatter-min",
    "scatter_mul": "scatter-mul",
    "scatter_sub": "scatter-sub",
}


def primitive_of(name: str) -> Primitive:
    """The primitive that JAX calls `name`, such as `sin_p`; AttributeError if xpr has none."""
    if name.endswith("_p"):
        plain = name.removesuffix("_p")
        found = find_primitive(_OTHER_NAMES.get(plain, plain))
        if found is not None:
            return found
    raise AttributeError(f"xpr has no primitive {name!r}")


def primitive_names() -> list[str]:
    """The names by which JAX knows the primitives of xpr."""
    load_all()
    ours = {ours: theirs for theirs, ours in _OTHER_NAMES.items()}
    return sorted(f"{ours.get(name, name)}_p" for name in registry)
