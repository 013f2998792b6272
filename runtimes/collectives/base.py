"""What a collective is, who takes part in one, and how they fail.

A collective moves or reduces arrays between the ranks of a program: the devices that run it. Each
rank performs it from its own place in the program, with arrays of the same types. How ranks find
each other is up to an engine: `threads` for the devices of one process. An engine between
processes can reduce inside each process first and then meet once per process, because reductions
say in which order they combine the ranks; one for GPUs can take the arrays where they lie.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from xpr.runtimes.base import ArrayType, type_str

Array = np.ndarray[Any, Any]
Group = tuple[int, ...]
Kinds = tuple[ArrayType, ...]

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute")
REDUCING = ("all_reduce", "reduce_scatter")
OPS = ("sum", "prod", "max", "min", "and", "or", "xor")


class CollectiveError(RuntimeError):
    """The ranks of a program do not agree on what they do together."""


class PeerError(CollectiveError):
    """A collective cannot happen because another rank failed; its exception is the cause."""


@dataclass(frozen=True)
class Collective:
    """One collective of a program, the same object or an equal one on each rank.

    >>> Collective("all_gather", groups=((0, 1),), axis=1).out_types([((2, 3), np.dtype("f4"))])
    [((2, 6), dtype('float32'))]
    """

    kind: str
    """`all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all` or `permute`."""

    groups: tuple[Group, ...]
    """The ranks that meet, in the order in which they reduce and concatenate."""

    op: str = ""
    """How `all_reduce` and `reduce_scatter` combine: `sum`, `prod`, `max`, `min`, `and`, `or` or
    `xor`; the last three bit by bit."""

    axis: int = 0
    """The axis that is concatenated (`all_gather`), scattered (`reduce_scatter`) or split
    (`all_to_all`)."""

    concat_axis: int = 0
    """`all_to_all`: the axis along which the received parts are concatenated."""

    pairs: tuple[tuple[int, int], ...] = ()
    """`permute`: pairs of the rank that sends and the one that receives. Who receives nothing gets
    zeros."""

    number: int = 0
    """The place of the collective in the program."""

    source: str = ""
    """What the user wrote, and where, for messages."""

    _group_of: dict[int, Group] = field(init=False, repr=False, compare=False)
    _known: dict[Kinds, list[ArrayType]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a collective must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if self.kind in REDUCING and self.op not in OPS:
            raise ValueError(f"{self.kind} needs an op of {', '.join(OPS)}, got {self.op!r}")
        found: dict[int, Group] = {}
        for group in self.groups:
            for rank in group:
                if rank in found:
                    raise ValueError(f"{self} has rank {rank} twice in its groups {self.groups}")
                found[rank] = group
        object.__setattr__(self, "_group_of", found)
        if self.kind in ("all_gather", "reduce_scatter", "all_to_all"):
            sizes = {len(g) for g in self.groups}
            if len(sizes) > 1:
                raise ValueError(f"{self} needs groups of equal size, got {self.groups}")
        for what, ranks in (("sends", [s for s, _ in self.pairs]), ("receives", self._targets())):
            twice = {r for r in ranks if ranks.count(r) > 1}
            if twice:
                raise ValueError(f"{self} has a rank that {what} twice, {min(twice)}: {self.pairs}")
        for s, d in self.pairs:
            if found.get(s) is None or found.get(s) is not found.get(d):
                raise ValueError(f"{self} has the pair {(s, d)} in no group of {self.groups}")

    def _targets(self) -> list[int]:
        return [d for _, d in self.pairs]

    def group_of(self, rank: int) -> Group:
        """The ranks that `rank` meets, itself among them."""
        try:
            return self._group_of[rank]
        except KeyError:
            raise ValueError(f"{self} has no group with rank {rank}: {self.groups}") from None

    def out_types(self, kinds: Sequence[ArrayType]) -> list[ArrayType]:
        """The types of the results for operands of these types.

        Raises ValueError for a shape, and TypeError for a dtype, that the collective cannot take.
        """
        return [(self._out_shape(shape, dtype), dtype) for shape, dtype in kinds]

    def out_types_of(self, kinds: Kinds) -> list[ArrayType]:
        """`out_types`, which remembers its answer."""
        found = self._known.get(kinds)
        if found is None:
            found = self._known[kinds] = self.out_types(kinds)
        return found

    def _out_shape(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
        if self.kind in REDUCING:
            self._check_op(dtype)
        if self.kind in ("all_reduce", "permute"):
            return shape
        size = len(self.groups[0]) if self.groups else 1
        out = list(shape)
        for axis in {self.axis, self.concat_axis} if self.kind == "all_to_all" else {self.axis}:
            if not 0 <= axis < len(shape):
                raise ValueError(f"{self} has no axis {axis} in {type_str((shape, dtype))}")
        if self.kind == "all_gather":
            out[self.axis] *= size
            return tuple(out)
        if shape[self.axis] % size:
            raise ValueError(
                f"{self} requires axis {self.axis} to be divisible by the {size} ranks of a group, "
                f"got {type_str((shape, dtype))}"
            )
        out[self.axis] //= size
        if self.kind == "all_to_all":
            out[self.concat_axis] *= size
        return tuple(out)

    def _check_op(self, dtype: np.dtype[Any]) -> None:
        bits = self.op in ("and", "or", "xor")
        if (bits and dtype.name not in _WITH_BITS) or (
            dtype == np.bool_ and self.op in ("sum", "prod")
        ):
            raise TypeError(f"{self} is not defined for elements of dtype {dtype.name}")

    def __str__(self) -> str:
        what = f"{self.kind} {self.op}".rstrip()
        return f"{what} number {self.number}" + (f" ({self.source})" if self.source else "")


_WITH_BITS = frozenset(
    ["bool", *(f"{u}int{n}" for u in ("", "u") for n in (2, 4, 8, 16, 32, 64))],
)


def described(collective: Collective, kinds: Kinds) -> str:
    """A collective and its operands, as messages name it."""
    return f"{collective} of {', '.join(map(type_str, kinds)) or 'nothing'}"


class Participant(ABC):
    """A device's part in one run of a program."""

    rank: int
    engine: ClassVar[str] = ""
    """What the ranks meet by, for messages."""

    @abstractmethod
    def perform(
        self, collective: Collective, arrays: Sequence[Array], out: Sequence[Array] | None = None
    ) -> list[Array]:
        """Performs the collective with the other ranks of the group and returns its results.

        The arrays are only read, and only until this returns. The results have memory that nobody
        else sees: that of `out`, C-contiguous arrays of the types that `out_types` tells, which
        overlap nothing; or fresh memory. After an error `out` holds anything.

        Raises CollectiveError when other ranks do something else, TimeoutError when one does not
        come, and PeerError when one fails.
        """
