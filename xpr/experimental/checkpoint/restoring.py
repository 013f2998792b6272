"""From files to arrays: each process reads the parts that its devices hold, and no others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.dispatch.array import ArrayImpl, array_from_host, freeze
from xpr.dispatch.default_device import default_device
from xpr.dispatch.parts import local_boxes, put_host
from xpr.dispatch.sharded_array import from_buffers
from xpr.experimental.checkpoint.errors import DamagedCheckpointError, shown
from xpr.experimental.checkpoint.files import check_files, check_folder
from xpr.experimental.checkpoint.folder import ARRAYS, TREE, read_content
from xpr.experimental.checkpoint.leaves import ArrayLeaf, Leaf, PlainLeaf, leaf_from_json
from xpr.experimental.checkpoint.plain import is_plain
from xpr.experimental.checkpoint.storage import Box, read
from xpr.experimental.checkpoint.structure import Node, from_json, matched, rebuild, with_keys
from xpr.runtimes.base import Buffer
from xpr.runtimes.host import HostBuffer, aligned_empty
from xpr.runtimes.memories import HOST_KINDS
from xpr.sharding import Sharding
from xpr.transforms.tracing import ShapeDtypeStruct


@dataclass(frozen=True)
class ArrayMetadata:
    """What a checkpoint tells of an array: `sharding` is the text of its sharding when saved.

    >>> import tempfile
    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint.save(folder, 1, {"w": jnp.ones((2, 3))})
    ...     checkpoint.metadata(folder)["w"].shape
    (2, 3)
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    sharding: str = ""


_NO_MEMORY = np.empty(0)
# What reading the tree raises where something in it is not what it should be.
_UNSOUND = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError)
_UNSOUND += (RecursionError,)


def read_tree(place: Path) -> tuple[Node, list[Leaf]]:
    """The structure of a checkpoint and its leaves, without the values that are in files."""
    check_folder(place)
    content = read_content(place / TREE)
    try:
        leaves = [leaf_from_json(leaf) for leaf in content["leaves"]]
        return from_json(content["tree"], leaves), leaves
    except _UNSOUND as error:
        raise DamagedCheckpointError(f"{place / TREE} is damaged: {error!r}") from error


def metadata_of(place: Path) -> Any:
    """The tree of a checkpoint with `ArrayMetadata` for arrays; plain values are themselves."""
    node, leaves = read_tree(place)
    return rebuild(
        node,
        [
            leaf.value
            if isinstance(leaf, PlainLeaf)
            else ArrayMetadata(leaf.shape, leaf.dtype, leaf.sharding)
            for leaf in leaves
        ],
    )


def restore_from(place: Path, like: Any) -> Any:
    """The tree in the folder `place`, arranged and spread as `like`; see `restore`."""
    node, leaves = read_tree(place)
    if like is None:
        targets = [_target(leaf, None) for leaf in leaves]
        return rebuild(node, _values(place, targets))
    targets = [
        None if number is None else _target(leaves[number], wished)
        for wished, number in matched(node, like)
    ]
    found = iter(_values(place, [t for t in targets if t is not None]))
    values = [Ellipsis if t is None else next(found) for t in targets]
    return tree_util.tree_structure(like).unflatten(with_keys(values, like))


@dataclass(frozen=True)
class _Target:
    """A leaf and what is to become of it: an array of xpr or of NumPy, or a plain value."""

    leaf: Leaf
    kind: str
    sharding: Sharding | None = None


def _target(leaf: Leaf, wished: Any) -> _Target:
    """What a leaf is to become. Raises TypeError or ValueError where `wished` does not fit it."""
    if isinstance(leaf, PlainLeaf):
        if wished is not None and type(wished) is not type(leaf.value):
            raise TypeError(
                f"{shown(leaf.path)} is {leaf.value!r} of type {type(leaf.value).__name__} in the "
                f"checkpoint, and {_short(wished)} in `like`"
            )
        return _Target(leaf, "plain")
    sharding: Sharding | None = None
    kind = leaf.kind
    if isinstance(wished, (ArrayImpl, ShapeDtypeStruct)):
        kind = "array"
        sharding = wished.sharding
        if isinstance(wished, ArrayImpl) and not wished.committed:
            sharding = None
    elif isinstance(wished, np.generic):
        kind = "scalar"
    elif isinstance(wished, np.ndarray):
        kind = "numpy"
    elif wished is not None and not isinstance(wished, ArrayMetadata):
        raise TypeError(
            f"{shown(leaf.path)} is {leaf.type_text} in the checkpoint, and {_short(wished)} in "
            "`like`, which takes an array or a ShapeDtypeStruct in its place"
        )
    if wished is not None:
        _check_type(leaf, wished)
    if kind == "array":
        _check_known(leaf)
        if sharding is not None:
            try:
                sharding.shard_shape(leaf.shape)
                sharding.devices_indices_map(leaf.shape)
            except (ValueError, NotImplementedError) as error:
                raise type(error)(f"{shown(leaf.path)}: {error}") from error
    return _Target(leaf, kind, sharding)


