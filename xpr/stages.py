"""The stages between a Python function and a compiled program, as types.

`jit(f)` is `Wrapped`; `.trace(...)` gives `Traced`, `.lower()` then `Lowered` and `.compile()`
`Compiled`, which is called like `f`.

>>> import xpr, xpr.numpy as jnp
>>> traced = xpr.jit(jnp.sin).trace(1.0)
>>> isinstance(traced, xpr.stages.Traced)
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpr.transforms.stages import ArgInfo as ArgInfo
from xpr.transforms.stages import Compiled as Compiled
from xpr.transforms.stages import Lowered as Lowered
from xpr.transforms.stages import Traced as Traced

if TYPE_CHECKING:
    from xpr.transforms.function_types import Jitted as Wrapped
else:
    from xpr.transforms.jit import JittedFunction as Wrapped

CompilerOptions = dict[str, str | bool]
"""Options of a compile by name."""

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]
