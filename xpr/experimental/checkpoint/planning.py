"""What is to be written for a tree, and by which process."""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import Tracer
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.parts import box_of
from xpr.experimental.checkpoint.errors import shown
from xpr.experimental.checkpoint.leaves import (
    INLINE_BYTES,
    ArrayLeaf,
    Leaf,
    PlainLeaf,
    inlined,
    sharding_text,
    stored,
)
from xpr.experimental.checkpoint.plain import is_plain
from xpr.experimental.checkpoint.storage import Box
from xpr.experimental.checkpoint.structure import Node, describe, to_json
from xpr.experimental.checkpoint.together import Together
from xpr.runtimes.base import Buffer

Part = tuple[ArrayLeaf, Box, np.ndarray[Any, Any]]


@dataclass
class _Planned:
    """A leaf, and the parts of it that this process holds and nobody before it does.

    `owners` are the processes that hold a part. `whole` is the one that writes all of it, where it
    is not cut into parts.
    """

    leaf: Leaf
    owners: frozenset[int]
    whole: int | None
    counts: tuple[int, ...] = ()
    parts: list[tuple[Box, np.ndarray[Any, Any]]] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """The content of a checkpoint's own file, and the parts that this process writes."""

    content: dict[str, Any]
    arrays: list[ArrayLeaf]
    parts: list[Part]
    nbytes: int
    """Bytes that all processes write together."""


def plan(tree: Any, together: Together, snapshot: bool) -> tuple[Node, list[_Planned]]:
    """What this process knows of the leaves. Values are on the host when it returns.

    With `snapshot`, nothing that happens to the tree afterwards changes them: arrays of xpr never
    change, and one whose memory is given away keeps it as long as it is being written.

    Raises TypeError, with the path, for leaves that no checkpoint can keep.
    """
    node, leaves = describe(tree)
    to_json(node)  # it raises for keys that cannot be kept
    return node, [_planned(path, leaf, together.index, snapshot) for path, leaf in leaves]


def _planned(path: str, value: Any, here: int, snapshot: bool) -> _Planned:
    if isinstance(value, ArrayImpl):
        return _of_array(path, value)
    if isinstance(value, np.generic) or (
        isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray)
    ):
        return _of_numpy(path, value, here, snapshot)
    if is_plain(value):
        return _Planned(PlainLeaf(path, value), frozenset([here]), here)
    if isinstance(value, Tracer):
        raise TypeError(
            f"a checkpoint cannot keep {shown(path)} {value!r}: it is being traced, and has no "
            "values yet. Save what the transformed function returns"
        )
    raise TypeError(
        f"a checkpoint cannot keep {shown(path)} of {type(value)}: it takes arrays, numbers, "
        "strings, bytes and None, in tuples, lists, dictionaries and classes that are registered "
        "as pytrees"
    )


def _of_numpy(path: str, value: Any, here: int, snapshot: bool) -> _Planned:
    dtype = value.dtype.newbyteorder("=")
    if not dtypes.is_supported(dtype):
        raise TypeError(
            f"a checkpoint cannot keep {shown(path)}: a NumPy array of dtype {value.dtype}. It "
            "takes numbers and booleans"
        )
    kind = "scalar" if isinstance(value, np.generic) else "numpy"
    host = np.array(value, dtype, copy=True if snapshot else None, subok=False)
    leaf = ArrayLeaf(path, kind, host.shape, dtype)
    everything = tuple((0, n) for n in host.shape)
    return _Planned(leaf, frozenset([here]), here, (1,) * host.ndim, [(everything, host)])


def _of_array(path: str, x: ArrayImpl) -> _Planned:
    sharding = x.sharding
    leaf = ArrayLeaf(path, "array", x.shape, x.dtype, x.weak_type, sharding_text(sharding))
    try:
        x._check_alive()
        held = [
            (box_of(shard.index, x.shape), shard.data._buffers[0])
            for shard in x.addressable_shards
            if shard.replica_id == 0
        ]
    except (RuntimeError, NotImplementedError) as error:
        raise type(error)(f"{shown(path)} cannot be saved: {error}") from error
    coming = [(box, b if b.device.runtime.is_host else _fetching(b)) for box, b in held]
    devices = sharding._device_assignment
    return _Planned(
        leaf,
        frozenset(d.process_index for d in devices),
        devices[0].process_index if sharding.is_fully_replicated else None,
        sharding.shard_counts(x.ndim),
        [(box, buffer.host_view()) for box, buffer in coming],
    )


