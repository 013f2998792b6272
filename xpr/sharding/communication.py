"""What a partitioned program sends between devices, counted before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xpr.core.jaxpr import Jaxpr, JaxprEqn, sub_jaxprs
from xpr.core.units import shown_bytes


@dataclass(frozen=True)
class Transfer:
    """One collective of a program."""

    kind: str
    """`all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all` or `permute`."""

    devices: int
    """How many devices meet."""

    bytes: float
    """Bytes that each device receives in one run, by the algorithm on a ring."""

    times: int
    """How often it happens in one run of the program; in a `while` loop, in one round."""

    in_while: bool
    """Whether it stands in a loop whose number of rounds only the run decides."""

    source: str
    """The operation that needs it, and the user's line."""

    ranks: tuple[int, ...]
    """The first of the groups that meet, as places of devices in the mesh."""


@dataclass(frozen=True)
class Communication:
    """The collectives of a program, in its order."""

    transfers: tuple[Transfer, ...]

    @property
    def bytes(self) -> float:
        """Bytes that each device receives in one run, one round of each `while` loop counted."""
        return sum(t.bytes * t.times for t in self.transfers)

    @property
    def by_line(self) -> dict[str, float]:
        """The bytes by operation and user's line."""
        found: dict[str, float] = {}
        for t in self.transfers:
            found[t.source] = found.get(t.source, 0.0) + t.bytes * t.times
        return found

    def __str__(self) -> str:
        if not self.transfers:
            return "no communication"
        rows = [
            (
                t.kind,
                str(t.devices),
                f"{shown_bytes(t.bytes)}",
                f"{t.times}{' a round' if t.in_while else ''}",
                t.source,
            )
            for t in self.transfers
        ]
        head = ("collective", "devices", "bytes/device", "times", "needed by")
        widths = [max(len(r[i]) for r in (head, *rows)) for i in range(4)]
        lines = [
            "  ".join([*(c.ljust(w) for c, w in zip(row[:4], widths, strict=True)), row[4]])
            for row in (head, *rows)
        ]
        return "\n".join([*lines, f"in all {shown_bytes(self.bytes)} per device and run"])


def communication(jaxpr: Jaxpr) -> Communication:
    """The collectives of the partitioned program `jaxpr`."""
    return Communication(tuple(_transfers(jaxpr, 1, False)))


def _transfers(jaxpr: Jaxpr, times: int, in_while: bool) -> Iterator[Transfer]:
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name == "group_collective":
            yield _transfer(eqn, times, in_while)
            continue
        rounds = times * eqn.params["length"] if name == "scan" else times
        for sub in sub_jaxprs(eqn.params):
            yield from _transfers(sub, rounds, in_while or name == "while")


def _transfer(eqn: JaxprEqn, times: int, in_while: bool) -> Transfer:
    collective = eqn.params["collective"]
    ranks = max(collective.groups, key=len, default=(0,))
    size = len(ranks)
    given = sum(v.aval.nbytes for v in eqn.invars)
    made = sum(v.aval.nbytes for v in eqn.outvars)
    share = (size - 1) / size
    moved = {
        "all_reduce": 2 * share * given,
        "all_gather": share * made,
        "reduce_scatter": share * given,
        "all_to_all": share * given,
        "permute": float(given) if collective.pairs else 0.0,
    }[collective.kind]
    return Transfer(collective.kind, size, moved, times, in_while, collective.source, ranks)
