"""Symbolic dimensions: their arithmetic, programs for all of them, and what is refused."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax, nn
from xpr.errors import InconclusiveDimensionOperation
from xpr.export import (
    SymbolicScope,
    deserialize,
    export,
    is_symbolic_dim,
    load,
    symbolic_args_specs,
    symbolic_shape,
)
from xpr.export.generalize import Fitter, SizeDependenceError
from xpr.export.writing import bundle_bytes
from xpr.runtimes.bundle import ArgumentValueError, Bundle

F32 = np.dtype(np.float32)
rng = np.random.default_rng(0)


def spec(text: str, dtype: Any = F32, **options: Any) -> Any:
    return xpr.ShapeDtypeStruct(symbolic_shape(text, **options), dtype)


# ---- sizes


def test_shapes_from_texts():
    b, two, n = symbolic_shape("b, 2*a*b + 3 - a, 28")
    assert [str(b), str(two), n] == ["b", "2*a*b - a + 3", 28]
    assert is_symbolic_dim(b)
    assert not is_symbolic_dim(28)
    assert symbolic_shape("") == symbolic_shape("()") == ()
    assert symbolic_shape("(3, 4)") == (3, 4)
    assert str(symbolic_shape("b, _, ...", like=(9, 5, 6, 7))) == "(b, 5, 6, 7)"
    assert symbolic_shape(None, like=(2, 3)) == (2, 3)
    assert symbolic_shape("b", scope=b.scope)[0] == b
    assert symbolic_shape("b")[0] != b
    for text, message in (
        ("b +", "cannot read the shape"),
        ("b / 2", "cannot read the size"),
        ("f(b)", "cannot read the size"),
        ("_", "takes a size from `like`"),
        ("..., 3", "must come last"),
    ):
        with pytest.raises(ValueError, match=message):
            symbolic_shape(text)
    with pytest.raises(ValueError, match="another rank than `like`"):
        symbolic_shape("b, 3", like=(1, 2, 3))


def test_arithmetic_and_comparisons():
    a, b = symbolic_shape("a, b")
    assert str((a + 1) * (b + 1) - a * b) == "a + b + 1"
    assert b - b == 0
    assert 3 - b + b == 3
    assert str(2 * b**2) == "2*b*b"
    assert b >= 1
    assert b + 1 > 1
    assert not b < 1
    assert a + b >= 2
    assert b == symbolic_shape("b", scope=b.scope)[0]
    assert {b: 1}[symbolic_shape("b", scope=a.scope)[0]] == 1
    for ask in (lambda: b > 1, lambda: b <= 5, lambda: a < b, lambda: int(b), lambda: range(b)):
        with pytest.raises(InconclusiveDimensionOperation, match="symbolic dimension"):
            ask()
    assert divmod(4 * b + 3, 2) == (2 * b + 1, 1)
    assert (4 * b - 1) // 4 == b - 1
    assert (6 * a * b) % 3 == 0
    assert (3 * a) // -3 == -a
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = b // 1.5
    with pytest.raises(NotImplementedError, match="cannot be divided"):
        _ = b / 1
    with pytest.raises(ZeroDivisionError, match="the symbolic dimension b by zero"):
        _ = b % 0
    with pytest.raises(ValueError, match="Invalid mixing of symbolic scopes"):
        _ = b + symbolic_shape("b")[0]


def test_comparisons_know_the_constraints():
    a, b, c = symbolic_shape(
        "a, b, c", constraints=["a >= b + 1", "b == 2*c", "c >= 3", "a*b <= 90"]
    )
    assert a > b
    assert a >= b + 1
    assert a - 1 >= 2 * c
    assert a >= 7
    assert 3 * a - b > 14
    assert b >= 6
    assert not a <= 6
    assert not a * b > 90
    with pytest.raises(InconclusiveDimensionOperation):
        _ = a > 7


def test_comparisons_are_true_of_all_sizes_that_the_constraints_allow():
    constraints = ["a >= b - 1", "b >= 2*c", "a + c <= 9", "c == d"]
    a, b, c, d = symbolic_shape("a, b, c, d", constraints=constraints)
    choices = [dict(zip("abcd", s, strict=True)) for s in itertools.product(range(1, 12), repeat=4)]
    allowed = [s for s in choices if a.scope.holds(s)]
    assert len(allowed) > 20
    random, decided = np.random.default_rng(4), 0
    for _ in range(300):
        f = random.integers(-2, 3, 5).tolist()
        left = f[0] * a + f[1] * b + f[2] * c + f[3] * d
        for relation in (operator.ge, operator.gt, operator.le, operator.lt):
            try:
                answer = relation(left, f[4])
            except InconclusiveDimensionOperation:
                continue
            decided += 1
            for s in allowed:
                number = f[0] * s["a"] + f[1] * s["b"] + f[2] * s["c"] + f[3] * s["d"]
                assert relation(number, f[4]) is answer
    assert decided > 300


def test_constraints_are_read():
    scope = SymbolicScope(["b >= 8", "a == 2*b", "mod(b, 4) == 0", "a < 100"])
    assert repr(scope) == "SymbolicScope(['b >= 8', 'a == 2*b', 'mod(b, 4) == 0', 'a < 100'])"
    assert scope.names == ["a", "b"]
    for a, b, fine in ((16, 8, True), (17, 8, False), (8, 4, False), (120, 60, False)):
        assert scope.holds({"a": a, "b": b}) is fine
    for text in ("b", "b != 3"):
        with pytest.raises(ValueError, match="a constraint"):
            SymbolicScope([text])
    with pytest.raises(ValueError, match="a sequence of texts"):
        SymbolicScope("b >= 8")


def test_specs_of_arguments():
    args = ({"x": np.ones((4, 3)), "y": np.ones(4, "int32")}, np.ones(2))
    specs = symbolic_args_specs(args, ("b, ...", None))
    assert [str(s.shape) for s in xpr.tree.leaves(specs)] == ["(b, 3)", "(b,)", "(2,)"]
    assert xpr.tree.leaves(specs)[0].shape[0].scope is xpr.tree.leaves(specs)[1].shape[0].scope


def test_numbers_are_fitted_by_polynomials():
    points = [{"a": a, "b": b} for a, b in ((2, 3), (5, 7), (11, 4), (6, 13), (9, 9), (3, 20))]
    points += [{"a": 17, "b": 2}, {"a": 4, "b": 30}]
    fitter = Fitter(["a", "b"], points)
    for f in (lambda a, b: 7, lambda a, b: a * b + 2 * a - 5, lambda a, b: b * b):
        terms = fitter.fit([f(**p) for p in points])
        assert terms is not None
        value = sum(c * np.prod([{"a": 31, "b": 57}[n] for n in m]) for m, c in terms.items())
        assert value == f(31, 57)
    assert fitter.fit([p["a"] // 2 for p in points]) is None
    assert fitter.fit([p["a"] * (p["a"] + 1) // 2 for p in points]) is None
    inverse = [float(np.float32(1 / p["b"])) for p in points]
    assert fitter.fit_float(inverse, F32) == ({("b",): 1}, True)


# ---- programs

W1 = rng.standard_normal((3, 3, 1, 4)).astype(np.float32)
W2 = rng.standard_normal((64, 10)).astype(np.float32)


def classifier(images):
    """Convolution, pooling, a reshape of the axes behind the first, and softmax."""
    x = lax.conv_general_dilated(
        images[..., None], W1, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    x = nn.relu(x + jnp.arange(4.0))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = nn.softmax(x.reshape(x.shape[0], -1) @ W2)
    return x, x.argmax(axis=-1)


@pytest.fixture(scope="module")
def exported():
    return export(xpr.jit(classifier))(spec("b, 8, 8"))


@pytest.fixture(scope="module")
def data(exported):
    return bundle_bytes(exported)


def test_types_with_symbolic_dimensions(exported):
    assert [repr(a) for a in exported.in_avals] == ["ShapedArray(float32[b,8,8])"]
    assert [str(a) for a in exported.out_avals] == ["float32[b,10]", "int32[b]"]
    assert exported.uses_global_constants
    text = exported.mlir_module()
    assert "(%arg0: tensor<?x8x8xf32>) -> (tensor<?x10xf32>, tensor<?xi32>)" in text


@pytest.mark.parametrize("count", [1, 2, 37, 150])
def test_one_program_for_all_batches(exported, data, count):
    images = rng.random((count, 8, 8), np.float32)
    expected = [np.asarray(r) for r in xpr.jit(classifier)(images)]
    restored = deserialize(exported.serialize(vjp_order=1))
    calls = [exported.call, restored.call, Bundle(data).call, load(data).call]
    for call in calls if count < 3 else calls[2:]:
        found = [np.asarray(r) for r in call(images)]
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found[1], expected[1])


def test_gradients_with_symbolic_dimensions(exported):
    restored = deserialize(exported.serialize(vjp_order=1))
    images = rng.random((3, 8, 8), np.float32)
    found = xpr.grad(lambda x: restored.call(x)[0][:, 0].sum())(images)
    expected = xpr.grad(lambda x: classifier(x)[0][:, 0].sum())(images)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-4, atol=1e-5)
    assert str(restored.vjp().in_avals[0]) == "float32[b,8,8]"


def test_derivatives_with_symbolic_dimensions_in_bundles():
    def f(x):
        return jnp.tanh(x @ W2[:3])

    e = export(xpr.jit(f))(spec("b, 3"))
    model = Bundle(bundle_bytes(e, vjp_order=1), order=1)
    for b in (1, 5):
        x = rng.standard_normal((b, 3)).astype(np.float32)
        ct = np.ones((b, 10), np.float32)
        expected = xpr.vjp(f, jnp.asarray(x))[1](jnp.asarray(ct))[0]
        np.testing.assert_allclose(model.call(x, ct)[0], np.asarray(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", ["b", "3"])
def test_derivatives_of_functions_of_labels_in_bundles(batch):
    table = rng.standard_normal((5, 4)).astype(np.float32)

    def f(labels, weights):
        return (jnp.asarray(table)[labels].sum(-1) * weights).sum()

    labels, weights = np.array([[0, 4], [1, 1], [3, 2]], np.int32), np.ones((3, 2), np.float32)
    shape = symbolic_shape(f"{batch}, 2")
    e = export(xpr.jit(f))(xpr.ShapeDtypeStruct(shape, np.int32), xpr.ShapeDtypeStruct(shape, F32))
    for restored in (e.vjp(), deserialize(e.serialize(vjp_order=1)).vjp()):
        nothing, found = restored.call(labels, weights, np.float32(2))
        assert (nothing.dtype, nothing.shape) == (xpr.float0, (3, 2))
        np.testing.assert_allclose(np.asarray(found), 2 * table[labels].sum(-1), rtol=1e-5)
    model = Bundle(bundle_bytes(e, vjp_order=1), order=1)
    found = model.call(labels, weights, np.float32(2))[1]
    np.testing.assert_allclose(found, 2 * table[labels].sum(-1), rtol=1e-5)


def layers(x, y):
    """Whatever takes a size as a value: means, counts, joins, slices, fills, reversals, masks."""
    n = x.shape[0]
    mean = x.mean(axis=0) + x.mean()
    joined = jnp.concatenate([x, 2 * x], axis=0)
    counted = jnp.arange(n) * 2 + n
    normal = (x - mean) / jnp.sqrt(x.var(axis=1, keepdims=True) + 1)
    return {
        "mean": mean,
        "joined": joined,
        "counted": counted,
        "normal": normal,
        "outer": x @ y.T,
        "flat": (x @ y.T).reshape(-1),
        "tail": x[1:],
        "wide": jnp.broadcast_to(y[0], (n + 1, 3)),
        "masked": jnp.where(jnp.arange(n)[:, None] < 2, x, 0.0),
        "back": x[::-1],
        "sorted": jnp.sort(x, axis=1),
        "greatest": lax.top_k(x, 2)[0],
        "picked": jnp.take(jnp.arange(12.0).reshape(4, 3), jnp.arange(n) % 4, axis=0),
    }


def test_operations_that_need_the_size_as_a_value():
    scope = SymbolicScope()
    e = export(xpr.jit(layers))(spec("n, 3", scope=scope), spec("m, 3", scope=scope))
    shapes = {k: str(v) for k, v in xpr.tree.unflatten(e.out_tree, e.out_avals).items()}
    assert shapes["joined"] == "float32[2*n,3]"
    assert shapes["flat"] == "float32[m*n]"
    assert shapes["tail"] == "float32[n - 1,3]"
    model = Bundle(bundle_bytes(e))
    for n, m in ((5, 2), (2, 2), (40, 9)):
        x, y = (rng.standard_normal((k, 3)).astype(np.float32) for k in (n, m))
        expected, found = layers(x, y), model.call(x, y)
        for key, value in expected.items():
            np.testing.assert_allclose(
                found[key], np.asarray(value), rtol=1e-5, atol=1e-5, err_msg=key
            )


def test_loops_with_symbolic_dimensions():
    def f(x):
        def step(carry, row):
            return jnp.tanh(carry + row), carry.sum()

        last, sums = lax.scan(step, jnp.zeros_like(x[:, 0]), x.T)
        return lax.fori_loop(0, 3, lambda _, v: v * 2, last), sums

    model = Bundle(bundle_bytes(export(xpr.jit(f))(spec("b, 5"))))
    for n in (1, 6):
        x = rng.standard_normal((n, 5)).astype(np.float32)
        for found, expected in zip(model.call(x), f(x), strict=True):
            np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-5, atol=1e-5)


def blocks(x, tokens):
    """Parts of usual models: embedding, attention, layer norm, a recurrent layer, noise."""
    table = jnp.linspace(-1, 1, 88).reshape(11, 8)
    x = x + table[tokens % 11]
    weights = nn.softmax(jnp.einsum("btd,bsd->bts", x @ table[:8], x) / 8)
    attended = jnp.einsum("bts,bsd->btd", weights, x)
    normal = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    state = jnp.zeros((x.shape[0], 8))
    last, seen = lax.scan(
        lambda c, row: (jnp.tanh(c @ table[:8] + row), c), state, jnp.moveaxis(x, 1, 0)
    )
    noise = xpr.random.normal(xpr.random.key(0), (x.shape[0], 3))
    return attended, normal, last, seen, noise, x.at[:, 0].set(0.0)


def test_parts_of_usual_models():
    scope = SymbolicScope()
    e = export(xpr.jit(blocks))(
        spec("b, t, 8", scope=scope), spec("b, t", np.dtype(np.int32), scope=scope)
    )
    model = Bundle(bundle_bytes(e))
    for b, t in ((1, 5), (4, 1), (33, 12)):
        x = rng.standard_normal((b, t, 8)).astype(np.float32)
        tokens = rng.integers(0, 11, (b, t)).astype(np.int32)
        for i, (found, expected) in enumerate(
            zip(model.call(x, tokens), blocks(jnp.asarray(x), jnp.asarray(tokens)), strict=True)
        ):
            np.testing.assert_allclose(
                found, np.asarray(expected), rtol=1e-4, atol=1e-4, err_msg=str(i)
            )


# ---- what is refused


def test_shapes_that_do_not_fit(exported, data):
    for call in (exported.call, Bundle(data).call, load(data).call):
        with pytest.raises(ValueError, match=r"args\[0\].*(8|shape \[3,7,8\], where b is 3)"):
            call(np.zeros((3, 7, 8), np.float32))
        with pytest.raises(ValueError, match=r"args\[0\]"):
            call(np.zeros((8, 8), np.float32))
        with pytest.raises(
            ArgumentValueError, match="symbolic dimension b must be at least 1, got 0"
        ):
            call(np.zeros((0, 8, 8), np.float32))


def test_constraints_of_sizes_that_no_argument_has():
    (m,) = symbolic_shape("m", constraints=["m >= m1"])
    with pytest.raises(ValueError, match=r"dimension variable 'm1' in the constraint 'm >= m1'"):
        export(xpr.jit(jnp.sin))(xpr.ShapeDtypeStruct((m,), np.float32))


def test_constraints_are_checked_before_the_call():
    scope = SymbolicScope(["b >= 4", "mod(b, 2) == 0", "c == b + 1"])
    e = export(xpr.jit(lambda x, y: x.sum() + y.sum()))(
        spec("b", scope=scope), spec("c", scope=scope)
    )
    ones = lambda n: np.ones(n, np.float32)  # noqa: E731
    stored = bundle_bytes(deserialize(e.serialize()))
    for call in (e.call, Bundle(stored).call, load(stored).call):
        assert float(call(ones(6), ones(7))) == 13
        for b, c, text in ((2, 3, "b >= 4"), (5, 6, r"mod\(b, 2\) == 0"), (6, 6, r"c == b \+ 1")):
            with pytest.raises(ArgumentValueError, match=f"the constraint {text} does not hold"):
                call(ones(b), ones(c))


@pytest.mark.parametrize(("text", "count"), [("b <= 9", 9), ("mod(b, 64) == 0", 640)])
def test_constraints_limit_the_sizes_that_are_tried(text, count):
    def f(x):
        return jnp.tanh(x).sum(axis=1)

    model = Bundle(bundle_bytes(export(xpr.jit(f))(spec("b, 3", constraints=[text]))))
    x = rng.standard_normal((count, 3)).astype(np.float32)
    np.testing.assert_allclose(model.call(x), f(x), rtol=1e-5, atol=1e-5)
    with pytest.raises(ArgumentValueError, match=r"the constraint (b <= 9|mod)"):
        model.call(np.ones((10, 3), np.float32))


def test_two_arguments_that_share_a_size():
    scope = SymbolicScope()
    e = export(xpr.jit(lambda x, y: x + y))(spec("b", scope=scope), spec("b", scope=scope))
    message = r"argument args\[1\]: expected float32\[b\], got shape \[4\], where b is 3"
    with pytest.raises(ArgumentValueError, match=message):
        e.call(np.ones(3, np.float32), np.ones(4, np.float32))
    with pytest.raises(ValueError, match="Invalid mixing of symbolic scopes"):
        export(xpr.jit(lambda x, y: x + y))(spec("b"), spec("b"))


def test_programs_that_depend_on_the_size():
    def branches(x):
        return x + 1 if x.shape[0] > 1000 else x * 2

    def powers(x):
        return x[: round(x.shape[0] ** 0.5)]

    def constant(x):
        return x + np.ones(x.shape[0], np.float32)

    for f, message in (
        (branches, "another way than by sums, products|different operations"),
        (powers, "the operation slice cannot be exported with symbolic dimensions"),
        (constant, "closes over an array that depends on the symbolic dimensions"),
    ):
        with pytest.raises(SizeDependenceError, match=message):
            export(xpr.jit(f))(spec("b"))
    with pytest.raises(ValueError, match="choices of b that satisfy"):
        export(xpr.jit(lambda x: x))(spec("b", constraints=["b == 5"]))


def test_programs_that_are_special_at_one():
    def grid(x):
        return jnp.linspace(0, 1, x.shape[0]) * x

    with pytest.raises(SizeDependenceError, match=r"something else for b = 1 .* 'b >= 2'"):
        export(xpr.jit(grid))(spec("b"))
    e = export(xpr.jit(grid))(spec("b", constraints=["b >= 2"]))
    x = np.arange(6, dtype=np.float32)
    np.testing.assert_allclose(np.asarray(e.call(x)), grid(x), rtol=1e-5)
    with pytest.raises(SizeDependenceError, match="the function fails for b = 1"):
        export(xpr.jit(lambda x: x[1:].max()))(spec("b"))


def test_only_export_takes_symbolic_dimensions():
    only = r"only xpr\.export\.export takes shapes with it"
    with pytest.raises(InconclusiveDimensionOperation, match=only):
        xpr.jit(lambda x: x).lower(spec("b"))
