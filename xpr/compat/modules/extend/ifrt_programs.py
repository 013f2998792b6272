"""`jax.extend.ifrt_programs`: programs for IFRT, which xpr has not; making one raises."""

from __future__ import annotations

from typing import Any


class _Programs:
    """The names of the module in jaxlib that makes such programs."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(f"{name} makes a program for IFRT, which is no part of xpr")


ifrt_programs = _Programs()
