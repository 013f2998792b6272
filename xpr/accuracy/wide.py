"""Programs in a wider type: all numbers float64, but for the operations that are to be rounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.dtypes import float0
from xpr.core.jaxpr import JaxprEqn, Literal
from xpr.interpreters.reference import interpret_equation
from xpr.interpreters.walk import Array, Domain, Step

NARROW_ONLY = ("bitcast_convert_type", "nextafter", "reduce_precision")
"""Operations whose meaning is that of their type's bits."""


def is_real(dtype: Any) -> bool:
    """Whether a dtype is of real floating-point numbers, ml_dtypes' included."""
    return dtype != float0 and isinstance(dtype, np.dtype) and dtype.kind in "fV"


def widened(array: Array) -> Array:
    """Real numbers in float64, others as they are."""
    return array.astype(np.float64) if is_real(array.dtype) else array


def written(literal: Literal) -> float:
    """The number that a user wrote: 0.1, where the program holds the nearest one of its type.

    That is the shortest decimal number which the type rounds to the literal's.
    """
    value = np.asarray(literal.val, literal.aval.dtype)
    return float(str(value[()]))


def wide_call(eqn: JaxprEqn, operands: Sequence[Array]) -> list[Array]:
    """The results of an operation on operands in float64, with its real results in float64."""
    params = {name: _wide_param(value) for name, value in eqn.params.items()}
    with np.errstate(all="ignore"):
        found = eqn.primitive.reference(*operands, **params)
    results = list(found) if eqn.primitive.multiple_results else [found]
    return [
        np.asarray(r, np.float64 if is_real(v.aval.dtype) else v.aval.dtype)
        for r, v in zip(results, eqn.outvars, strict=True)
    ]


def _wide_param(value: Any) -> Any:
    return np.dtype(np.float64) if isinstance(value, np.dtype) and is_real(value) else value


class Wide(Domain):
    """Values in float64; the operations that `rounded` chooses are computed in their own type."""

    def __init__(self, rounded: Callable[[Step], bool] = lambda _: False) -> None:
        self._rounded = rounded

    def lift(self, array: Array) -> Array:
        return widened(array)

    def literal(self, literal: Literal) -> Array:
        return (
            np.asarray(written(literal)) if is_real(literal.aval.dtype) else np.asarray(literal.val)
        )

    def evaluate(self, step: Step) -> list[Array]:
        eqn = step.eqn
        if eqn.primitive.name in NARROW_ONLY or self._rounded(step):
            operands = [
                np.asarray(o, a.aval.dtype) for o, a in zip(step.operands, eqn.invars, strict=True)
            ]
            return [widened(r) for r in interpret_equation(eqn, operands)]
        return wide_call(eqn, step.operands)

    def stack(self, values: Sequence[Array], aval: Any) -> Array:
        dtype = np.float64 if is_real(aval.dtype) else aval.dtype
        return np.stack(values) if values else np.zeros((0, *aval.shape), dtype)


class RandomlyRounded(Domain):
    """Values in their own types; each result is rounded up or down at random.

    The chance is that of the exact result's place between two neighbours (Parker's Monte Carlo
    arithmetic; Forsythe, "Round-off errors in numerical integration", for the idea).
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def evaluate(self, step: Step) -> list[Array]:
        eqn = step.eqn
        found = interpret_equation(eqn, step.operands)
        if eqn.primitive.name in _EXACT or not any(is_real(r.dtype) for r in found):
            return found
        if eqn.primitive.name in NARROW_ONLY or any(r.dtype == np.float64 for r in found):
            return [self._nudged(r) if r.dtype == np.float64 else r for r in found]
        exact = wide_call(eqn, [widened(o) for o in step.operands])
        return [
            self._rounded(e, r) if is_real(r.dtype) else r
            for e, r in zip(exact, found, strict=True)
        ]

    def _rounded(self, exact: Array, computed: Array) -> Array:
        """`computed`, moved by its error in the exact operation, and then rounded at random."""
        dtype = computed.dtype
        with np.errstate(all="ignore"):
            near = exact.astype(dtype)
            away = np.nextafter(
                near, np.where(exact > near.astype(np.float64), np.inf, -np.inf).astype(dtype)
            )
            gap = np.abs(away.astype(np.float64) - near.astype(np.float64))
            chance = np.abs(exact - near.astype(np.float64)) / np.where(gap > 0, gap, 1)
        taken = np.where(self._rng.random(exact.shape) < chance, away, near).astype(dtype)
        # An operation of the library may be off by more than a rounding: that stays.
        with np.errstate(all="ignore"):
            extra = computed.astype(np.float64) - exact
            is_more = np.abs(extra) > 2 * gap
            sign = self._rng.choice([-1.0, 1.0], exact.shape)
            moved = (exact + sign * extra).astype(dtype)
        return np.where(is_more & np.isfinite(moved), moved, taken).astype(dtype)

    def _nudged(self, computed: Array) -> Array:
        with np.errstate(all="ignore"):
            toward = self._rng.choice([-np.inf, np.inf], computed.shape)
            near = np.nextafter(computed, toward)
        return np.where(self._rng.random(computed.shape) < 0.5, near, computed)


_EXACT = frozenset(
    "reshape broadcast_in_dim transpose squeeze slice rev concatenate pad gather dynamic_slice "
    "dynamic_update_slice tile split stack unstack copy device_put optimization_barrier select_n "
    "stop_gradient name reduce_max reduce_min max min cummax cummin clamp sort top_k scatter neg "
    "abs sign floor ceil round empty iota real reduce_window_max reduce_window_min".split()
)
"""Operations that never round."""
