"""`error_bars`: results with bounds of their errors from rounding and from uncertain inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.accuracy.intervals import Bounds, Intervals, Ranged
from xpr.accuracy.wide import RandomlyRounded, Wide, is_real, widened
from xpr.core.config import override
from xpr.core.jaxpr import ClosedJaxpr
from xpr.interpreters.walk import Array, Walker, arrays_for
from xpr.interpreters.walk_text import array_text
from xpr.transforms.tracing import make_jaxpr

_MODES = ("interval", "random", "double")


class ErrorBar:
    """A result and a bound, or an estimate, of its error.

    >>> import xpr, xpr.numpy as jnp
    >>> bar = xpr.error_bars(lambda x: (x + 1.0) - x)(jnp.float32(1e6))
    >>> bar.value.item(), bool(bar.low <= 1.0 <= bar.high)
    (1.0, True)
    """

    def __init__(self, value: Array, low: Array, high: Array) -> None:
        self.value = value
        """The result as the program computes it."""
        self.low = low
        """The least number that the exact result may be."""
        self.high = high

    @property
    def error(self) -> Array:
        """How far from the exact result the value may be."""
        wide = widened(self.value)
        return np.maximum(self.high - wide, wide - self.low)

    @property
    def relative(self) -> Array:
        """The error as a share of the value; infinite where that is 0 and inexact."""
        wide = np.abs(widened(self.value))
        with np.errstate(all="ignore"):
            return np.where(self.error == 0, 0.0, self.error / wide)

    def __repr__(self) -> str:
        error = self.error
        if error.size <= 8:
            return f"{array_text(self.value)} +- {_short(error)}"
        with np.errstate(all="ignore"):
            worst = float(np.max(error, initial=0.0))
        return f"{array_text(self.value)}, at most +- {worst:.2g}"


def _short(error: Array) -> str:
    if error.ndim:
        return f"[{', '.join(map(_short, error))}]"
    return f"{float(error):.2g}"


class Uncertain:
    """An array that is known up to a radius; see `uncertain`.

    >>> import xpr
    >>> xpr.uncertain(2.0, 0.1).radius
    0.1
    """

    def __init__(self, value: Any, radius: Any) -> None:
        self.value = value
        self.radius = radius


def uncertain(x: Any, radius: Any) -> Uncertain:
    """An argument of `error_bars` whose exact value is within `radius` of `x`.

    `radius` broadcasts to the shape of `x`. Raises ValueError for a negative or NaN radius.

    >>> import xpr
    >>> bar = xpr.error_bars(lambda x: x * x)(xpr.uncertain(3.0, 0.1))
    >>> bool(bar.low <= 2.9**2), bool(bar.high >= 3.1**2), bool(bar.error < 0.62)
    (True, True, True)
    """
    array = np.asarray(radius, np.float64)
    if not (array >= 0).all():
        raise ValueError(f"the radius of an uncertain value must not be negative, got {radius!r}")
    np.broadcast_to(array, np.shape(x))
    return Uncertain(x, radius)


def error_bars(
    f: Callable[..., Any], *, mode: str = "interval", runs: int = 16, seed: int = 0
) -> Callable[..., Any]:
    """A function that returns the results of `f` as `ErrorBar`s.

    `mode="interval"` proves bounds: each operation is enclosed with outward rounding, from
    arguments that are exact or `xpr.uncertain`. Loops and branches run as they are, along the path
    of the computed numbers. `mode="random"` estimates: `runs` runs round each operation up or down
    at random. `mode="double"` compares with the same program in float64. The last two show what
    happened, and prove nothing.

    The bounds are those of the operations as the reference rules compute them. Raises
    NotImplementedError, naming the operation and its line, for one that `interval` has no rule for
    (complex numbers, factorizations), and for float64 in `double`; ValueError for other modes.

    >>> import xpr, xpr.numpy as jnp
    >>> def variance(x):
    ...     return (x * x).mean() - x.mean() ** 2
    >>> x = jnp.array([10000.0, 10001.0, 10002.0])
    >>> bar = xpr.error_bars(variance)(x)
    >>> bool(bar.low <= 2 / 3 <= bar.high), bool(bar.error > 0.5)
    (True, True)
    """
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")

    def bars(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_util.tree_flatten((args, kwargs), is_leaf=_is_uncertain)
        values = [x.value if _is_uncertain(x) else x for x in leaves]
        radii = [
            np.broadcast_to(np.asarray(x.radius, np.float64), np.shape(x.value))
            if _is_uncertain(x)
            else None
            for x in leaves
        ]
        closed, out_tree = traced(f, tree, values)
        arrays = arrays_for(closed, values)
        with override("debug_nans", False), override("debug_infs", False):
            if mode == "interval":
                found = _proved(closed, arrays, radii)
            elif mode == "random":
                found = _estimated(closed, arrays, radii, runs, seed)
            else:
                found = _compared(closed, arrays, radii)
        return tree_util.tree_unflatten(out_tree, found)

    return bars


def _is_uncertain(x: Any) -> bool:
    return isinstance(x, Uncertain)


def traced(f: Callable[..., Any], tree: Any, values: Sequence[Any]) -> tuple[ClosedJaxpr, Any]:
    """The program of `f` on the leaves of its arguments, and the tree of its results."""

    def flat(*leaves: Any) -> Any:
        args, kwargs = tree_util.tree_unflatten(tree, list(leaves))
        return f(*args, **kwargs)

    closed, shape = make_jaxpr(flat, return_shape=True)(*values)
    return closed, tree_util.tree_structure(shape)


def _proved(
    closed: ClosedJaxpr, arrays: Sequence[Array], radii: Sequence[Array | None]
) -> list[ErrorBar]:
    domain = Intervals()
    given: list[Ranged] = []
    for x, radius in zip(arrays, radii, strict=True):
        lifted = domain.lift(x)
        if radius is not None and lifted.bounds is not None:
            b = lifted.bounds
            low, high = b.low - radius, b.high + radius
            lifted = Ranged(x, Bounds(np.nextafter(low, -np.inf), np.nextafter(high, np.inf)))
        given.append(lifted)
    found = Walker(domain).run(closed, given)
    return [ErrorBar(r.value, *_ends(r)) for r in found]


def _ends(x: Ranged) -> tuple[Array, Array]:
    if x.bounds is None and x.value.dtype.kind not in "biu":
        return x.value, x.value
    return x.as_bounds()


def _estimated(
    closed: ClosedJaxpr,
    arrays: Sequence[Array],
    radii: Sequence[Array | None],
    runs: int,
    seed: int,
) -> list[ErrorBar]:
    computed = [np.asarray(r) for r in Walker().run(closed, arrays)]
    rng = np.random.default_rng(seed)
    squares = [np.zeros(r.shape) for r in computed]
    for _ in range(runs):
        given = [
            x if r is None else (x + r * rng.uniform(-1, 1, x.shape)).astype(x.dtype)
            for x, r in zip(arrays, radii, strict=True)
        ]
        for total, a, b in zip(
            squares, Walker(RandomlyRounded(rng)).run(closed, given), computed, strict=True
        ):
            if is_real(b.dtype):
                with np.errstate(all="ignore"):
                    total += (widened(np.asarray(a)) - widened(b)) ** 2
    errors = [np.sqrt(s / runs) for s in squares]
    return [ErrorBar(r, r - e, r + e) for r, e in zip(computed, errors, strict=True)]


def _compared(
    closed: ClosedJaxpr, arrays: Sequence[Array], radii: Sequence[Array | None]
) -> list[ErrorBar]:
    if any(r is not None for r in radii):
        raise ValueError('uncertain arguments need mode="interval" or mode="random"')
    if any(a.dtype == np.float64 for a in (*arrays, *closed.out_avals)):
        raise NotImplementedError('mode="double" has no wider type than float64 to compare with')
    computed = [np.asarray(r) for r in Walker().run(closed, arrays)]
    domain = Wide()
    exact = Walker(domain).run(closed, [domain.lift(a) for a in arrays])
    found = []
    for value, wide in zip(computed, exact, strict=True):
        if not is_real(value.dtype):
            found.append(ErrorBar(value, value, value))
            continue
        own = widened(value)
        found.append(ErrorBar(value, np.minimum(own, wide), np.maximum(own, wide)))
    return found
