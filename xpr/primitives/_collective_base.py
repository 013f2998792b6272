"""What files of collectives share: their family, and how values behave along manual axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.aval import ShapedArray, reduced_axes, unreduced_axes
from xpr.core.context import context
from xpr.core.manual import Axes, with_vma
from xpr.primitives._named_axes import Names, as_names
from xpr.sharding.context import get_abstract_mesh
from xpr.sharding.named import NamedSharding
from xpr.sharding.spec import PartitionSpec

FAMILY = "collectives"


def unresolved(primitive_name: str) -> Any:
    """The reference rule of a collective whose axis nothing has bound."""

    def reference(*_: Any, **params: Any) -> Any:
        names = params.get("axes", params.get("axis_name"))
        raise NameError(
            f"{primitive_name} over the axis {names!r} reached execution: the axis is bound by no "
            "transformation around the program"
        )

    return reference


def same_aval(x: ShapedArray, **_: Any) -> ShapedArray:
    return x


def manual_names(axis_name: Names) -> tuple[str, ...]:
    """Those of the names that are manual axes here, where it is known how values vary."""
    names = as_names(axis_name)
    return tuple(a for a in context.manual_axes if a in names)


def with_sets(
    aval: ShapedArray, unreduced: Axes, reduced: Axes, vma: Axes | None = None
) -> ShapedArray:
    """The type of a value in the body of a `shard_map` that is unreduced and reduced there."""
    sharding = None
    if unreduced or reduced:
        spec = PartitionSpec(*(None,) * aval.ndim, unreduced=unreduced, reduced=reduced)
        sharding = NamedSharding(get_abstract_mesh(), spec)
    return aval.update(sharding=sharding, vma=aval.vma if vma is None else vma)


def _like_operand(x: ShapedArray, found: ShapedArray) -> ShapedArray:
    unreduced, reduced = unreduced_axes(x), reduced_axes(x)
    if not unreduced and not reduced:
        return found
    return with_sets(found, unreduced, reduced)


def keeps_varying(avals: Sequence[ShapedArray], found: Any, params: dict[str, Any]) -> Any:
    """The types of results that vary along the axes of the operands and of the collective."""
    names = params.get("axes", params.get("axis_name"))
    union = frozenset(manual_names(names)).union(*(a.vma for a in avals))
    if isinstance(found, list):
        return [with_vma(_like_operand(x, a), union) for x, a in zip(avals, found, strict=True)]
    return with_vma(_like_operand(avals[0], found) if avals else found, union)


def ends_varying(avals: Sequence[ShapedArray], found: Any, params: dict[str, Any]) -> Any:
    """The type of a result that is the same along the axes of the collective."""
    names = as_names(params.get("axes", params.get("axis_name")))
    return with_vma(_like_operand(avals[0], found), avals[0].vma - frozenset(names))


def refuse_sets(x: ShapedArray, axes: Sequence[Any], what: str) -> None:
    """ValueError for a value that is unreduced or reduced along some of `axes`."""
    for kind, found in (("unreduced", unreduced_axes(x)), ("reduced", reduced_axes(x))):
        if found.intersection(axes):
            raise ValueError(
                f"{what} cannot accept args which are {kind}. Got {x.str_short()} and "
                f"axes={set(axes)}"
            )


def state_along(x: ShapedArray, axes: Sequence[Any], what: str) -> str:
    """How a value behaves along all of `axes`: "varying", "unreduced", "reduced", "invarying".

    Raises ValueError when it behaves differently along some of them.
    """
    unreduced, reduced = unreduced_axes(x), reduced_axes(x)
    found = {
        "varying"
        if a in x.vma
        else "unreduced"
        if a in unreduced
        else "reduced"
        if a in reduced
        else "invarying"
        for a in axes
    }
    if len(found) > 1:
        raise ValueError(
            f"{what} can only accept axis_name which corresponds to one of varying, unreduced, "
            f"reduced or invarying state of the input. Got input type: {x}, axes: {tuple(axes)} "
            f"and input state: {sorted(found)}"
        )
    return found.pop() if found else "invarying"
