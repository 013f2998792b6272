"""What rules of custom functions may return, and the errors for what they may not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax, tree_util


def _through_scan(f: Any, x: Any) -> Any:
    """The function is traced before its rule is: its results are known."""
    return lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]


def _jvp_with(primal: Any, tangent: Any) -> Any:
    f = xpr.custom_jvp(lambda x: x)
    f.defjvp(lambda primals, tangents: (primal(primals[0]), tangent(tangents[0])))
    return xpr.jvp(lambda x: _through_scan(f, x), (jnp.float32(1),), (jnp.float32(1),))


def test_results_of_jvp_rules() -> None:
    with pytest.raises(TypeError, match="equal in value to the output of") as info:
        _jvp_with(lambda x: (x, x), lambda t: (t, t))
    assert str(info.value).endswith(
        "output's first element had container/pytree structure:\n    (float32[], float32[])\n"
        "while the custom_jvp-decorated function <lambda> had output container/pytree structure:\n"
        "    float32[]."
    )
    with pytest.raises(TypeError, match="with leaves of the same shape/dtype") as info:
        _jvp_with(lambda x: jnp.zeros((3,)), lambda t: jnp.zeros((3,)))
    assert "had shapes/dtypes of:\n    float32[3]\nwhile" in str(info.value)
    with pytest.raises(TypeError, match=r"of float32\[\]\) but got float32\[1\]\. This is"):
        _jvp_with(lambda x: x, lambda t: t.reshape(1))


def _vjp_with(fwd: Any, bwd: Any, *args: Any, **options: Any) -> Any:
    f = xpr.custom_vjp(lambda *xs: xs[0])
    f.defvjp(fwd, bwd, **options)
    return xpr.grad(lambda *xs: jnp.sum(f(*xs)), argnums=tuple(range(len(args))))(*args)


def test_results_of_forward_rules() -> None:
    f = xpr.custom_vjp(lambda x: x)
    cases = {
        "structure:\n    (float32[], float32[])": lambda x: (x, x),
        "dtypes of:\n    float32[1]": jnp.atleast_1d,
    }
    for shown, out in cases.items():
        f.defvjp(lambda x, out=out: (out(x), None), lambda _, g: (g,))
        with pytest.raises(TypeError, match=r"must produce a pair .* represents residuals") as info:
            xpr.grad(lambda x: _through_scan(f, x))(jnp.float32(1))
        assert shown in str(info.value)


def test_results_of_backward_rules() -> None:
    x, y = jnp.ones(3), jnp.ones(4)
    wrong = r"at output\[1\] the bwd rule produced an output of type f32\[3\]"
    with pytest.raises(ValueError, match=wrong):
        _vjp_with(lambda *xs: (xs[0], None), lambda _, g: (g, g), x, y)
    path = r"at output\[0\]\['a'\] the bwd rule"
    f = xpr.custom_vjp(lambda tree: tree["b"])
    f.defvjp(lambda tree: (tree["b"], None), lambda _, g: ({"a": g, "b": g},))
    with pytest.raises(ValueError, match=path):
        xpr.grad(lambda tree: f(tree).sum())({"a": x, "b": y})

    def swapped(_: Any, cts: Any) -> Any:
        return cts[1], cts[0]

    pair = xpr.custom_vjp(lambda a, b: (a, b))
    pair.defvjp(lambda a, b: ((a.value, b.value), None), swapped, symbolic_zeros=True)
    with pytest.raises(ValueError, match="Consider just returning a None here"):
        xpr.grad(lambda a: pair(a, y)[0].sum())(x)


def test_cotangents_of_other_dtypes_and_prefixes() -> None:
    x = jnp.ones(3, jnp.bfloat16)
    [found] = _vjp_with(lambda x: (x, None), lambda _, g: (2 * g.astype(jnp.float32),), x)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_array_equal(found.astype(jnp.float32), np.full(3, 2.0))
    with pytest.raises(ValueError, match="dtypes do not match"):
        _vjp_with(lambda x: (x, None), lambda _, g: (g * 1j,), jnp.ones(3))

    f = xpr.custom_vjp(lambda box, y: box["x"] * y)
    f.defvjp(lambda box, y: (f(box, y), (box, y)), lambda res, g: (res[1] * g, res[0]["x"] * g))
    found, _ = xpr.grad(f, argnums=(0, 1))({"x": 2.0}, 3.0)
    assert float(found["x"]) == 3.0  # one cotangent stands for the whole container


def test_arguments_by_name() -> None:
    def f(x: Any, y: Any, *, z: Any = None) -> Any:
        return x

    def rule(*_: Any) -> Any:
        raise AssertionError("not called")

    one, two = xpr.custom_jvp(f), xpr.custom_vjp(f)
    three = xpr.custom_batching.custom_vmap(f)
    one.defjvp(rule)
    two.defvjp(rule, rule)
    three.def_vmap(rule)
    for function in (one, two, three):
        with pytest.raises(TypeError, match=r"decorated function f(.|\n)*argument: 'y'"):
            function(1.0)
        with pytest.raises(TypeError, match=r"decorated function f(.|\n)*to positions: z"):
            function(1.0, 2.0, z=3.0)


def test_closures_say_what_they_take() -> None:
    pull = xpr.vjp(lambda x, z: z * x, 2.0, 3.0)[1]
    pure, consts = xpr.closure_convert(pull, 2.0)
    assert len(pure(2.0, *consts)) == 2
    with pytest.raises(TypeError, match="The inputs to the closure produced by closure_convert"):
        pure(2.0, consts)


def test_marks_of_a_batching_rule_fit_its_result() -> None:
    f = xpr.custom_batching.custom_vmap(jnp.sin)
    f.def_vmap(lambda size, batched, x: ([x, x], batched[0]))
    with pytest.raises(ValueError, match="output batching specification returned by custom vmap"):
        xpr.vmap(f)(np.ones(3, "f4"))


def test_decorators_come_in_any_order() -> None:
    for outer, inner in (
        (xpr.custom_batching.custom_vmap, xpr.custom_jvp),
        (xpr.custom_jvp, xpr.custom_batching.custom_vmap),
    ):
        f: Any = outer(inner(lambda x: 2.0 * x))
        f.def_vmap(lambda size, batched, x: (20 * x, batched[0]))
        f.defjvp(lambda primals, tangents: (2.0 * primals[0], 3.0 * tangents[0]))
        np.testing.assert_array_equal(xpr.vmap(f)(np.ones(2, "f4")), [20, 20])
        assert [float(x) for x in xpr.jvp(f, (1.0,), (1.0,))] == [2.0, 3.0]
    for f in (xpr.custom_jvp(jnp.sin), xpr.custom_batching.custom_vmap(jnp.sin)):
        with pytest.raises(AttributeError, match="has no attribute 'other'"):
            f.other  # noqa: B018
    with pytest.raises(AttributeError, match="def_vmap"):
        xpr.custom_jvp(np.sin).def_vmap  # noqa: B018


def test_sequential_vmap_is_a_loop() -> None:
    @xpr.custom_batching.sequential_vmap
    def f(x: Any, tree: Any) -> Any:
        assert np.ndim(x) == 0
        return {"a": x * tree["w"], "b": tree["w"]}

    xs, w = np.arange(3.0, dtype="f4"), np.arange(2.0, dtype="f4")
    mapped = xpr.vmap(f, in_axes=(0, None))
    assert str(xpr.make_jaxpr(mapped)(xs, {"w": w})).count("scan[") == 1
    found = mapped(xs, {"w": w})
    np.testing.assert_array_equal(found["a"], xs[:, None] * w)
    np.testing.assert_array_equal(found["b"], np.stack([w] * 3))
    nested = xpr.vmap(mapped, in_axes=(None, 0))(xs, {"w": np.stack([w, 2 * w])})
    np.testing.assert_array_equal(nested["a"][1], xs[:, None] * 2 * w)
    assert tree_util.tree_map(np.shape, mapped(xs[:0], {"w": w})) == {"a": (0, 2), "b": (0, 2)}


def test_batches_of_no_size_are_single_steps() -> None:
    np.testing.assert_array_equal(lax.map(lambda x: x**2, np.arange(4), batch_size=0), [0, 1, 4, 9])
    with pytest.raises(ValueError, match="batch_size cannot be negative"):
        lax.map(lambda x: x, np.arange(4), batch_size=-1)
