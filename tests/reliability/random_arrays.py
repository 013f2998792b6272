"""Random programs of arrays that are worth distributing, the same for the same number.

Elementwise operations, reductions, rearrangements, products, gathers and scatters of up to three
axes, with several results each, so that IREE forms dispatches of many shapes. As in
`random_programs` nothing is asked that has no right answer to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import nn

from .random_programs import Arrays, bounded, one

Rng = np.random.Generator

SIZES = (3, 17, 48, 64, 100)
DTYPES = ("float32", "float32", "int32", "bool", "int8")
_WHOLE = ("int8", "uint8", "int16", "int32", "float32")
_LARGEST = 400_000


def _axis(rng: Rng, x: Any) -> int:
    return int(rng.integers(x.ndim))


def _is_float(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


def operands(rng: Rng) -> list[np.ndarray[Any, Any]]:
    """Three arrays whose axes have three sizes, in one order or the other."""
    sizes = [one(rng, SIZES) for _ in range(3)]
    found = []
    for _ in range(3):
        shape = tuple(sizes[: int(rng.integers(1, 4))])
        shape = shape[::-1] if rng.integers(2) else shape
        shape = shape if math.prod(shape) <= _LARGEST // 4 else shape[:2]
        dtype, x = one(rng, DTYPES), rng.uniform(-3, 3, shape)
        found.append(np.asarray(x > 0) if dtype == "bool" else x.astype(dtype))
    return found


def steps(rng: Rng) -> list[int]:
    """A program: for each step the number that its choices come from."""
    return [int(n) for n in rng.integers(1 << 30, size=int(rng.integers(5, 14)))]


def results(program: Sequence[int], arrays: Sequence[Any], count: int) -> Arrays:
    """The last `count` arrays that a program makes."""
    values = [jnp.asarray(x) for x in arrays]
    for number in program:
        rng = np.random.default_rng(number)
        x = one(rng, values)
        y = one(rng, [v for v in values if _fits(v, x)])
        made = one(rng, _KINDS if x.ndim else _KINDS[:_ANY_RANK])(rng, x, y)
        if made is not None and made.ndim <= 4 and made.size <= _LARGEST:
            values.append(bounded(made))
    return values[-count:]


def _fits(v: Any, x: Any) -> bool:
    try:
        return math.prod(np.broadcast_shapes(v.shape, x.shape)) <= _LARGEST
    except ValueError:
        return False


# ---- the steps: an array, or None where there is nothing to do


def _combined(rng: Rng, x: Any, y: Any) -> Any:
    if x.dtype == bool and y.dtype == bool:
        return one(rng, [lambda: x & y, lambda: x | y, lambda: x ^ y])()
    if bool in (x.dtype, y.dtype):
        mask, other = (x, y) if x.dtype == bool else (y, x)
        return jnp.where(mask, other, int(rng.integers(2)))
    choices: list[Callable[[], Any]] = [lambda: x + y, lambda: x * y, lambda: x - y]
    return one(rng, [*choices, lambda: jnp.maximum(x, y), lambda: jnp.minimum(x, y)])()


def _changed(rng: Rng, x: Any, _: Any) -> Any:
    if not _is_float(x):
        return ~x if x.dtype == bool else -x
    functions = (jnp.tanh, jnp.sin, nn.gelu, nn.sigmoid)
    return one(rng, [*functions, lambda v: jnp.exp(-jnp.abs(v)), lambda v: v * v])(x)


def _converted(rng: Rng, x: Any, _: Any) -> Any:
    if _is_float(x):
        return None
    return x.astype(one(rng, _WHOLE if x.dtype == bool else (*_WHOLE, "bool")))


def _compared(rng: Rng, x: Any, y: Any) -> Any:
    if any(_is_float(v) or v.dtype == bool for v in (x, y)):
        return None
    return one(rng, [lambda: x < y, lambda: x == y, lambda: x >= y])()


def _reduced(rng: Rng, x: Any, _: Any) -> Any:
    axes: list[Any] = [None, *range(x.ndim), *([(0, 1)] if x.ndim > 1 else [])]
    axis, keep = one(rng, axes), bool(rng.integers(2))
    if x.dtype == bool:
        names = ("any", "all", "sum")
    else:
        names = ("max", "min", "mean", "var") if _is_float(x) else ("max", "min", "sum")
    return getattr(x, one(rng, names))(axis, keepdims=keep)


def _cut(rng: Rng, x: Any, _: Any) -> Any:
    axis = _axis(rng, x)
    start = int(rng.integers(x.shape[axis]))
    before = (slice(None),) * axis
    if rng.integers(3) == 0:
        return jnp.take(x, start, axis=axis)
    if rng.integers(2):
        return x[(*before, start)]
    stop = int(rng.integers(start + 1, x.shape[axis] + 1))
    return x[(*before, slice(start, stop, int(rng.integers(1, 3))))]


def _arranged(rng: Rng, x: Any, _: Any) -> Any:
    choices: list[Callable[[], Any]] = [
        lambda: jnp.transpose(x, [int(i) for i in rng.permutation(x.ndim)]),
        lambda: x.reshape(-1),
        lambda: x.reshape(x.shape[0], -1),
        lambda: jnp.pad(x, [(int(rng.integers(3)), int(rng.integers(3))) for _ in x.shape]),
        lambda: jnp.concatenate([x, jnp.flip(x, x.ndim - 1)], x.ndim - 1),
        lambda: x[..., None],
        lambda: x[None],
    ]
    return one(rng, choices)()


def _multiplied(rng: Rng, x: Any, _: Any) -> Any:
    """A product with some of the rows; those of integers are exact in float32, too."""
    if x.ndim < 2 or x.size * x.shape[-2] > 3_000_000:
        return None
    rows = x[..., : int(rng.integers(1, x.shape[-2] + 1)), :]
    pair = (x, rows) if rng.integers(2) else (rows, x)
    if _is_float(x):
        return jnp.einsum("...ij,...kj->...ik", *pair) / x.shape[-1]
    wide = one(rng, ("int32", "float32"))
    first = (~pair[0] if x.dtype == jnp.uint8 else pair[0]).astype(wide)
    first = first + 1 if rng.integers(2) else first
    return jnp.einsum("...ij,...kj->...ik", first, pair[1].astype(wide))


def _paired(rng: Rng, x: Any, _: Any) -> Any:
    """Each element of the last axis with each other."""
    return _combined(rng, x[..., None], x[..., None, :])


def _along(rng: Rng, x: Any, _: Any) -> Any:
    axis = _axis(rng, x)
    if _is_float(x):
        return nn.softmax(x, axis=axis) if rng.integers(2) else jnp.sort(x, axis=axis)
    return None if x.dtype == bool else jnp.cumsum(x, axis=axis)


def _indexed(rng: Rng, x: Any, _: Any) -> Any:
    places = jnp.asarray(rng.integers(0, x.shape[0], 20))
    if x.dtype == bool or rng.integers(2):
        return x[places]
    return x.at[places].add(x[places[::-1]])


def _picked(rng: Rng, x: Any, _: Any) -> Any:
    """Elements of one axis in another order."""
    axis = _axis(rng, x)
    places = jnp.asarray(rng.integers(0, x.shape[axis], int(rng.integers(1, 20))))
    choices: list[Callable[[], Any]] = [
        lambda: jnp.take(x, places, axis=axis),
        lambda: jnp.flip(x, axis),
        lambda: jnp.roll(x, int(rng.integers(-5, 5)), axis),
        lambda: jnp.take_along_axis(x, jnp.argsort(x, axis=axis), axis),
    ]
    return one(rng, choices)()


_KINDS: list[Callable[[Rng, Any, Any], Any]] = [
    *(_combined, _combined, _combined, _combined, _changed, _converted, _compared),
    *(_reduced, _reduced, _cut, _cut, _arranged, _arranged, _arranged),
    *(_multiplied, _along, _indexed, _picked, _picked, _paired),
]
_ANY_RANK = 7
