"""Stretches of an axis: slices with a start that may be traced, and a size that is known."""

from __future__ import annotations

from typing import Any


class Slice:
    """The elements start, start + stride, ... of an axis, `size` of them; see `ds`."""

    __slots__ = ("size", "start", "stride")

    def __init__(self, start: Any, size: Any, stride: int = 1) -> None:
        if stride < 0:
            raise ValueError(f"`stride` must be >= 0, got {stride}.")
        self.start = start
        self.size = size
        self.stride = stride

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Slice):
            return NotImplemented
        return self._parts() == other._parts()

    def flatten(self) -> tuple[tuple[Any, Any], tuple[Any, Any, int]]:
        """It is a node of trees: what is traced are leaves, what is known is in the structure."""
        start, size = self.is_dynamic_start, self.is_dynamic_size
        children = (self.start if start else None, self.size if size else None)
        return children, (None if start else self.start, None if size else self.size, self.stride)

    @staticmethod
    def unflatten(known: tuple[Any, Any, int], children: Any) -> Slice:
        """The inverse of `flatten`."""
        start, size = (c if k is None else k for c, k in zip(children, known[:2], strict=True))
        return Slice(start, size, known[2])

    def _parts(self) -> tuple[Any, Any, int]:
        return self.start, self.size, self.stride

    __hash__ = None  # type: ignore[assignment] - its start may be an array

    def __repr__(self) -> str:
        return f"Slice(start={self.start!r}, size={self.size!r}, stride={self.stride!r})"

    @property
    def is_dynamic_start(self) -> bool:
        """Whether the start is an array, and not an integer."""
        return not isinstance(self.start, int)

    @property
    def is_dynamic_size(self) -> bool:
        """Whether the size is an array, and not an integer."""
        return not isinstance(self.size, int)


def ds(start: Any, size: Any = None, stride: int | None = None) -> slice | Slice:
    """The index of a stretch of an axis: `x[ds(i, 3)]` is `x[i:i + 3]`, and `i` may be traced.

    `ds(n)` is the stretch of the first n, `ds(None)` the whole axis; `stride` is the distance of
    the elements. A negative start counts from the end. A stretch that does not fit is moved inside
    when it is read (with another stride than 1 each index alone), and not written to by `x.at`; a
    reference refuses one whose start is known.

    Raises ValueError for a stride that is no integer or is negative.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jit(lambda x, i: x[xpr.ds(i, 2)])(jnp.arange(5), 3)
    Array([3, 4], dtype=int32)
    >>> jnp.arange(5).at[xpr.ds(1, 2)].set(0)
    Array([0, 0, 0, 3, 4], dtype=int32)
    """
    if start is None:
        return slice(None)
    if stride is None:
        stride = 1
    if not isinstance(stride, int):
        raise ValueError(f"Non-static stride in `dslice`: ds takes an integer, got {stride!r}")
    return Slice(0, start, stride) if size is None else Slice(start, size, stride)
