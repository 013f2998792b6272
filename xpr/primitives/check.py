"""Checks: where a program fails if it has found an error.

The operands are the leaves of an error state (`xpr.experimental.checkify`): first the code, zero
for no failure, then what its message tells. `err_tree` puts them back together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.effects import CHECK
from xpr.core.primitive import define
from xpr.core.trace import get_aval
from xpr.interpreters.batching import BatchAxis, Dim, at_front
from xpr.primitives import _ops as ops
from xpr.tree_util import tree_unflatten

NOT_FUNCTIONALIZED = (
    "Cannot abstractly evaluate a checkify.check which was not functionalized. This probably means "
    "you tried to stage (jit/scan/pmap/...) a `check` without functionalizing it through "
    "`checkify.checkify`."
)


def last_failure(leaves: Sequence[Any]) -> list[Any]:
    """The state of one failure, from states with batch axes in front: the last that failed."""
    batch = get_aval(leaves[0]).shape
    if not batch:
        return list(leaves)
    size = math.prod(batch)
    avals = [get_aval(x) for x in leaves]
    own = [a.shape[len(batch) :] for a in avals]
    if size == 0:
        return [np.zeros(s, a.dtype) for s, a in zip(own, avals, strict=True)]
    flat = [ops.reshape(x, (size, *s)) for x, s in zip(leaves, own, strict=True)]
    zeros = np.zeros(size, np.int32)
    failed = ops.bind("ne", flat[0], zeros)
    places = ops.select(failed, np.arange(size, dtype=np.int32), zeros)
    which = ops.bind("reduce_max", places, axes=(0,), out_sharding=None)
    start = np.int32(0)
    return [
        ops.reshape(
            ops.bind("dynamic_slice", x, which, *(start for _ in s), slice_sizes=(1, *s)), s
        )
        for x, s in zip(flat, own, strict=True)
    ]


def _abstract(*_: ShapedArray, **__: Any) -> list[ShapedArray]:
    return []


def _reference(*leaves: Any, err_tree: Any, debug: bool) -> list[Any]:
    if not debug:
        tree_unflatten(err_tree, leaves).raise_now()
    return []


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    del tangents
    return list(check_p.bind(*primals, **params)), []


def _transpose(cts: Sequence[Any], *args: Any, **_: Any) -> list[Any]:
    """Nothing: it has no results, so the engine never has a cotangent to pass on."""
    del cts
    return [None for _ in args]


def _batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[list[Any], list[Dim]]:
    moved = [at_front(axis, x, d) for x, d in zip(args, dims, strict=True)]
    return list(check_p.bind(*last_failure(moved), **params)), []


check_p = define(
    "check",
    family="check",
    doc="Fails if an error was found; `checkify` makes this an error state that is handed on.",
    abstract=_abstract,
    reference=_reference,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    multiple_results=True,
    eager="inline",
    effects=lambda _: frozenset((CHECK,)),
    pp_params=lambda params: {"debug": params["debug"]},
)
