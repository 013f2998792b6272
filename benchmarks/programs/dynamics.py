"""Motion and images: Runge-Kutta, HMC, cart-pole, Barnes-Hut, Mandelbrot, ray marching."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.programs.program import Inputs, Program, random

# Bogacki and Shampine's pair of orders 3 and 2.
_TOLERANCE = 1e-6


def _lorenz(np: Any, s: Any) -> Any:
    x, y, z = s
    return np.array([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])


def _adaptive_step(np: Any, s: Any, h: Any) -> Any:
    k1 = _lorenz(np, s)
    k2 = _lorenz(np, s + 0.5 * h * k1)
    k3 = _lorenz(np, s + 0.75 * h * k2)
    new = s + h * (2.0 * k1 + 3.0 * k2 + 4.0 * k3) / 9.0
    k4 = _lorenz(np, new)
    error = h * (-5.0 * k1 / 72.0 + k2 / 12.0 + k3 / 9.0 - k4 / 8.0)
    size = np.linalg.norm(error)
    return new, size, h * np.clip(0.9 * (_TOLERANCE / size) ** (1.0 / 3.0), 0.2, 5.0)


def _runge_kutta(np: Any, lax: Any) -> Any:
    def run(s: Any, end: Any) -> Any:
        def step(state: Any) -> Any:
            t, s, h = state
            h = np.minimum(h, end - t)
            new, size, next_h = _adaptive_step(np, s, h)
            good = size <= _TOLERANCE
            return np.where(good, t + h, t), np.where(good, new, s), next_h

        start = np.zeros_like(end), s, 0.01 * np.ones_like(end)
        return lax.while_loop(lambda state: state[0] < end, step, start)[1]

    return run


def _runge_kutta_plain(s: Any, end: Any) -> Any:
    t, h = 0.0, 0.01
    while t < end:
        h = min(h, end - t)
        new, size, next_h = _adaptive_step(numpy, s, h)
        if size <= _TOLERANCE:
            t, s = t + h, new
        h = next_h
    return s


def _hmc(np: Any, lax: Any) -> Any:
    """Hamiltonian Monte Carlo for a normal distribution, with the draws given."""

    def sample(precision: Any, momenta: Any, uniforms: Any) -> Any:
        def energy(x: Any, p: Any) -> Any:
            return 0.5 * np.vdot(x, precision @ x) + 0.5 * np.vdot(p, p)

        def step(x: Any, draw: Any) -> Any:
            p, u = draw

            def leap(_: Any, both: Any) -> Any:
                y, q = both
                q = q - 0.05 * (precision @ y)
                y = y + 0.1 * q
                return y, q - 0.05 * (precision @ y)

            y, q = lax.fori_loop(0, 8, leap, (x, p))
            x = np.where(np.log(u) < energy(x, p) - energy(y, q), y, x)
            return x, x

        return lax.scan(step, np.zeros(precision.shape[0]), (momenta, uniforms))[1]

    return sample


def _hmc_plain(precision: Any, momenta: Any, uniforms: Any) -> Any:
    x, out = numpy.zeros(len(precision)), []
    for p, u in zip(momenta, uniforms, strict=True):
        y, q = x, p
        for _ in range(8):
            q = q - 0.05 * precision @ y
            y = y + 0.1 * q
            q = q - 0.05 * precision @ y
        before = x @ precision @ x + p @ p
        if numpy.log(u) < 0.5 * (before - y @ precision @ y - q @ q):
            x = y
        out.append(x)
    return numpy.stack(out)


def _draws(n: int) -> Inputs:
    a = random(10, 10)
    uniforms = numpy.random.default_rng(3).uniform(size=n)
    return a @ a.T / 10 + numpy.eye(10), random(n, 10, seed=1), uniforms


def _cart_step(np: Any, s: Any, force: Any) -> Any:
    """Barto, Sutton and Anderson's cart and pole."""
    x, v, angle, rate = (s[..., k] for k in range(4))
    sine, cosine = np.sin(angle), np.cos(angle)
    push = (force + 0.05 * rate**2 * sine) / 1.1
    turn = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine**2 / 1.1))
    speed = push - 0.05 * turn * cosine / 1.1
    new = x + 0.02 * v, v + 0.02 * speed, angle + 0.02 * rate, rate + 0.02 * turn
    return np.stack(new, axis=-1)


