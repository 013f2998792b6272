"""Linear algebra by iterations: solvers, PageRank, Kalman, gemver, k-means, FFT by hand."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.programs.program import Inputs, Program, random


def _conjugate_gradients(np: Any, lax: Any) -> Any:
    def solve(a: Any, b: Any) -> Any:
        def go_on(state: Any) -> Any:
            _, _, _, rr, k = state
            return (rr > 1e-20) & (k < 200)

        def step(state: Any) -> Any:
            x, r, p, rr, k = state
            ap = a @ p
            alpha = rr / np.vdot(p, ap)
            x, r = x + alpha * p, r - alpha * ap
            new = np.vdot(r, r)
            return x, r, r + new / rr * p, new, k + 1

        start = np.zeros_like(b), b, b, np.vdot(b, b), 0
        return lax.while_loop(go_on, step, start)[0]

    return solve


def _gmres(np: Any, lax: Any) -> Any:
    """Thirty steps of Arnoldi with modified Gram-Schmidt and Givens' rotations."""
    steps = 30

    def solve(a: Any, b: Any) -> Any:
        n = b.shape[0]

        def step(k: Any, state: Any) -> Any:
            q, h, cs, sn, rest = state

            def project(j: Any, both: Any) -> Any:
                w, column = both
                c = np.vdot(q[j], w)
                return w - c * q[j], column.at[j].set(c)

            w, column = lax.fori_loop(0, k + 1, project, (a @ q[k], np.zeros(steps + 1, b.dtype)))
            norm = np.linalg.norm(w)
            q = q.at[k + 1].set(w / norm)

            def rotate(j: Any, column: Any) -> Any:
                x, y = column[j], column[j + 1]
                column = column.at[j].set(cs[j] * x + sn[j] * y)
                return column.at[j + 1].set(cs[j] * y - sn[j] * x)

            column = lax.fori_loop(0, k, rotate, column)
            size = np.sqrt(column[k] ** 2 + norm**2)
            c, s = column[k] / size, norm / size
            h = h.at[:, k].set(column.at[k].set(size)[:steps])
            rest = rest.at[k + 1].set(-s * rest[k]).at[k].set(c * rest[k])
            return q, h, cs.at[k].set(c), sn.at[k].set(s), rest

        norm = np.linalg.norm(b)
        q = np.zeros((steps + 1, n), b.dtype).at[0].set(b / norm)
        h = np.zeros((steps, steps), b.dtype)
        zeros = np.zeros(steps, b.dtype)
        rest = np.zeros(steps + 1, b.dtype).at[0].set(norm)
        q, h, _, _, rest = lax.fori_loop(0, steps, step, (q, h, zeros, zeros, rest))

        def back(i: Any, y: Any) -> Any:
            k = steps - 1 - i
            return y.at[k].set((rest[k] - np.vdot(h[k], y)) / h[k, k])

        return lax.fori_loop(0, steps, back, zeros) @ q[:steps]

    return solve


def _solved(a: Any, b: Any) -> Any:
    return numpy.linalg.solve(a, b)


def _definite(n: int) -> Inputs:
    a = random(n, n)
    return a @ a.T / n + numpy.eye(n), random(n, seed=1)


def _well_conditioned(n: int) -> Inputs:
    return 3.0 * numpy.eye(n) + random(n, n) / numpy.sqrt(n), random(n, seed=1)


def _page_rank(np: Any, lax: Any) -> Any:
    def rank(source: Any, target: Any, degrees: Any) -> Any:
        n = degrees.shape[0]

        def step(_: Any, r: Any) -> Any:
            shares = (r / degrees)[source]
            return 0.15 / n + 0.85 * np.zeros(n, r.dtype).at[target].add(shares)

        return lax.fori_loop(0, 20, step, np.full(n, 1.0 / n))

    return rank


def _page_rank_plain(source: Any, target: Any, degrees: Any) -> Any:
    n = len(degrees)
    r = numpy.full(n, 1.0 / n)
    for _ in range(20):
        r = 0.15 / n + 0.85 * numpy.bincount(target, (r / degrees)[source], n)
    return r


def _links(n: int) -> Inputs:
    source, target = numpy.random.default_rng(0).integers(0, n, (2, 8 * n))
    return source, target, numpy.maximum(numpy.bincount(source, minlength=n), 1.0)


def _kalman(np: Any, lax: Any) -> Any:
    def run(f: Any, h: Any, q: Any, r: Any, seen: Any) -> Any:
        def step(state: Any, z: Any) -> Any:
            x, p = state
            x, p = f @ x, f @ p @ f.T + q
            gain = np.linalg.solve(h @ p @ h.T + r, h @ p).T
            x = x + gain @ (z - h @ x)
            p = (np.eye(4) - gain @ h) @ p
            return (x, p), x

        return lax.scan(step, (np.zeros(4), np.eye(4)), seen)[1]

    return run


