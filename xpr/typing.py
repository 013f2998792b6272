"""Types for annotations: what functions take as arrays and as dtypes.

A result is an `xpr.Array`; an operand may be anything that stands for one.

>>> import xpr
>>> from xpr.typing import ArrayLike
>>> def twice(x: ArrayLike) -> xpr.Array:
...     return xpr.numpy.add(x, x)
"""

from __future__ import annotations

from xpr.numpy._typing import ArrayLike as ArrayLike
from xpr.numpy._typing import DTypeLike as DTypeLike
