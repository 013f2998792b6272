"""High types: quantized matrices, whose primitives have rules of their own."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.compat import modules
from xpr.compat.modules.experimental import hijax
from xpr.core.check import check_jaxpr
from xpr.primitives import elementwise as el


@dataclasses.dataclass(frozen=True)
class QuantizedType(hijax.HiType):
    shape: tuple[int, int]

    def str_short(self, *_: Any, **__: Any) -> str:
        return f"Q[{self.shape[0]},{self.shape[1]}]"

    def lo_ty(self) -> list[Any]:
        return [
            hijax.ShapedArray(self.shape, np.dtype("int8")),
            hijax.ShapedArray(self.shape[:1], np.dtype("float32")),
        ]

    def lower_val(self, hi_val: Any) -> list[Any]:
        return [hi_val.whole, hi_val.scale]

    def raise_val(self, *lo_vals: Any) -> Any:
        return Quantized(*lo_vals)

    def to_tangent_aval(self) -> Any:
        return hijax.ShapedArray(self.shape, np.dtype("float32"))


@dataclasses.dataclass
class Quantized:
    """A matrix of small integers, and a scale for each row."""

    whole: Any
    scale: Any


hijax.register_hitype(Quantized, lambda q: QuantizedType(q.whole.shape))


class Quantize(hijax.HiPrimitive):
    def abstract_eval(self, x: Any) -> Any:
        return QuantizedType(x.shape), set()

    def to_lojax(self, x: Any) -> Any:
        scale = jnp.max(jnp.abs(x), axis=1) / 127
        return Quantized(jnp.round(x / scale[:, None]).astype("int8"), scale)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        return quantize(*primals), tangents[0]


class Expand(hijax.HiPrimitive):
    def abstract_eval(self, q: Any) -> Any:
        return hijax.ShapedArray(q.shape, np.dtype("float32")), set()

    def to_lojax(self, q: Any) -> Any:
        return q.whole.astype("float32") * q.scale[:, None]

    def jvp(self, primals: Any, tangents: Any) -> Any:
        return expand(*primals), tangents[0]


_quantize, _expand = Quantize("quantize"), Expand("expand")


def quantize(x: Any) -> Any:
    return _quantize.bind(x)


def expand(q: Any) -> Any:
    return _expand.bind(q)


X = (np.arange(6).reshape(2, 3) + 0.3).astype(np.float32)


def rounded(x: Any) -> Any:
    """The oracle: what a matrix is after it was quantized."""
    scale = (np.abs(x).max(axis=1) / np.float32(127))[:, None]
    return np.round(x / scale).astype(np.int8) * scale


def assert_is(q: Any, expected: Any) -> None:
    assert isinstance(q, Quantized)
    assert q.whole.dtype == np.int8
    np.testing.assert_allclose(np.asarray(q.whole) * np.asarray(q.scale)[:, None], expected, 1e-6)


def test_outside_of_programs() -> None:
    np.testing.assert_allclose(expand(quantize(X)), rounded(X), 1e-6)
    assert modules.typeof(quantize(X)) == QuantizedType((2, 3))
    assert modules.typeof(xpr.ShapeDtypeStruct((2,), np.float32)) == jnp.ones(2).aval


def test_arguments_and_results_of_jit() -> None:
    q = xpr.jit(quantize)(X)
    assert_is(q, rounded(X))
    for _ in range(2):  # the second call finds what the first one has made
        np.testing.assert_allclose(xpr.jit(expand)(q), rounded(X), 1e-6)
    doubled, y = xpr.jit(lambda q, y: (quantize(expand(q["a"]) * 2), y + 1))({"a": q}, 1.0)
    assert_is(doubled, rounded(2 * X))
    assert float(y) == 2.0
    np.testing.assert_allclose(xpr.jit(lambda x: expand(q) + x)(X), rounded(X) + X, 1e-6)
    inside = xpr.jit(lambda x: expand(quantize(x)))
    np.testing.assert_allclose(inside(X), rounded(X), 1e-6)
    np.testing.assert_allclose(inside.lower(X).compile()(X), rounded(X), 1e-6)
    np.testing.assert_allclose(xpr.export.export(inside)(X).call(X), rounded(X), 1e-6)


def test_ahead_of_time() -> None:
    q = quantize(X)
    compiled = xpr.jit(expand).lower(q).compile()
    np.testing.assert_allclose(compiled(q), rounded(X), 1e-6)
    assert compiled.out_info.shape == (2, 3)
    back = xpr.jit(quantize).lower(X).compile()
    assert_is(back(jnp.asarray(2 * X)), rounded(2 * X))
    assert back.out_info == QuantizedType((2, 3))
    with pytest.raises(TypeError, match="Argument types differ"):
        compiled(quantize(X[:, :2]))


def test_programs_keep_high_values() -> None:
    closed = xpr.make_jaxpr(lambda x: expand(quantize(x)))(X)
    assert [" ".join(line.split()) for line in str(closed).splitlines()] == [
        "{ lambda ; a:f32[2,3]. let",
        "b:Q[2,3] = quantize a",
        "c:f32[2,3] = expand b",
        "in (c,) }",
    ]
    check_jaxpr(closed)
    inner = xpr.make_jaxpr(lambda q: xpr.jit(expand)(q))(quantize(X))
    assert inner.in_avals == [QuantizedType((2, 3))]
    assert xpr.eval_shape(quantize, X) == QuantizedType((2, 3))
    nested = xpr.jit(lambda x: xpr.jit(expand)(xpr.jit(quantize)(x)))
    np.testing.assert_allclose(nested(X), rounded(X), 1e-6)


def test_derivatives_are_those_of_the_rules() -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(jnp.sin(expand(quantize(x))))

    # The rules say that rounding has the derivative of the identity.
    expected = np.cos(rounded(X))
    for f in (
        xpr.grad(loss),
        xpr.jit(xpr.grad(loss)),
        xpr.grad(xpr.jit(loss)),
        xpr.grad(xpr.checkpoint(loss)),
    ):
        np.testing.assert_allclose(f(X), expected, 1e-4)
    out, moved = xpr.jvp(lambda x: expand(quantize(x)), (X,), (X,))
    np.testing.assert_allclose(out, rounded(X), 1e-6)
    np.testing.assert_array_equal(moved, X)
    q = quantize(X)
    gradient = xpr.grad(lambda q: jnp.sum(jnp.sin(expand(q))))(q)
    np.testing.assert_allclose(gradient, expected, 1e-4)
    for f in (expand, xpr.jit(expand)):
        np.testing.assert_array_equal(xpr.vjp(f, q)[1](X)[0], X)


def test_loops_and_branches() -> None:
    q = quantize(X)

    def body(q: Any, _: Any) -> Any:
        return quantize(expand(q) * 1.5), expand(q)

    for run in (lambda f: f, xpr.jit):
        last, seen = run(lambda q: xpr.lax.scan(body, q, None, length=3))(q)
        expected = rounded(X)
        for step in seen:
            np.testing.assert_allclose(step, expected, 1e-5)
            expected = rounded(expected * np.float32(1.5))
        assert_is(last, expected)
        branch = run(
            lambda p, q: xpr.lax.cond(p, lambda q: q, lambda q: quantize(expand(q) + 1), q)
        )
        assert_is(branch(True, q), rounded(X))
        assert_is(branch(False, q), rounded(rounded(X) + 1))
        loop = run(
            lambda q: xpr.lax.while_loop(
                lambda c: c[0] < 3, lambda c: (c[0] + 1, quantize(expand(c[1]) + 1)), (0, q)
            )
        )
        expected = rounded(X)
        for _ in range(3):
            expected = rounded(expected + 1)
        assert_is(loop(q)[1], expected)


def test_a_gradient_through_a_scan_of_high_values() -> None:
    def loss(x: Any) -> Any:
        last, _ = xpr.lax.scan(lambda c, _: (expand(quantize(c)) * 1.5, None), x, None, length=2)
        return jnp.sum(last)

    np.testing.assert_allclose(xpr.grad(loss)(X), np.full((2, 3), 2.25), 1e-6)


def test_what_cannot_be_done_is_said() -> None:
    q = quantize(X)
    with pytest.raises(TypeError, match=r"had type: QuantizedType"):
        xpr.grad(quantize)(X)
    with pytest.raises(NotImplementedError, match="can be called, but not exported or sharded"):
        xpr.export.export(xpr.jit(expand))(q)
    with pytest.raises(NotImplementedError, match="Batching rule for 'quantize' not implemented"):
        xpr.vmap(lambda x: expand(quantize(x)))(jnp.stack([X, X]))
    with pytest.raises(NotImplementedError, match="QuantizedType must define vspace_add"):
        QuantizedType((1, 1)).vspace_add(1, 2)
    with pytest.raises(NotImplementedError, match="nothing must define to_lojax"):
        hijax.HiPrimitive("nothing").bind()
    with pytest.raises(NotImplementedError, match="nothing must define abstract_eval"):
        xpr.jit(lambda x: hijax.HiPrimitive("nothing").bind(x))(X)
    with pytest.raises(TypeError, match="function carry input and carry output must have equal"):
        xpr.lax.scan(lambda c, _: (expand(c), None), q, None, length=2)
    with pytest.raises(AttributeError, match="has no attribute 'sum'"):
        xpr.jit(lambda q: q.sum())(q)
    with pytest.raises(TypeError, match="unsupported operand"):
        xpr.jit(lambda q: q + 1)(q)
    with pytest.raises(TypeError, match="have no __eq__"):
        xpr.jit(lambda q: q == q)(q)
    with pytest.raises(TypeError, match="unhashable type"):
        xpr.jit(hash)(q)
    with pytest.raises(AttributeError, match=r"a value of the high type .* has no dtype"):
        jnp.sin(q)
    for f in (lambda q: el.add_p.bind(q, 1), lambda q: el.neg_p.bind(q)):
        with pytest.raises(TypeError, match="Attempting to pass an unexpected type QuantizedType"):
            xpr.jit(f)(q)
    mesh = xpr.make_mesh((1,), ("x",))
    whole = xpr.NamedSharding(mesh, xpr.P())
    with pytest.raises(NotImplementedError, match="takes no values of high types"):
        xpr.jit(expand, in_shardings=whole)(q)
