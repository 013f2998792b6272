"""Scans that rules are written with, as functions of tracers: loops that are one dispatch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.config import override
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.trace import get_aval
from xpr.primitives.rules import shape_of
from xpr.primitives.scan import scan_p


def for_each(function: Callable[..., Sequence[Any]], arrays: Sequence[Any]) -> list[Any]:
    """`function` of each row of the arrays, by turns; its results are stacked."""
    return scanned(function, shape_of(arrays[0])[0], [], [], arrays)


def scanned(
    body: Callable[..., Sequence[Any]],
    length: int,
    consts: Sequence[Any],
    carry: Sequence[Any],
    xs: Sequence[Any],
) -> list[Any]:
    """The last carry; and, stacked, what `body(*consts, *carry, *rows)` gives behind the next."""
    with override("enable_x64", True):
        kept = [get_aval(x) for x in (*consts, *carry)]
        slices = [ShapedArray(a.shape[1:], a.dtype) for a in map(get_aval, xs)]
        return list(
            scan_p.bind(
                *consts,
                *carry,
                *xs,
                jaxpr=trace_to_jaxpr(body, [*kept, *slices]),
                length=length,
                reverse=False,
                num_carry=len(carry),
                num_consts=len(consts),
                unroll=1,
            )
        )
