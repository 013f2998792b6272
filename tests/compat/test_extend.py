"""Primitives that programs define, by the calls of `jax.extend.core` and `jax.interpreters`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.compat.modules import api_util, monitoring
from xpr.compat.modules.core import ShapedArray, get_opaque_trace_state, trace_state_clean
from xpr.compat.modules.extend import core, linear_util
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
    with pytest.raises(NotImplementedError, match="Abstract evaluation rule for 'bare'"):
        xpr.make_jaxpr(p.bind)(X)
    p.def_abstract_eval(lambda x: x)
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'bare' not implem"):
        xpr.jvp(p.bind, (X,), (X,))
    with pytest.raises(NotImplementedError, match="Batching rule for 'bare' not implemented"):
        xpr.vmap(p.bind)(X)
    with pytest.raises(NotImplementedError, match="primitive bare has no lowering rule"):
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
    """Loops on registers and in memory leave it to its lowering, also where its name is known."""
    p = core.Primitive(name)
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x * 2, multiple_results=False))
    x = np.linspace(0, 1, size, dtype=np.float32)
    found = xpr.jit(lambda x: xpr.lax.fori_loop(0, 5, lambda i, v: p.bind(v), x))(x)
    np.testing.assert_array_equal(found, x * 32)
