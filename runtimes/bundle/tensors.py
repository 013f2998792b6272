"""Arrays as bytes: the names of dtypes, and safetensors files."""

from __future__ import annotations

import json
import math
from typing import Any

import ml_dtypes
import numpy as np

from xpr.runtimes.bundle.errors import CorruptBundleError

Array = np.ndarray[Any, Any]


SAFETENSORS_TYPES = {
    "BOOL": "bool",
    **{f"I{b}": f"int{b}" for b in (8, 16, 32, 64)},
    **{f"U{b}": f"uint{b}" for b in (8, 16, 32, 64)},
    **{f"F{b}": f"float{b}" for b in (16, 32, 64)},
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "C64": "complex64",
}


def named_dtype(name: str) -> np.dtype[Any]:
    """The dtype of that name, NumPy's own or one of ml_dtypes."""
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise CorruptBundleError(f"unknown dtype {name!r}") from None


def read_tensors(data: bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays of a safetensors file, over the memory of `data`, and its metadata.

    Raises CorruptBundleError for anything that is no such file.
    """
    try:
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        metadata = header.pop("__metadata__", {})
        body = memoryview(data)[8 + size :]
        arrays = {}
        for name, entry in header.items():
            dtype = named_dtype(SAFETENSORS_TYPES[entry["dtype"]])
            shape = tuple(entry["shape"])
            low, high = entry["data_offsets"]
            if not 0 <= low <= high <= len(body) or high - low != math.prod(shape) * dtype.itemsize:
                raise ValueError(f"the bytes of {name} are out of place")
            arrays[name] = np.frombuffer(body[low:high], np.uint8).view(dtype).reshape(shape)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptBundleError(f"damaged safetensors data: {error!r}") from error
    return arrays, metadata
