"""Attributes of a call, as handlers read them: sorted by their names."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import POINTER, addressof, c_int, c_void_p, pointer
from typing import Any

import numpy as np

from xpr.runtimes.foreign import layouts
from xpr.runtimes.foreign.element_types import number_of

Attribute = str | bytes | np.generic | np.ndarray[Any, Any] | Mapping[str, Any]
"""A text; a scalar or an array with the dtype that the handler sees; or a dictionary of them."""


class AttributeMemory:
    """The memory of attributes, which stays as it is as long as this object."""

    def __init__(self, attributes: Mapping[str, Attribute]) -> None:
        self._kept: list[Any] = []
        self.attributes = self._dictionary(attributes)

    def _keep(self, x: Any) -> Any:
        self._kept.append(x)
        return x

    def _bytes(self, text: str | bytes) -> Any:
        data = text.encode() if isinstance(text, str) else text
        memory = self._keep(ctypes.create_string_buffer(data, len(data) + 1))
        return self._keep(layouts.Bytes(addressof(memory), len(data)))

    def _dictionary(self, attributes: Mapping[str, Attribute]) -> Any:
        pairs = sorted((name.encode(), x) for name, x in attributes.items())
        found = [self._attribute(x) for _, x in pairs]
        names = [self._bytes(name) for name, _ in pairs]
        return self._keep(
            layouts.Attributes.new(
                count=len(pairs),
                kinds=self._array(c_int, [kind for kind, _ in found]),
                names=self._array(POINTER(layouts.Bytes), [pointer(n) for n in names]),
                values=self._array(c_void_p, [addressof(x) for _, x in found]),
            )
        )

    def _array(self, kind: Any, values: Sequence[Any]) -> Any:
        return self._keep((kind * len(values))(*values))

    def _attribute(self, x: Attribute) -> tuple[int, Any]:
        """The kind of an attribute, and its structure."""
        if isinstance(x, (str, bytes)):
            return layouts.STRING, self._bytes(x)
        if isinstance(x, Mapping):
            return layouts.DICTIONARY, self._dictionary(x)
        values = self._keep(np.array(x, order="C"))
        number = number_of(values.dtype)
        if isinstance(x, np.ndarray):
            made = layouts.ArrayAttribute(number, values.size, values.ctypes.data)
            return layouts.ARRAY, self._keep(made)
        return layouts.SCALAR, self._keep(layouts.Scalar(number, values.ctypes.data))
