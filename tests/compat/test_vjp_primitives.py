"""`VJPHiPrimitive`: operations on arrays and on pairs of arrays, with rules of their own."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.compat import modules
from xpr.compat.modules._src.hijax import MappingSpec
from xpr.compat.modules.experimental import hijax
from xpr.interpreters.zeros import Zero


class Power(hijax.VJPHiPrimitive):
    """Its derivatives are ten and a hundred times too large, to be told from those of `expand`."""

    power: int

    def __init__(self, aval: Any, power: int) -> None:
        self.in_avals = (aval,)
        self.out_aval = aval
        self.params = {"power": power}
        super().__init__()

    def expand(self, x: Any) -> Any:
        return x**self.power

    def vjp_fwd(self, nzs_in: Any, x: Any) -> Any:
        return self(x), x

    def vjp_bwd_retval(self, res: Any, outgrad: Any) -> Any:
        return (10 * self.power * res ** (self.power - 1) * outgrad,)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        (x,), (moved,) = primals, tangents
        return self(x), 100 * self.power * x ** (self.power - 1) * moved

    def batch_dim_rule(self, axis_data: Any, dims: Any) -> Any:
        return dims[0]


def power(x: Any, n: int) -> Any:
    return Power(modules.typeof(x), n)(x)


X = jnp.arange(4.0)


def test_values() -> None:
    assert float(power(jnp.float32(3), 2)) == 9
    assert float(xpr.jit(lambda x: power(x, 3))(2.0)) == 8
    assert "call_hi_primitive" in str(xpr.make_jaxpr(lambda x: power(x, 3))(2.0))
    out, _ = xpr.lax.scan(lambda c, x: (power(c, 2) * x, None), 2.0, jnp.array([1.0, 2.0]))
    assert float(out) == 32


def test_derivatives_are_those_of_the_rules() -> None:
    def f(x: Any) -> Any:
        return power(x, 3) * 2

    for g in (xpr.grad(f), xpr.grad(xpr.jit(f)), xpr.jit(xpr.grad(f))):
        assert float(g(2.0)) == 10 * 2 * 3 * 4
    out, moved = xpr.jvp(f, (2.0,), (1.0,))
    assert [float(out), float(moved)] == [16, 100 * 2 * 3 * 4]

    def steps(c: Any) -> Any:
        return xpr.lax.scan(lambda c, x: (power(c, 2) * x, None), c, jnp.array([1.0, 2.0]))[0]

    # 2 (c^2)^2 by two steps, each of which has ten times its derivative.
    assert float(xpr.grad(steps)(2.0)) == 100 * 8 * 2.0**3


def test_batches() -> None:
    cubes = np.arange(4.0) ** 3
    np.testing.assert_array_equal(xpr.vmap(lambda x: power(x, 3))(X), cubes)
    slopes = 30 * np.arange(4.0) ** 2
    np.testing.assert_array_equal(xpr.vmap(xpr.grad(lambda x: power(x, 3)))(X), slopes)
    total = xpr.grad(lambda x: xpr.vmap(lambda x: power(x, 3))(x).sum())
    np.testing.assert_array_equal(total(X), slopes)
    square = X.reshape(2, 2)
    twice = xpr.vmap(xpr.vmap(lambda x: power(x, 3)))
    np.testing.assert_array_equal(twice(square), cubes.reshape(2, 2))
    both = xpr.vmap(xpr.vmap(xpr.grad(lambda x: power(x, 3))), in_axes=1, out_axes=1)
    np.testing.assert_array_equal(both(square), slopes.reshape(2, 2))


class Scaled(hijax.VJPHiPrimitive):
    """x y, whose derivatives say by their factor which rule they are from."""

    def __init__(self, x: Any, y: Any) -> None:
        self.in_avals = (x, y)
        self.out_aval = x
        self.params = {}
        super().__init__()

    def expand(self, x: Any, y: Any) -> Any:
        return x * y

    def batch_dim_rule(self, axis_data: Any, dims: Any) -> Any:
        return dims[0]


class ScaledJvp(Scaled):
    def jvp(self, primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        return self(x, y), 10 * (dx * y + x * dy)


class ScaledLin(Scaled):
    def lin(self, nzs_in: Any, x: Any, y: Any) -> Any:
        return self(x, y), (x, y)

    def linearized(self, residuals: Any, dx: Any, dy: Any) -> Any:
        x, y = residuals
        parts = [t * other for t, other in ((dx, y), (dy, x)) if type(t) is not Zero]
        return 10 * sum(parts[1:], parts[0])


class ScaledBwd(Scaled):
    def vjp_fwd(self, nzs_in: Any, x: Any, y: Any) -> Any:
        return self(x, y), (x, y)

    def vjp_bwd(self, res: Any, outgrad: Any, x_accum: Any, y_accum: Any) -> None:
        x, y = res
        x_accum.accum(4 * outgrad * y)
        x_accum.accum(6 * outgrad * y)
        y_accum.accum(10 * outgrad * x)


@pytest.mark.parametrize("cls", [ScaledJvp, ScaledLin, ScaledBwd])
def test_derivatives_of_batches(cls: Any) -> None:
    def scaled(x: Any, y: Any) -> Any:
        return cls(modules.typeof(x), modules.typeof(y))(x, y)

    x, y = np.arange(3, dtype=np.float32), np.float32(5)

    def total(x: Any, y: Any) -> Any:
        return xpr.vmap(scaled, in_axes=(0, None))(x, y).sum()

    for run in (xpr.grad(total, (0, 1)), xpr.jit(xpr.grad(total, (0, 1)))):
        dx, dy = run(x, y)
        np.testing.assert_array_equal(dx, [50, 50, 50])
        assert float(dy) == 10 * x.sum()
    for argnum, expected in ((0, [50, 50, 50]), (1, 10 * x.sum())):
        np.testing.assert_array_equal(xpr.grad(total, argnum)(x, y), expected)

    rows = np.arange(6, dtype=np.float32).reshape(2, 3)

    def nested(rows: Any, y: Any) -> Any:
        return xpr.vmap(xpr.vmap(scaled, in_axes=(0, None)), in_axes=(1, None))(rows, y).sum()

    dx, dy = xpr.grad(nested, (0, 1))(rows, y)
    np.testing.assert_array_equal(dx, np.full((2, 3), 50))
    assert float(dy) == 10 * rows.sum()


def test_derivatives_of_batches_without_a_rule() -> None:
    def total(x: Any) -> Any:
        return xpr.vmap(lambda x: Scaled(modules.typeof(x), modules.typeof(x))(x, x))(x).sum()

    with pytest.raises(NotImplementedError, match=r"for grad support, .*Scaled.* `vjp_fwd`"):
        xpr.grad(total)(X)


def test_errors() -> None:
    class Bare(hijax.VJPHiPrimitive):
        def __init__(self) -> None:
            self.in_avals = (modules.typeof(1.0),)
            self.out_aval = modules.typeof(1.0)
            self.params = {}
            super().__init__()

    class Both(Bare):
        def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None: ...
        def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any: ...

    class Nothing(hijax.VJPHiPrimitive): ...

    with pytest.raises(AttributeError, match=r"should set `self\.in_avals`"):
        Nothing()
    with pytest.raises(AttributeError, match="should not override both"):
        Both()
    bare = Bare()
    with pytest.raises(NotImplementedError, match="must implement `expand`"):
        bare(1.0)
    with pytest.raises(NotImplementedError, match=r"for grad support, .* must implement `vjp_fwd`"):
        xpr.grad(bare)(1.0)
    with pytest.raises(NotImplementedError, match=r"for jvp support, .* must implement `jvp`"):
        xpr.jvp(bare, (1.0,), (1.0,))
    with pytest.raises(NotImplementedError, match="for vmap support"):
        xpr.vmap(bare)(jnp.ones(2))
    with pytest.raises(TypeError, match="should have the structure"):
        bare(1.0, 2.0)
    with pytest.raises(NotImplementedError, match="gives no derivatives forwards"):
        xpr.linearize(lambda x: power(x, 2), 2.0)[1](1.0)


@dataclasses.dataclass(frozen=True)
class Places(MappingSpec):
    of: tuple[int | None, ...]


@dataclasses.dataclass(frozen=True)
class PairType(hijax.HiType):
    parts: tuple[Any, ...]

    def lo_ty(self) -> list[Any]:
        return list(self.parts)

    def lower_val(self, hi_val: Any) -> list[Any]:
        return list(hi_val.parts)

    def raise_val(self, *lo_vals: Any) -> Any:
        return Pair(lo_vals)

    def to_tangent_aval(self) -> Any:
        return self

    def vspace_zero(self) -> Any:
        return Pair(tuple(jnp.zeros(t.shape, t.dtype) for t in self.parts))

    def vspace_add(self, x: Any, y: Any) -> Any:
        return make(*(part(x, i) + part(y, i) for i in range(len(self.parts))))

    def dec_rank(self, size: int | None, spec: Any) -> Any:
        pairs = zip(self.parts, spec.of, strict=True)
        return PairType(tuple(t if d is None else _without(t, d) for t, d in pairs))

    def inc_rank(self, size: int | None, spec: Any) -> Any:
        pairs = zip(self.parts, spec.of, strict=True)
        return PairType(tuple(t if d is None else _with(t, d, size) for t, d in pairs))

    def leading_axis_spec(self) -> Any:
        return Places((0,) * len(self.parts))


def _without(t: Any, d: int) -> Any:
    return hijax.ShapedArray((*t.shape[:d], *t.shape[d + 1 :]), t.dtype)


def _with(t: Any, d: int, size: int | None) -> Any:
    return hijax.ShapedArray((*t.shape[:d], size, *t.shape[d:]), t.dtype)  # type: ignore[arg-type]


# Attributes of the type's, by names that tracers may have for what is their own.
NAMES = ("primal", "tangent", "val", "dim", "concrete", "source_info")
for _name in NAMES:
    setattr(PairType, _name, hijax.aval_property(lambda p: len(p.aval.parts)))


@dataclasses.dataclass
class Pair:
    parts: tuple[Any, ...]


hijax.register_hitype(Pair, lambda p: PairType(tuple(map(modules.typeof, p.parts))))


class Make(hijax.VJPHiPrimitive):
    def __init__(self, avals: tuple[Any, ...]) -> None:
        self.in_avals = avals
        self.out_aval = PairType(avals)
        self.params = {}
        super().__init__()

    def expand(self, *parts: Any) -> Any:
        return Pair(parts)

    def vjp_fwd(self, nzs_in: Any, *parts: Any) -> Any:
        return make(*parts), None

    def vjp_bwd_retval(self, res: Any, outgrad: Any) -> Any:
        return tuple(part(outgrad, i) for i in range(len(self.in_avals)))

    def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
        return make(*args), Places(tuple(dims))


class Part(hijax.VJPHiPrimitive):
    i: int

    def __init__(self, aval: Any, i: int) -> None:
        self.in_avals = (aval,)
        self.out_aval = aval.parts[i]
        self.params = {"i": i}
        super().__init__()

    def expand(self, pair: Any) -> Any:
        return pair.parts[self.i]

    def vjp_fwd(self, nzs_in: Any, pair: Any) -> Any:
        return part(pair, self.i), None

    def vjp_bwd_retval(self, res: Any, outgrad: Any) -> Any:
        parts = [jnp.zeros(t.shape, t.dtype) for t in self.in_avals[0].parts]
        parts[self.i] = outgrad
        return (make(*parts),)

    def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
        return part(args[0], self.i), dims[0].of[self.i]


def make(*parts: Any) -> Any:
    return Make(tuple(modules.typeof(x) for x in parts))(*parts)


def part(pair: Any, i: int) -> Any:
    return Part(modules.typeof(pair), i)(pair)


def assert_parts(pair: Any, *expected: Any) -> None:
    assert isinstance(pair, Pair)
    for x, y in zip(pair.parts, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def pair_of_tests() -> Any:
    return make(jnp.float32(2), jnp.arange(3.0))


def test_pairs_in_programs() -> None:
    swap = xpr.jit(lambda p: make(part(p, 1) * 2, part(p, 0)))
    assert_parts(swap(pair_of_tests()), [0, 2, 4], 2)


def test_derivatives_with_respect_to_pairs() -> None:
    def f(p: Any) -> Any:
        return part(p, 0) ** 2 + (part(p, 1) ** 3).sum()

    for g in (xpr.grad(f), xpr.jit(xpr.grad(f)), xpr.grad(xpr.jit(f))):
        assert_parts(g(pair_of_tests()), 4, [0, 3, 12])
    unused = xpr.grad(lambda p: jnp.float32(1))
    assert_parts(unused(pair_of_tests()), 0, [0, 0, 0])

    def branch(p: Any) -> Any:
        return xpr.lax.cond(True, lambda p: make(part(p, 0) * 2, part(p, 1)), lambda p: p, p)

    chosen = xpr.grad(lambda p: part(branch(p), 0))
    assert_parts(chosen(pair_of_tests()), 2, [0, 0, 0])


def test_batches_of_pairs() -> None:
    places = Places((None, 0))

    def f(p: Any) -> Any:
        return make(part(p, 0) * 2, part(p, 1) * 3)

    for g in (f, xpr.jit(f)):
        run = xpr.vmap(g, in_axes=places, out_axes=places, axis_size=3)
        assert_parts(run(pair_of_tests()), 4, [0, 3, 6])
    products = xpr.vmap(lambda p: part(p, 0) * part(p, 1), in_axes=(places,), axis_size=3)
    np.testing.assert_array_equal(products(pair_of_tests()), [0, 2, 4])
    with pytest.raises(NotImplementedError, match="cannot be made one that is mapped over by"):
        xpr.vmap(f, in_axes=places, out_axes=Places((0, 0)), axis_size=3)(pair_of_tests())


@pytest.mark.parametrize("run", [lambda f: f, xpr.jit])
def test_scans_over_pairs(run: Any) -> None:
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)

    def body(c: Any, p: Any) -> Any:
        return c + part(p, 0), make(part(p, 1), c)

    total, out = run(lambda p: xpr.lax.scan(body, jnp.float32(0), p, length=3))(
        make(jnp.arange(3.0), jnp.asarray(rows))
    )
    assert float(total) == 3
    assert_parts(out, rows, [0, 0, 1])


@pytest.mark.parametrize("name", NAMES)
def test_attributes_are_those_of_the_type(name: str) -> None:
    def f(p: Any) -> Any:
        return getattr(p, name) * part(p, 0)

    assert float(xpr.jit(f)(pair_of_tests())) == 4
    assert_parts(xpr.grad(f)(pair_of_tests()), 2, [0, 0, 0])
    assert_parts(xpr.grad(xpr.jit(f))(pair_of_tests()), 2, [0, 0, 0])
    pairs = make(jnp.arange(3.0), jnp.ones((3, 2)))
    mapped = xpr.vmap(f, in_axes=(Places((0, 0)),), axis_size=3)
    np.testing.assert_array_equal(mapped(pairs), [0, 2, 4])


def test_derivatives_of_scans_over_pairs() -> None:
    def products(p: Any, start: Any) -> Any:
        def body(c: Any, q: Any) -> Any:
            return c + part(q, 0) * part(q, 1), None

        return xpr.lax.scan(body, start, p, length=3)[0]

    pairs = make(jnp.arange(3.0), jnp.array([5.0, 7.0, 9.0]))
    for run in (xpr.grad(products), xpr.jit(xpr.grad(products)), xpr.grad(xpr.jit(products))):
        assert_parts(run(pairs, jnp.float32(0)), [5, 7, 9], [0, 1, 2])

    def stacked(x: Any) -> Any:
        def body(c: Any, q: Any) -> Any:
            return c, make(part(q, 1) * c, part(q, 0))

        out = xpr.lax.scan(body, x, pairs, length=3)[1]
        return (part(out, 0) * jnp.array([1.0, 10.0, 100.0])).sum()

    assert float(xpr.grad(stacked)(jnp.float32(2))) == 5 + 70 + 900
    assert float(xpr.jit(xpr.grad(stacked))(jnp.float32(2))) == 5 + 70 + 900

    def closed_over(p: Any) -> Any:
        return xpr.lax.scan(lambda c, x: (c + part(p, 0) * x, None), jnp.float32(0), X)[0]

    assert_parts(xpr.grad(closed_over)(make(jnp.float32(2))), 6)
    assert_parts(xpr.jit(xpr.grad(closed_over))(make(jnp.float32(2))), 6)


def test_the_size_of_a_batch_of_pairs() -> None:
    places = Places((0,))

    def first(p: Any) -> Any:
        return part(p, 0)

    pairs = make(jnp.arange(3.0))
    found = xpr.vmap(first, in_axes=(places,), axis_size=3)(pairs)
    np.testing.assert_array_equal(found, np.arange(3))
    with pytest.raises(ValueError, match=r"vmap of .*first over 5 examples: .*PairType"):
        xpr.vmap(first, in_axes=(places,), axis_size=5)(pairs)
    with pytest.raises(ValueError, match=r"over 4 examples: .*PairType"):
        xpr.vmap(lambda p, x: part(p, 0) + x, in_axes=(places, 0))(pairs, X)
    with pytest.raises(ValueError, match="the `axis_size` argument was 5"):
        xpr.vmap(lambda p, x: part(p, 0) + x, in_axes=(places, 0), axis_size=5)(pairs, X)


def test_batches_of_branches_and_loops_that_give_pairs() -> None:
    def chosen(flag: Any, x: Any) -> Any:
        return part(xpr.lax.cond(flag, lambda: make(x), lambda: make(2 * x)), 0)

    flags, ones = jnp.arange(3) > 1, jnp.ones(3)
    for axes, where in (((0, None), "cond with an index"), ((None, 0), "cond with values of the")):
        args = (flags, 1.0) if axes[0] == 0 else (True, ones)
        with pytest.raises(NotImplementedError, match=f"vmap of {where}"):
            xpr.vmap(chosen, in_axes=axes)(*args)

    def looped(n: Any, x: Any) -> Any:
        def step(state: Any) -> Any:
            i, p = state
            return i + 1, make(part(p, 0) + x)

        return part(xpr.lax.while_loop(lambda s: s[0] < n, step, (0, make(jnp.float32(0))))[1], 0)

    with pytest.raises(NotImplementedError, match="vmap of while_loop with values of the high"):
        xpr.vmap(looped, in_axes=(None, 0))(2, ones)
    ends = r"while_loop .* end at different steps: examples cannot choose between values"
    with pytest.raises(NotImplementedError, match=ends):
        xpr.vmap(looped, in_axes=(0, None))(jnp.arange(3), jnp.float32(1))

    # What is given to all examples alike may be of a high type.
    def scaled(flag: Any, x: Any) -> Any:
        pair = make(jnp.float32(3))
        return xpr.lax.cond(flag, lambda p, x: part(p, 0) * x, lambda p, x: x, pair, x)

    np.testing.assert_array_equal(xpr.vmap(scaled)(flags, jnp.arange(3.0)), [0, 1, 6])


def test_batches_of_scans_over_pairs() -> None:
    places = Places((0, None))

    def steps(p: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            return c + part(p, 0) * x, None

        return xpr.lax.scan(body, jnp.float32(0), part(p, 1))[0]

    # What is closed over differs between examples.
    for f in (steps, xpr.jit(steps)):
        found = xpr.vmap(f, in_axes=(places,), axis_size=2)(make(jnp.array([2.0, 3.0]), X))
        np.testing.assert_array_equal(found, [12, 18])

    def over(p: Any) -> Any:
        return xpr.lax.scan(lambda c, q: (c + part(q, 0), None), 0.0, p, length=2)[0]

    def carried(x: Any) -> Any:
        start = make(jnp.float32(0))
        return xpr.lax.scan(lambda c, _: (make(part(c, 0) + x), None), start, None, length=2)[0]

    def given(x: Any) -> Any:
        return xpr.lax.scan(lambda c, _: (c, make(x)), 0.0, None, length=2)[1]

    pairs = make(jnp.zeros((2, 2)))
    for f, args in ((over, pairs), (carried, jnp.ones(2)), (given, jnp.ones(2))):
        axes = Places((0,)) if f is over else 0
        with pytest.raises(NotImplementedError, match=r"vmap of scan with values of the high type"):
            xpr.vmap(f, in_axes=(axes,), axis_size=2)(args)


def test_parts_on_devices() -> None:
    """Operations on arrays inside the programs of each device."""
    devices = xpr.devices("cpu")[:2]
    assert len(devices) == 2
    mesh = xpr.sharding.Mesh(np.array(devices), ("x",))

    def local(x: Any) -> Any:
        cubes = power(x, 3)
        start = xpr.lax.cond(x[0] > 0, lambda c: power(c, 2), lambda c: c, cubes[0])
        return cubes + np.arange(2.0, dtype=np.float32), xpr.lax.psum(start, "x")

    spec = xpr.P("x")
    f = xpr.shard_map(local, mesh=mesh, in_specs=spec, out_specs=(spec, xpr.P()))
    for run in (f, xpr.jit(f), xpr.jit(lambda x: f(power(x, 1)))):
        cubes, total = run(X)
        np.testing.assert_array_equal(cubes, [0, 2, 8, 28])
        assert float(total) == 0 + 8**2

    slope = xpr.grad(lambda x: f(x)[0].sum())
    for run in (slope, xpr.jit(slope)):
        np.testing.assert_array_equal(run(X), 30 * np.arange(4.0) ** 2)

    mapped = xpr.pmap(lambda x: power(x, 3), devices=devices)
    np.testing.assert_array_equal(mapped(X[2:]), [8, 27])

    pair = pair_of_tests()

    def closes_over(x: Any) -> Any:
        return x + part(pair, 0)

    g = xpr.shard_map(closes_over, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    with pytest.raises(NotImplementedError, match="shard_map: values of high types"):
        g(X)
