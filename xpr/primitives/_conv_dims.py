"""Which axis of a convolution's operands and result is what, and the shapes that follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xpr.primitives._window_dims import (
    Pads,
    Shape,
    dilated,
    int_tuple,
    padtype_to_pads,
    window_count,
)


class ConvDimensionNumbers(NamedTuple):
    """The axes of a convolution: each spec lists batch, feature and spatial axes in this order.

    Of the kernel (`rhs_spec`) these are the output feature, input feature and spatial axes.

    >>> ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)).lhs_spec
    (0, 3, 1, 2)
    """

    lhs_spec: Shape
    rhs_spec: Shape
    out_spec: Shape


# What the functions take: three strings, the numbers themselves, or None for the default order.
ConvGeneralDilatedDimensionNumbers = tuple[str, str, str] | ConvDimensionNumbers | None

_CHARACTERS = (("N", "C"), ("O", "I"), ("N", "C"))


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[Shape, Shape, Shape]:
    """The axes of lhs, rhs and result that three strings such as ("NHWC", "HWIO", "NHWC") name.

    Raises TypeError for repeated characters, missing batch or feature characters, and spatial
    characters that differ.

    >>> conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    for i, (spec, (a, b)) in enumerate(zip(dimension_numbers, _CHARACTERS, strict=True)):
        if spec.count(a) != 1 or spec.count(b) != 1:
            raise TypeError(
                f"convolution dimension_numbers[{i}] must contain the characters {a!r} and {b!r} "
                f"exactly once, got {spec}."
            )
        if len(set(spec)) != len(spec):
            raise TypeError(
                f"convolution dimension_numbers[{i}] cannot have duplicate characters, got {spec}."
            )
    lhs, rhs, out = dimension_numbers
    spatial = [c for c in lhs if c not in "NC"]
    if not set(spatial) == set(rhs) - set("OI") == set(out) - set("NC"):
        raise TypeError(
            "convolution dimension_numbers elements must each have the same set of spatial "
            f"characters, got {tuple(dimension_numbers)}."
        )
    # The kernel's spatial order is the one that all follow.
    order = [c for c in rhs if c not in "OI"]

    def axes(spec: str, first: str, second: str) -> Shape:
        return (spec.index(first), spec.index(second), *(spec.index(c) for c in order))

    return axes(lhs, "N", "C"), axes(rhs, "O", "I"), axes(out, "N", "C")


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """`ConvDimensionNumbers` from strings, from themselves, or the default (batch, feature first).

    Raises TypeError unless both shapes have one rank that the numbers fit.

    >>> conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 16), ("NHWC", "HWIO", "NHWC")).out_spec
    (0, 3, 1, 2)
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    rank = len(lhs_shape)
    if rank != len(rhs_shape):
        raise TypeError(
            f"convolution requires lhs and rhs ndim to be equal, got {rank} and {len(rhs_shape)}."
        )
    if dimension_numbers is None:
        axes = tuple(range(rank))
        return ConvDimensionNumbers(axes, axes, axes)
    if not isinstance(dimension_numbers, (tuple, list)):
        raise TypeError(
            "convolution dimension_numbers must be tuple/list or None, got "
            f"{type(dimension_numbers)}."
        )
    if len(dimension_numbers) != 3:
        raise TypeError(
            "convolution dimension_numbers list/tuple must be length 3, got "
            f"{len(dimension_numbers)}."
        )
    if not all(isinstance(spec, str) for spec in dimension_numbers):
        raise TypeError(
            "convolution dimension_numbers elements must be strings, got "
            f"{tuple(type(spec) for spec in dimension_numbers)}."
        )
    for i, spec in enumerate(dimension_numbers):
        if len(spec) != rank:
            raise TypeError(
                f"convolution dimension_numbers[{i}] must have len equal to the ndim of lhs and "
                f"rhs, got {len(spec)} for lhs and rhs shapes {tuple(lhs_shape)} and "
                f"{tuple(rhs_shape)}."
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def spatial_shape(shape: Sequence[int], spec: Sequence[int]) -> Shape:
    """The spatial sizes, in the order of `spec`."""
    return tuple(shape[i] for i in spec[2:])


def check_groups(lhs: Shape, rhs: Shape, features: int, batches: int) -> None:
    """Raises ValueError unless group counts divide the sizes they split.

    `lhs` and `rhs` have batch and feature (output and input feature) sizes first.
    """
    name = "conv_general_dilated"
    for kind, count in (("feature", features), ("batch", batches)):
        if count <= 0:
            raise ValueError(f"{name} {kind}_group_count must be a positive integer, got {count}.")
    if features > 1 and batches > 1:
        raise ValueError(
            "At most one of batch_group_count and feature_group_count may be > 1, got "
            f"batch_group_count={batches} and feature_group_count={features}"
        )
    if lhs[1] % features:
        raise ValueError(
            f"{name} feature_group_count must divide lhs feature dimension size, but {features} "
            f"does not divide {lhs[1]}."
        )
    if lhs[1] // features != rhs[1]:
        raise ValueError(
            f"{name} lhs feature dimension size divided by feature_group_count must equal the rhs "
            f"input feature dimension size, but {lhs[1]} // {features} != {rhs[1]}."
        )
    if lhs[0] % batches:
        raise ValueError(
            f"{name} batch_group_count must divide lhs batch dimension size, but {batches} does "
            f"not divide {lhs[0]}."
        )
    for kind, count in (("feature", features), ("batch", batches)):
        if rhs[0] % count:
            raise ValueError(
                f"{name} rhs output feature dimension size must be a multiple of "
                f"{kind}_group_count, but {rhs[0]} is not a multiple of {count}."
            )


def conv_pads(lhs: Shape, rhs: Shape, strides: Shape, padding: Any, rhs_dilation: Shape) -> Pads:
    """Explicit padding of the spatial axes; `lhs` and `rhs` are spatial sizes."""
    if isinstance(padding, str):
        effective = [dilated(k, d) for k, d in zip(rhs, rhs_dilation, strict=True)]
        return tuple(padtype_to_pads(lhs, effective, strides, padding))
    pairs = tuple(int_tuple(p) for p in padding)
    if len(pairs) != len(lhs) or any(len(p) != 2 for p in pairs):
        raise TypeError(
            f"Wrong number of explicit pads for convolution: expected {len(lhs)}, got {len(pairs)}."
        )
    return tuple((p[0], p[1]) for p in pairs)


def conv_out_spatial(
    lhs: Shape, rhs: Shape, strides: Shape, pads: Pads, lhs_dilation: Shape, rhs_dilation: Shape
) -> Shape:
    """The spatial sizes of a convolution's result."""
    return tuple(
        window_count(max(0, dilated(n, a) + low + high), dilated(k, b), s)
        for n, k, s, (low, high), a, b in zip(
            lhs, rhs, strides, pads, lhs_dilation, rhs_dilation, strict=True
        )
    )


def transpose_pads(
    rhs: Shape, strides: Shape, padding: Any, rhs_dilation: Shape, consistent: bool
) -> Pads:
    """The padding of the dilated operand of a transposed convolution; `rhs` are spatial sizes.

    Strings give the shape that the convolution of that padding would have had as its operand.
    With `consistent`, explicit pairs are those of that convolution too.
    """
    sizes = [dilated(k, d) for k, d in zip(rhs, rhs_dilation, strict=True)]
    if not isinstance(padding, str):
        pairs = tuple(int_tuple(p) for p in padding)
        if consistent:
            return tuple((k - 1 - p[0], k - 1 - p[1]) for k, p in zip(sizes, pairs, strict=True))
        return tuple((p[0], p[1]) for p in pairs)
    kind = padding.upper()
    if kind not in ("SAME", "VALID"):
        raise ValueError(f"conv_transpose takes the padding SAME, VALID or pairs, got {padding}")
    pads = []
    for k, s in zip(sizes, strides, strict=True):
        if kind == "SAME":
            total = k + s - 2
            low = k - 1 if s > k - 1 else -(-total // 2)
        else:
            total = k + s - 2 + max(k - s, 0)
            low = k - 1
        pads.append((low, total - low))
    return tuple(pads)
