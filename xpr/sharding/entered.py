"""The meshes in use in a thread, as part of the key of every traced program.

What they mean stands in `context.py`; here is only where they are kept, which `mesh.py` needs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from xpr.core.config import set_meshes, state


class Meshes(NamedTuple):
    """What `set_mesh`, `use_abstract_mesh` and `with mesh:` have set; None for nothing."""

    concrete: Any = None
    abstract: Any = None
    entered: tuple[Any, ...] = ()
    """Meshes whose `with` block we are in, the innermost last."""


NOTHING = Meshes()


def current() -> Meshes:
    """The meshes of the current thread."""
    return NOTHING if state.meshes is None else state.meshes


def replace(meshes: Meshes) -> None:
    """Makes `meshes` those of the current thread."""
    set_meshes(None if meshes == NOTHING else meshes)


def push(mesh: Any) -> None:
    """Enters the block `with mesh:`."""
    now = current()
    replace(now._replace(entered=(*now.entered, mesh)))


def pop() -> None:
    """Leaves the innermost block `with mesh:`."""
    now = current()
    replace(now._replace(entered=now.entered[:-1]))
