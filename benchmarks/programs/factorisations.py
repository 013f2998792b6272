"""Factorisations and solvers by rows: PolyBench/C's lu, cholesky, trisolv, durbin, gramschmidt."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.programs.program import Inputs, Program, random


def _lu(np: Any, lax: Any) -> Any:
    def column(k: Any, a: Any) -> Any:
        below = np.arange(a.shape[0]) > k
        factors = np.where(below, a[:, k] / a[k, k], 0.0)
        a = a - np.outer(factors, np.where(below, a[k], 0.0))
        return a.at[:, k].set(np.where(below, factors, a[:, k]))

    return lambda a: lax.fori_loop(0, a.shape[0], column, a)


def _lu_plain(a: Any) -> Any:
    a = a.copy()
    for k in range(len(a)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= numpy.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


def _lu_elements(np: Any, lax: Any) -> Any:
    def column(k: Any, a: Any) -> Any:
        def row(i: Any, a: Any) -> Any:
            factor = a[i, k] / a[k, k]
            a = a.at[i, k].set(factor)
            return lax.fori_loop(
                k + 1, a.shape[0], lambda j, a: a.at[i, j].add(-factor * a[k, j]), a
            )

        return lax.fori_loop(k + 1, a.shape[0], row, a)

    return lambda a: lax.fori_loop(0, a.shape[0], column, a)


def _cholesky(np: Any, lax: Any) -> Any:
    def column(j: Any, a: Any) -> Any:
        n = a.shape[0]
        before = np.where(np.arange(n) < j, a[j], 0.0)
        rest = a[:, j] - a @ before
        new = rest / np.sqrt(rest[j])
        return a.at[:, j].set(np.where(np.arange(n) >= j, new, a[:, j]))

    return lambda a: np.tril(lax.fori_loop(0, a.shape[0], column, a))


def _forward(np: Any, lax: Any) -> Any:
    def row(i: Any, x: Any, low: Any, b: Any) -> Any:
        known = np.where(np.arange(b.shape[0]) < i, low[i] * x, 0.0)
        return x.at[i].set((b[i] - np.sum(known)) / low[i, i])

    return lambda low, b: lax.fori_loop(
        0, b.shape[0], lambda i, x: row(i, x, low, b), np.zeros_like(b)
    )


def _forward_plain(low: Any, b: Any) -> Any:
    x = numpy.zeros_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - low[i, :i] @ x[:i]) / low[i, i]
    return x


def _durbin(np: Any, lax: Any) -> Any:
    def step(k: Any, state: Any, r: Any) -> Any:
        y, alpha, beta = state
        n = r.shape[0]
        index = np.arange(n)
        beta = (1.0 - alpha * alpha) * beta
        reverse = r[np.clip(k - index - 1, 0, n - 1)]
        total = np.sum(np.where(index < k, reverse * y, 0.0))
        alpha = -(r[k] + total) / beta
        turned = y[np.clip(k - index - 1, 0, n - 1)]
        y = np.where(index < k, y + alpha * turned, y)
        return y.at[k].set(alpha), alpha, beta

    def solve(r: Any) -> Any:
        y = np.zeros_like(r).at[0].set(-r[0])
        start = y, -r[0], np.ones_like(r[0])
        return lax.fori_loop(1, r.shape[0], lambda k, s: step(k, s, r), start)[0]

    return solve


def _durbin_plain(r: Any) -> Any:
    n = len(r)
    y = numpy.zeros(n)
    y[0] = alpha = -r[0]
    beta = 1.0
    for k in range(1, n):
        beta = (1.0 - alpha * alpha) * beta
        alpha = -(r[k] + r[k - 1 :: -1][:k] @ y[:k]) / beta
        y[:k] += alpha * y[k - 1 :: -1][:k].copy()
        y[k] = alpha
    return y


def _gram_schmidt(np: Any, lax: Any) -> Any:
    def column(k: Any, state: Any) -> Any:
        a, r = state
        norm = np.sqrt(np.sum(a[:, k] * a[:, k]))
        q = a[:, k] / norm
        later = np.arange(a.shape[1]) > k
        products = np.where(later, q @ a, 0.0)
        r = r.at[k].set(products).at[k, k].set(norm)
        a = a - np.outer(q, products)
        return a.at[:, k].set(q), r

    def factor(a: Any) -> Any:
        n = a.shape[1]
        return lax.fori_loop(0, n, column, (a, np.zeros((n, n), a.dtype)))

    return factor


def _gram_schmidt_plain(a: Any) -> Any:
    a = a.copy()
    r = numpy.zeros((a.shape[1],) * 2)
    for k in range(a.shape[1]):
        r[k, k] = numpy.sqrt((a[:, k] ** 2).sum())
        a[:, k] /= r[k, k]
        r[k, k + 1 :] = a[:, k] @ a[:, k + 1 :]
        a[:, k + 1 :] -= numpy.outer(a[:, k], r[k, k + 1 :])
    return a, r


def _thomas(np: Any, lax: Any) -> Any:
    def forward(state: Any, row: Any) -> Any:
        c0, d0 = state
        a, b, c, d = row
        scale = 1.0 / (b - a * c0)
        new = c * scale, (d - a * d0) * scale
        return new, new

    def backward(x: Any, row: Any) -> Any:
        c, d = row
        x = d - c * x
        return x, x

    def solve(a: Any, b: Any, c: Any, d: Any) -> Any:
        zero = np.zeros(a.shape[1:], a.dtype)
        _, rows = lax.scan(forward, (zero, zero), (a, b, c, d))
        return lax.scan(backward, zero, rows, reverse=True)[1]

    return solve


def _thomas_plain(a: Any, b: Any, c: Any, d: Any) -> Any:
    c1, d1 = numpy.zeros_like(a), numpy.zeros_like(a)
    cp = dp = numpy.zeros(a.shape[1:])
    for i in range(len(a)):
        scale = 1.0 / (b[i] - a[i] * cp)
        cp = c1[i] = c[i] * scale
        dp = d1[i] = (d[i] - a[i] * dp) * scale
    x = numpy.zeros_like(a)
    last = numpy.zeros(a.shape[1:])
    for i in range(len(a) - 1, -1, -1):
        last = x[i] = d1[i] - c1[i] * last
    return x


def _dominant(n: int) -> Inputs:
    return (random(n, n) + 2.0 * n * numpy.eye(n),)


def _definite(n: int) -> Inputs:
    a = random(n, n)
    return (a @ a.T + n * numpy.eye(n),)


def _triangular(n: int) -> Inputs:
    return numpy.tril(random(n, n)) + n * numpy.eye(n), random(n, seed=1)


def _bands(n: int) -> Inputs:
    a, b, c, d = (random(n, n, seed=k) for k in range(4))
    return a, b + 8.0, c, d


_POLYBENCH = "PolyBench/C 4.2"
PROGRAMS = (
    Program("lu by outer products", (50, 150, 500), _dominant, _lu, _lu_plain, _POLYBENCH),
    Program("lu by elements", (30, 80, 200), _dominant, _lu_elements, _lu_plain, _POLYBENCH),
    Program("cholesky", (50, 150, 500), _definite, _cholesky, numpy.linalg.cholesky, _POLYBENCH),
    Program("trisolv", (100, 400, 1500), _triangular, _forward, _forward_plain, _POLYBENCH),
    Program(
        "durbin",
        (100, 400, 1500),
        lambda n: (0.1 * random(n) / numpy.sqrt(n),),
        _durbin,
        _durbin_plain,
        _POLYBENCH,
    ),
    Program(
        "gramschmidt",
        (50, 100, 300),
        lambda n: (random(n + 10, n),),
        _gram_schmidt,
        _gram_schmidt_plain,
        _POLYBENCH,
    ),
    Program("thomas", (64, 250, 1000), _bands, _thomas, _thomas_plain, "Thomas 1949"),
)
