"""Primitives that programs define, by the calls of `jax.extend.core` and `jax.interpreters`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.compat.modules import api_util, monitoring
from xpr.compat.modules.core import (
    ShapedArray,
    get_opaque_trace_state,
    max_dim,
    min_dim,
    trace_state_clean,
)
from xpr.compat.modules.extend import backend, core, linear_util
from xpr.compat.modules.extend import random as extend_random
from xpr.compat.modules.interpreters import ad, batching, mlir, partial_eval
from xpr.interpreters.zeros import Zero


def scaled_sum() -> core.Primitive:
    """`x * y + y`, with all its rules, as a program would give them."""
    p = core.Primitive("scaled_sum")
    p.def_impl(lambda x, y: x * y + y)
    p.def_abstract_eval(lambda x, y: ShapedArray(x.shape, x.dtype))

    def jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        dx, dy = ad.instantiate_zeros(dx), ad.instantiate_zeros(dy)
        return p.bind(x, y), dx * y + x * dy + dy

    ad.primitive_jvps[p] = jvp
    batching.defbroadcasting(p)
    mlir.register_lowering(p, mlir.lower_fun(lambda x, y: x * y + y, multiple_results=False))
    return p


X = np.linspace(-1, 2, 6, dtype=np.float32)
Y = np.linspace(3, 1, 6, dtype=np.float32)


def test_a_primitive_with_all_rules() -> None:
    p = scaled_sum()

    def f(x: Any, y: Any) -> Any:
        return p.bind(x, y)

    np.testing.assert_allclose(f(X, Y), X * Y + Y, rtol=1e-6)
    np.testing.assert_allclose(xpr.jit(f)(X, Y), X * Y + Y, rtol=1e-6)
    assert "scaled_sum a b" in str(xpr.make_jaxpr(f)(X, Y))
    gx, gy = xpr.jit(xpr.grad(lambda x, y: f(x, y).sum(), argnums=(0, 1)))(X, Y)
    np.testing.assert_allclose(gx, Y, rtol=1e-6)
    np.testing.assert_allclose(gy, X + 1, rtol=1e-6)
    both = xpr.vmap(f, in_axes=(0, None))(np.stack([X, Y]), Y)
    np.testing.assert_allclose(both, np.stack([X * Y + Y, Y * Y + Y]), rtol=1e-6)


def test_rules_that_are_missing_are_named() -> None:
    p = core.Primitive("bare")
    with pytest.raises(NotImplementedError, match="Evaluation rule for 'bare' not implemented"):
        p.bind(X)
    with pytest.raises(NotImplementedError, match="Abstract evaluation for 'bare'"):
        xpr.make_jaxpr(p.bind)(X)
    p.def_abstract_eval(lambda x: x)
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'bare' not implem"):
        xpr.jvp(p.bind, (X,), (X,))
    with pytest.raises(NotImplementedError, match="Batching rule for 'bare' not implemented"):
        xpr.vmap(p.bind)(X)
    with pytest.raises(NotImplementedError, match="MLIR translation rule for primitive 'bare' not"):
        xpr.jit(p.bind)(X)
    assert p not in ad.primitive_jvps


def test_linear_and_bilinear_primitives() -> None:
    double = core.Primitive("double")
    double.def_impl(lambda x: np.multiply(x, 2))
    double.def_abstract_eval(lambda x: x)
    ad.deflinear2(double, lambda ct, x: [ad.Zero(x.aval) if type(ct) is Zero else 2 * ct])
    mlir.register_lowering(double, mlir.lower_fun(lambda x: x + x, multiple_results=False))
    loss = xpr.jit(xpr.grad(lambda x: (double.bind(x) ** 2).sum()))
    np.testing.assert_allclose(loss(X), 8 * X, rtol=1e-6)

    dot = core.Primitive("dot")
    dot.def_impl(lambda x, y: jnp.dot(x, y))
    dot.def_abstract_eval(lambda x, y: ShapedArray((), x.dtype))
    mlir.register_lowering(dot, mlir.lower_fun(jnp.dot, multiple_results=False))
    ad.defbilinear(dot, lambda ct, x, y: ct * y, lambda ct, x, y: ct * x)
    gx, gy = xpr.jit(xpr.grad(dot.bind, argnums=(0, 1)))(X, Y)
    np.testing.assert_allclose(gx, Y)
    np.testing.assert_allclose(gy, X)

    cube = core.Primitive("cube")
    cube.def_impl(lambda x: x**3)
    cube.def_abstract_eval(lambda x: x)
    ad.defjvp(cube, lambda t, x: 3 * x**2 * t)
    np.testing.assert_allclose(xpr.jvp(cube.bind, (X,), (Y,))[1], 3 * X**2 * Y, rtol=1e-5)


def test_several_results_and_effects() -> None:
    p = core.Primitive("both_ends", multiple_results=True)
    p.def_impl(lambda x: [x[:1], x[-1:]])
    p.def_effectful_abstract_eval(lambda x: ([x.update(shape=(1,))] * 2, core.no_effects))
    mlir.register_lowering(p, mlir.lower_fun(lambda x: [x[:1], x[-1:]]))
    low, high = xpr.jit(p.bind)(X)
    np.testing.assert_array_equal(np.concatenate([low, high]), X[[0, -1]])
    low, high = p.bind(jnp.asarray(X))
    np.testing.assert_array_equal(np.concatenate([low, high]), X[[0, -1]])


def test_two_primitives_of_one_name() -> None:
    def make(number: float) -> Callable[..., Any]:
        p = core.Primitive("same")
        p.def_abstract_eval(lambda x: x)
        mlir.register_lowering(p, mlir.lower_fun(lambda x: x * number, multiple_results=False))
        return p.bind

    two, three = make(2.0), make(3.0)
    np.testing.assert_allclose(xpr.jit(lambda x: (two(x), three(x)))(X), [2 * X, 3 * X])


def test_the_tables_hold_the_rules_of_all_primitives() -> None:
    sin = core.primitives.sin_p
    assert sin in ad.primitive_jvps
    assert sin not in ad.primitive_transposes
    assert core.primitives.mul_p in ad.primitive_transposes
    _, tangent = ad.primitive_jvps[sin]([jnp.asarray(X)], [jnp.asarray(Y)])
    np.testing.assert_allclose(tangent, np.cos(X) * Y, rtol=1e-5)
    stacked = np.stack([X, Y], 1)
    out, dim = batching.primitive_batchers[core.primitives.reduce_sum_p](
        [jnp.asarray(stacked)], [1], axes=(0,), out_sharding=None
    )
    np.testing.assert_allclose(np.moveaxis(out, dim, 0), stacked.sum(0), rtol=1e-6)
    assert getattr(xpr.lax, "sin_p") is sin  # noqa: B009  made when it is asked for
    assert getattr(xpr.lax, "scatter_add_p").name == "scatter-add"  # noqa: B009
    with pytest.raises(AttributeError, match="xpr has no primitive 'sinus_p'"):
        core.primitives.sinus_p  # noqa: B018


def test_an_interpreter_written_on_jaxprs() -> None:
    inverses = {"exp": np.log, "tanh": np.arctanh}

    def invert(f: Callable[..., Any], y: Any) -> Any:
        jaxpr = xpr.make_jaxpr(f)(y).jaxpr
        env = dict(zip(jaxpr.outvars, [y], strict=True))
        for eqn in reversed(jaxpr.eqns):
            assert not isinstance(eqn.invars[0], core.Literal)
            env[eqn.invars[0]] = inverses[eqn.primitive.name](env[eqn.outvars[0]])
        return env[jaxpr.invars[0]]

    x = np.array([0.1, 0.4], np.float32)
    y = np.exp(np.tanh(x))
    np.testing.assert_allclose(invert(lambda v: jnp.exp(jnp.tanh(v)), y), x, rtol=1e-5)


def test_wrapped_functions() -> None:
    @linear_util.transformation2
    def negated(f: Callable[..., Any], *args: Any) -> Any:
        return [-x for x in f(*args)]

    @linear_util.transformation_with_aux
    def counted(*args: Any) -> Any:
        found = yield args, {}
        yield found, len(args)

    plain = linear_util.wrap_init(lambda x, y: [x + y])
    wrapped, count = counted(negated(plain))
    with pytest.raises(linear_util.StoreException):
        count()
    assert wrapped.call_wrapped(2, 3) == [-5]
    assert count() == 2

    leaves, tree = xpr.tree_util.tree_flatten(({"a": 1.0, "b": 2.0}, 3.0))
    flat, out_tree = api_util.flatten_fun_nokwargs(
        linear_util.wrap_init(lambda d, c: {"sum": d["a"] + d["b"] + c}), tree
    )
    jaxpr, types, consts = partial_eval.trace_to_jaxpr_dynamic(
        flat, [ShapedArray((), np.dtype("float32"))] * len(leaves)
    )
    assert len(jaxpr.eqns) == 2
    assert types[0].shape == ()
    assert not consts
    assert xpr.tree_util.tree_unflatten(out_tree(), [1]) == {"sum": 1}


def test_wrapped_functions_are_differentiated() -> None:
    plain = linear_util.wrap_init(lambda x, y: [jnp.sin(x) * y, y])
    zero = ad.Zero(ShapedArray((), np.dtype("float32")))
    out, moved = ad.jvp(plain).call_wrapped((2.0, 3.0), (jnp.float32(1), zero))
    np.testing.assert_allclose(out, [3 * np.sin(2), 3], rtol=1e-6)
    np.testing.assert_allclose(moved, [3 * np.cos(2), 0], rtol=1e-6)
    _, moved = ad.jvp(plain, instantiate=False).call_wrapped((2.0, 3.0), (jnp.float32(1), zero))
    assert isinstance(moved[1], ad.Zero)
    with_aux, aux = ad.jvp(linear_util.wrap_init(lambda x: ([x * x], "more")), has_aux=True)
    _, moved = with_aux.call_wrapped((3.0,), (jnp.float32(1),))
    assert (float(moved[0]), aux()) == (6.0, "more")


def test_what_is_known_is_computed() -> None:
    def f(x: Any, y: Any) -> list[Any]:
        return [jnp.sin(x), jnp.sin(x) * y]

    known = partial_eval.PartialVal.known(jnp.asarray(X))
    unknown = partial_eval.PartialVal.unknown(ShapedArray((6,), np.dtype("float32")))
    jaxpr, out, consts = partial_eval.trace_to_jaxpr_nounits(
        linear_util.wrap_init(f), [known, unknown]
    )
    assert [v.is_known() for v in out] == [True, False]
    np.testing.assert_allclose(out[0].get_known(), np.sin(X), rtol=1e-6)
    assert [e.primitive.name for e in jaxpr.eqns] == ["mul"]
    assert len(consts) == 1
    assert out[1].get_aval().shape == (6,)


def test_states_of_tracing() -> None:
    outside = get_opaque_trace_state(convention="flax")
    assert trace_state_clean()
    assert outside == get_opaque_trace_state()
    found = []

    def f(x: Any) -> Any:
        found.append((trace_state_clean(), get_opaque_trace_state() == outside))
        found.append(core.unsafe_am_i_under_a_jit_DO_NOT_USE())
        return x

    xpr.jit(f)(X)
    xpr.vmap(f)(X)
    assert found == [(False, False), True, (False, False), False]


def test_monitoring() -> None:
    seen: list[Any] = []
    events = {
        "event": lambda name, **kw: seen.append((name, kw)),
        "seconds": lambda name, value, **kw: seen.append((name, value, kw)),
    }
    monitoring.register_event_listener(events["event"])
    monitoring.register_event_duration_secs_listener(events["seconds"])
    monitoring.record_event("/a", k=1)
    monitoring.record_event_duration_secs("/b", 0.5)
    monitoring.unregister_event_listener(events["event"])
    monitoring.record_event("/a")
    monitoring.unregister_event_duration_listener(events["seconds"])
    assert seen == [("/a", {"k": 1}), ("/b", 0.5, {})]
    with pytest.raises(ValueError, match="not in list"):
        monitoring.unregister_event_listener(events["event"])


@pytest.mark.parametrize("name", ["of_its_own", "sin"])
@pytest.mark.parametrize("size", [3, 5000])
def test_a_primitive_of_a_program_in_a_loop(name: str, size: int) -> None:
    """Loops leave it to its lowering, also where its name is known; a function is seen through."""
    p, q = core.Primitive(name), core.Primitive(name)
    for one in (p, q):
        one.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x * 2, multiple_results=False))
    mlir.register_lowering(q, lambda ctx, x: ctx.add(x, x))
    x = np.linspace(0, 1, size, dtype=np.float32)
    for one in (p, q):
        looped = xpr.jit(lambda x, one=one: xpr.lax.fori_loop(0, 5, lambda i, v: one.bind(v), x))
        np.testing.assert_array_equal(looped(x), x * 32)
        assert ("stablehlo.while" in looped.lower(x).as_text("iree")) == (one is q)


def test_a_function_as_lowering_is_traced_at_every_depth() -> None:
    """With several results, constants of its own and parameters, in branches that are shared."""
    p = core.Primitive("of_two", multiple_results=True)
    p.def_abstract_eval(lambda x, *, by: [x, ShapedArray((), x.dtype)])
    table = np.arange(6, dtype=np.float32)
    mlir.register_lowering(
        p, mlir.lower_fun(lambda x, *, by: [x * by + table, xpr.jit(jnp.sum)(x)])
    )
    inner = xpr.jit(lambda x: p.bind(x, by=3)[0])

    def f(x: Any, which: Any) -> Any:
        y, total = p.bind(x, by=2)
        z = xpr.lax.cond(which, lambda v: inner(v), lambda v: inner(v + 1), y)
        return xpr.lax.scan(lambda c, _: (p.bind(c, by=1)[0], c[0]), z, None, length=2)[0] + total

    found = xpr.jit(f)(X, True)
    np.testing.assert_allclose(found, (X * 2 + table) * 3 + 3 * table + X.sum(), rtol=1e-6)


# ---- an interpreter and primitives as JAX's own documents have them, in programs of our own


def _evaluated(jaxpr: core.Jaxpr, consts: Any, *args: Any) -> list[Any]:
    """What a jaxpr computes, one equation after the other."""
    values: dict[core.Var, Any] = {}

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else values[atom]

    values.update(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        params = eqn.primitive.get_bind_params(eqn.params)
        found = eqn.primitive.bind(*map(read, eqn.invars), **params)
        outs = found if eqn.primitive.multiple_results else [found]
        values.update(zip(eqn.outvars, outs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def test_an_interpreter_that_evaluates_what_it_reads() -> None:
    def program(x: Any) -> Any:
        y = xpr.jit(lambda a: a * 2)(x)
        y = xpr.lax.cond(y.sum() > 0, lambda a: a, lambda a: -a, y)
        y = xpr.lax.fori_loop(0, 3, lambda i, c: c + i, y)
        y = xpr.nn.relu(y)
        y = y + xpr.lax.while_loop(lambda c: c < 10.0, lambda c: c * 3, 1.0)
        return xpr.lax.scan(lambda c, a: (c + a, c), 0.0, y)

    closed = xpr.make_jaxpr(program)(X)
    total, before = _evaluated(closed.jaxpr, closed.consts, X)
    y = np.maximum(2 * X + 3, 0) + 27
    np.testing.assert_allclose(total, y.sum(), rtol=1e-6)
    np.testing.assert_allclose(before, np.cumsum(y) - y, rtol=1e-6)
    again = xpr.make_jaxpr(lambda x: _evaluated(closed.jaxpr, closed.consts, x))(X)
    np.testing.assert_allclose(_evaluated(again.jaxpr, again.consts, X)[0], total, rtol=1e-6)


def test_a_primitive_whose_rules_bind_itself() -> None:
    """Derivatives and transposes that are made of the primitive, as fused operations have them."""
    p = core.Primitive("fused")

    def fused(x: Any, y: Any, z: Any) -> Any:
        return p.bind(x, y, z)

    def jvp(args: Any, tangents: Any) -> Any:
        (x, y, z), moves = args, [ad.instantiate_zeros(t) for t in tangents]
        return fused(x, y, z), fused(moves[0], y, fused(x, moves[1], moves[2]))

    def transpose(ct: Any, x: Any, y: Any, z: Any) -> Any:
        if ad.is_undefined_primal(x):
            return fused(ct, y, jnp.zeros_like(y)), None, ct
        return None, fused(x, ct, jnp.zeros_like(x)), ct

    p.def_impl(lambda x, y, z: np.add(np.multiply(x, y), z))
    p.def_abstract_eval(lambda x, y, z: ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(p, mlir.lower_fun(lambda x, y, z: x * y + z, multiple_results=False))
    ad.primitive_jvps[p] = jvp
    ad.primitive_transposes[p] = transpose
    batching.primitive_batchers[p] = lambda args, dims: (fused(*args), dims[0])

    def f(a: Any) -> Any:
        return fused(a, 10.0, a)

    found = xpr.jit(lambda a: (f(a), xpr.grad(f)(a), xpr.jvp(f, (a,), (1.0,))[1]))(2.0)
    assert [float(v) for v in found] == [22.0, 11.0, 11.0]
    rows = xpr.vmap(fused)(X, Y, X)
    np.testing.assert_allclose(rows, X * Y + X, rtol=1e-6)


def test_a_primitive_that_reduces() -> None:
    p = core.Primitive("total")
    p.def_impl(lambda x, axes: np.sum(x, axes))
    p.def_abstract_eval(
        lambda x, axes: x.update(shape=tuple(n for i, n in enumerate(x.shape) if i not in axes))
    )
    batching.defreducer(p)
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for dim in (0, 1, 2):
        found = xpr.vmap(lambda v: p.bind(v, axes=(1,)), in_axes=dim)(x)
        np.testing.assert_array_equal(found, np.moveaxis(x, dim, 0).sum(2))


def test_small_functions_for_libraries() -> None:
    _, tree = xpr.tree_util.tree_flatten((({"a": 1, "b": 2}, 3), {"k": 4}))
    assert api_util.donation_vector((0,), ("k",), tree) == (True, True, False, True)
    assert api_util.rebase_donate_argnums((3, 4), (0, 1)) == (1, 2)
    with pytest.raises(ValueError, match="cannot intersect"):
        api_util.rebase_donate_argnums((1,), (1,))
    assert (max_dim(2, 3), min_dim(2, 3)) == (3, 2)
    aval = ShapedArray((2,), np.dtype("float32"))
    assert core.gensym()(aval).aval == aval
    here = backend.get_backend()
    assert here.platform == xpr.default_backend()
    assert here.devices() == xpr.devices()
    assert here.device_count() == here.local_device_count() == len(xpr.devices())
    assert backend.get_default_device() in here.local_devices()
    assert here.platform in backend.backends()
    with pytest.raises(RuntimeError, match="nonsense"):
        backend.get_backend("nonsense")


def test_the_hash_of_random_numbers() -> None:
    # From the test vectors of Random123, as JAX's tests have them.
    pair, zeros = np.zeros(2, np.uint32), np.zeros(2, np.uint32)
    assert extend_random.threefry_2x32(pair, zeros).tolist() == [0x6B200159, 0x99BA4EFE]
    key = np.array([0x13198A2E, 0x03707344], np.uint32)
    count = np.array([0x243F6A88, 0x85A308D3], np.uint32)
    assert extend_random.threefry_2x32(key, count).tolist() == [0xC4923A9C, 0x483DF7A0]
    odd = extend_random.threefry_2x32(key, np.arange(3, dtype=np.uint32))
    assert odd.shape == (3,)
    with pytest.raises(TypeError, match="requires uint32 arguments"):
        extend_random.threefry_2x32(key, np.arange(2))
    made = extend_random.seed_with_impl(extend_random.rbg_prng_impl, 3)
    assert xpr.random.key_impl(made) == "rbg"
    many = extend_random.random_seed(np.arange(6).reshape(2, 3), "threefry2x32")
    assert many.shape == (2, 3)
    expected = xpr.random.key_data(xpr.random.key(4)).tolist()
    assert xpr.random.key_data(many[1, 1]).tolist() == expected


def test_a_tangent_without_values_is_none() -> None:
    """What takes an integer behind a rule that fills in zeros needs no derivative of its own."""
    p, q = core.Primitive("passes_on", multiple_results=True), core.Primitive("without_rule")
    p.def_impl(lambda x, n: [x * 2.0, n])
    p.def_abstract_eval(lambda x, n: [x, n])
    q.def_impl(lambda n: n + 1)
    q.def_abstract_eval(lambda n: n)
    mlir.register_lowering(p, mlir.lower_fun(lambda x, n: [x * 2.0, n], multiple_results=True))
    mlir.register_lowering(q, mlir.lower_fun(lambda n: n + 1, multiple_results=False))

    def jvp(primals: Any, tangents: Any) -> Any:
        dx, dn = map(ad.instantiate_zeros, tangents)
        return p.bind(*primals), [dx * 2, dn]

    ad.primitive_jvps[p] = jvp

    def f(x: Any, n: Any) -> Any:
        y, n = p.bind(x, n)
        return y * q.bind(n)

    assert xpr.grad(f)(2.0, jnp.int32(3)) == 8.0
    assert xpr.jit(xpr.grad(f))(2.0, jnp.int32(3)) == 8.0
    assert xpr.jvp(lambda x: f(x, jnp.int32(3)), (2.0,), (1.0,)) == (16.0, 8.0)


def test_batching_rules_that_get_the_axis() -> None:
    """In JAX's two forms: its size and name apart, and both in one object."""
    p, seen = core.Primitive("of_an_axis"), []
    p.def_impl(lambda x: x * 2)
    p.def_abstract_eval(lambda x: x)

    def apart(size: int, name: Any, kind: Any, args: Any, dims: Any, **params: Any) -> Any:
        seen.append((size, name, kind, params))
        return p.bind(*args), dims[0]

    def whole(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
        return apart(axis.size, axis.name, "whole", args, dims, **params)

    batching.axis_primitive_batchers[p] = apart
    np.testing.assert_array_equal(xpr.vmap(p.bind, axis_name="i")(X), X * 2)
    batching.axis_primitive_batchers[p](6, "j", None, (X,), (0,))
    batching.fancy_primitive_batchers[p] = whole
    np.testing.assert_array_equal(xpr.vmap(p.bind, axis_name="i")(X), X * 2)
    batching.axis_primitive_batchers[p](6, "j", None, (X,), (0,))
    assert seen == [
        (6, "i", None, {}),
        (6, "j", None, {}),
        (6, "i", "whole", {}),
        (6, "j", "whole", {}),
    ]
