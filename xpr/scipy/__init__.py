"""SciPy's functions for arrays that can be traced, compiled and transformed.

Names and semantics are those of `jax.scipy`. Each submodule is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xpr.scipy import cluster as cluster
    from xpr.scipy import fft as fft
    from xpr.scipy import integrate as integrate
    from xpr.scipy import interpolate as interpolate
    from xpr.scipy import linalg as linalg
    from xpr.scipy import ndimage as ndimage
    from xpr.scipy import optimize as optimize
    from xpr.scipy import signal as signal
    from xpr.scipy import sparse as sparse
    from xpr.scipy import spatial as spatial
    from xpr.scipy import special as special
    from xpr.scipy import stats as stats

_SUBMODULES = (
    "cluster",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
)

if not TYPE_CHECKING:  # type checkers would take any name for an attribute

    def __getattr__(name: str) -> object:
        if name in _SUBMODULES:
            return importlib.import_module(f"xpr.scipy.{name}")
        raise AttributeError(f"module 'xpr.scipy' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *_SUBMODULES})
