"""What a checkpoint says of each leaf: a plain value, or an array and where its values are."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.experimental.checkpoint.plain import decode, encode
from xpr.sharding import NamedSharding, Sharding

INLINE_BYTES = 1024
"""Arrays of so few bytes are kept in the file of the structure: files of their own take longer."""

CHUNK_BYTES = 16 << 20
"""What one file of an array holds at most, as far as its shards can be cut so."""


_MOST_BYTES = (1 << 63) - 1
_MOST_AXES = 64  # NumPy's limit
_STORE = re.compile(r"(0|[1-9][0-9]{0,17})(\.[A-Za-z0-9_]{1,60})?", re.ASCII)


@dataclass(frozen=True)
class PlainLeaf:
    """A leaf that is a Python value."""

    path: str
    value: Any

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "value": encode(f"leaf {self.path}", self.value)}


@dataclass(frozen=True)
class ArrayLeaf:
    """A leaf that is an array: of xpr ("array"), of NumPy ("numpy") or a NumPy scalar ("scalar").

    The values are in `data` when they are few, else in the folder `store` in files of shape
    `chunks`. An array without elements has neither.
    """

    path: str
    kind: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak_type: bool = False
    sharding: str = ""
    store: str | None = None
    chunks: tuple[int, ...] = ()
    data: bytes | None = None

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def type_text(self) -> str:
        """The type as messages show it, such as `float32[2,3]`."""
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "path": self.path,
            "kind": self.kind,
            "shape": list(self.shape),
            "dtype": dtype_name(self.dtype),
        }
        if self.weak_type:
            found["weak_type"] = True
        if self.sharding:
            found["sharding"] = self.sharding
        if self.store is not None:
            found["store"] = self.store
            found["chunks"] = list(self.chunks)
        if self.data is not None:
            found["data"] = base64.b64encode(self.data).decode()
        return found


Leaf = PlainLeaf | ArrayLeaf


def leaf_from_json(found: dict[str, Any]) -> Leaf:
    """The leaf that `to_json` has written; ValueError or KeyError for anything else."""
    path = _of_type(str, "path", found["path"])
    if "value" in found:
        return PlainLeaf(path, decode(found["value"]))
    data = found.get("data")
    leaf = ArrayLeaf(
        path,
        _of_type(str, "kind", found["kind"]),
        _sizes("shape", found["shape"]),
        dtype_of(found["dtype"]),
        _of_type(bool, "weak_type", found.get("weak_type", False)),
        _of_type(str, "sharding", found.get("sharding", "")),
        found.get("store"),
        _sizes("chunks", found.get("chunks", [])),
        None if data is None else base64.b64decode(_of_type(str, "data", data), validate=True),
    )
    _check(leaf)
    return leaf


def _of_type(kind: type, what: str, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"the {what} of a leaf must be of type {kind.__name__}, got {value!r}")
    return value


def _sizes(what: str, values: Any) -> tuple[int, ...]:
    for size in _of_type(list, what, values):
        if not 0 <= _of_type(int, what, size) <= _MOST_BYTES:
            raise ValueError(f"the {what} of a leaf has a size {size}")
    return tuple(values)


def _check(leaf: ArrayLeaf) -> None:
    """Raises ValueError where what is said of an array does not fit together."""
    if leaf.kind not in ("array", "numpy", "scalar") or (leaf.kind == "scalar" and leaf.shape):
        raise ValueError(f"leaf {leaf.path} has kind {leaf.kind!r} and shape {leaf.shape}")
    if len(leaf.shape) > _MOST_AXES or math.prod(max(n, 1) for n in leaf.shape) > _MOST_BYTES // 16:
        raise ValueError(f"leaf {leaf.path} has shape {leaf.shape}, larger than an array can be")
    given = leaf.data is not None, leaf.store is not None
    if sum(given) != (leaf.nbytes > 0):
        raise ValueError(f"leaf {leaf.path} needs either data or a store, has {sum(given)} of them")
    if leaf.data is not None and len(leaf.data) != leaf.nbytes:
        raise ValueError(
            f"leaf {leaf.path} has {len(leaf.data)} bytes of data, {leaf.type_text} needs "
            f"{leaf.nbytes}"
        )
    if leaf.store is not None and not is_store_name(leaf.store):
        raise ValueError(f"leaf {leaf.path} has a store {leaf.store!r} that `save` never makes")
    if leaf.store is None:
        is_cut = not leaf.chunks
    else:
        is_cut = len(leaf.chunks) == len(leaf.shape) and all(
            0 < part <= size for part, size in zip(leaf.chunks, leaf.shape, strict=True)
        )
    if not is_cut:
        raise ValueError(f"leaf {leaf.path} has shape {leaf.shape} and chunks {leaf.chunks}")


def is_store_name(name: Any) -> bool:
    """Whether a name is one that `save` gives to the folder of an array.

    >>> is_store_name("5.w"), is_store_name("../5.w"), is_store_name("/etc")
    (True, False, False)
    """
    return isinstance(name, str) and _STORE.fullmatch(name) is not None


def dtype_name(dtype: np.dtype[Any]) -> str:
    return "float0" if dtype == dtypes.float0 else dtype.name


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype of that name; ValueError for one that xpr has no arrays of."""
    found = _DTYPES.get(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(f"it has arrays of a dtype that is not known here: {name!r}")
    return found


_DTYPES: dict[str, np.dtype[Any]] = {dtype_name(d): d for d in dtypes.SHORT_NAMES}


def sharding_text(sharding: Sharding) -> str:
    """How an array was spread when it was saved, for whoever reads the checkpoint's own file."""
    if isinstance(sharding, NamedSharding):
        return f"{sharding.spec} over {dict(sharding.mesh.shape)}"
    return ""


def inlined(leaf: ArrayLeaf, parts: Sequence[tuple[Any, np.ndarray[Any, Any]]]) -> ArrayLeaf:
    """The leaf with its values beside it, from parts of it; processes that have none leave it."""
    if not parts:
        return leaf
    whole = np.empty(leaf.shape, leaf.dtype)
    for box, values in parts:
        whole[tuple(slice(lo, hi) for lo, hi in box)] = values
    return replace(leaf, data=whole.tobytes())


def stored(leaf: ArrayLeaf, number: int, counts: tuple[int, ...]) -> ArrayLeaf:
    """The leaf in a folder of its own, for parts that cut its axes into `counts`."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", leaf.path).strip("_")[-60:]
    return replace(
        leaf,
        store=f"{number}.{name}" if name else str(number),
        chunks=chunk_shape(leaf.shape, leaf.dtype.itemsize, counts),
    )


def chunk_shape(
    shape: tuple[int, ...], itemsize: int, counts: tuple[int, ...], limit: int = CHUNK_BYTES
) -> tuple[int, ...]:
    """The shape of the files of an array whose axes are cut into `counts` parts.

    No file holds elements of two parts, so that each process writes its own. Axes are cut from
    the first on, which keeps the elements of a file together in memory.

    >>> chunk_shape((1 << 20, 64), 4, (4, 1))
    (65536, 64)
    """
    chunk = [n // c for n, c in zip(shape, counts, strict=True)]
    for axis, count in enumerate(counts):
        pieces = -(-math.prod(chunk) * itemsize // limit)
        if pieces <= 1:
            break
        size = chunk[axis]
        wished = max(1, -(-size // pieces))
        if count == 1:  # the last file may be smaller
            chunk[axis] = wished
        else:
            fitting = next(n for n in range(wished, 0, -1) if size % n == 0)
            if 4 * fitting >= wished:  # else, with a prime number of rows, each would be a file
                chunk[axis] = fitting
    return tuple(chunk)