def _rollout(np: Any, lax: Any) -> Any:
    """A policy of two layers on a batch of carts, with a discounted reward."""

    def run(w1: Any, b1: Any, w2: Any, s: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            s, alive, total = state
            force = 10.0 * np.tanh(np.tanh(s @ w1 + b1) @ w2)
            s = np.where(alive[:, None], _cart_step(np, s, force), s)
            alive = alive & (np.abs(s[:, 0]) < 2.4) & (np.abs(s[:, 2]) < 0.2)
            return (s, alive, 0.99 * total + alive), force

        start = s, np.ones(s.shape[0], bool), np.zeros(s.shape[0], s.dtype)
        (s, _, total), forces = lax.scan(step, start, None, length=200)
        return s, total, forces

    return run


def _rollout_plain(w1: Any, b1: Any, w2: Any, s: Any) -> Any:
    alive, total, forces = numpy.ones(len(s), bool), numpy.zeros(len(s)), []
    for _ in range(200):
        forces.append(10.0 * numpy.tanh(numpy.tanh(s @ w1 + b1) @ w2))
        s = numpy.where(alive[:, None], _cart_step(numpy, s, forces[-1]), s)
        alive = alive & (numpy.abs(s[:, 0]) < 2.4) & (numpy.abs(s[:, 2]) < 0.2)
        total = 0.99 * total + alive
    return s, total, numpy.stack(forces)


def _carts(n: int) -> Inputs:
    return random(4, 16), 0.1 * random(16, seed=1), random(16, seed=2), 0.05 * random(n, 4, seed=3)


_LEVELS = 6


def _pyramid(np: Any, mass: Any, x: Any, y: Any) -> Any:
    """Mass and centre of the cells of a tree over the unit square, from the root on, in one row."""
    side = 1 << _LEVELS
    cell = (y * side).astype(int) * side + (x * side).astype(int)
    return side, cell, (mass, mass * x, mass * y)


def _barnes_hut(np: Any, lax: Any) -> Any:
    def forces(mass: Any, x: Any, y: Any) -> Any:
        side, cell, sums = _pyramid(np, mass, x, y)
        zero = np.zeros(side * side, mass.dtype)
        level = np.stack([zero.at[cell].add(v) for v in sums]).reshape(3, side, side)
        levels = [level]
        while level.shape[1] > 1:
            half = level.shape[1] // 2
            level = level.reshape(3, half, 2, half, 2).sum((2, 4))
            levels.append(level)
        tree = np.concatenate([v.reshape(3, -1) for v in reversed(levels)], axis=1)
        first = np.array([(4**k - 1) // 3 for k in range(_LEVELS + 1)])

        def one(px: Any, py: Any) -> Any:
            def visit(state: Any) -> Any:
                stack, top, fx, fy = state
                level, row, column = stack[top - 1]
                top = top - 1
                node = first[level] + row * 2**level + column
                m = tree[0, node]
                safe = np.where(m > 0, m, 1.0)
                dx, dy = tree[1, node] / safe - px, tree[2, node] / safe - py
                distance = dx * dx + dy * dy + 1e-4
                far = (0.25**level < 0.25 * distance) | (level == _LEVELS) | (m == 0)
                scale = np.where(far, m / (distance * np.sqrt(distance)), 0.0)

                def push(k: Any, stack: Any) -> Any:
                    child = np.array([level + 1, 2 * row + k // 2, 2 * column + k % 2])
                    return stack.at[top + k].set(child)

                stack = lax.cond(far, lambda s: s, lambda s: lax.fori_loop(0, 4, push, s), stack)
                return stack, np.where(far, top, top + 4), fx + scale * dx, fy + scale * dy

            stack = np.zeros((3 * _LEVELS + 5, 3), int)
            start = stack, 1, np.zeros_like(px), np.zeros_like(px)
            return lax.while_loop(lambda s: s[1] > 0, visit, start)[2:]

        return lax.map(lambda p: one(*p), (x, y))

    return forces


def _barnes_hut_plain(mass: Any, x: Any, y: Any) -> Any:
    side, cell, sums = _pyramid(numpy, mass, x, y)
    levels = [numpy.stack([numpy.bincount(cell, v, side * side) for v in sums])]
    levels = [levels[0].reshape(3, side, side)]
    while levels[-1].shape[1] > 1:
        v = levels[-1]
        levels.append(v[:, ::2, ::2] + v[:, 1::2, ::2] + v[:, ::2, 1::2] + v[:, 1::2, 1::2])
    levels.reverse()
    fx, fy = numpy.zeros_like(x), numpy.zeros_like(x)
    # All particles that visit a node at once.
    stack = [(0, 0, 0, numpy.arange(len(x)))]
    while stack:
        level, row, column, who = stack.pop()
        m, mx, my = levels[level][:, row, column]
        if m == 0:
            continue
        dx, dy = mx / m - x[who], my / m - y[who]
        distance = dx * dx + dy * dy + 1e-4
        far = (0.25**level < 0.25 * distance) | (level == _LEVELS)
        scale = m / distance[far] ** 1.5
        fx[who[far]] += scale * dx[far]
        fy[who[far]] += scale * dy[far]
        rest = who[~far]
        if rest.size:
            stack += [(level + 1, 2 * row + k // 2, 2 * column + k % 2, rest) for k in range(4)]
    return fx, fy


def _bodies(n: int) -> Inputs:
    x, y = numpy.random.default_rng(0).uniform(size=(2, n))
    return numpy.abs(random(n)) + 0.1, x, y


def _mandelbrot(np: Any, lax: Any) -> Any:
    def count(c: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            z, n = state
            inside = np.abs(z) <= 2.0
            return np.where(inside, z * z + c, z), n + inside

        return lax.fori_loop(0, 50, step, (np.zeros_like(c), np.zeros(c.shape, int)))[1]

    return count


def _mandelbrot_plain(c: Any) -> Any:
    z, n = numpy.zeros_like(c), numpy.zeros(c.shape, int)
    for _ in range(50):
        inside = z.real**2 + z.imag**2 <= 4.0
        z = numpy.where(inside, z * z + c, z)
        n += inside
    return n


def _plane(n: int) -> Inputs:
    return (numpy.linspace(-2.0, 0.6, n)[None, :] + 1j * numpy.linspace(-1.3, 1.3, n)[:, None],)


def _distance(np: Any, p: Any) -> Any:
    """Distance to a sphere over a floor, and a torus around it."""
    x, y, z = p
    sphere = np.sqrt(x * x + y * y + z * z) - 1.0
    ring = np.sqrt((np.sqrt(x * x + z * z) - 1.5) ** 2 + y * y) - 0.25
    return np.minimum(np.minimum(sphere, ring), y + 1.2)


def _march(np: Any, lax: Any) -> Any:
    def render(u: Any, v: Any) -> Any:
        scale = 1.0 / np.sqrt(u * u + v * v + 1.0)
        direction = u * scale, v * scale, scale

        def at(t: Any) -> Any:
            return t * direction[0], 0.3 + t * direction[1], -4.0 + t * direction[2]

        t = lax.fori_loop(
            0, 40, lambda _, t: np.minimum(t + _distance(np, at(t)), 20.0), np.zeros_like(u)
        )
        x, y, z = at(t)
        here = _distance(np, (x, y, z))
        slope = [
            _distance(np, (x + 1e-4, y, z)) - here,
            _distance(np, (x, y + 1e-4, z)) - here,
            _distance(np, (x, y, z - 1e-4)) - here,
        ]
        light = (slope[0] + slope[1] + slope[2]) / 1e-4
        return np.where(t < 20.0, np.maximum(light, 0.0), 0.0)

    return render


def _march_plain(u: Any, v: Any) -> Any:
    scale = 1.0 / numpy.sqrt(u * u + v * v + 1.0)
    d = numpy.stack([u, v, numpy.ones_like(u)]) * scale
    origin = numpy.array([0.0, 0.3, -4.0])[:, None, None]
    t = numpy.zeros_like(u)
    for _ in range(40):
        t = numpy.minimum(t + _distance(numpy, origin + t * d), 20.0)
    p = origin + t * d
    light = 0.0
    for axis, sign in ((0, 1), (1, 1), (2, -1)):
        move = numpy.zeros((3, 1, 1))
        move[axis] = sign * 1e-4
        light = light + _distance(numpy, p + move) - _distance(numpy, p)
    return numpy.where(t < 20.0, numpy.maximum(light / 1e-4, 0.0), 0.0)


def _screen(n: int) -> Inputs:
    u, v = numpy.meshgrid(numpy.linspace(-0.6, 0.6, n), numpy.linspace(0.5, -0.5, n))
    return u, v


PROGRAMS = (
    Program(
        "adaptive runge-kutta",
        (1, 4, 8),
        lambda n: (numpy.array([1.0, 1.0, 20.0]), numpy.array(float(n))),
        _runge_kutta,
        _runge_kutta_plain,
        "Bogacki and Shampine 1989, Lorenz 1963",
    ),
    Program("hmc", (10, 100, 1000), _draws, _hmc, _hmc_plain, "Duane et al. 1987"),
    Program(
        "cart-pole rollout",
        (4, 64, 1024),
        _carts,
        _rollout,
        _rollout_plain,
        "Barto, Sutton and Anderson 1983",
    ),
    Program(
        "barnes-hut",
        (50, 400, 3000),
        _bodies,
        _barnes_hut,
        _barnes_hut_plain,
        "Barnes and Hut 1986",
    ),
    Program(
        "mandelbrot", (32, 150, 600), _plane, _mandelbrot, _mandelbrot_plain, "Mandelbrot 1980"
    ),
    Program("ray marching", (32, 100, 400), _screen, _march, _march_plain, "Hart 1996"),
)
