"""Exchanges in rounds between threads that stand for processes, for every small number of them."""

from __future__ import annotations

import ast
import math
import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

from xpr.runtimes.collectives.rounds import Line, exchanged, gathered, reduced


class Threads:
    def __init__(self, count: int) -> None:
        self.queues = {(a, b): Queue[bytes]() for a in range(count) for b in range(count)}


class ThreadLine(Line):
    def __init__(self, all_: Threads, me: int, count: int) -> None:
        self.all = all_
        self.me = me
        self.count = count
        self.sent: list[int] = []

    def send(self, to: int, block: bytes) -> None:
        assert to != self.me
        self.sent.append(len(block))
        self.all.queues[self.me, to].put(block)

    def receive(self, source: int, size: int) -> bytes:
        block = self.all.queues[source, self.me].get(timeout=30)
        assert len(block) == size
        return block


def run(count: int, function: Callable[[Line], Any]) -> tuple[list[Any], list[list[int]]]:
    """What each of `count` threads gets, and the sizes of what it sent."""
    together = Threads(count)
    lines = [ThreadLine(together, i, count) for i in range(count)]
    found: list[Any] = [None] * count

    def work(i: int) -> None:
        found[i] = function(lines[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert all(q.empty() for q in together.queues.values())
    return found, [line.sent for line in lines]


COUNTS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17]


@pytest.mark.parametrize("count", COUNTS)
def test_all_get_all(count: int) -> None:
    blocks = [bytes([i, 100 + i]) for i in range(count)]
    found, sent = run(count, lambda line: gathered(line, blocks[line.me]))
    assert found == [blocks] * count
    assert {len(s) for s in sent} == {math.ceil(math.log2(count))}
    assert {sum(s) for s in sent} == {2 * (count - 1)}


@pytest.mark.parametrize("count", COUNTS)
def test_each_gets_what_is_for_it(count: int) -> None:
    found, sent = run(
        count, lambda line: exchanged(line, [bytes([line.me, i, 7]) for i in range(count)])
    )
    assert found == [[bytes([i, me, 7]) for i in range(count)] for me in range(count)]
    assert {len(s) for s in sent} == {math.ceil(math.log2(count))}
    assert all(size <= 3 * count / 2 for s in sent for size in s if count > 3)


@pytest.mark.parametrize("count", COUNTS)
def test_all_combine_in_order(count: int) -> None:
    # Lists of numbers, which show the order.
    def both(a: bytes, b: bytes) -> bytes:
        first, second = ast.literal_eval(a.decode().strip()), ast.literal_eval(b.decode().strip())
        assert max(first) < min(second)
        return repr(first + second).encode().ljust(200)

    found, sent = run(count, lambda line: reduced(line, repr([line.me]).encode().ljust(200), both))
    assert len(set(found)) == 1
    assert ast.literal_eval(found[0].decode().strip()) == list(range(count))
    assert max(len(s) for s in sent) <= math.floor(math.log2(count)) + 1


@pytest.mark.parametrize(("count", "order"), [(4, "((01)(23))"), (6, "(((01)(23))(45))")])
def test_pairs_combine_first(count: int, order: str) -> None:
    def both(a: bytes, b: bytes) -> bytes:
        return f"({a.decode().strip()}{b.decode().strip()})".encode().ljust(40)

    found, _ = run(count, lambda line: reduced(line, str(line.me).encode().ljust(40), both))
    assert {f.decode().strip() for f in found} == {order}
