"""What `importlib.metadata` tells of `jax` and `jaxlib`."""

from __future__ import annotations

from importlib.metadata import Distribution
from typing import Any

from xpr.compat.version import JAX_VERSION


class JaxDistribution(Distribution):
    """The version of JAX that xpr follows, as an installed package would tell it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read_text(self, filename: str) -> str | None:
        """Its metadata; there are no other files."""
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {JAX_VERSION}\n"

    def locate_file(self, path: Any) -> Any:
        """Raises: the package has no files."""
        raise FileNotFoundError(f"{self._name} is xpr here, it has no file {path}")
