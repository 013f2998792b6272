"""Collectives that are made of others: broadcasts and exchanges of parts of different sizes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NoReturn

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._named_axes import Names, size_of
from xpr.primitives.collectives import all_gather, axis_index
from xpr.primitives.creation import iota
from xpr.primitives.gather import index_take
from xpr.primitives.reduce import argmax, reduce_max
from xpr.primitives.shape import rev
from xpr.primitives.slicing import dynamic_slice_in_dim, index_in_dim
from xpr.tree_util import tree_map

__all__ = ["pbroadcast", "precv", "psend", "ragged_all_to_all"]

_INT32 = np.dtype(np.int32)


def pbroadcast(x: Any, axis_name: Hashable, source: int) -> Any:
    """The `x` of the one at the place `source` of the named axis, for everybody.

    `x` is a pytree of arrays. Raises ValueError for a place outside the axis.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.vmap(lambda x: xpr.lax.pbroadcast(x, "i", 1), axis_name="i")(jnp.array([3, 4, 5]))
    Array([4, 4, 4], dtype=int32)
    """
    size = size_of(axis_name, "pbroadcast")
    if not 0 <= source < size:
        raise ValueError(
            f"pbroadcast: the place {source} is outside the axis {axis_name!r} of size {size}"
        )
    return tree_map(
        lambda leaf: index_in_dim(all_gather(leaf, axis_name), source, 0, keepdims=False), x
    )


def ragged_all_to_all(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: Hashable,
    axis_index_groups: Any = None,
) -> Any:
    """Sends stretches of rows of `operand`, of any lengths, along the named axis into `output`.

    With k numbers for each place of the axis, and i // k = p: the rows of `operand` from
    `input_offsets[i]` on, `send_sizes[i]` many, go to the one at the place p, who finds them in
    its result from row `output_offsets[i]` on. Rows that nobody sends are those of `output`. Where
    stretches overlap, the one of the last sender stays. `recv_sizes` tells the receivers' view of
    the lengths, which must agree; it is not needed here, where the lengths sent are known.

    `operand` is [N, ...], `output` [M, ...] of the same dtype and sizes but the first; offsets and
    sizes are integers [K], where K is a multiple of the size of the axis.

    Raises TypeError for dtypes, ValueError for shapes that do not go together.

    >>> import xpr, xpr.numpy as jnp
    >>> def swap(x):
    ...     zero, one = jnp.zeros(2, int), jnp.array([0, 2])
    ...     to_other = jnp.where(xpr.lax.axis_index("i") == 0, one, one[::-1])
    ...     numbers = zero, to_other, zero, to_other
    ...     return xpr.lax.ragged_all_to_all(x, 0 * x, *numbers, axis_name="i")
    >>> xpr.vmap(swap, axis_name="i")(jnp.arange(6).reshape(2, 3))
    Array([[3, 4, 0],
           [0, 1, 0]], dtype=int32)
    """
    if axis_index_groups is not None:
        raise NotImplementedError(
            "ragged_all_to_all: axis_index_groups is not supported; all places take part"
        )
    size = size_of(axis_name, "ragged_all_to_all")
    numbers = {
        "input_offsets": input_offsets,
        "send_sizes": send_sizes,
        "output_offsets": output_offsets,
        "recv_sizes": recv_sizes,
    }
    count = _check_ragged(operand, output, numbers, size)
    rows, wanted = get_aval(operand).shape, get_aval(output).shape
    everything = all_gather(operand, axis_name)
    flat = ops.reshape(everything, (size * rows[0], *rows[1:]))

    def received(x: Any) -> Any:
        """What the senders' numbers say about the parts meant for this place, in a row."""
        gathered = all_gather(ops.convert(x, _INT32), axis_name)
        start = ops.mul(axis_index(axis_name), np.int32(count))
        return ops.reshape(dynamic_slice_in_dim(gathered, start, count, axis=1), (size * count,))

    begins, lengths, places = (received(x) for x in (input_offsets, send_sizes, output_offsets))
    table = (wanted[0], size * count)
    row = ops.broadcast_in_dim(iota(_INT32, wanted[0]), table, (0,))
    ends = ops.broadcast_in_dim(ops.add(places, lengths), table, (1,))
    covers = ops.bind(
        "and",
        ops.bind("le", ops.broadcast_in_dim(places, table, (1,)), row),
        ops.lt(row, ends),
    )
    # The last part that covers a row: the first one from behind.
    from_behind = argmax(rev(covers, (1,)), 1, _INT32)
    part = ops.sub(np.int32(size * count - 1), from_behind)
    sender = ops.bind("div", part, np.int32(count))
    moved = ops.sub(_at(begins, part), _at(places, part))
    source = ops.add(iota(_INT32, wanted[0]), moved)
    inside = ops.bind("clamp", np.int32(0), source, np.int32(max(rows[0] - 1, 0)))
    found = _at(flat, ops.add(ops.mul(sender, np.int32(rows[0])), inside))
    sent = ops.broadcast_in_dim(reduce_max(covers, (1,)), wanted, (0,))
    return ops.select(sent, found, output)


