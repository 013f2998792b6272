"""Parts of arrays that do not lie in memory as vectors of elements do.

Of an elementwise operation on a part of an array IREE makes loads of vectors for SPIR-V, of up to
four elements or 16 bytes, as many as divide the rows of the array and of the part. Where the part
begins is divided by that number and rounded down: what is read lies up to three elements before
what was asked for, and nothing is said. A copy of the part alone is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

# Fewer elements are not distributed over the threads of a workgroup as vectors.
_FEW = 4


def is_misaligned(
    dtype: np.dtype[np.generic],
    whole: Sequence[int],
    part: Sequence[int],
    starts: Sequence[int | None],
) -> bool:
    """Whether vectors of a part of an array may be misplaced.

    `starts` are the part's first places along each axis, None for those not known before the run.
    Rows are as long as the axes that lie one behind the other in memory make them.
    """
    if math.prod(part) <= _FEW:
        return False
    longest = max(4, 16 // dtype.itemsize)
    stride = 1
    for size, count, start in zip(reversed(whole), reversed(part), reversed(starts), strict=True):
        if start != 0 and size != 1:
            vector = math.gcd(longest, size * stride, count * stride)
            if (1 if start is None else start) * stride % vector:
                return True
        stride *= size
    return False


def is_strided_part(whole: Sequence[int], part: Sequence[int]) -> bool:
    """Whether elements that are neighbours in a part of an array are none in the array."""
    stride = 1
    for size, count in zip(reversed(whole), reversed(part), strict=True):
        if count > 1:
            return stride > 1
        stride *= size
    return False
