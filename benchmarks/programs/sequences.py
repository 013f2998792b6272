"""Dynamic programming and recurrences: alignments, shortest paths, Viterbi, Kalman, Livermore."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.programs.program import Inputs, Program, random


def _floyd(np: Any, lax: Any) -> Any:
    def through(k: Any, d: Any) -> Any:
        return np.minimum(d, d[:, k][:, None] + d[k][None, :])

    return lambda d: lax.fori_loop(0, d.shape[0], through, d)


def _floyd_plain(d: Any) -> Any:
    d = d.copy()
    for k in range(len(d)):
        d = numpy.minimum(d, d[:, k, None] + d[k])
    return d


def _align(np: Any, lax: Any) -> Any:
    """Needleman and Wunsch's scores, with a gap of -1."""

    def align(a: Any, b: Any) -> Any:
        def row(above: Any, x: Any) -> Any:
            index, symbol = x
            same = np.where(b == symbol, 1.0, -1.0)

            def element(left: Any, y: Any) -> Any:
                up, corner, match = y
                best = np.maximum(corner + match, np.maximum(up, left) - 1.0)
                return best, best

            first = -(index + 1.0)
            _, rest = lax.scan(element, first, (above[1:], above[:-1], same))
            new = np.concatenate([first[None], rest])
            return new, new

        start = -np.arange(b.shape[0] + 1.0)
        return lax.scan(row, start, (np.arange(1.0 * a.shape[0]), a))[1]

    return align


def _align_plain(a: Any, b: Any) -> Any:
    n, m = len(a), len(b)
    s = numpy.zeros((n + 1, m + 1))
    s[0], s[:, 0] = -numpy.arange(m + 1.0), -numpy.arange(n + 1.0)
    for i in range(n):
        for j in range(m):
            match = 1.0 if a[i] == b[j] else -1.0
            s[i + 1, j + 1] = max(s[i, j] + match, s[i, j + 1] - 1.0, s[i + 1, j] - 1.0)
    return s[1:]


def _viterbi(np: Any, lax: Any) -> Any:
    def decode(start: Any, moves: Any, emissions: Any) -> Any:
        def forward(score: Any, emission: Any) -> Any:
            options = score[:, None] + moves
            return np.max(options, axis=0) + emission, np.argmax(options, axis=0)

        score, back = lax.scan(forward, start + emissions[0], emissions[1:])

        def follow(state: Any, pointers: Any) -> Any:
            return pointers[state], state

        first, path = lax.scan(follow, np.argmax(score), back, reverse=True)
        return score, np.concatenate([first[None], path])

    return decode


def _viterbi_plain(start: Any, moves: Any, emissions: Any) -> Any:
    score, back = start + emissions[0], []
    for e in emissions[1:]:
        options = score[:, None] + moves
        back.append(options.argmax(0))
        score = options.max(0) + e
    path = [int(score.argmax())]
    for pointers in back[::-1]:
        path.append(int(pointers[path[-1]]))
    return score, numpy.array(path[::-1])


def _hidden(n: int) -> Inputs:
    return random(16), random(16, 16, seed=1), random(n, 16, seed=2)


def _recurrence(np: Any, lax: Any) -> Any:
    """Livermore kernel 19's kind: a first-order linear recurrence, there and back."""

    def solve(a: Any, b: Any) -> Any:
        def step(x: Any, row: Any) -> Any:
            x = row[0] + x * row[1]
            return x, x

        _, there = lax.scan(step, np.zeros(a.shape[1:], a.dtype), (a, b))
        _, back = lax.scan(step, np.zeros(a.shape[1:], a.dtype), (there, b), reverse=True)
        return back

    return solve


def _recurrence_plain(a: Any, b: Any) -> Any:
    there, back = numpy.zeros_like(a), numpy.zeros_like(a)
    x = numpy.zeros(a.shape[1:])
    for i in range(len(a)):
        x = there[i] = a[i] + x * b[i]
    x = numpy.zeros(a.shape[1:])
    for i in range(len(a) - 1, -1, -1):
        x = back[i] = there[i] + x * b[i]
    return back


def _histogram(np: Any, lax: Any) -> Any:
    """Livermore kernel 13's kind: particles that are counted where they land, one by one."""

    def count(places: Any, weights: Any) -> Any:
        bins = np.zeros(256, weights.dtype)
        return lax.fori_loop(
            0, places.shape[0], lambda i, h: h.at[places[i]].add(weights[i] * (1.0 + h[0])), bins
        )

    return count


def _histogram_plain(places: Any, weights: Any) -> Any:
    h = numpy.zeros(256)
    for p, w in zip(places, weights, strict=True):
        h[p] += w * (1.0 + h[0])
    return h


def _symbols(n: int) -> Inputs:
    a, b = numpy.random.default_rng(0).integers(0, 4, (2, n))
    return a, b


def _landings(n: int) -> Inputs:
    return numpy.random.default_rng(0).integers(1, 256, n), random(n)


PROGRAMS = (
    Program(
        "floyd-warshall",
        (50, 150, 400),
        lambda n: (numpy.abs(random(n, n)),),
        _floyd,
        _floyd_plain,
        "PolyBench/C 4.2",
    ),
    Program(
        "needleman-wunsch", (50, 200, 600), _symbols, _align, _align_plain, "Needleman-Wunsch 1970"
    ),
    Program("viterbi", (100, 1000, 10000), _hidden, _viterbi, _viterbi_plain, "Viterbi 1967"),
    Program(
        "linear recurrence",
        (64, 250, 1000),
        lambda n: (random(n, n), 0.5 * random(n, n, seed=1)),
        _recurrence,
        _recurrence_plain,
        "Livermore loops, kernel 19",
    ),
    Program(
        "histogram by elements",
        (100, 1000, 10000),
        _landings,
        _histogram,
        _histogram_plain,
        "Livermore loops, kernel 13",
    ),
)
