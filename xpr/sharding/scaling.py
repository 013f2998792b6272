"""How long a program takes on many processes: a model of time from what its devices send.

A step of a program takes the time that one device computes, and for each collective the time of a
published algorithm on a network where a message of n bytes takes `latency + n / bandwidth`
seconds, whatever else is under way (R. W. Hockney, "The communication challenge for MPP", Parallel
Computing 20, 1994). The algorithms and their costs are those of R. Thakur, R. Rabenseifner and
W. Gropp, "Optimization of collective communication operations in MPICH", International Journal of
High Performance Computing Applications 19, 2005; the faster of the two for short and for long
messages counts, as MPI libraries choose between them by size.

Nothing overlaps: no process computes while it communicates, no link is shared, nobody is late.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from xpr.sharding.communication import Communication, Transfer

ASSUMPTIONS = (
    "the devices of a process meet in its memory first, then the processes meet once",
    "a message of n bytes takes latency + n / bandwidth; links are not shared between processes",
    "collectives take what the best algorithms of Thakur, Rabenseifner and Gropp (2005) take",
    "nothing overlaps, and every process computes equally fast: the slowest is the average",
    "of a while loop whose rounds are not known one round counts",
)
"""What the model supposes, a sentence each."""


@dataclass(frozen=True)
class Network:
    """What connects the processes.

    >>> Network(latency=2e-6, bandwidth=12.5e9, reduction=5e9).message(12_500)
    3e-06
    """

    latency: float
    """Seconds that a message takes however short it is."""

    bandwidth: float
    """Bytes per second between two processes, in each direction."""

    reduction: float
    """Bytes per second at which a process adds what it received to what it has."""

    def __post_init__(self) -> None:
        for name in ("latency", "bandwidth", "reduction"):
            value = getattr(self, name)
            if not (math.isfinite(value) and (value > 0 or (name == "latency" and value == 0))):
                raise ValueError(f"a network's {name} must be positive and finite, got {value}")

    def message(self, size: float) -> float:
        """Seconds of one message of `size` bytes."""
        return self.latency + size / self.bandwidth


def transfer_seconds(transfer: Transfer, network: Network, devices_per_process: int = 1) -> float:
    """Seconds of one collective, each time that it happens.

    Each process has `devices_per_process` devices, one after the other in the mesh.

    >>> from xpr.sharding.communication import Transfer
    >>> total = Transfer("all_reduce", 2, 1e6, 1, False, "psum", (0, 1))
    >>> transfer_seconds(total, Network(latency=0.0, bandwidth=1e9, reduction=1e9))
    0.0015
    """
    together = Counter(rank // devices_per_process for rank in transfer.ranks)
    inside = max(together.values(), default=1)
    processes = len(together)
    operand = _operand_bytes(transfer)
    seconds = 0.0
    if inside > 1:
        # Each device's bytes are read once in the memory that the devices share.
        seconds += operand * inside / network.reduction
    if processes > 1:
        per_process = operand if transfer.kind in _REDUCING else operand * inside
        seconds += _COSTS[transfer.kind](per_process, processes, network)
    return seconds


def communication_seconds(
    sent: Communication, network: Network, devices_per_process: int = 1
) -> float:
    """Seconds that all collectives of one run take."""
    return sum(t.times * transfer_seconds(t, network, devices_per_process) for t in sent.transfers)


_REDUCING = ("all_reduce", "reduce_scatter")


def _operand_bytes(transfer: Transfer) -> float:
    """Bytes that each device brings to a collective, from those that it receives on a ring."""
    n = transfer.devices
    if n < 2:
        return 0.0
    return {
        "all_reduce": transfer.bytes * n / (2 * (n - 1)),
        "all_gather": transfer.bytes / (n - 1),
        "reduce_scatter": transfer.bytes * n / (n - 1),
        "all_to_all": transfer.bytes * n / (n - 1),
        "permute": transfer.bytes,
    }[transfer.kind]


def _all_reduce(size: float, n: int, network: Network) -> float:
    """Recursive doubling, or reduce-scatter by recursive halving and then all-gather."""
    rounds = math.ceil(math.log2(n))
    doubling = rounds * (network.message(size) + size / network.reduction)
    share = (n - 1) / n * size
    halving = 2 * (rounds * network.latency + share / network.bandwidth) + share / network.reduction
    return min(doubling, halving)


def _all_gather(size: float, n: int, network: Network) -> float:
    """Recursive doubling: in each round what a process has doubles."""
    return math.ceil(math.log2(n)) * network.latency + (n - 1) * size / network.bandwidth


def _reduce_scatter(size: float, n: int, network: Network) -> float:
    """Recursive halving."""
    share = (n - 1) / n * size
    rounds = math.ceil(math.log2(n))
    return rounds * network.latency + share / network.bandwidth + share / network.reduction


def _all_to_all(size: float, n: int, network: Network) -> float:
    """Bruck's algorithm, or messages between all pairs."""
    rounds = math.ceil(math.log2(n))
    bruck = rounds * (network.latency + size / 2 / network.bandwidth)
    pairs = (n - 1) * network.message(size / n)
    return min(bruck, pairs)


def _permute(size: float, n: int, network: Network) -> float:
    """One message each, at the same time."""
    del n
    return network.message(size)


_COSTS: dict[str, Callable[[float, int, Network], float]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "permute": _permute,
}
