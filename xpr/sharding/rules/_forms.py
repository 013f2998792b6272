"""Forms that rules share: a builder that numbers factors, and elementwise rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from xpr.core.aval import Shape, ShapedArray
from xpr.sharding.rule import (
    FactorRule,
    Factors,
    LocalShapes,
    Place,
    RuleFunction,
    register,
)

AxisFactors = tuple[int, ...]
"""The factors of one axis."""

Avals = Sequence[ShapedArray]
Params = dict[str, Any]
Localize = Callable[[Params, LocalShapes], Params]
Apply = Callable[[Place, Sequence[Any], Params, LocalShapes], Sequence[Any]]

NONE: AxisFactors = ()
"""An axis that is never sharded."""


class Builder:
    """Numbers the factors of a rule as they are made.

    Each method makes one factor and returns the factors of an axis that consists of it alone. An
    axis of size 1 has none: it may be spread over others, and there is nothing to be sharded.
    """

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._reduced: dict[int, str] = {}
        self._whole: set[int] = set()

    def through(self, size: int) -> AxisFactors:
        """A factor of that size that passes from operands to results."""
        if size == 1:
            return NONE
        self._sizes.append(size)
        return (len(self._sizes) - 1,)

    def reduced(self, size: int, op: str) -> AxisFactors:
        """A factor that operands have and results do not: the reduction `op` ends it."""
        made = self.through(size)
        self._reduced.update(dict.fromkeys(made, op))
        return made

    def whole(self, size: int) -> AxisFactors:
        """A factor that must not be sharded, for axes that correspond and are needed whole."""
        made = self.through(size)
        self._whole.update(made)
        return made

    def axes(self, sizes: Iterable[int], but: Collection[int] = ()) -> list[AxisFactors]:
        """A factor that passes through for each of the sizes; axes in `but` are never sharded."""
        return [NONE if i in but else self.through(n) for i, n in enumerate(sizes)]

    def rule(
        self,
        operands: Iterable[Sequence[AxisFactors]],
        results: Iterable[Sequence[AxisFactors]],
        *,
        localize: Localize | None = None,
        apply: Apply | None = None,
    ) -> FactorRule:
        """The rule with these factors for each axis of each operand and result."""
        return FactorRule(
            tuple(self._sizes),
            tuple(tuple(o) for o in operands),
            tuple(tuple(r) for r in results),
            dict(self._reduced),
            frozenset(self._whole),
            localize,
            apply,
        )


def nothing(shape: Shape) -> Factors:
    """The axes of an array that is never sharded."""
    return (NONE,) * len(shape)


def axes_over(factors: AxisFactors, local: LocalShapes) -> tuple[str, ...]:
    """The mesh axes that the axis with these factors is sharded over."""
    return tuple(name for f in factors for name in local.axes[f])


def elementwise(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """All axes pass through; an axis of size 1 beside a greater one has no factor."""
    del params
    build = Builder()
    shape = results[0].shape
    factors = build.axes(shape)

    def of(aval: ShapedArray) -> list[AxisFactors]:
        if not aval.ndim:
            return []
        return [
            f if n == whole else NONE
            for n, whole, f in zip(aval.shape, shape, factors, strict=True)
        ]

    return build.rule([of(a) for a in operands], [factors for _ in results])


def batched(rank: int) -> RuleFunction:
    """The leading axes that all operands and results share pass through, the others are whole.

    The first operand has `rank` axes beside these.
    """

    def rule(operands: Avals, results: Avals, params: Params) -> FactorRule:
        del params
        build = Builder()
        batch = build.axes(operands[0].shape[: operands[0].ndim - rank])

        def of(aval: ShapedArray) -> list[AxisFactors]:
            return batch + [NONE] * (aval.ndim - len(batch))

        return build.rule(map(of, operands), map(of, results))

    return rule


def register_all(names: Iterable[str], rule: RuleFunction) -> None:
    """Gives the primitives of these names one rule."""
    for name in names:
        register(name, rule)


def setting(**shapes: Callable[[LocalShapes], Any]) -> Localize:
    """A `localize` that sets parameters to what functions of the local shapes give."""

    def localize(params: Params, local: LocalShapes) -> Params:
        return {**params, **{name: value(local) for name, value in shapes.items()}}

    return localize


def result_shape(local: LocalShapes) -> Shape:
    """The shape of the device's part of the first result."""
    return local.results[0]


def no_sharding(local: LocalShapes) -> None:
    """For a parameter that places the result: nothing is left to place on one device."""
    del local
