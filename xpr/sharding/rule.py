"""Sharding rules: how the axes of a primitive's operands and results correspond.

A rule maps every axis of every operand and result to *factors*, as an einsum maps axes to
letters. `dot_general` of `[i, k]` and `[k, j]` has the factors i and j, which pass through to the
result, and k, which is reduced by a sum. An axis that several factors make up (a reshape that
merges axes) lists them from major to minor; an axis without factors is never sharded. The idea is
that of the "sharding rules" of Shardy, the partitioner behind JAX.

From the rules alone follow the shardings of results (`propagate.py`, `types.py`) and the program of
one device (`partition.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from xpr.core.aval import Shape, ShapedArray
from xpr.core.primitive import Primitive, get_primitive

Axes = tuple[str, ...]
"""Names of mesh axes, from major to minor."""

Spec = tuple[Axes, ...]
"""For each axis of an array the mesh axes that it is sharded over."""

Factors = tuple[tuple[int, ...], ...]
"""For each axis of an array the numbers of its factors, from major to minor."""

REDUCTIONS = frozenset({"sum", "max", "min", "prod", "and", "or", "xor"})


@dataclass(frozen=True)
class FactorRule:
    """How the axes of one equation correspond."""

    sizes: tuple[int, ...]
    """The size of each factor."""

    operands: tuple[Factors, ...]
    results: tuple[Factors, ...]

    reduced: Mapping[int, str] = field(default_factory=dict)
    """Factors that operands have and results do not, with the reduction that ends each.

    When such a factor is sharded, each device computes its own part, and the parts are reduced.
    """

    whole: frozenset[int] = frozenset()
    """Factors that must not be sharded: the computation needs all of them in one place."""

    localize: Callable[[dict[str, Any], LocalShapes], dict[str, Any]] | None = None
    """The parameters of the primitive on one device, where they depend on shapes."""

    apply: Callable[[Place, Sequence[Any], dict[str, Any], LocalShapes], Sequence[Any]] | None = (
        None
    )
    """What one device computes, where it is not the same primitive on its own parts.

    It gets the place of the device, its parts of the operands (tracers), the parameters of the
    whole, and the shapes; it binds primitives, and returns one result for each of the equation's.
    Factors in `reduced` are reduced afterwards; those in `ended` it ends itself.
    """

    @functools.cached_property
    def ended(self) -> tuple[int, ...]:
        """Factors of operands that neither results nor `reduced` have: `apply` ends them."""
        of_results = {f for factors in self.results for axis in factors for f in axis}
        of_operands = {f for factors in self.operands for axis in factors for f in axis}
        return tuple(sorted(of_operands - of_results - self.whole - set(self.reduced)))


@dataclass(frozen=True)
class LocalShapes:
    """The shapes of one device's parts, and the mesh axes that each factor is sharded over."""

    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    axes: tuple[Axes, ...]
    """For each factor the mesh axes, major to minor."""


class Place(Protocol):
    """Where the device stands in the mesh, as a value of the program that all devices run."""

    def index(self, axes: Axes) -> Any:
        """The device's row-major place along `axes`, an int32 of rank 0 (a tracer)."""
        ...

    def count(self, axes: Axes) -> int:
        """The number of devices along `axes`."""
        ...

    def reduce(self, x: Any, axes: Axes, op: str) -> Any:
        """The reduction by `op` of everybody's `x` along `axes`."""
        ...

    def shift(self, x: Any, axes: Axes, by: int) -> Any:
        """The `x` of the device `by` places before along `axes`; zeros where there is none."""
        ...

    def exchange_places(self, x: Any, axes: Axes, sources: Sequence[int]) -> Any:
        """The `x` of the device at place `sources[i]` along `axes`, for the one at place i."""
        ...

    def gather(self, x: Any, axes: Axes, dim: int) -> Any:
        """Everybody's `x` along `axes`, one after the other along the axis `dim`."""
        ...


RuleFunction = Callable[[Sequence[ShapedArray], Sequence[ShapedArray], dict[str, Any]], FactorRule]


class ShardedWhole:
    """The rule of a primitive that needs its operands whole, with the reason: right, only slow."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __call__(
        self,
        operands: Sequence[ShapedArray],
        results: Sequence[ShapedArray],
        params: dict[str, Any],
    ) -> FactorRule:
        del params
        return FactorRule(
            (),
            tuple(((),) * a.ndim for a in operands),
            tuple(((),) * a.ndim for a in results),
        )

    def __repr__(self) -> str:
        return f"ShardedWhole({self.reason!r})"


class Structural:
    """Marks a primitive that holds programs: the engines go into them, no factor rule is needed."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __repr__(self) -> str:
        return f"Structural({self.how!r})"


_rules: dict[str, RuleFunction | Structural] = {}


def register(
    primitive: Primitive | str, rule: RuleFunction | Structural
) -> RuleFunction | Structural:
    """Gives `primitive` its sharding rule; ValueError if it has one."""
    name = primitive if isinstance(primitive, str) else primitive.name
    if name in _rules:
        raise ValueError(f"primitive {name!r} has two sharding rules")
    _rules[name] = rule
    return rule


def rule_of(primitive: Primitive) -> RuleFunction | Structural:
    """The sharding rule of `primitive`; NotImplementedError, saying what to do, without one."""
    try:
        return _rules[primitive.name]
    except KeyError:
        raise NotImplementedError(
            f"primitive {primitive.name!r} has no sharding rule: register a FactorRule or "
            "ShardedWhole(reason) for it with xpr.sharding.rule.register"
        ) from None


def missing_rules(names: Sequence[str]) -> list[str]:
    """Those of `names`, which must be primitives, that have no sharding rule."""
    return [get_primitive(n).name for n in names if n not in _rules]
