"""Calls of functions in C and C++ that are written for XLA's foreign function interface.

The parameters are JAX's: `result_avals` are the types of the results, among them `abstract_token`
for each token; `input_layouts` and `output_layouts` the axes from fastest to slowest, as XLA
numbers them; `input_output_aliases` pairs of an operand and a result. Tokens are no operands here:
`tokens` says at which places the function gets one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.effects import Effect, Effects
from xpr.core.errors import JaxRuntimeError, note_user_line
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.primitive import define
from xpr.core.token import AbstractToken
from xpr.core.trace import get_aval
from xpr.interpreters.batching import BatchAxis, Dim, broadcast_batch, moved_to_front, with_axis
from xpr.primitives._foreign_attributes import Attributes
from xpr.primitives.scan import scan_p

if TYPE_CHECKING:
    from xpr.runtimes.foreign.calls import ForeignCall, Operand, UntypedCall

FFI = Effect("FFI")

Layouts = tuple[tuple[int, ...], ...]
Avals = Sequence[ShapedArray]

VMAP_METHODS = (
    "sequential",
    "sequential_unrolled",
    "expand_dims",
    "broadcast_all",
    "legacy_vectorized",
)


class ForeignFunction:
    """A call of a foreign function in one place of a program, as programs make it."""

    def __init__(self, call: ForeignCall | UntypedCall, place: str = "") -> None:
        """`place` is the user's line, for errors."""
        self._call = call
        self._place = place

    def load(self) -> None:
        """Finds the function, and makes its instance; JaxRuntimeError if that fails."""
        self._doing(self._call.load)

    def __call__(self, *arrays: np.ndarray[Any, Any], out: Sequence[Any]) -> None:
        """Calls it on arrays, and writes its results to `out`; JaxRuntimeError if it fails."""
        self._doing(functools.partial(self._call, *arrays, out=out))

    def _doing(self, what: Any) -> None:
        from xpr.runtimes.foreign.status import ForeignError  # noqa: PLC0415  as in `_operands`

        try:
            what()
        except ForeignError as failed:
            error = JaxRuntimeError(str(failed))
            if self._place:
                note_user_line(error, f"in the foreign function {self._call.name}, {self._place}")
            raise error from None

    def __str__(self) -> str:
        return str(self._call)


def _operands(
    avals: Sequence[ShapedArray | AbstractToken], layouts: Layouts | None
) -> list[Operand]:
    # The layouts of XLA's structures take a millisecond to load, which few programs need.
    from xpr.runtimes.foreign.calls import Operand  # noqa: PLC0415

    out = []
    for i, aval in enumerate(avals):
        if isinstance(aval, AbstractToken):
            out.append(Operand(None))
            continue
        order = tuple(range(aval.ndim)) if layouts is None else layouts[i][::-1]
        out.append(Operand((aval.shape, aval.dtype), order))
    return out


def foreign_function(
    in_avals: Avals,
    *,
    target_name: str,
    result_avals: Sequence[ShapedArray | AbstractToken],
    input_layouts: Layouts | None,
    output_layouts: Layouts | None,
    input_output_aliases: Sequence[tuple[int, int]],
    custom_call_api_version: int,
    legacy_backend_config: str | bytes | None,
    attributes: Attributes,
    tokens: Sequence[int] = (),
    place: str = "",
    **_: Any,
) -> ForeignFunction:
    """The call that these parameters mean, on operands of these types."""
    from xpr.runtimes.foreign import calls  # noqa: PLC0415  as in `_operands`

    taken: list[ShapedArray | AbstractToken] = list(in_avals)
    for i in tokens:
        taken.insert(i, AbstractToken())
    operands, results = _operands(taken, input_layouts), _operands(result_avals, output_layouts)
    if custom_call_api_version >= 4:
        encoded = attributes.encoded()
        call = calls.ForeignCall(
            target_name, operands, results, aliases=input_output_aliases, attributes=encoded
        )
    else:
        call = calls.UntypedCall(
            target_name,
            operands,
            results,
            aliases=input_output_aliases,
            version=custom_call_api_version,
            options=legacy_backend_config or b"",
        )
    return ForeignFunction(call, place)


def takes_batches(target_name: str) -> bool:
    """Whether the leading axes of what the function takes and gives are known to be a batch."""
    from xpr.runtimes.foreign.targets import is_batch_partitionable  # noqa: PLC0415  as above

    return is_batch_partitionable(target_name)


@functools.lru_cache(256)
def _eager_function(in_avals: tuple[Any, ...], params: tuple[Any, ...]) -> ForeignFunction:
    return foreign_function(in_avals, **dict(params))


clear = _eager_function.cache_clear
"""Ends the instances of functions that were called outside of programs."""


def _abstract(*_: ShapedArray, result_avals: Sequence[Any], **__: Any) -> list[ShapedArray]:
    return [a for a in result_avals if not isinstance(a, AbstractToken)]


