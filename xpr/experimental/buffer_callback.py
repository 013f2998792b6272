"""`jax.experimental.buffer_callback`: Python functions that write their results in place.

The function gets buffers: of the results, which it fills, and of the arguments, which it reads.
They live in the memory of the host.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.callbacks import io_callback, pure_callback
from xpr.core.aval import ShapedArray
from xpr.core.trace import get_aval

__all__ = ["Buffer", "ExecutionContext", "ExecutionStage", "buffer_callback"]


class ExecutionStage(enum.Enum):
    """When a function is called: programs of xpr call it when they run."""

    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3


class ExecutionContext:
    """Where a function is called. There is no stream of a device: the function runs on the host."""

    stage = ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        """Raises ValueError: only a GPU's program has a stream."""
        raise ValueError("the stream of a buffer_callback: the function runs on the host")


class Buffer:
    """Memory that the function sees as an array: by `numpy.asarray`, or by DLPack.

    That of a result is to be written, that of an argument must not be.
    """

    def __init__(self, array: np.ndarray[Any, Any], writeable: bool) -> None:
        self._array = array
        self.writeable = writeable

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self._array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._array.ndim

    def unsafe_buffer_pointer(self) -> int:
        """The address of the first element."""
        return self._array.ctypes.data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._array, dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def buffer_callback(
    callback: Callable[..., None],
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    command_buffer_compatible: bool = False,
) -> Callable[..., Any]:
    """A function of arrays that `callback(ctx, out, *args, **kwargs)` computes in place.

    `out` is a tree of `Buffer`s for `result_shape_dtypes`, which the callback fills; the arguments
    are trees of `Buffer`s. With `has_side_effect` a call is never left out or repeated. A result
    that `input_output_aliases` gives to an argument, by their numbers among the leaves, begins with
    that argument's values. `vmap_method` is that of `pure_callback`; `command_buffer_compatible` is
    about CUDA and has no effect.

    Raises ValueError for aliases of other types, for a callback that returns a value, and under
    `grad` and `jvp`.

    >>> import numpy as np
    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.buffer_callback import buffer_callback
    >>> def add_one(ctx, out, x):
    ...     np.asarray(out)[...] = np.asarray(x) + 1
    >>> x = jnp.array(41)
    >>> xpr.jit(buffer_callback(add_one, xpr.ShapeDtypeStruct((), jnp.int32)))(x)
    Array(42, dtype=int32)
    """
    del command_buffer_compatible
    avals, out_tree = tree_util.tree_flatten(result_shape_dtypes)
    results = [ShapedArray(tuple(a.shape), a.dtype) for a in avals]

    def call(*args: Any, **kwargs: Any) -> Any:
        operands, in_tree = tree_util.tree_flatten((args, kwargs))
        aliases = _checked_aliases(input_output_aliases or {}, operands, results)

        def on_host(*leaves: Any) -> Any:
            arrays = [np.asarray(x) for x in leaves]
            # A batch has an axis in front, of arguments and results.
            batch = arrays[0].shape[: arrays[0].ndim - get_aval(operands[0]).ndim] if arrays else ()
            out = [np.zeros((*batch, *a.shape), a.dtype) for a in results]
            for source, target in aliases.items():
                out[target][...] = arrays[source]
            for x in arrays:
                x.flags.writeable = False
            positional, named = in_tree.unflatten([Buffer(x, False) for x in arrays])
            buffers = out_tree.unflatten([Buffer(x, True) for x in out])
            if callback(ExecutionContext(), buffers, *positional, **named) is not None:
                raise ValueError("buffer_callback callback must not return any values.")
            return out

        if has_side_effect and vmap_method is None:
            found = io_callback(on_host, results, *operands)
        else:
            found = pure_callback(on_host, results, *operands, vmap_method=vmap_method)
        return out_tree.unflatten(found)

    return call


def _checked_aliases(
    aliases: Mapping[int, int], operands: list[Any], results: list[ShapedArray]
) -> dict[int, int]:
    found = {int(i): int(o) for i, o in sorted(aliases.items())}
    for i, o in found.items():
        for number, what, count in ((i, "input", len(operands)), (o, "output", len(results))):
            if not 0 <= number < count:
                raise ValueError(
                    f"input_output_aliases contains the mapping '{i}:{o}' with {what} index "
                    f"{number} outside the range [0, {count})."
                )
        given = get_aval(operands[i])
        if (given.shape, given.dtype) != (results[o].shape, results[o].dtype):
            raise ValueError(
                f"input_output_aliases contains the mapping '{i}:{o}' referring to an input with "
                f"abstract value {given} and an output with a different abstract value "
                f"{results[o]}."
            )
    return found
