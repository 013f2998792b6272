"""Small facts about specs: counts, local shapes, which mesh axes are in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xpr.core.aval import Shape
from xpr.sharding.rule import Axes, Factors, Spec

Sizes = Mapping[str, int]
"""The size of each mesh axis by its name, in the order of the mesh."""


def replicated(rank: int) -> Spec:
    """The spec of an array of that rank of which every device holds the whole."""
    return ((),) * rank


def count(axes: Axes, sizes: Sizes) -> int:
    """The number of devices along `axes`."""
    total = 1
    for a in axes:
        total *= sizes[a]
    return total


def common_start(a: Axes, b: Axes) -> Axes:
    """The mesh axes with which both begin."""
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return a[:length]


def used_axes(spec: Spec) -> set[str]:
    """The mesh axes that `spec` shards over."""
    return {a for axes in spec for a in axes}


def local_shape(shape: Shape, spec: Spec, sizes: Sizes) -> Shape:
    """The shape of each device's part.

    Inside a program an axis may be cut into blocks that it does not fill: the last devices then
    have elements behind those of the array, which mean nothing.
    """
    if not any(spec):
        return tuple(shape)
    return tuple(
        [-(-n // count(axes, sizes)) if axes else n for n, axes in zip(shape, spec, strict=True)]
    )


def is_even(size: int, axes: Axes, sizes: Sizes) -> bool:
    """Whether `axes` cut an axis of that size into blocks that it fills."""
    return not axes or size % count(axes, sizes) == 0


def fitting_roughly(axes: Axes, size: int, sizes: Sizes) -> Axes:
    """The longest first part of `axes` that cuts an axis into blocks which all have elements."""
    for end in range(len(axes), 0, -1):
        parts = count(axes[:end], sizes)
        block = -(-size // parts)
        if size % parts == 0 or (block > 1 and (parts - 1) * block < size):
            return axes[:end]
    return ()


def fitting(axes: Axes, size: int, sizes: Sizes) -> Axes:
    """The longest first part of `axes` that divides `size`."""
    taken = 1
    for i, a in enumerate(axes):
        taken *= sizes[a]
        if size % taken:
            return axes[:i]
    return axes


def factor_axes(
    axes: Axes,
    factors: Sequence[int],
    factor_sizes: Sequence[int],
    sizes: Sizes,
    *,
    roughly: bool = False,
) -> list[tuple[int, Axes]]:
    """How the mesh axes of one array axis are shared out among its factors, from major to minor.

    A factor takes mesh axes as long as their number divides it; the next one gets some only when
    this one is cut into single elements. What fits nowhere is left out. Only with `roughly` the
    mesh axes of an axis that is one factor may leave the last block partly empty.
    """
    if len(factors) == 1:
        fit = fitting_roughly if roughly else fitting
        return [(factors[0], fit(axes, factor_sizes[factors[0]], sizes))]
    found: list[tuple[int, Axes]] = []
    rest = axes
    for f in factors:
        size = factor_sizes[f]
        part = fitting(rest, size, sizes)
        found.append((f, part))
        rest = rest[len(part) :]
        if not rest or count(part, sizes) != size:
            break
    return found


def spec_of_factors(
    dims: Factors, chosen: Sequence[Axes], factor_sizes: Sequence[int], sizes: Sizes
) -> Spec | None:
    """The spec of an array whose factors are sharded over `chosen`; None if it is no spec.

    That is when a minor factor of an axis is sharded and a major one is not cut into elements: a
    device's part would not be one block.
    """
    spec: list[Axes] = []
    for factors in dims:
        if len(factors) == 1:
            spec.append(chosen[factors[0]])
            continue
        axes: Axes = ()
        ended = False
        for f in factors:
            if chosen[f] and ended:
                return None
            axes += chosen[f]
            if count(chosen[f], sizes) != factor_sizes[f]:
                ended = True
        spec.append(axes)
    return tuple(spec)
