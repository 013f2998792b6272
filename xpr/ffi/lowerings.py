"""Lowerings that call foreign functions, for primitives that programs define."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.ffi.layouts import minor_to_major
from xpr.primitives._foreign_attributes import attributes_of
from xpr.primitives.ffi import foreign_function


@dataclass(frozen=True)
class LoweredCall:
    """A call in a program that is being lowered."""

    results: list[Any]


def _order(what: str, avals: Sequence[ShapedArray], layouts: Sequence[Any] | None) -> Any:
    given = [None] * len(avals) if layouts is None else layouts
    if len(given) != len(avals):
        raise ValueError(f"{len(avals)} {what}s have {len(given)} layouts")
    return tuple(
        minor_to_major(f"{what} {i}", a, layout, major_first=False)
        for i, (a, layout) in enumerate(zip(avals, given, strict=True))
    )


def build_ffi_lowering_function(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    skip_ffi_layout_processing: bool = False,
    has_side_effect: bool = False,
    operand_output_aliases: Mapping[int, int] | None = None,
    api_version: int = 4,
) -> Callable[..., LoweredCall]:
    """A function `(ctx, *operands, **params)` that adds a call to the program that is lowered.

    What it returns has the results as its attribute `results`. The types of the results are those
    of the primitive that is lowered; its parameters, and what is in `backend_config`, are
    attributes of the call. Layouts number the axes from the fastest to the slowest one, unlike
    those of `ffi_call`. `has_side_effect` has no effect here: whether a call may be left out is
    said by the primitive's effects. See `ffi_lowering`.
    """
    del skip_ffi_layout_processing, has_side_effect

    def lowered(ctx: Any, *operands: Any, **params: Any) -> LoweredCall:
        if not ctx.target.host_calls:
            raise NotImplementedError(
                f"{call_target_name} is a function of this process, which programs for target "
                f"{ctx.target.name} cannot call"
            )
        attributes: dict[str, Any] = {}
        if api_version >= 4:
            if backend_config is not None and not isinstance(backend_config, Mapping):
                raise ValueError("When api_version > 4, backend_config must be a dictionary.")
            attributes = {**(backend_config or {}), **params}
        elif params:
            raise ValueError(
                "The use of ffi_call attributes requires a custom call API version of at least 4; "
                f"got api_version={api_version}."
            )
        function = foreign_function(
            ctx.in_avals,
            target_name=call_target_name,
            result_avals=ctx.out_avals,
            input_layouts=_order("operand", ctx.in_avals, operand_layouts),
            output_layouts=_order("result", ctx.out_avals, result_layouts),
            input_output_aliases=tuple((operand_output_aliases or {}).items()),
            custom_call_api_version=api_version,
            legacy_backend_config=backend_config if isinstance(backend_config, str) else None,
            attributes=attributes_of(attributes),
            place=f"called from {ctx.source}",
        )
        types = [(a.shape, a.dtype) for a in ctx.out_avals]
        name = re.sub(r"\W", "_", call_target_name, flags=re.ASCII)
        return LoweredCall(ctx.module.host_call(ctx, name, function, operands, types, out=True))

    return lowered


def ffi_lowering(call_target_name: str, **options: Any) -> Callable[..., list[Any]]:
    """A lowering that calls the foreign function of that name, for `mlir.register_lowering`.

    Its options are those of `build_ffi_lowering_function`. The primitive's parameters are the
    handler's attributes, and its abstract evaluation says the types of the results.
    """
    build = build_ffi_lowering_function(call_target_name, **options)

    def lowering(ctx: Any, *operands: Any, **params: Any) -> list[Any]:
        return build(ctx, *operands, **params).results

    return lowering
