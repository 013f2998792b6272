"""Collectives of partitioned programs as host calls: the devices' threads meet in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.primitives.group_collective import call_for_all, call_once_p, group_collective_p
from xpr.runtimes.collectives import perform
from xpr.runtimes.collectives.base import Collective


class _Meeting:
    """The function that a compiled program calls: it writes to the memory of the results."""

    def __init__(self, collective: Collective) -> None:
        self.collective = collective

    def __call__(self, *arrays: np.ndarray[Any, Any], out: Sequence[np.ndarray[Any, Any]]) -> None:
        perform(self.collective, arrays, out)

    def __repr__(self) -> str:
        return self.collective.source or self.collective.kind


def _lower(ctx: LoweringContext, *operands: Value, collective: Collective) -> Sequence[Value]:
    if not ctx.target.host_calls:
        raise NotImplementedError(
            f"{collective.source or collective.kind} needs several devices that meet in this "
            f"process, which programs for target {ctx.target.name} cannot do"
        )
    types = [(a.shape, a.dtype) for a in ctx.out_avals]
    return ctx.module.host_call(
        ctx, collective.kind, _Meeting(collective), operands, types, out=True
    )


def _once_lower(ctx: LoweringContext, *operands: Value, **params: Any) -> Sequence[Value]:
    if not ctx.target.host_calls:
        raise NotImplementedError(
            f"{params['callback']} is a Python function, which programs for target "
            f"{ctx.target.name} cannot call"
        )

    def call(*arrays: np.ndarray[Any, Any]) -> list[Any]:
        return call_for_all(*arrays, **params)

    types = [(a.shape, a.dtype) for a in ctx.out_avals]
    return ctx.module.host_call(ctx, "call_once", call, operands, types)


register(group_collective_p, _lower)
register(call_once_p, _once_lower)