def _fetching(buffer: Buffer) -> Buffer:
    """Another buffer with the same values, which are on their way to the host.

    The copy on the host goes with it, while one of the array's own buffer would stay.
    """
    other = buffer.alias()
    other.copy_to_host_async()
    return other


# ---- what the processes make of it together


def agreed(node: Node, found: list[_Planned], together: Together, what: str) -> Plan:
    """The plan that all processes follow.

    Values that each process has for itself (plain ones, NumPy's, arrays on a device of its own)
    must be the same everywhere; process 0 writes them. Raises ValueError, naming the first leaf
    that is not.
    """
    here = together.index
    if together.count == 1:
        return _divided(node, found, [True] * len(found), here)
    _check_same(together, what, [(p.leaf.path, _signature(p)) for p in found])
    own = _own(found, together, what)
    values = [_values(p) if alone else "" for p, alone in zip(found, own, strict=True)]
    _check_same(together, what, [(p.leaf.path, v) for p, v in zip(found, values, strict=True)])
    return _divided(node, found, own, here)


def _own(found: list[_Planned], together: Together, what: str) -> list[bool]:
    """Which leaves every process has for itself; the others are of several or of one of them."""
    alone = [next(iter(p.owners)) if len(p.owners) == 1 else -1 for p in found]
    everybody = together.exchange(what, data=alone)
    own = []
    for p, *seen in zip(found, *everybody, strict=True):
        own.append(seen == list(range(together.count)))
        if not own[-1] and len(set(seen)) > 1:
            raise ValueError(
                f"{what}: the processes save different things. {shown(p.leaf.path)} is on devices "
                f"of the processes {seen}, as each of them sees it"
            )
    return own


def _signature(p: _Planned) -> str:
    """What all processes must say alike of a leaf."""
    if isinstance(p.leaf, PlainLeaf):
        return type(p.leaf.value).__name__
    where = (
        f"on processes {sorted(p.owners)}, cut into {p.counts}" if len(p.owners) > 1 else "whole"
    )
    return f"{p.leaf.kind} {p.leaf.type_text} {where}"


def _values(p: _Planned) -> str:
    """What tells whether the values of a leaf are the same elsewhere."""
    if isinstance(p.leaf, PlainLeaf):
        return repr(p.leaf.value)
    digest = hashlib.blake2b(digest_size=16)
    for _, values in p.parts:
        if values.nbytes:
            digest.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
    return f"{p.leaf.kind} {p.leaf.type_text} of digest {digest.hexdigest()}"


def _check_same(together: Together, what: str, leaves: list[tuple[str, str]]) -> None:
    """Raises ValueError in all processes where they do not have the same paths and texts."""
    digest = hashlib.sha256(json.dumps(leaves).encode()).hexdigest()
    if len(set(together.exchange(what, data=digest))) == 1:
        return
    first, *others = together.exchange(what, data=leaves)
    for process, other in enumerate(others, 1):
        for mine, its in itertools.zip_longest(first, other):
            if mine != its:
                raise ValueError(
                    f"{what}: the processes save different things. Process 0 has {_said(mine)}, "
                    f"process {process} has {_said(its)}. What each process has for itself must be "
                    "the same everywhere: make one array over all devices of it, with "
                    "xpr.make_array_from_process_local_data"
                )


def _said(leaf: list[str] | None) -> str:
    return "no such leaf" if leaf is None else f"{leaf[1]} as {shown(leaf[0])}"


def _divided(node: Node, found: list[_Planned], local: list[bool], here: int) -> Plan:
    leaves: list[Leaf] = []
    arrays: list[ArrayLeaf] = []
    parts: list[Part] = []
    nbytes = 0
    for i, (p, alone) in enumerate(zip(found, local, strict=True)):
        leaf = p.leaf
        if isinstance(leaf, ArrayLeaf) and leaf.nbytes:
            mine = p.parts if here == 0 or not alone else []
            if leaf.nbytes <= INLINE_BYTES and (alone or p.whole == 0):
                leaf = inlined(leaf, mine)
            else:
                leaf = stored(leaf, i, p.counts)
                arrays.append(leaf)
                parts += [(leaf, box, values) for box, values in mine]
                nbytes += leaf.nbytes
        leaves.append(leaf)
    content = {"tree": to_json(node), "leaves": [leaf.to_json() for leaf in leaves]}
    return Plan(content, arrays, parts, nbytes)
