"""What `jax._src.public_test_util` has beside public names."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from xpr import tree_util

_TOLERANCES = {"float64": 1e-15, "complex128": 1e-15, "float32": 1e-6, "complex64": 1e-6}
_TOLERANCES |= {"float16": 1e-3, "bfloat16": 1e-2}


def default_tolerance() -> dict[Any, float]:
    """The tolerance of each dtype; integers must be equal."""
    return {np.dtype(getattr(ml_dtypes, n, n)): t for n, t in _TOLERANCES.items()}


def check_eq(xs: Any, ys: Any, err_msg: str = "") -> None:
    """Raises AssertionError unless two trees have the same structure and equal leaves."""
    check_close(xs, ys, 0.0, 0.0, err_msg)


def check_close(
    xs: Any, ys: Any, atol: float | None = None, rtol: float | None = None, err_msg: str = ""
) -> None:
    """Raises AssertionError unless two trees have the same structure and nearly equal leaves.

    Without tolerances each is that of the coarser of the two dtypes.
    """
    leaves, tree = tree_util.tree_flatten(xs)
    others, other = tree_util.tree_flatten(ys)
    assert tree == other, f"{err_msg}: {tree} and {other} are different trees"
    for x, y in zip(map(np.asarray, leaves), map(np.asarray, others), strict=True):
        usual = max(_TOLERANCES.get(v.dtype.name, 0.0) for v in (x, y))
        wide = [_wide(v) for v in (x, y)]
        np.testing.assert_allclose(
            *wide,
            atol=usual if atol is None else atol,
            rtol=usual if rtol is None else rtol,
            err_msg=err_msg,
        )


def _wide(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x.astype(np.float64) if x.dtype.name in ("bfloat16", "float16") else x


__all__ = ["check_close", "check_eq", "default_tolerance"]
