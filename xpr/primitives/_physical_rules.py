"""What primitives do with the numbers of extended dtypes: the rules of `interpreters/physical.py`.

What only moves elements needs no rule of its own: the axes of an element are batch axes, and its
batching rule says the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.extended import is_extended
from xpr.core.extended_array import HostElements
from xpr.core.physical import element_aval, is_extended_aval
from xpr.core.primitive import Primitive
from xpr.core.trace import get_aval
from xpr.interpreters.physical import register_physical
from xpr.primitives import _keys as keys
from xpr.primitives import _ops as ops
from xpr.primitives.rules import BatchAxis, at_place

Avals = Sequence[ShapedArray]
Params = dict[str, Any]

# Operations that put elements elsewhere, and look at none of them.
_MOVES = (
    "broadcast_in_dim",
    "concatenate",
    "copy",
    "device_put",
    "dynamic_slice",
    "dynamic_update_slice",
    "gather",
    "mesh_cast",
    "optimization_barrier",
    "pad",
    "place",
    "pvary",
    "reshard",
    "rev",
    "scatter",
    "select_n",
    "sharding_constraint",
    "slice",
    "split",
    "squeeze",
    "stack",
    "tile",
    "transpose",
    "unstack",
    "reduced_vary_cast",
    "vary_unreduced_cast",
)


def _element_of(avals: Avals) -> ShapedArray:
    return element_aval(next(a.dtype for a in avals if is_extended_aval(a)))


def _moved(primitive: Primitive, avals: Avals, args: Sequence[Any], params: Params) -> list[Any]:
    """Each number of an element moves as the element does."""
    sizes = _element_of(avals).shape
    return _moved_along(primitive, [is_extended_aval(a) for a in avals], args, params, sizes)


def _moved_along(
    primitive: Primitive,
    extended: Sequence[bool],
    args: Sequence[Any],
    params: Params,
    sizes: Sequence[int],
) -> list[Any]:
    """`primitive` with the last axis of `extended` operands, of sizes `sizes`, for batch axes."""
    if not sizes:
        out = primitive.bind(*args, **params)
        return list(out) if primitive.multiple_results else [out]
    if len(sizes) > 1:
        raise NotImplementedError(
            f"{primitive.name}: elements of extended dtypes of several axes, {tuple(sizes)}"
        )
    axis = BatchAxis(sizes[0])
    dims = [get_aval(x).ndim - 1 if e else None for x, e in zip(args, extended, strict=True)]
    out, out_dims = primitive.batch(axis, args, dims, **params)  # pyright: ignore[reportCallIssue]
    if not primitive.multiple_results:
        out, out_dims = [out], [out_dims]
    return [
        # Results that have no such axis are those of other operands.
        x if d is None else at_place(axis, x, d, get_aval(x).ndim - 1)
        for x, d in zip(out, out_dims, strict=True)
    ]


def _reshape(primitive: Primitive, avals: Avals, args: Sequence[Any], params: Params) -> list[Any]:
    element = _element_of(avals)
    if params["dimensions"] is not None:
        return _moved(primitive, avals, args, params)
    sharding = params["sharding"]
    if sharding is not None:
        spec = sharding.normalized_spec(len(params["new_sizes"]))
        sharding = sharding.with_spec(
            sharding.spec.update(partitions=(*spec, *(None,) * element.ndim))
        )
    sizes = (*params["new_sizes"], *element.shape)
    return [primitive.bind(*args, new_sizes=sizes, dimensions=None, sharding=sharding)]


def _compared(primitive: Primitive, avals: Avals, args: Sequence[Any], params: Params) -> list[Any]:
    """Elements are equal if all of their numbers are."""
    ndim, element = max(a.ndim for a in avals), _element_of(avals)
    equal = primitive.name == "eq"
    # An operand without axes goes with any: its numbers go with those of each element.
    whole = max((get_aval(x).shape for x in args), key=len)
    spread = [_over(x, whole, element.ndim) for x in args]
    each = primitive.bind(*spread, **params)
    axes = tuple(range(ndim, ndim + element.ndim))
    if not axes:
        return [each]
    reduction = "reduce_and" if equal else "reduce_or"
    return [ops.bind(reduction, each, axes=axes, out_sharding=None)]


def _over(x: Any, whole: tuple[int, ...], ndim: int) -> Any:
    found = get_aval(x).shape
    if len(found) == len(whole):
        return x
    return ops.broadcast_in_dim(x, whole, range(len(whole) - ndim, len(whole)))


def _converted(
    primitive: Primitive, avals: Avals, args: Sequence[Any], params: Params
) -> list[Any]:
    """A conversion between an extended dtype and that of its numbers changes nothing."""
    new = params["new_dtype"]
    target = element_aval(new).dtype if is_extended(new) else new
    del primitive, avals
    return [ops.convert(args[0], target)]


def _same(primitive: Primitive, avals: Avals, args: Sequence[Any], params: Params) -> list[Any]:
    del primitive, avals, params
    return list(args)


def _seeded(primitive: Primitive, avals: Avals, args: Sequence[Any], params: Params) -> list[Any]:
    del primitive, avals
    return [keys.seed_numbers(args[0], params["impl"])]


def _drawn(primitive: Primitive, avals: Avals, args: Sequence[Any], params: Params) -> list[Any]:
    """Bits, or new keys, by the generator of the keys."""
    generator = keys.require_keys(primitive.name, avals[0]).generator
    if generator.name == "threefry2x32":
        return [primitive.bind(*args, **params)]
    return [_generators[generator.name][primitive.name](*args, **params)]


_generators: dict[str, dict[str, Callable[..., Any]]] = {}


def register_generator(
    name: str,
    *,
    bits: Callable[..., Any],
    split: Callable[..., Any],
    fold_in: Callable[..., Any],
) -> None:
    """Says what the generator `name` does with the numbers of its keys."""
    _generators[name] = {"random_bits": bits, "random_split": split, "random_fold_in": fold_in}


@dataclass(frozen=True)
class _OfElements:
    """An observer that is given elements for the numbers of some operands, by their dtypes."""

    callback: Any
    dtypes: tuple[Any, ...]

    def __call__(self, *operands: Any) -> Any:
        return self.callback(
            *(
                x if dtype is None else HostElements(x, dtype)
                for x, dtype in zip(operands, self.dtypes, strict=True)
            )
        )

    def __str__(self) -> str:
        return str(self.callback)


def _called(primitive: Primitive, avals: Avals, args: Sequence[Any], params: Params) -> list[Any]:
    if any(is_extended_aval(a) for a in params.get("result_avals", ())):
        raise NotImplementedError(
            f"{primitive.name} cannot return elements of extended dtypes: return their numbers "
            "(xpr.random.key_data), and make keys of these (xpr.random.wrap_key_data)"
        )
    if primitive.name != "debug_callback":
        return list(primitive.bind(*args, **params))
    dtypes = tuple(a.dtype if is_extended_aval(a) else None for a in avals)
    callback = _OfElements(params["callback"], dtypes)
    return list(primitive.bind(*args, **(params | {"callback": callback})))


for _name in _MOVES:
    register_physical(_name, _moved)
for _name in ("eq", "ne"):
    register_physical(_name, _compared)
for _name in ("random_bits", "random_split", "random_fold_in"):
    register_physical(_name, _drawn)
for _name in ("random_wrap", "random_unwrap", "random_clone"):
    register_physical(_name, _same)
for _name in ("pure_callback", "io_callback", "debug_callback"):
    register_physical(_name, _called)
register_physical("convert_element_type", _converted)
register_physical("reshape", _reshape)
register_physical("random_seed", _seeded)
