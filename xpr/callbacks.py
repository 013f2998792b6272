"""Functions of this process that programs call: `pure_callback` and `io_callback`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.errors import shown
from xpr.core.extended_array import ExtendedArray, HostElements, base_of, seen_as
from xpr.core.trace import Tracer, is_valid_value, outside_programs
from xpr.dispatch.array import ArrayImpl, array_from_host
from xpr.dispatch.default_device import default_device
from xpr.dispatch.host_values import host_value
from xpr.dispatch.transfer import device_put
from xpr.primitives.callback import VMAP_METHODS, io_callback_p, pure_callback_p
from xpr.runtimes import registry
from xpr.sharding import Sharding, SingleDeviceSharding
from xpr.transforms.signature import name_of


def local_arrays(operands: Iterable[Any]) -> list[Any]:
    """What a callback gets: arrays of this process.

    NumPy operands are memory of the program, which it uses again when the callback has returned.
    """
    device = default_device()
    if not device.runtime.is_host:
        device = registry.first_device("cpu")
    out: list[Any] = []
    for x in operands:
        if isinstance(x, (ArrayImpl, ExtendedArray)):
            out.append(x)
        elif isinstance(x, HostElements):
            out.append(seen_as(local_arrays([x.numbers])[0], x.dtype))
        else:
            aval, host = host_value(x)
            kept = np.array(host, order="C")
            out.append(array_from_host(kept, ShapedArray(aval.shape, aval.dtype), device))
    return out


@dataclass(frozen=True)
class CheckedCallback:
    """A user's function of pytrees as one of flat arrays, with its results checked."""

    caller: str
    callback: Callable[..., Any]
    in_tree: Any
    out_tree: Any
    result_avals: tuple[ShapedArray, ...]

    def __call__(self, *operands: Any) -> list[np.ndarray[Any, Any]]:
        with outside_programs():
            args, kwargs = tree_util.tree_unflatten(
                self.in_tree, local_arrays(map(base_of, operands))
            )
            leaves = tree_util.tree_leaves(self.callback(*args, **kwargs))
            if len(leaves) != len(self.result_avals):
                raise TypeError(
                    f"{self} returned {len(leaves)} arrays, but result_shape_dtypes promises "
                    f"{len(self.result_avals)}: {self.out_tree}"
                )
            return [self._checked(i, x) for i, x in enumerate(leaves)]

    def _checked(self, index: int, x: Any) -> np.ndarray[Any, Any]:
        wanted = self.result_avals[index]
        found = np.asarray(x)
        if found.shape != wanted.shape:
            raise ValueError(
                f"{self} returned an array of shape {found.shape} as {self._leaf(index)}, but "
                f"result_shape_dtypes promises {wanted.shape}"
            )
        dtype = dtypes.canonicalize(found.dtype)
        if isinstance(x, (bool, int, float, complex)):
            dtype = host_value(x)[0].dtype
        if dtype != wanted.dtype:
            raise TypeError(
                f"{self} returned an array of dtype {found.dtype} as {self._leaf(index)}, but "
                f"result_shape_dtypes promises {wanted.dtype}"
            )
        return np.asarray(found, wanted.dtype)

    def _leaf(self, index: int) -> str:
        tree = tree_util.tree_unflatten(self.out_tree, range(len(self.result_avals)))
        path, _ = tree_util.tree_leaves_with_path(tree)[index]
        return f"result{tree_util.keystr(path)}"

    def __str__(self) -> str:
        return f"{self.caller} of {name_of(self.callback)}"


def _result_types(caller: str, result_shape_dtypes: Any) -> tuple[tuple[ShapedArray, ...], Any]:
    leaves, tree = tree_util.tree_flatten(result_shape_dtypes)
    avals = []
    for x in leaves:
        if not (hasattr(x, "shape") and hasattr(x, "dtype")):
            raise TypeError(
                f"{caller}: result_shape_dtypes takes objects with a shape and a dtype, got "
                f"{shown(x)} of type {type(x)}"
            )
        dtype = np.dtype(x.dtype)
        if not state.enable_x64 and dtypes.canonicalize(dtype) != dtype:
            raise ValueError(
                f"{caller}: result_shape_dtypes cannot specify 64-bit types such as {dtype} when "
                "enable_x64 is off"
            )
        avals.append(ShapedArray(tuple(x.shape), dtype))
    return tuple(avals), tree


