"""Calls of jitted functions with arguments or results in the host's memory beside the devices'."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xpr import tree_util
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.memories import in_kind, on_devices
from xpr.dispatch.sharded_array import HostMemoryArray

if TYPE_CHECKING:
    from xpr.transforms.jit_programs import CallParts
    from xpr.transforms.shardings import Shardings
    from xpr.transforms.tracing import TracedProgram


def is_concerned(shardings: Shardings | None, traced: TracedProgram, leaves: Sequence[Any]) -> bool:
    """Whether a call takes or gives arrays outside of the devices' own memory."""
    return (
        (shardings is not None and shardings.has_kinds)
        or any(type(x) is HostMemoryArray for x in leaves)
        or any(a.memory_space == "host" for a in traced.closed.out_avals)
    )


def call(
    run: Callable[[CallParts], Sequence[Any]],
    shardings: Shardings | None,
    traced: TracedProgram,
    parts: CallParts,
    name: str,
) -> list[Any]:
    """The results of `run`, which computes in the devices' own memory.

    A result lies where `out_shardings` or its type says. ValueError for an argument in another
    memory than `in_shardings` names.
    """
    args, _ = tree_util.tree_unflatten(parts.tree, parts.leaves)
    outputs: list[str | None] = [None] * len(traced.closed.out_avals)
    if shardings is not None:
        inputs, outputs = shardings.kinds(args, traced.out_tree)
        for x, kind in zip(parts.leaves, inputs, strict=False):
            if kind is not None and isinstance(x, ArrayImpl) and x.sharding.memory_kind != kind:
                raise ValueError(
                    "Memory kinds passed to xpr.jit does not match memory kind on the respective "
                    f"arg. Got jit memory kind: {kind}, arg memory kind: {x.sharding.memory_kind} "
                    f"for arg type: {x.aval.strip_weak_type()}"
                )
    found = run(parts.with_leaves([on_devices(x, name, donates=True) for x in parts.leaves]))
    own = ("pinned_host" if a.memory_space == "host" else "device" for a in traced.closed.out_avals)
    return [in_kind(x, kind or mine) for x, kind, mine in zip(found, outputs, own, strict=True)]
