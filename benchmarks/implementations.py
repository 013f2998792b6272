"""The libraries that are compared, each under one interface, loaded by name when asked for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

from benchmarks import numpy_lax

MODES = ("numpy", "xpr eager", "xpr jit", "jax eager", "jax jit")


@dataclass(frozen=True)
class Implementation:
    """One library in one mode.

    ``np`` and ``lax`` are what programs are written against, ``root`` the library itself. ``put``
    makes one of its arrays, ``wait`` returns when a result is there and ``host`` gives its leaves
    as NumPy arrays.
    """

    mode: str
    library: str
    root: Any
    np: Any
    lax: Any
    jit: Callable[[Callable[..., Any]], Any]
    put: Callable[[numpy.ndarray], Any]
    wait: Callable[[Any], Any]

    def host(self, result: Any) -> list[numpy.ndarray]:
        leaves = result if isinstance(result, tuple | list) else [result]
        return [numpy.asarray(leaf) for leaf in leaves]


def _same(value: Any) -> Any:
    return value


def installed(library: str) -> bool:
    """Whether this interpreter has the library."""
    return importlib.util.find_spec(library) is not None


def load(mode: str) -> Implementation:
    """The implementation of one of `MODES`."""
    if mode not in MODES:
        raise ValueError(f"expected one of {', '.join(MODES)}, got {mode!r}")
    if mode == "numpy":
        return Implementation(mode, "numpy", numpy, numpy, numpy_lax, _same, _same, _same)
    library, way = mode.split()
    # By name: JAX may be missing, and xpr too in the interpreter that has JAX.
    root = importlib.import_module(library)
    return Implementation(
        mode=mode,
        library=library,
        root=root,
        np=importlib.import_module(f"{library}.numpy"),
        lax=importlib.import_module(f"{library}.lax"),
        jit=root.jit if way == "jit" else _same,
        put=root.device_put,
        wait=root.block_until_ready,
    )
