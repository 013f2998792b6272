"""How long a program takes on many processes: a model of time from what its devices send.

A step of a program takes the time that one device computes, and that of its collectives on a
network where a message of n bytes arrives after `latency + n / bandwidth` seconds and keeps the
processor for `overhead` (A. Alexandrov and others, "LogGP: incorporating long messages into the
LogP model", SPAA 1995). Two ways to perform a collective are costed:

- `direct`, what `runtimes/collectives` does: up to 8 processes send to every other one of their
  group. All tell each other where they are, and small operands go with that; large ones take a
  round of their own, reductions two: each process combines its share, and then all get all shares.
  More processes tell each other in log2(n) rounds (`runtimes/collectives/rounds.py`), and small
  operands go with that; large ones take the same as with few.
- `tree`, the best that is published: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of
  collective communication operations in MPICH", International Journal of High Performance Computing
  Applications 19, 2005, of which the faster algorithm for the size counts.

Nothing overlaps: no process computes while it communicates, no link is shared, nobody is late.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from xpr.runtimes.collectives.messages import INLINE_BYTES
from xpr.runtimes.collectives.rounds import DIRECT, ROUND_BYTES, TAG_BYTES
from xpr.sharding.communication import Communication, Transfer

ASSUMPTIONS = (
    "the devices of a process meet in its memory first, then the processes meet once",
    "a message of n bytes takes overhead + latency + n / bandwidth; links are not shared",
    "direct: what xpr does; of more than 8 processes what is small goes in log2(n) rounds",
    "tree: the best algorithms of Thakur, Rabenseifner and Gropp (2005), for comparison",
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

    overhead: float = 0.0
    """Seconds of the processor for each message that a process sends."""

    def __post_init__(self) -> None:
        for name in ("latency", "bandwidth", "reduction", "overhead"):
            value = getattr(self, name)
            may_be_zero = name in ("latency", "overhead")
            if not (math.isfinite(value) and (value > 0 or (may_be_zero and value == 0))):
                raise ValueError(f"a network's {name} must be positive and finite, got {value}")

    @property
    def start(self) -> float:
        """Seconds of a message without bytes."""
        return self.overhead + self.latency

    def message(self, size: float) -> float:
        """Seconds of one message of `size` bytes."""
        return self.start + size / self.bandwidth

    def chunks(self, size: float) -> float:
        """Seconds of `size` bytes in short messages, one after the other."""
        count = max(1, math.ceil(size / INLINE_BYTES))
        return count * self.overhead + self.latency + size / self.bandwidth

    def round(self, peers: int, size: float) -> float:
        """Seconds of a round in which a process sends `size` bytes to each of `peers` others."""
        return peers * (self.overhead + size / self.bandwidth) + self.latency


def transfer_seconds(
    transfer: Transfer, network: Network, devices_per_process: int = 1, way: str = "direct"
) -> float:
    """Seconds of one collective, each time that it happens.

    Each process has `devices_per_process` devices, one after the other in the mesh; `way` is
    `direct` or `tree`.

    >>> from xpr.sharding.communication import Transfer
    >>> total = Transfer("all_reduce", 2, 1e6, 1, False, "psum", (0, 1))
    >>> transfer_seconds(total, Network(latency=0.0, bandwidth=1e9, reduction=1e9), way="tree")
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
        cost = _TREES[transfer.kind] if way == "tree" else partial(_direct, transfer.kind)
        seconds += cost(per_process, processes, network)
    return seconds


def communication_seconds(
    sent: Communication, network: Network, devices_per_process: int = 1, way: str = "direct"
) -> float:
    """Seconds that all collectives of one run take."""
    return sum(
        t.times * transfer_seconds(t, network, devices_per_process, way) for t in sent.transfers
    )


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


def _direct(kind: str, size: float, n: int, network: Network) -> float:
    """Every process sends to every other one, once for what is small."""
    if n > DIRECT:
        return _in_rounds(kind, size, n, network)
    peers = 1 if kind == "permute" else n - 1
    per_peer = size / n if kind in ("all_to_all", "reduce_scatter") else size
    agree = network.round(n - 1, 0)
    if kind == "all_reduce":
        if size <= INLINE_BYTES:
            return network.round(peers, size) + peers * size / network.reduction
        return agree + 2 * network.round(peers, size / n) + peers * size / n / network.reduction
    reduction = peers * per_peer / network.reduction if kind == "reduce_scatter" else 0.0
    if per_peer <= INLINE_BYTES:
        # Whoever is in the group says where it is, also to those to which it sends nothing.
        return network.round(n - 1, 0) + peers * per_peer / network.bandwidth + reduction
    return agree + network.round(peers, per_peer) + reduction


def _in_rounds(kind: str, size: float, n: int, network: Network) -> float:
    """As `_direct`, where what is small goes in rounds."""
    rounds = math.ceil(math.log2(n))
    if kind == "all_reduce" and size <= INLINE_BYTES:
        # Of no power of two the ones too many give theirs to others first, and get the result.
        power = math.floor(math.log2(n))
        one = network.message(size)
        pairs = 0.0 if power == rounds else 2 * one + size / network.reduction
        return power * (one + size / network.reduction) + pairs
    per_peer = size / n if kind in ("all_to_all", "reduce_scatter") else size
    peers = 1 if kind == "permute" else n - 1
    reduction = peers * per_peer / network.reduction if kind == "reduce_scatter" else 0.0
    if kind not in ("permute", "all_reduce") and per_peer * ((n + 1) // 2) <= ROUND_BYTES:
        if kind == "all_gather":
            moved = [min(1 << k, n - (1 << k)) for k in range(rounds)]
        else:
            moved = [sum(j >> k & 1 for j in range(n)) for k in range(rounds)]
        return sum(network.chunks(m * per_peer) for m in moved) + reduction
    agree = sum(network.chunks(TAG_BYTES * min(1 << k, n - (1 << k))) for k in range(rounds))
    if kind == "all_reduce":
        return agree + 2 * network.round(peers, size / n) + peers * size / n / network.reduction
    return agree + network.round(peers, per_peer) + reduction


def _all_reduce(size: float, n: int, network: Network) -> float:
    """Recursive doubling, or reduce-scatter by recursive halving and then all-gather."""
    rounds = math.ceil(math.log2(n))
    doubling = rounds * (network.message(size) + size / network.reduction)
    share = (n - 1) / n * size
    halving = 2 * (rounds * network.start + share / network.bandwidth) + share / network.reduction
    return min(doubling, halving)


def _all_gather(size: float, n: int, network: Network) -> float:
    """Recursive doubling: in each round what a process has doubles."""
    return math.ceil(math.log2(n)) * network.start + (n - 1) * size / network.bandwidth


def _reduce_scatter(size: float, n: int, network: Network) -> float:
    """Recursive halving."""
    share = (n - 1) / n * size
    rounds = math.ceil(math.log2(n))
    return rounds * network.start + share / network.bandwidth + share / network.reduction


def _all_to_all(size: float, n: int, network: Network) -> float:
    """Bruck's algorithm, or messages between all pairs."""
    rounds = math.ceil(math.log2(n))
    bruck = rounds * (network.start + size / 2 / network.bandwidth)
    pairs = (n - 1) * network.message(size / n)
    return min(bruck, pairs)


def _permute(size: float, n: int, network: Network) -> float:
    """One message each, at the same time."""
    del n
    return network.message(size)


_TREES: dict[str, Callable[[float, int, Network], float]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "permute": _permute,
}
