"""What devices do together in partitioned programs, which name them by their numbers, no mesh.

What users and the partitioner write as `psum`, `all_gather` and the like over mesh axes becomes
this one primitive in the program that each device runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.primitive import NotBatchable, NotDifferentiable, NotLinear, define

if TYPE_CHECKING:
    from xpr.runtimes.collectives.base import Collective


def _abstract(*avals: ShapedArray, collective: Collective) -> list[ShapedArray]:
    kinds = collective.out_types([(a.shape, a.dtype) for a in avals])
    return [ShapedArray(shape, dtype) for shape, dtype in kinds]


def _reference(*arrays: np.ndarray[Any, Any], collective: Collective) -> Sequence[Any]:
    from xpr.runtimes.collectives.current import perform  # noqa: PLC0415  only several devices meet

    return perform(collective, [np.asarray(a) for a in arrays])


_PARTITIONED = "programs are partitioned after all other transformations"


group_collective_p = define(
    "group_collective",
    family="group_collective",
    doc="What devices get that meet and combine their arrays.",
    abstract=_abstract,
    reference=_reference,
    jvp=NotDifferentiable(_PARTITIONED),
    transpose=NotLinear(_PARTITIONED),
    batch=NotBatchable(_PARTITIONED),
    multiple_results=True,
)


# ---- functions of this process that are called once for all devices


def _once_abstract(
    *_: ShapedArray, result_avals: Sequence[ShapedArray], **__: Any
) -> list[ShapedArray]:
    return list(result_avals)


def call_for_all(
    *arrays: np.ndarray[Any, Any],
    callback: Callable[..., Sequence[Any]],
    result_avals: Sequence[ShapedArray],
    collective: Collective,
    **_: Any,
) -> list[Any]:
    """The results of one call, made by the first device, as each device gets them."""
    from xpr.runtimes.collectives.current import (  # noqa: PLC0415  only several devices meet
        current_participant,
    )

    (everybody,) = collective.groups
    participant = current_participant()
    if participant is None or participant.rank == everybody[0]:
        results = [
            np.asarray(x, a.dtype) for x, a in zip(callback(*arrays), result_avals, strict=True)
        ]
    else:
        results = [np.zeros(a.shape, a.dtype) for a in result_avals]
    if participant is None or not results:
        return results
    gathered = participant.perform(collective, [x[None] for x in results])
    return [x[0] for x in gathered]


call_once_p = define(
    "call_once",
    family="group_collective",
    doc="What a function of this process gives that is called once for all devices.",
    abstract=_once_abstract,
    reference=call_for_all,
    jvp=NotDifferentiable(_PARTITIONED),
    transpose=NotLinear(_PARTITIONED),
    batch=NotBatchable(_PARTITIONED),
    multiple_results=True,
    effects=lambda params: params["own_effects"],
)
