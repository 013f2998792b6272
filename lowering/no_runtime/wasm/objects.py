"""Objects in WebAssembly."""

from __future__ import annotations


class WasmObject:
    """A relocatable object."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def kernels(self) -> list[str]:
        """The names of the kernels, in the order of the library's table."""
        raise NotImplementedError("objects in WebAssembly are not read yet")