def _checked_sharding(caller: str, sharding: Any) -> None:
    if sharding is None or isinstance(sharding, SingleDeviceSharding):
        return
    if isinstance(sharding, Sharding):
        raise NotImplementedError(
            f"{caller} supports only SingleDeviceSharding, got {type(sharding).__name__}"
        )
    raise TypeError(f"{caller}: sharding must be a Sharding, got {shown(sharding)}")


def _flat_callback(
    caller: str,
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> tuple[CheckedCallback, list[Any]]:
    """The function as programs call it, and its operands."""
    if not callable(callback):
        raise TypeError(f"{caller} takes a function, got {shown(callback)} of {type(callback)}")
    pairs, in_tree = tree_util.tree_flatten_with_path((tuple(args), kwargs))
    for path, x in pairs:
        if not is_valid_value(x):
            which, *inner = path
            owner = "args" if which.idx == 0 else "kwargs"
            raise TypeError(
                f"Error interpreting argument to {caller} as an array: {owner}"
                f"{tree_util.keystr(tuple(inner))} is {shown(x)} of type {type(x)}"
            )
    avals, out_tree = _result_types(caller, result_shape_dtypes)
    function = CheckedCallback(caller, callback, in_tree, out_tree, avals)
    return function, [x for _, x in pairs]


def _unflatten(function: CheckedCallback, found: Sequence[Any]) -> Any:
    placed = [x if isinstance(x, (Array, Tracer)) else device_put(x) for x in found]
    return tree_util.tree_unflatten(function.out_tree, placed)


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """The result of a Python function that only computes, called also from compiled programs.

    `callback(*args, **kwargs)` gets pytrees of arrays and returns one with the shapes and dtypes of
    `result_shape_dtypes`. Calls may be left out, where no result is read, and repeated.

    Under `vmap`, `vmap_method` tells how the function works on batches: "sequential" (or
    "sequential_unrolled") calls it for each example; "expand_dims" gives it all examples at once,
    with an axis of size 1 in front of arguments that are not mapped, "broadcast_all" with those
    repeated, "legacy_vectorized" with those unchanged; None refuses.

    Derivatives need a `custom_jvp` around the call: `grad` and `jvp` raise ValueError. What the
    function raises arrives at the caller. Raises TypeError or ValueError for results of other types
    or shapes, NotImplementedError when exported, since such a program cannot call Python.

    >>> import numpy as np
    >>> import xpr, xpr.numpy as jnp
    >>> shape = xpr.ShapeDtypeStruct((3,), jnp.float32)
    >>> f = xpr.jit(lambda x: xpr.pure_callback(np.sort, shape, x))
    >>> f(jnp.array([3.0, 1.0, 2.0]))
    Array([1., 2., 3.], dtype=float32)
    """
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ValueError(
            f"pure_callback: vmap_method must be one of {[*VMAP_METHODS, None]}, got "
            f"{vmap_method!r}"
        )
    _checked_sharding("pure_callback", sharding)
    function, operands = _flat_callback(
        "pure_callback", callback, result_shape_dtypes, args, kwargs
    )
    found = pure_callback_p.bind(
        *operands,
        callback=function,
        result_avals=function.result_avals,
        sharding=sharding,
        vmap_method=vmap_method,
    )
    return _unflatten(function, found)


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """The result of a Python function with effects, called once each time the program comes to it.

    As `pure_callback`, but a call is never left out, repeated or shared. Calls happen in the order
    in which the program makes them; `ordered` makes that a promise, and refuses `vmap`, which
    otherwise calls the function for each example. Raises ValueError under `grad` and `jvp` of its
    arguments, NotImplementedError inside what runs a program more than once (`checkpoint` under
    `grad`, `cond` under `vmap`).

    >>> import itertools
    >>> import numpy as np
    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental import io_callback
    >>> counter = itertools.count()
    >>> number = xpr.ShapeDtypeStruct((), jnp.int32)
    >>> f = xpr.jit(lambda: io_callback(lambda: np.int32(next(counter)), number, ordered=True))
    >>> f(), f()
    (Array(0, dtype=int32), Array(1, dtype=int32))
    """
    _checked_sharding("io_callback", sharding)
    function, operands = _flat_callback("io_callback", callback, result_shape_dtypes, args, kwargs)
    found = io_callback_p.bind(
        *operands,
        callback=function,
        result_avals=function.result_avals,
        sharding=sharding,
        ordered=bool(ordered),
    )
    return _unflatten(function, found)
