"""Attributes that MLIR wrote as text, such as Shardy's meshes and shardings.

>>> attribute('#sdy.sharding<@mesh, [{"x", "y"}, {}]>')
{'mesh': 'mesh', 'axes': (('x', 'y'), ()), 'unreduced': ()}
"""

from __future__ import annotations

import re
from typing import Any

from xpr.export.stablehlo.form import Other

_MESH = re.compile(r'"([^"]*)"\s*=\s*(\d+)')
_NAME = re.compile(r'"([^"]*)"')
_STRUCT = re.compile(r"#chlo\.\w+<(.*)>", re.S)
_FIELD = re.compile(r"(\w+)\s*=\s*(\[[-\d,\s]*\]|-?\d+)")
_DIMENSION = re.compile(r"\{([^{}]*)\}")


def attribute(text: str) -> Any:
    """The value of an attribute in MLIR's text; `Other` for one that is not known."""
    text = text.strip()
    if text.startswith("#sdy.mesh<"):
        return {"mesh_axes": {m[1]: int(m[2]) for m in _MESH.finditer(text)}}
    if text.startswith("#sdy.sharding_per_value<"):
        parts = re.findall(r"<@[^<>]*>", text)
        return tuple(sharding(part) for part in parts)
    if text.startswith("#sdy.sharding<"):
        return sharding(text)
    if text.startswith("#sdy<manual_axes"):
        return tuple(_NAME.findall(text))
    if text.startswith("#sdy.manual_axes"):
        return tuple(_NAME.findall(text))
    struct = _STRUCT.fullmatch(text)
    if struct is not None:
        return {m[1]: _number(m[2]) for m in _FIELD.finditer(struct[1])}
    return Other(text)


def _number(text: str) -> Any:
    """A number, or a tuple of them."""
    found = tuple(map(int, re.findall(r"-?\d+", text)))
    return found if text.startswith("[") else found[0]


def sharding(text: str) -> Any:
    """A sharding: the mesh, and for each dimension the axes it is cut over."""
    mesh = re.search(r"<@([\w.$-]+|\"[^\"]*\")", text)
    if mesh is None:
        return Other(text)
    body = text[mesh.end() :]
    inside = re.search(r"\[(.*?)\]", body, re.S)
    axes: tuple[Any, ...] = ()
    if inside is not None:
        axes = tuple(tuple(_NAME.findall(d[1])) for d in _DIMENSION.finditer(inside[1]))
    unreduced = re.search(r"unreduced=\{([^}]*)\}", body)
    names = tuple(_NAME.findall(unreduced[1])) if unreduced else ()
    return {"mesh": mesh[1].strip('"'), "axes": axes, "unreduced": names}


def mesh_axes(value: Any) -> dict[str, int]:
    """The axes of a mesh attribute."""
    return dict(value["mesh_axes"]) if isinstance(value, dict) and "mesh_axes" in value else {}
