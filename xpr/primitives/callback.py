"""Calls from programs back into Python: pure functions, input and output, and debugging.

A callback is a function from NumPy arrays to a list of NumPy arrays of the promised types. Mapped
over a batch it stays one call of the host, which goes through the examples there. The callback of a
`pure_callback` is a dataclass with `result_avals`, the types of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.effects import IO, ORDERED_IO, Effect
from xpr.core.primitive import define
from xpr.interpreters.batching import BatchAxis, Dim, broadcast_batch, moved_to_front, with_axis

_FAMILY = "callback"
VMAP_METHODS = (
    "sequential",
    "sequential_unrolled",
    "expand_dims",
    "broadcast_all",
    "legacy_vectorized",
)

Callback = Callable[..., Sequence[Any]]
Avals = tuple[ShapedArray, ...]


@dataclass(frozen=True)
class EachExample:
    """A callback on batches, by a call for each example; `batched` tells which operands are."""

    callback: Callback
    batched: tuple[bool, ...]
    size: int
    result_avals: Avals
    """The types of one example's results."""

    def __call__(self, *operands: Any) -> list[np.ndarray[Any, Any]]:
        values = [np.asarray(x) if b else x for x, b in zip(operands, self.batched, strict=True)]
        out = [np.empty((self.size, *a.shape), a.dtype) for a in self.result_avals]
        for i in range(self.size):
            # Basic indexing with `...` gives arrays even of single elements.
            own = [x[i, ...] if b else x for x, b in zip(values, self.batched, strict=True)]
            for whole, part in zip(out, self.callback(*own), strict=True):
                whole[i] = part
        return out

    def __str__(self) -> str:
        return f"{self.callback} for each of {self.size} examples"


def _each_example(
    callback: Callback,
    result_avals: Avals,
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
) -> tuple[EachExample, list[Any]]:
    """The callback on a batch, and its operands."""
    batched = tuple(d is not None for d in dims)
    moved = [moved_to_front(x, d) for x, d in zip(args, dims, strict=True)]
    return EachExample(callback, batched, axis.size, result_avals), moved


def _batch_types(avals: Avals, axis: BatchAxis) -> Avals:
    return tuple(with_axis(a, 0, axis) for a in avals)


def _abstract(*_: ShapedArray, result_avals: Avals, **__: Any) -> list[ShapedArray]:
    return list(result_avals)


def _reference(*args: Any, callback: Callback, **_: Any) -> list[Any]:
    return list(callback(*args))


# ---- pure functions


def _no_jvp_of_pure(*_: Any, **__: Any) -> Any:
    raise ValueError(
        "Pure callbacks do not support JVP. Please use `xpr.custom_jvp` to use callbacks while "
        "taking gradients."
    )


def _no_transpose_of_pure(*_: Any, **__: Any) -> Any:
    raise ValueError(
        "Pure callbacks do not support transpose. Please use `xpr.custom_vjp` to use callbacks "
        "while taking gradients."
    )


def _pure_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    callback: Any,
    result_avals: Avals,
    vmap_method: str | None,
    **params: Any,
) -> tuple[list[Any], list[Dim]]:
    if vmap_method is None:
        shown = ", ".join(map(repr, VMAP_METHODS[:-1]))
        raise NotImplementedError(
            "vmap is only supported for the pure_callback primitive when vmap_method is one of "
            f"{shown}, or {VMAP_METHODS[-1]!r}. Got vmap_method=None."
        )
    if vmap_method.startswith("sequential"):
        callback, operands = _each_example(callback, result_avals, axis, args, dims)
    else:
        # None leaves operands without a batch axis as they are.
        extent = {"expand_dims": 1, "broadcast_all": axis.size}.get(vmap_method)
        operands = [
            moved_to_front(x, d) if d is not None or extent is None else broadcast_batch(x, extent)
            for x, d in zip(args, dims, strict=True)
        ]
        # The function itself gives batches now.
        callback = replace(callback, result_avals=_batch_types(result_avals, axis))
    found = pure_callback_p.bind(
        *operands,
        callback=callback,
        result_avals=_batch_types(result_avals, axis),
        vmap_method=vmap_method,
        **params,
    )
    return list(found), [0] * len(found)


pure_callback_p = define(
    "pure_callback",
    family=_FAMILY,
    doc="A function of this process that only computes its results.",
    abstract=_abstract,
    reference=_reference,
    jvp=_no_jvp_of_pure,
    transpose=_no_transpose_of_pure,
    batch=_pure_batch,
    multiple_results=True,
    eager="inline",
)


# ---- input and output


def _no_jvp_of_io(*_: Any, **__: Any) -> Any:
    raise ValueError("IO callbacks do not support JVP.")


def _no_transpose_of_io(*_: Any, **__: Any) -> Any:
    raise ValueError("IO callbacks do not support transpose.")


def _io_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    callback: Callback,
    result_avals: Avals,
    ordered: bool,
    **params: Any,
) -> tuple[list[Any], list[Dim]]:
    if ordered:
        raise ValueError("Cannot `vmap` ordered IO callback.")
    callback, operands = _each_example(callback, result_avals, axis, args, dims)
    found = io_callback_p.bind(
        *operands,
        callback=callback,
        result_avals=_batch_types(result_avals, axis),
        ordered=ordered,
        **params,
    )
    return list(found), [0] * len(found)


io_callback_p = define(
    "io_callback",
    family=_FAMILY,
    doc="A function of this process that reads or changes something outside the program.",
    abstract=_abstract,
    reference=_reference,
    jvp=_no_jvp_of_io,
    transpose=_no_transpose_of_io,
    batch=_io_batch,
    multiple_results=True,
    eager="inline",
    effects=lambda params: frozenset((ORDERED_IO if params["ordered"] else IO,)),
)


# ---- debugging


def _debug_abstract(*_: ShapedArray, **__: Any) -> list[ShapedArray]:
    return []


def _debug_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    del tangents
    return list(debug_callback_p.bind(*primals, **params)), []


def _debug_transpose(cts: Sequence[Any], *args: Any, **_: Any) -> list[Any]:
    """Nothing: it has no results, so the engine never has a cotangent to pass on."""
    del cts
    return [None for _ in args]


def _debug_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, callback: Callback, **params: Any
) -> tuple[list[Any], list[Dim]]:
    callback, operands = _each_example(callback, (), axis, args, dims)
    return list(debug_callback_p.bind(*operands, callback=callback, **params)), []


def _debug_effects(params: dict[str, Any]) -> frozenset[Effect]:
    return frozenset((params["effect"],))


debug_callback_p = define(
    "debug_callback",
    family=_FAMILY,
    doc="A function of this process that looks at values and gives none.",
    abstract=_debug_abstract,
    reference=_reference,
    jvp=_debug_jvp,
    transpose=_debug_transpose,
    batch=_debug_batch,
    multiple_results=True,
    eager="inline",
    effects=_debug_effects,
)
