"""Types of arrays that IREE passes to nobody: they cross the boundary of a program as bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

DType = np.dtype[Any]

CARRIED_AS_BYTES = frozenset(
    np.dtype(t)
    for t in (ml_dtypes.float8_e3m4, ml_dtypes.float8_e4m3, ml_dtypes.float8_e4m3b11fnuz)
)


def abi_type(dtype: DType) -> DType:
    """The dtype that stands for `dtype` in the signature of a function that is called."""
    return np.dtype(np.uint8) if dtype in CARRIED_AS_BYTES else dtype


@dataclass(frozen=True)
class FunctionOfBytes:
    """A function of arrays of these dtypes, called with bytes instead of some of them."""

    function: Callable[..., Any]
    inputs: tuple[DType, ...]
    outputs: tuple[DType, ...]

    def __call__(self, *arrays: np.ndarray[Any, Any], **options: Any) -> Any:
        """With `out`, as host calls have it, nothing is returned, and else the results."""
        given = [x.view(d) for x, d in zip(arrays, self.inputs, strict=True)]
        if "out" in options:
            out = [x.view(d) for x, d in zip(options["out"], self.outputs, strict=True)]
            return self.function(*given, out=out)
        found = self.function(*given)
        if not self.outputs or found is None:
            return found
        values = found if isinstance(found, (tuple, list)) else [found]
        return [self._bytes_of(i, np.asarray(x)) for i, x in enumerate(values)]

    def _bytes_of(self, index: int, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A result as it is passed on; one of another dtype than promised as it is."""
        promised = self.outputs[index] if index < len(self.outputs) else None
        return x.view(abi_type(x.dtype)) if x.dtype == promised else x

    def load(self) -> None:
        """As `HostCall.function` says."""
        load = getattr(self.function, "load", None)
        if load is not None:
            load()

    def __str__(self) -> str:
        return str(self.function)
