"""`ffi_call`: a foreign function as one of arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.errors import shown
from xpr.core.extended import ExtendedDType
from xpr.core.physical import is_extended_aval, physical_aval
from xpr.core.token import AbstractToken
from xpr.core.trace import Tracer, get_aval, is_valid_value
from xpr.dispatch.transfer import device_put
from xpr.ffi.layouts import MinorToMajor, minor_to_major
from xpr.lax.marks import Token
from xpr.primitives._foreign_attributes import attributes_of
from xpr.primitives._keys import random_unwrap, random_wrap
from xpr.primitives.ffi import VMAP_METHODS, ffi_call_p

_Type = ShapedArray | AbstractToken


def _result_types(results: Sequence[Any]) -> tuple[_Type, ...]:
    out: list[_Type] = []
    for i, x in enumerate(results):
        if isinstance(x, AbstractToken):
            out.append(x)
            continue
        if not (hasattr(x, "shape") and hasattr(x, "dtype")):
            raise ValueError(
                "All elements of result_shape_dtypes must have 'shape' and 'dtype' attributes. Got "
                f"{shown(x)} at position {i}."
            )
        dtype = x.dtype if isinstance(x.dtype, ExtendedDType) else np.dtype(x.dtype)
        out.append(ShapedArray(tuple(x.shape), dtype))
    return tuple(out)


def _operand_type(x: Any) -> _Type:
    if isinstance(x, Token):
        return AbstractToken()
    if not is_valid_value(x):
        raise TypeError(
            f"Argument '{shown(x)}' of type {type(x)} is not a valid JAX type: ffi_call takes "
            "arrays and numbers, one by one"
        )
    return get_aval(x)


def _orders(
    what: str, avals: Sequence[_Type], layouts: Sequence[Any] | None
) -> tuple[MinorToMajor, ...]:
    given = [None] * len(avals) if layouts is None else layouts
    return tuple(
        minor_to_major(f"{what} {i}", a, given[i], major_first=True) for i, a in enumerate(avals)
    )


def _alias_pairs(
    aliases: Mapping[int, int],
    operands: Sequence[_Type],
    results: Sequence[_Type],
    orders: tuple[Sequence[MinorToMajor], Sequence[MinorToMajor]],
) -> tuple[tuple[int, int], ...]:
    """The pairs, checked: both have one type and one layout."""
    out = []
    for i, o in sorted((int(i), int(o)) for i, o in aliases.items()):
        said = f"input_output_aliases contains the mapping '{i}:{o}' "
        if not -len(operands) <= i < len(operands):
            raise ValueError(f"{said}with input index {i} outside the range [0, {len(operands)}).")
        if not -len(results) <= o < len(results):
            raise ValueError(f"{said}with output index {o} outside the range [0, {len(results)}).")
        taken, given = operands[i], results[o]
        if isinstance(taken, AbstractToken) or isinstance(given, AbstractToken):
            same = taken == given
        else:
            same = (taken.shape, taken.dtype) == (given.shape, given.dtype)
        if not same:
            raise ValueError(
                f"{said}referring to an input with abstract value {taken} and an output with a "
                f"different abstract value {given}."
            )
        if orders[0][i] != orders[1][o]:
            raise ValueError(
                f"{said}referring to an input with layout {orders[0][i]} and an output with a "
                f"different layout {orders[1][o]}."
            )
        out.append((i % len(operands), o % len(results)))
    return tuple(out)


def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None,
    output_layouts: Any = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> Callable[..., Any]:
    """A function that calls the foreign function of that name: see `register_ffi_target`.

    `result_shape_dtypes` is an object with a shape and a dtype, or a sequence of them; the function
    returns an array, or as many as there are. What it is called with are the operands, arrays or
    tokens; keyword arguments are attributes: numbers, texts, NumPy arrays, and dictionaries of
    them. A Python integer is an int64 to the handler, a float a float64, and NumPy's have their
    dtypes.

    With `has_side_effect` a call is never left out, whether or not a result is read; otherwise it
    may be. `input_layouts` and `output_layouts` say for each array in which order its axes lie,
    from the slowest to the fastest one; None is row-major. `input_output_aliases` maps numbers of
    operands to numbers of results that begin with the operand's values, in the same memory.

    Under `vmap`, `vmap_method` says what the handler is given, as in `pure_callback`:
    "sequential" (or "sequential_unrolled") calls it for each example, "expand_dims" and
    "broadcast_all" once with a leading axis on all operands, "legacy_vectorized" on those that are
    mapped; None refuses. Derivatives need `custom_jvp` or `custom_vjp` around the call: ValueError.

    Raises ValueError for `result_shape_dtypes`, layouts and aliases that do not fit, TypeError for
    operands that are no arrays and attributes that no handler could get. What a handler reports,
    and a name that no handler has, is raised as `JaxRuntimeError`. Handlers run on the CPU: those
    of a program on another device get copies of its arrays. Exported programs have none:
    NotImplementedError.

    `custom_call_api_version` below 4 calls functions that were registered with `api_version=0`:
    1 is `void f(void* out, const void** in)`, in 2 a status follows, and in 3 before that the text
    of `legacy_backend_config` and its length.

    >>> import xpr, xpr.numpy as jnp
    >>> square = xpr.ffi.ffi_call("square", xpr.ShapeDtypeStruct((3,), jnp.float32))
    >>> xpr.make_jaxpr(square)(jnp.arange(3.0)).out_avals
    [ShapedArray(float32[3])]
    """
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ValueError(
            f"vmap_method must be on of the allowed methods {[*VMAP_METHODS, None]}, but got: "
            f"{vmap_method}"
        )
    several = isinstance(result_shape_dtypes, Sequence)
    given = result_shape_dtypes if several else [result_shape_dtypes]
    results = _result_types(given)
    out_layouts = output_layouts if several else (output_layouts,)
    if custom_call_api_version >= 4:
        if legacy_backend_config is not None:
            raise ValueError(
                "The use of the legacy_backend_config parameter requires "
                f"custom_call_api_version < 4; got {custom_call_api_version}."
            )
    elif custom_call_api_version < 1:
        raise ValueError(
            f"Unknown custom-call API version enum value: {custom_call_api_version}: it is 1, 2 or "
            "3 for functions without call frames, and 4 with them"
        )

    def wrapped(*args: Any, **attributes: Any) -> Any:
        if custom_call_api_version < 4 and attributes:
            raise ValueError(
                "The use of ffi_call attributes requires a custom call API version of at least 4; "
                f"got api_version={custom_call_api_version}."
            )
        operands = [_operand_type(x) for x in args]
        if input_layouts is not None and len(input_layouts) != len(args):
            raise ValueError(
                f"The number of input arguments ({len(args)}) must equal the number of input "
                f"layouts ({len(input_layouts)})."
            )
        if out_layouts is not None and len(out_layouts) != len(results):
            raise ValueError(
                f"The number of outputs ({len(results)}) must equal the number of output layouts "
                f"({len(out_layouts)})."
            )
        orders = (
            _orders("input", operands, input_layouts),
            _orders("output", results, out_layouts),
        )
        pairs = _alias_pairs(input_output_aliases or {}, operands, results, orders)
        found = ffi_call_p.bind(
            *(_numbers(x, a) for x, a in zip(args, operands, strict=True) if _has_memory(a)),
            result_avals=tuple(
                a if isinstance(a, AbstractToken) else physical_aval(a) for a in results
            ),
            vmap_method=vmap_method,
            target_name=target_name,
            has_side_effect=bool(has_side_effect),
            input_layouts=orders[0],
            output_layouts=orders[1],
            input_output_aliases=pairs,
            custom_call_api_version=int(custom_call_api_version),
            legacy_backend_config=legacy_backend_config,
            attributes=attributes_of(attributes),
            tokens=tuple(i for i, a in enumerate(operands) if not _has_memory(a)),
        )
        arrays = iter(found)
        out = [_elements(next(arrays), a) if _has_memory(a) else Token() for a in results]
        if not several:
            return out[0]
        return tuple(out) if isinstance(result_shape_dtypes, tuple) else out

    return wrapped


def _has_memory(aval: _Type) -> bool:
    return not isinstance(aval, AbstractToken)


def _numbers(x: Any, aval: Any) -> Any:
    """The operand as a foreign function sees it: of keys the numbers."""
    return random_unwrap(x) if is_extended_aval(aval) else x


def _elements(x: Any, aval: Any) -> Any:
    placed = x if isinstance(x, (Array, Tracer)) else device_put(x)
    return random_wrap(placed, aval.dtype.generator) if is_extended_aval(aval) else placed