def _short(value: Any) -> str:
    what = f"{value!r} " if is_plain(value) else ""
    return f"{what}of type {type(value).__name__}"


def _check_type(leaf: ArrayLeaf, wished: Any) -> None:
    if tuple(wished.shape) != leaf.shape:
        raise ValueError(
            f"{shown(leaf.path)} has shape {leaf.shape} in the checkpoint, and "
            f"{tuple(wished.shape)} in `like`"
        )
    if wished.dtype != leaf.dtype:
        raise TypeError(
            f"{shown(leaf.path)} has dtype {leaf.dtype.name} in the checkpoint, and "
            f"{np.dtype(wished.dtype).name} in `like`" + _about_64_bits(leaf)
        )


def _about_64_bits(leaf: ArrayLeaf) -> str:
    if dtypes.canonicalize(leaf.dtype, allow_float0=True) == leaf.dtype:
        return ""
    return ". Arrays of that dtype need the setting enable_x64"


def _check_known(leaf: ArrayLeaf) -> None:
    if dtypes.canonicalize(leaf.dtype, allow_float0=True) != leaf.dtype:
        raise TypeError(
            f"{shown(leaf.path)} has dtype {leaf.dtype.name} in the checkpoint"
            + _about_64_bits(leaf)
        )


# ---- values


def _values(place: Path, targets: list[_Target]) -> list[Any]:
    """The values of all leaves; those in files are read together."""
    parts: list[tuple[ArrayLeaf, Box, np.ndarray[Any, Any]]] = []
    wanted: list[dict[Box, np.ndarray[Any, Any]]] = []
    for target in targets:
        boxes: dict[Box, np.ndarray[Any, Any]] = {}
        leaf = target.leaf
        if isinstance(leaf, ArrayLeaf) and leaf.store is not None:
            for box in _boxes(leaf, target.sharding):
                boxes[box] = _NO_MEMORY
            check_files(place / ARRAYS, leaf, list(boxes))
            for box in boxes:
                boxes[box] = aligned_empty(tuple(hi - lo for lo, hi in box), leaf.dtype)
            parts += [(leaf, box, memory) for box, memory in boxes.items()]
        wanted.append(boxes)
    if parts:
        read(place / ARRAYS, parts)
    return [_value(t, boxes) for t, boxes in zip(targets, wanted, strict=True)]


def _boxes(leaf: ArrayLeaf, sharding: Sharding | None) -> list[Box]:
    if sharding is None:
        return [tuple((0, n) for n in leaf.shape)]
    return [box for _, box in local_boxes(sharding, leaf.shape)]


def _value(target: _Target, boxes: dict[Box, np.ndarray[Any, Any]]) -> Any:
    leaf = target.leaf
    if isinstance(leaf, PlainLeaf):
        return leaf.value
    sharding = target.sharding
    aval = ShapedArray(leaf.shape, leaf.dtype, leaf.weak_type)
    if sharding is not None and leaf.store is not None:
        for memory in boxes.values():
            freeze(memory)
        return from_buffers(aval, _buffers(leaf, sharding, boxes), sharding)
    if leaf.store is not None:
        (host,) = boxes.values()
    else:
        host = _kept(leaf)
    if target.kind == "scalar":
        return host[()]
    if target.kind == "numpy":
        return host
    if sharding is None:
        return array_from_host(host, aval, default_device())
    freeze(host)
    return put_host(host, aval, sharding, foreign=False)


def _buffers(
    leaf: ArrayLeaf, sharding: Sharding, boxes: dict[Box, np.ndarray[Any, Any]]
) -> tuple[Buffer, ...]:
    buffers: list[Buffer] = []
    for device, box in local_boxes(sharding, leaf.shape):
        runtime = device.runtime
        if runtime.is_host or sharding.memory_kind in HOST_KINDS:
            # Devices that share the memory of the host share what several of them hold.
            buffers.append(HostBuffer(boxes[box], device))
        else:
            buffers.append(runtime.buffer_from_host(boxes[box], device, copy=True))
    return tuple(buffers)


def _kept(leaf: ArrayLeaf) -> np.ndarray[Any, Any]:
    """The values that are in the file of the structure, or none for an array without elements."""
    host = aligned_empty(leaf.shape, leaf.dtype)
    if leaf.data is not None:
        host[...] = np.frombuffer(leaf.data, leaf.dtype).reshape(leaf.shape)
    return host
