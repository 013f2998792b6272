"""Exchanges of short messages among many processes, in as many rounds as their number has bits.

Where each tells all others something, n processes send n - 1 messages each; here it is one in each
of log2(n) rounds, of more bytes. Every function is called in all of the n processes, numbered from
0, and gives each the same in any run: nothing depends on who comes first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

DIRECT = 8
"""Processes up to which each tells all others where it is; more of them do that in rounds."""

ROUND_BYTES = 1 << 15
"""Bytes that a process sends in a round of small blocks; larger ones go straight to their place."""

TAG_BYTES = 4
"""What each process tells all others before larger blocks move: the tag that it receives by."""


class Line(ABC):
    """How one of the processes reaches the others, by their numbers."""

    me: int
    count: int

    @abstractmethod
    def send(self, to: int, block: bytes) -> None:
        """Sends bytes; what one process sends another arrives in order."""

    @abstractmethod
    def receive(self, source: int, size: int) -> bytes:
        """Waits for `size` bytes of another process."""

    def swap(self, to: int, source: int, block: bytes) -> bytes:
        """Sends to one process, and receives as much from another."""
        self.send(to % self.count, block)
        return self.receive(source % self.count, len(block))


def gathered(line: Line, mine: bytes) -> list[bytes]:
    """The bytes of every process, which all have equally many.

    J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal and D. Weathersby, "Efficient algorithms for all-to-all
    communications in multiport message-passing systems", IEEE Transactions on Parallel and
    Distributed Systems 8, 1997: the concatenation algorithm.
    """
    me, count, size = line.me, line.count, len(mine)
    have = [mine]  # of this process, the next one and so on
    step = 1
    while step < count:
        new = min(step, count - step)
        got = line.swap(me - step, me + step, b"".join(have[:new]))
        have += _cut(got, size)
        step *= 2
    return [have[(i - me) % count] for i in range(count)]


def exchanged(line: Line, blocks: Sequence[bytes]) -> list[bytes]:
    """What each process has for this one; `blocks[i]` goes to process i, and all are equally long.

    The index algorithm of Bruck and others (1997, see `gathered`) with radix 2.
    """
    me, count, size = line.me, line.count, len(blocks[0])
    mine = [blocks[(me + j) % count] for j in range(count)]
    step = 1
    while step < count:
        # Block j has j places to go, of which this round does those of one bit.
        moving = [j for j in range(count) if j & step]
        got = line.swap(me + step, me - step, b"".join([mine[j] for j in moving]))
        for j, block in zip(moving, _cut(got, size), strict=True):
            mine[j] = block
        step *= 2
    return [mine[(me - i) % count] for i in range(count)]


def reduced(line: Line, mine: bytes, combine: Callable[[bytes, bytes], bytes]) -> bytes:
    """The bytes of all processes combined, which have equally many, with the same bits in all.

    Recursive doubling: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective
    communication operations in MPICH", International Journal of High Performance Computing
    Applications 19, 2005. `combine` always gets the one of the lower numbers first, and both
    processes of a pair combine the same.
    """
    me, size = line.me, len(mine)
    power = 1 << (line.count.bit_length() - 1)
    doubled = 2 * (line.count - power)  # the first ones go in pairs, so that a power of two is left
    if me < doubled and me % 2:
        line.send(me - 1, mine)
        return line.receive(me - 1, size)
    if me < doubled:
        mine = combine(mine, line.receive(me + 1, size))
    number = me // 2 if me < doubled else me - doubled // 2
    step = 1
    while step < power:
        other = number ^ step
        at = 2 * other if 2 * other < doubled else other + doubled // 2
        got = line.swap(at, at, mine)
        mine = combine(mine, got) if number < other else combine(got, mine)
        step *= 2
    if me < doubled:
        line.send(me + 1, mine)
    return mine


def _cut(block: bytes, size: int) -> list[bytes]:
    return [block[at : at + size] for at in range(0, len(block), size)]
