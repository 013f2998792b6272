"""The collective of partitioned programs: it names devices by their numbers, no mesh.

What users and the partitioner write as `psum`, `all_gather` and the like over mesh axes becomes
this one primitive in the program that each device runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.primitive import NotBatchable, NotDifferentiable, NotLinear, define
from xpr.runtimes.collectives import perform
from xpr.runtimes.collectives.base import Collective


def _abstract(*avals: ShapedArray, collective: Collective) -> list[ShapedArray]:
    kinds = collective.out_types([(a.shape, a.dtype) for a in avals])
    return [ShapedArray(shape, dtype) for shape, dtype in kinds]


def _reference(*arrays: np.ndarray[Any, Any], collective: Collective) -> Sequence[Any]:
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