def _reference(*args: Any, **params: Any) -> list[np.ndarray[Any, Any]]:
    # Operands that differ only in what they are sharded over are the same to the function.
    arrays = [np.asarray(x) for x in args]
    in_avals = tuple(ShapedArray(x.shape, x.dtype) for x in arrays)
    function = _eager_function(in_avals, tuple(sorted(params.items())))
    out = [np.empty(a.shape, a.dtype) for a in _abstract(**params)]
    function(*arrays, out=out)
    return out


def _no_derivative(*_: Any, target_name: str, **__: Any) -> Any:
    raise ValueError(
        f"The FFI call to `{target_name}` cannot be differentiated. You can use `jax.custom_jvp` "
        "or `jax.custom_vjp` to add support."
    )


def _effects(params: dict[str, Any]) -> Effects:
    ordered = params["has_side_effect"] or params["tokens"] or _gives_tokens(params)
    return frozenset((FFI,)) if ordered else frozenset()


def _gives_tokens(params: dict[str, Any]) -> bool:
    return any(isinstance(a, AbstractToken) for a in params["result_avals"])


def _printed(params: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in sorted(params.items()) if k != "tokens" or v}


def _with_batch(layouts: Layouts, batched: Sequence[bool]) -> Layouts:
    """The layouts with one more axis in front, the slowest, where there is a batch."""
    return tuple(
        (*(n + 1 for n in layout), 0) if b else layout
        for layout, b in zip(layouts, batched, strict=True)
    )


def _batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    vmap_method: str | None,
    result_avals: Sequence[Any],
    input_layouts: Layouts,
    output_layouts: Layouts,
    tokens: Sequence[int],
    **params: Any,
) -> tuple[list[Any], list[Dim]]:
    if vmap_method is None:
        shown = ", ".join(map(repr, VMAP_METHODS[:-1]))
        raise NotImplementedError(
            "vmap is only supported for the ffi_call primitive when vmap_method is one of "
            f"{shown}, or {VMAP_METHODS[-1]!r}. Got vmap_method=None."
        )
    params |= {"vmap_method": vmap_method, "tokens": tokens}
    moved = [moved_to_front(x, d) for x, d in zip(args, dims, strict=True)]
    if vmap_method.startswith("sequential"):
        params |= {"input_layouts": input_layouts, "output_layouts": output_layouts}
        found = _one_by_one(axis, moved, dims, {**params, "result_avals": result_avals})
        return found, [0] * len(found)
    batched = [d is not None for d in dims]
    # None leaves operands without a batch axis as they are.
    extent = {"expand_dims": 1, "broadcast_all": axis.size}.get(vmap_method)
    if extent is not None:
        moved = [
            x if b else broadcast_batch(x, extent) for x, b in zip(moved, batched, strict=True)
        ]
        batched = [True] * len(batched)
    of_operands = iter(batched)
    marks = [i not in tokens and next(of_operands) for i in range(len(input_layouts))]
    arrays = [not isinstance(a, AbstractToken) for a in result_avals]
    found = ffi_call_p.bind(
        *moved,
        result_avals=tuple(
            with_axis(a, 0, axis) if b else a for a, b in zip(result_avals, arrays, strict=True)
        ),
        input_layouts=_with_batch(input_layouts, marks),
        output_layouts=_with_batch(output_layouts, arrays),
        **params,
    )
    return list(found), [0] * len(found)


def _one_by_one(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], params: dict[str, Any]
) -> list[Any]:
    """A loop that calls the function for each example."""
    consts = [x for x, d in zip(args, dims, strict=True) if d is None]
    examples = [x for x, d in zip(args, dims, strict=True) if d is not None]

    def body(*operands: Any) -> Sequence[Any]:
        fixed, own = iter(operands[: len(consts)]), iter(operands[len(consts) :])
        return ffi_call_p.bind(*(next(fixed if d is None else own) for d in dims), **params)

    avals = [get_aval(x) for x in consts]
    avals += [a.update(shape=a.shape[1:]) for a in map(get_aval, examples)]
    jaxpr = trace_to_jaxpr(body, avals)
    unrolled = params["vmap_method"] == "sequential_unrolled"
    return list(
        scan_p.bind(
            *jaxpr.consts,
            *consts,
            *examples,
            jaxpr=jaxpr,
            length=axis.size,
            reverse=False,
            num_carry=0,
            num_consts=len(consts),
            unroll=max(axis.size, 1) if unrolled else 1,
        )
    )


ffi_call_p = define(
    "ffi_call",
    family="ffi",
    doc="A function in C or C++ that is written for XLA's foreign function interface.",
    abstract=_abstract,
    reference=_reference,
    jvp=_no_derivative,
    transpose=_no_derivative,
    batch=_batch,
    multiple_results=True,
    pp_params=_printed,
    effects=_effects,
)
