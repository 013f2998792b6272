"""`jax._src.compiler`: what is called before each compile, which some libraries replace."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from xpr.core.events import before_compile

__all__ = ["backend_compile_and_load"]


@dataclass(frozen=True)
class _Backend:
    """For which devices a program is compiled."""

    platform: str


def backend_compile_and_load(backend: Any, *_: Any, **__: Any) -> None:
    """Called before each program is compiled: what it raises forbids that.

    The compile itself goes xpr's way, so the result counts for nothing.
    """
    del backend


def _announce(platform: str) -> None:
    # Whatever stands there now: a library may have put its own function in the place.
    sys.modules[__name__].backend_compile_and_load(_Backend(platform))


before_compile.append(_announce)