def _at(x: Any, places: Any) -> Any:
    return index_take(x, [places], (0,))


def _check_ragged(operand: Any, output: Any, numbers: dict[str, Any], size: int) -> int:
    """How many parts each sends to each; raises for operands that do not fit."""
    what = "ragged_all_to_all"
    first, second = get_aval(operand), get_aval(output)
    if not first.ndim or first.shape[1:] != second.shape[1:] or first.ndim != second.ndim:
        raise ValueError(
            f"{what} requires operand and output with rows of one shape, got shapes {first.shape} "
            f"and {second.shape}"
        )
    if first.dtype != second.dtype:
        raise TypeError(
            f"{what} requires operand and output of one dtype, got {first.dtype} and {second.dtype}"
        )
    for name, value in numbers.items():
        aval = get_aval(value)
        if dtypes.kind(aval.dtype) not in "iu":
            raise TypeError(f"{what} {name} must be integer type, got {aval.dtype}")
        if aval.ndim != 1 or not aval.shape[0]:
            raise ValueError(
                f"{what} {name} must be rank 1 with positive dimension size, but got shape "
                f"{aval.shape}"
            )
    lengths = {name: get_aval(x).shape[0] for name, x in numbers.items()}
    if len(set(lengths.values())) > 1 or lengths["send_sizes"] % size:
        raise ValueError(
            f"{what} requires offsets and sizes of one length, a multiple of the size {size} of "
            f"the axis, got {lengths}"
        )
    return lengths["send_sizes"] // size


def psend(x: Any, axis_name: Names, perm: Sequence[tuple[int, int]]) -> NoReturn:
    """To send `x` to others; NotImplementedError, as JAX raises on CPUs: `ppermute` does both.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.psend(jnp.ones(2), "i", [(0, 1)])
    Traceback (most recent call last):
        ...
    NotImplementedError: psend over 'i': sending from one device to another is not offered;
    ppermute sends and receives at once
    """
    _one_device("psend", axis_name)


def precv(
    token: Any, out_shape: Any, axis_name: Names, perm: Sequence[tuple[int, int]]
) -> NoReturn:
    """To receive what others send; NotImplementedError, as in JAX on CPUs: `ppermute` does both.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.precv(None, jnp.ones(2), "i", [(0, 1)])
    Traceback (most recent call last):
        ...
    NotImplementedError: precv over 'i': sending from one device to another is not offered;
    ppermute sends and receives at once
    """
    _one_device("precv", axis_name)


def _one_device(what: str, axis_name: Names) -> NoReturn:
    raise NotImplementedError(
        f"{what} over {axis_name!r}: sending from one device to another is not offered; "
        "ppermute sends and receives at once"
    )
