"""Rows of special functions: arguments, an oracle and how many units in the last place to allow."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

import xpr.numpy as jnp
from xpr.core.config import override
from xpr.scipy import special

Oracle = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """`special.name` at `args`, its result number `pick` if it has several.

    `oracle` takes float64 arrays. An error of `ulps` units in the last place of the result is
    allowed, a pair for float32 and float64, and `atol` such units at 1.
    """

    name: str
    args: tuple[Any, ...]
    oracle: Oracle
    ulps: tuple[float, float] = (10.0, 10.0)
    atol: float = 0.0
    pick: int | None = None

    def run(self, *args: Any) -> Any:
        out = getattr(special, self.name)(*args)
        return out if self.pick is None else out[self.pick]


def by_mpmath(function: Callable[..., Any]) -> Oracle:
    """The oracle that applies `function` to mpmath's numbers, with 40 digits."""

    def oracle(*args: Any) -> Any:
        with mp.workdps(40):
            out = [_number(function(*map(mp.mpmathify, p))) for p in np.broadcast(*args)]
        return np.asarray(out)

    return oracle


def _number(value: Any) -> Any:
    return complex(value) if isinstance(value, mp.mpc) else float(value)


def grid(*values: Sequence[float]) -> tuple[Any, ...]:
    """All combinations, one array for each operand."""
    return tuple(a.ravel() for a in np.meshgrid(*values))


def check(rows: Sequence[Row]) -> None:
    """Each row in both widths."""
    failures: list[str] = []
    with override("enable_x64", True):
        for width, real in enumerate((np.float32, np.float64)):
            for row in rows:
                given = [_narrow(a, real) for a in row.args]
                found = row.run(*(jnp.asarray(a) for a in given))
                failures += _compare(row, given, np.asarray(found), _oracle(row, given), width)
    assert not failures, f"{len(failures)} failures:\n" + "\n".join(failures[:25])


def _narrow(a: Any, real: Any) -> Any:
    a = np.asarray(a)
    if a.dtype.kind == "c":
        return a.astype(np.complex64 if real is np.float32 else np.complex128)
    return a.astype(real) if a.dtype.kind == "f" else a


def _oracle(row: Row, given: Sequence[Any]) -> Any:
    wide = [a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for a in given]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(row.oracle(*wide))


def _compare(row: Row, given: Sequence[Any], found: Any, wanted: Any, width: int) -> list[str]:
    real = (np.float32, np.float64)[width]
    kind = np.result_type(real, np.complex64) if wanted.dtype.kind == "c" else real
    if found.dtype != kind or found.shape != wanted.shape:
        return [f"{row.name}: {found.dtype}{found.shape}, expected {wanted.shape}"]
    eps = float(np.finfo(real).eps)
    with np.errstate(all="ignore"):
        rounded = wanted.astype(kind).astype(wanted.dtype)
        error = np.abs(found.astype(wanted.dtype) - wanted)
        # Numbers below the normal range are compared as that range allows.
        scale = np.maximum(np.abs(wanted), float(np.finfo(real).tiny))
        right = error <= eps * (row.ulps[width] * scale + row.atol)
    special_value = ~np.isfinite(rounded)
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    right = np.where(special_value, same, right)
    out = []
    for i in np.flatnonzero(~right.ravel())[:3]:
        at = tuple(float(a.ravel()[i]) if a.dtype.kind != "c" else a.ravel()[i] for a in given)
        got, expected = found.ravel()[i], wanted.ravel()[i]
        ulps = float((error / scale / eps).ravel()[i])
        out.append(f"{row.name}{at} {real.__name__}: {got}, not {expected}: {ulps:.1f} ulp")
    return out
