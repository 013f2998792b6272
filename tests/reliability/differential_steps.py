"""The steps that programs of `differential` are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.reliability.differential import (
    DIGITS,
    DTYPES,
    FLOATS,
    Library,
    Made,
    Run,
    Step,
    Table,
    Val,
    one,
    start,
)


def approx(x: Any) -> Val:
    return Val(x, False)


def _arithmetic(r: Run, v: Val) -> Val:
    w = r.like(v)
    exact = v.exact and w.exact
    name = one(r.rng, ("add", "subtract", "multiply", "maximum", "minimum"))
    if name in ("maximum", "minimum") and (v.kind == "c" or (r.smooth and v.kind == "f")):
        name = "add"
    out = getattr(r.jnp, name)(v.x, w.x)
    digits = v.digits + w.digits if name == "multiply" else max(v.digits, w.digits)
    narrow = v.dtype in ("float16", "bfloat16") and name not in ("maximum", "minimum")
    return Val(out, exact and v.kind != "c" and not narrow, digits)


def _scaled(r: Run, v: Val) -> Val:
    """With Python numbers, which are of no type of their own."""
    k = one(r.rng, (2, 3, -1)) if v.kind != "u" else 3
    out = one(r.rng, (lambda x: x * k, lambda x: x + k, lambda x: k - x))(v.x)
    return Val(out, v.exact and (v.kind in "iu" or v.dtype in ("float32", "float64")), v.digits)


_SMOOTH: tuple[Callable[[Library, Any], Any], ...] = (
    lambda lib, x: lib.jnp.sin(x),
    lambda lib, x: lib.jnp.cos(x),
    lambda lib, x: lib.jnp.tanh(x),
    lambda lib, x: lib.jnp.exp(-x * x),
    lambda lib, x: lib.jnp.log1p(x * x),
    lambda lib, x: lib.jnp.sqrt(x * x + 1),
    lambda lib, x: lib.jnp.arctan(x),
    lambda lib, x: lib.jnp.arcsinh(x),
    lambda lib, x: lib.jnp.sinh(x / 4),
    lambda lib, x: lib.jnp.expm1(x / 4),
    lambda lib, x: 1 / (1 + x * x),
    lambda lib, x: lib.nn.sigmoid(x),
    lambda lib, x: lib.nn.softplus(x),
    lambda lib, x: lib.nn.gelu(x),
    lambda lib, x: lib.lax.erf(x),
    lambda lib, x: lib.lax.rsqrt(x * x + 1),
    lambda lib, x: lib.jnp.logaddexp(x, -x),
    lambda lib, x: lib.jnp.arctan2(x, x * x + 1),
    lambda lib, x: x**3,
    lambda lib, x: lib.jnp.power(x * x + 1, 0.3).astype(x.dtype),
    lambda lib, x: lib.jnp.hypot(x, x * 0 + 1),
    lambda lib, x: lib.jnp.sinc(x / 8 + 3),
    lambda lib, x: lib.lax.integer_pow(x * 0.25 + 2, -2),
)


def _function(r: Run, v: Val) -> Val:
    return approx(one(r.rng, _SMOOTH)(r.lib, v.x))


def _pointwise(r: Run, v: Val) -> Val | None:
    """Functions with jumps: of exact numbers only."""
    if not v.exact or r.smooth:
        return None
    jnp = r.jnp
    name = one(r.rng, ("floor", "ceil", "round", "trunc", "sign", "abs", "fix"))
    if name == "fix":
        return Val(jnp.clip(v.x, -1, 2), True, v.digits)
    return Val(getattr(jnp, name)(v.x), True, v.digits)


def _compared(r: Run, v: Val) -> Val | None:
    w = r.like(v, exact=True)
    if not (v.exact and w.exact):
        return None
    jnp = r.jnp
    if v.kind == "c":
        return Val(v.x == w.x)
    names = ("less", "less_equal", "equal", "not_equal", "greater")
    return Val(getattr(jnp, one(r.rng, names))(v.x, w.x))


def _converted(r: Run, v: Val) -> Val | None:
    target = one(r.rng, DTYPES)
    if r.smooth and v.kind == "f":
        target = one(r.rng, ("float32", "float64"))
    if v.kind == "c":
        return approx(r.jnp.real(v.x))
    if v.kind == "f" and not v.exact and target not in FLOATS:
        return None
    out = v.x.astype(target)
    if target.startswith("complex"):
        return approx(out)
    if target in FLOATS:
        # An unsigned integer may be large, and a conversion of an exact number rounds it.
        small = v.kind in "bi" or v.kind == "f"
        fits = v.exact and small and v.digits <= DIGITS[target] and target not in FLOATS[3:]
        return Val(out, fits, v.digits)
    return Val(out)


def _through(r: Run, v: Val) -> Val | None:
    """To a narrow type and back: the digits must be gone."""
    if r.smooth or not v.exact:
        return None
    narrow = one(r.rng, ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int8"))
    out = (v.x * 3).astype(narrow).astype("float32")
    return Val(out, True, 4)


def _integers(r: Run, v: Val) -> Val:
    jnp, lax, x, y = r.jnp, r.lib.lax, v.x, r.like(v).x
    seven = jnp.asarray(7, x.dtype)
    width = jnp.asarray(3, x.dtype)
    choices: tuple[Callable[[], Any], ...] = (
        *(lambda: x & y, lambda: x | y, lambda: x ^ y, lambda: ~x),
        *(lambda: x << width, lambda: x >> width, lambda: x // width, lambda: x % width),
        *(lambda: jnp.floor_divide(x, y), lambda: jnp.remainder(x, y)),
        *(lambda: lax.population_count(x), lambda: lax.clz(x), lambda: jnp.sign(x)),
        *(lambda: jnp.gcd(x, y), lambda: jnp.lcm(x, seven), lambda: abs(x)),
        *(lambda: lax.shift_right_logical(x, width), lambda: jnp.power(x, 3)),
        *(lambda: jnp.clip(x, 1, 5), lambda: jnp.right_shift(x, y & width)),
        *(lambda: lax.div(x, jnp.maximum(y, 1)), lambda: lax.rem(x, jnp.maximum(y, 1))),
    )
    return Val(one(r.rng, choices)())


def _booleans(r: Run, v: Val) -> Val:
    x, y = v.x, r.like(v).x
    return Val(one(r.rng, (lambda: x & y, lambda: x | y, lambda: ~x, lambda: x ^ y))())


def _complex(r: Run, v: Val) -> Val:
    jnp, x, y = r.jnp, v.x, r.like(v).x
    choices: tuple[Callable[[], Any], ...] = (
        *(lambda: x * y, lambda: x.conj() + y, lambda: jnp.abs(x * x + 1), lambda: x.imag),
        *(lambda: jnp.exp(x * 0.1), lambda: x / (jnp.abs(y) + 2), lambda: jnp.sin(x * 0.2)),
    )
    return approx(one(r.rng, choices)())


def _chosen(r: Run, v: Val) -> Val | None:
    masks = [m for m in r.values if m.kind == "b" and m.shape == v.shape]
    if not masks:
        return None
    w = r.like(v)
    out = r.jnp.where(one(r.rng, masks).x, v.x, w.x)
    return Val(out, v.exact and w.exact, max(v.digits, w.digits))


def _reduced(r: Run, v: Val) -> Val | None:
    if not v.shape or 0 in v.shape:
        return None
    jnp, x = r.jnp, v.x
    axis = one(r.rng, (None, *range(-1, len(v.shape))))
    keep = bool(r.rng.integers(2))
    if v.kind == "b":
        name = one(r.rng, ("any", "all", "sum", "max"))
        return Val(getattr(jnp, name)(x, axis=axis, keepdims=keep))
    if v.kind == "c":
        return approx(getattr(jnp, one(r.rng, ("sum", "mean")))(x, axis=axis, keepdims=keep))
    wide = v.kind in "iu" or v.dtype in ("float32", "float64")
    if v.exact and not r.smooth and r.rng.integers(2):
        name = one(r.rng, ("max", "min", "argmax", "argmin", "ptp", "count_nonzero"))
        if name in ("argmax", "argmin", "count_nonzero"):
            return Val(getattr(jnp, name)(x, axis=axis, keepdims=keep))
        return Val(getattr(jnp, name)(x, axis=axis, keepdims=keep), wide, v.digits)
    name = one(r.rng, ("sum", "prod", "sum", "mean", "var", "norm"))
    if v.kind in "iu":
        return Val(getattr(jnp, one(r.rng, ("sum", "prod")))(x, axis=axis, keepdims=keep))
    if name == "norm":
        return approx(jnp.sqrt(jnp.sum(x * x, axis=axis, keepdims=keep) + 1))
    if name == "prod":
        return approx(jnp.prod(x * 0.25 + 1, axis=axis, keepdims=keep))
    out = getattr(jnp, name)(x, axis=axis, keepdims=keep)
    return Val(out, v.exact and name == "sum" and wide, v.digits)


def _cumulative(r: Run, v: Val) -> Val | None:
    if not v.shape or v.kind == "b":
        return None
    wide = v.dtype not in ("float16", "bfloat16")
    exact = v.exact and v.kind != "c" and wide
    if v.kind in "iuf" and r.rng.integers(2) and not r.smooth:
        lax = r.lib.lax
        function = one(r.rng, (lax.cummax, lax.cummin))
        return Val(function(v.x, axis=r.axis(v), reverse=bool(r.rng.integers(2))), exact, v.digits)
    return Val(r.jnp.cumsum(v.x, axis=r.axis(v), dtype=v.x.dtype), exact, v.digits)


def _arranged(r: Run, v: Val) -> Val:
    jnp, x, n = r.jnp, v.x, len(v.shape)
    choices: list[Callable[[], Any]] = [
        *(lambda: x.reshape(-1), lambda: x[None], lambda: x[..., None]),
        lambda: jnp.transpose(x, [int(i) for i in r.rng.permutation(n)]),
        lambda: jnp.broadcast_to(x, (2, *x.shape)),
        lambda: jnp.ravel(jnp.stack([x, x])),
    ]
    if n:
        axis = r.axis(v)
        shift = int(r.rng.integers(-3, 4))
        choices += [
            *(lambda: jnp.flip(x, axis), lambda: jnp.roll(x, shift, axis)),
            lambda: jnp.concatenate([x, jnp.flip(x, axis)], axis),
            *(lambda: jnp.repeat(x, 2, axis), lambda: jnp.tile(x, 2), lambda: jnp.squeeze(x)),
            lambda: jnp.pad(x, [(int(r.rng.integers(3)), int(r.rng.integers(3)))] * n),
            lambda: jnp.moveaxis(x, axis, 0),
            lambda: jnp.split(x, [min(1, v.shape[axis])], axis)[int(r.rng.integers(2))],
        ]
        if 0 not in v.shape:
            mode = one(r.rng, ("edge", "wrap", "reflect", "symmetric"))
            choices += [lambda: jnp.pad(x, [(1, 2)] * n, mode=mode)]
    if n == 2:
        choices += [lambda: jnp.tril(x), lambda: jnp.triu(x, 1), lambda: jnp.rot90(x)]
        choices += [lambda: jnp.diagonal(x), lambda: x.T]
    if n == 1:
        choices += [lambda: jnp.diag(x)]
    return Val(one(r.rng, choices)(), v.exact, v.digits)


def _cut(r: Run, v: Val) -> Val | None:
    if not v.shape or 0 in v.shape:
        return None
    x, axis = v.x, r.axis(v)
    before, n = (slice(None),) * axis, v.shape[axis]
    a, b = sorted(int(i) for i in r.rng.integers(0, n + 1, 2))
    step = one(r.rng, (1, 1, 2, -1, -2))
    picked = r.indices(n, int(r.rng.integers(1, 5)))
    inside = np.clip(picked, -n, n - 1)
    integers = [i for i in r.values if i.kind == "i" and not i.shape and i.dtype != "int8"]
    choices: list[Callable[[], Any]] = [
        lambda: x[(*before, slice(a, b, step if step > 0 else 1))],
        lambda: x[(*before, slice(None, None, step))],
        lambda: x[(*before, r.place(n))],
        lambda: x[(*before, inside)],
        lambda: r.jnp.take(x, picked, axis=axis, mode=one(r.rng, ("clip", "wrap"))),
        lambda: r.jnp.take(x, np.abs(picked), axis=axis, mode="fill", fill_value=1),
        lambda: x[(*before, None, slice(a, None))],
    ]
    if integers:
        i = one(r.rng, integers).x
        choices += [
            lambda: r.lib.lax.dynamic_slice_in_dim(x, i, max(n - 1, 1), axis),
            lambda: r.lib.lax.dynamic_index_in_dim(x, i, axis, keepdims=False),
            lambda: r.jnp.take(x, i, axis=axis, mode="clip"),
        ]
    return Val(one(r.rng, choices)(), v.exact, v.digits)


def _updated(r: Run, v: Val) -> Val | None:
    if not v.shape or 0 in v.shape:
        return None
    x, n = v.x, v.shape[0]
    count = int(r.rng.integers(1, 4))
    places = r.indices(n, count)
    apart = np.unique(places % n)
    w = r.like(v)
    mode = one(r.rng, ("drop", "clip"))
    source = w.x[np.arange(count) % n]
    kind = one(r.rng, ("set", "add", "add", "multiply", "min", "max", "row", "slice"))
    exact, digits = v.exact and w.exact, max(v.digits, w.digits)
    if kind == "set":
        out = x.at[apart].set(w.x[np.arange(len(apart))[::-1]])
    elif kind == "row":
        out = x.at[r.place(n)].set(w.x[r.place(n)])
    elif kind == "slice":
        out = x.at[1:].set(w.x[:-1]) if n > 1 else x.at[:].set(w.x)
    elif v.kind == "b":
        out = x.at[places].set(True, mode=mode)
    elif v.kind == "c" or r.smooth or kind == "add":
        out = x.at[places].add(source, mode=mode)
        exact = (exact and v.kind in "iu") or (exact and v.dtype in ("float32", "float64"))
    elif kind == "multiply":
        out = x.at[apart].multiply(w.x[: len(apart)])
        exact, digits = exact and v.kind in "iu", v.digits + w.digits
    else:
        out = getattr(x.at[places], kind)(source, mode=mode)
    return Val(out, exact and v.kind != "c", digits)


def _product(r: Run, v: Val) -> Val | None:
    if v.kind == "b" or len(v.shape) not in (1, 2) or 0 in v.shape:
        return None
    jnp, x, y = r.jnp, v.x, r.like(v)
    exact, digits = v.exact and y.exact, v.digits + y.digits
    if len(v.shape) == 1:
        choices = (lambda: jnp.dot(x, y.x), lambda: jnp.outer(x, y.x), lambda: jnp.convolve(x, y.x))
    else:
        choices = (lambda: x @ y.x.T, lambda: x.T @ y.x, lambda: jnp.einsum("ij,ij->i", x, y.x))
    out = one(r.rng, choices)()
    return Val(out, exact and v.dtype not in ("float16", "bfloat16") and v.kind != "c", digits)


def _sorted(r: Run, v: Val) -> Val | None:
    if not v.shape or v.kind == "c" or not v.exact:
        return None
    jnp, x, axis = r.jnp, v.x, r.axis(v)
    if r.smooth:
        return Val(jnp.sort(x, axis=axis), True, v.digits)
    choices: list[Callable[[], Val]] = [
        lambda: Val(jnp.sort(x, axis=axis, descending=bool(r.rng.integers(2))), True, v.digits),
        lambda: Val(jnp.argsort(x, axis=axis)),
        lambda: Val(jnp.take_along_axis(x, jnp.argsort(x, axis=axis), axis), True, v.digits),
    ]
    if 0 not in v.shape and v.kind != "b":
        k = int(r.rng.integers(1, v.shape[-1] + 1))
        choices += [
            lambda: Val(r.lib.lax.top_k(x, k)[0], True, v.digits),
            lambda: Val(r.lib.lax.top_k(x, k)[1]),
            lambda: Val(jnp.searchsorted(jnp.sort(x.reshape(-1)), x).astype("int32")),
        ]
    return one(r.rng, choices)()


def _window(r: Run, v: Val) -> Val | None:
    if len(v.shape) != 2 or 0 in v.shape or v.kind not in "if":
        return None
    lax, x = r.lib.lax, v.x
    size = tuple(int(r.rng.integers(1, n + 1)) for n in v.shape)
    strides = tuple(int(r.rng.integers(1, 4)) for _ in range(2))
    pads = one(r.rng, ("SAME", "VALID"))
    wide = v.dtype not in ("float16", "bfloat16")
    zero = np.zeros((), np.asarray(x.aval.dtype.type(0)).dtype if hasattr(x, "aval") else x.dtype)
    if r.smooth or (v.kind == "f" and r.rng.integers(2)):
        out = lax.reduce_window(x, zero, lax.add, size, strides, pads)
        return Val(out, v.exact and wide, v.digits)
    if not v.exact:
        return None
    return Val(lax.reduce_window(x, zero, lax.max, size, strides, pads), wide, v.digits)


def _softmax(r: Run, v: Val) -> Val | None:
    if not v.shape or 0 in v.shape:
        return None
    nn, x = r.lib.nn, v.x
    axis = r.axis(v)
    choices = (lambda: nn.softmax(x, axis=axis), lambda: nn.log_softmax(x, axis=axis) * 0.2)
    return approx(one(r.rng, (*choices, lambda: nn.logsumexp(x, axis=axis)))())


# ---- loops and branches


def _inner(r: Run, values: Sequence[Val], count: int = 3) -> Val:
    inner = Run(r.lib, r.table, values, r.smooth, r.depth + 1)
    for number in r.rng.integers(1 << 30, size=count):
        inner.step(int(number))
    return inner.values[-1]


def _carried(r: Run, made: Val, v: Val) -> Any:
    """Something of `made` with the type of `v`, for a loop to carry: never exact."""
    x = made.x
    if made.kind == "c" and v.kind != "c":
        x = r.jnp.real(x)
    if not made.exact and v.kind in "biu":
        return v.x
    if made.shape != v.shape:
        x = (
            x.any()
            if made.kind == "b"
            else x.sum(dtype=x.dtype)
            if v.kind != "b"
            else x.ravel()[:1].any()
        )
        x = r.jnp.broadcast_to(x, v.shape)
    return r.bounded(Val(x.astype(v.x.dtype), False)).x


def _loop(r: Run, v: Val) -> Val | None:
    if r.depth or 0 in v.shape:
        return None
    lax, seed = r.lib.lax, int(r.rng.integers(1 << 30))
    others = [one(r.rng, r.values) for _ in range(2)]
    is_exact = v.kind in "biu"

    def body(c: Any, extra: Any) -> Any:
        r.rng = np.random.default_rng(seed)
        carry = Val(c, is_exact)
        made = _inner(r, [carry, *others, Val(extra)])
        return _carried(r, made, v)

    kind = one(r.rng, ("scan", "fori", "while", "cond", "switch", "map"))
    if r.smooth and kind == "while":
        kind = "scan"
    if kind == "scan":
        out = lax.scan(lambda c, i: (body(c, i), None), v.x, np.arange(3, dtype=np.int32))[0]
    elif kind == "fori":
        out = lax.fori_loop(0, 3, lambda i, c: body(c, r.jnp.asarray(i, "int32")), v.x)
    elif kind == "while":
        out = lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, body(s[1], s[0])), (r.jnp.int32(0), v.x)
        )[1]
    elif kind == "map":
        out = lax.map(lambda i: body(v.x, i), np.arange(2, dtype=np.int32))
    else:
        tests = [t.x for t in r.values if t.kind in "biu" and 0 not in t.shape]
        test = one(r.rng, tests).any() if tests else r.jnp.asarray(True)
        two = r.jnp.int32(2)
        branches = (lambda c: body(c, two), lambda c: c)
        if kind == "cond":
            out = lax.cond(test, *branches, v.x)
        else:
            out = lax.switch(test.astype("int32"), branches, v.x)
    return Val(out, is_exact, 0)


def _mapped(r: Run, v: Val) -> Val | None:
    """An inner vmap."""
    if r.depth or not v.shape or 0 in v.shape:
        return None
    seed = int(r.rng.integers(1 << 30))
    axis = r.axis(v)
    other = one(r.rng, r.values)
    flags: list[tuple[bool, int]] = []

    def body(row: Any) -> Any:
        r.rng = np.random.default_rng(seed)
        made = _inner(r, [Val(row, v.exact, v.digits), other])
        flags.append((made.exact, made.digits))
        return made.x

    out = r.lib.jax.vmap(body, in_axes=axis)(v.x)
    return Val(out, *flags[-1])


_ANY: tuple[Step, ...] = (
    *(_arranged, _arranged, _cut, _cut, _updated, _updated, _reduced, _chosen, _converted),
    *(_loop, _mapped),
)
STEPS: Table = {
    "b": (*_ANY, _booleans, _booleans, _sorted),
    "i": (
        *_ANY,
        _integers,
        _integers,
        _integers,
        _arithmetic,
        _scaled,
        _compared,
        _cumulative,
        _product,
        _sorted,
        _window,
    ),
    "u": (
        *_ANY,
        _integers,
        _integers,
        _integers,
        _arithmetic,
        _compared,
        _cumulative,
        _product,
        _sorted,
    ),
    "f": (
        *_ANY,
        _arithmetic,
        _arithmetic,
        _function,
        _function,
        _function,
        _scaled,
        _pointwise,
        _compared,
        _through,
        _through,
        _cumulative,
        _product,
        _sorted,
        _window,
        _softmax,
    ),
    "c": (*_ANY, _complex, _complex, _arithmetic, _product, _cumulative),
}


def run(lib: Library, program: Sequence[int], arrays: Sequence[Any], smooth: bool) -> Made:
    """What a program makes of its operands; `smooth` ones are differentiable."""
    given = [start(x) for x in arrays]
    state = Run(lib, STEPS, given, smooth)
    for number in program:
        state.step(number)
    return state.values[len(given) :]
