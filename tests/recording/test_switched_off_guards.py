"""Faults of the compiler that a switched-off guard lets through are alarms of the sentinel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.lowering import passes
from xpr.recording import Recording
from xpr.recording.verdicts import RIGHT, WRONG, judged

F32: Any = np.float32


def _padded_twice(x: Any) -> Any:
    zero = np.float32(0)
    return lax.pad(lax.pad(x, zero, [(0, 0, 1)]), zero, [(1, 2, 0)])


FAULTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "known_values constant_arithmetic": (
        lambda x: jnp.sum(-jnp.ones((3, 20)), axis=1) + x[0],
        (np.zeros(4, F32),),
    ),
    "small_integers": (lambda x: x + x > 0, (np.array([7, 4, 1], ml_dtypes.int4),)),
    "interior_padding": (_padded_twice, (np.array([1, 2, 3], F32),)),
    "conversions": (
        lambda x, w: x.astype(F32) @ w,
        (np.full((3, 4), 255, np.uint8), np.ones((4, 2), F32)),
    ),
}


def _judged(path: Path, f: Callable[..., Any], args: tuple[Any, ...]) -> str:
    with xpr.record(path):
        xpr.jit(lambda *a: f(*a))(*args)
    return judged(Recording.load(path)).kind


@pytest.mark.parametrize("names", FAULTS)
def test_the_sentinel_sees_the_fault(
    names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, args = FAULTS[names]
    assert _judged(tmp_path / "right.xprrec", f, args) == RIGHT
    for name in names.split():
        monkeypatch.delitem(passes.PASSES, name)
    assert _judged(tmp_path / "wrong.xprrec", f, args) == WRONG