def _kalman_plain(f: Any, h: Any, q: Any, r: Any, seen: Any) -> Any:
    x, p, out = numpy.zeros(4), numpy.eye(4), []
    for z in seen:
        x, p = f @ x, f @ p @ f.T + q
        gain = p @ h.T @ numpy.linalg.inv(h @ p @ h.T + r)
        x = x + gain @ (z - h @ x)
        p = (numpy.eye(4) - gain @ h) @ p
        out.append(x)
    return numpy.stack(out)


def _track(n: int) -> Inputs:
    f = numpy.eye(4) + 0.1 * numpy.eye(4, k=2)
    return f, numpy.eye(2, 4), 0.01 * numpy.eye(4), 0.1 * numpy.eye(2), random(n, 2)


def _gemver(np: Any, lax: Any) -> Any:
    def run(a: Any, u1: Any, v1: Any, u2: Any, v2: Any, y: Any, z: Any) -> Any:
        a = a + np.outer(u1, v1) + np.outer(u2, v2)
        x = 1.2 * (y @ a) + z
        return a, x, 1.5 * (a @ x)

    return run


def _gemver_plain(a: Any, u1: Any, v1: Any, u2: Any, v2: Any, y: Any, z: Any) -> Any:
    a = a + numpy.outer(u1, v1) + numpy.outer(u2, v2)
    x = 1.2 * (a.T @ y) + z
    return a, x, 1.5 * (a @ x)


def _vectors(n: int) -> Inputs:
    return (random(n, n) / n, *(random(n, seed=k) for k in range(1, 7)))


def _k_means(np: Any, lax: Any) -> Any:
    """Lloyd's algorithm."""

    def cluster(points: Any, start: Any) -> Any:
        def step(_: Any, centres: Any) -> Any:
            distances = np.sum((points[:, None, :] - centres[None, :, :]) ** 2, axis=-1)
            nearest = np.argmin(distances, axis=1)
            totals = np.zeros_like(centres).at[nearest].add(points)
            counts = np.zeros(centres.shape[0], centres.dtype).at[nearest].add(1.0)
            return np.where(counts[:, None] > 0, totals / np.maximum(counts, 1.0)[:, None], centres)

        return lax.fori_loop(0, 10, step, start)

    return cluster


def _k_means_plain(points: Any, centres: Any) -> Any:
    centres = centres.copy()
    for _ in range(10):
        nearest = ((points[:, None] - centres) ** 2).sum(-1).argmin(1)
        for k in range(len(centres)):
            if (nearest == k).any():
                centres[k] = points[nearest == k].mean(0)
    return centres


def _clouds(n: int) -> Inputs:
    points = random(n, 4) + 3.0 * numpy.random.default_rng(1).integers(0, 3, (n, 4))
    return points, points[:8].copy()


def _fourier(np: Any, lax: Any) -> Any:
    """Stockham's radix-2 transform."""

    def transform(x: Any) -> Any:
        n = x.shape[0]
        x = x.reshape(1, n)
        while x.shape[1] > 1:
            rows, half = x.shape[0], x.shape[1] // 2
            twiddle = np.exp(-1j * np.pi * np.arange(rows) / rows)[:, None]
            even, odd = x[:, :half], twiddle * x[:, half:]
            x = np.concatenate([even + odd, even - odd])
        return x.reshape(n)

    return transform


def _signal(n: int) -> Inputs:
    return (random(n) + 1j * random(n, seed=1),)


PROGRAMS = (
    Program(
        "conjugate gradients",
        (50, 200, 800),
        _definite,
        _conjugate_gradients,
        _solved,
        "Hestenes and Stiefel 1952",
    ),
    Program("gmres", (50, 200, 800), _well_conditioned, _gmres, _solved, "Saad and Schultz 1986"),
    Program(
        "pagerank", (100, 2000, 40000), _links, _page_rank, _page_rank_plain, "Page et al. 1998"
    ),
    Program("kalman", (50, 500, 5000), _track, _kalman, _kalman_plain, "Kalman 1960"),
    Program("gemver", (100, 400, 1600), _vectors, _gemver, _gemver_plain, "PolyBench/C 4.2"),
    Program("k-means", (100, 2000, 40000), _clouds, _k_means, _k_means_plain, "Lloyd 1957"),
    Program("fft by hand", (64, 4096, 65536), _signal, _fourier, numpy.fft.fft, "Stockham 1966"),
)
