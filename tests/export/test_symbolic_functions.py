"""Sizes that are quotients, remainders, greater and lesser ones of symbolic dimensions."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.polynomials import parsed_call, text_of, variables
from xpr.core.symbolic import SymbolicDim, greater, lesser
from xpr.errors import InconclusiveDimensionOperation
from xpr.export import SymbolicScope, deserialize, export, symbolic_shape
from xpr.export.function_fits import FunctionFitter
from xpr.export.generalize import SizeDependenceError
from xpr.export.writing import bundle_bytes
from xpr.runtimes.bundle import ArgumentValueError, Bundle

F32 = np.float32


def spec(text: str, scope: SymbolicScope | None = None) -> Any:
    return xpr.ShapeDtypeStruct(symbolic_shape(text, scope=scope), F32)


# ---- sizes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mod(b, 3)", lambda a, b: b % 3),
        ("floordiv(b, 2)", lambda a, b: b // 2),
        ("mod(b, -3)", lambda a, b: b % -3),
        ("floordiv(-b, 4)", lambda a, b: -b // 4),
        ("max(b, 3)", lambda a, b: max(b, 3)),
        ("min(a, b)", lambda a, b: min(a, b)),
        ("max(a,b)-min(a,b)", lambda a, b: abs(a - b)),
        ("2*b^2 + 1", lambda a, b: 2 * b * b + 1),
        ("a*mod(floordiv(b + 1, 2), 3) + 5", lambda a, b: a * ((b + 1) // 2 % 3) + 5),
        ("floordiv(a*b, a + 1)", lambda a, b: a * b // (a + 1)),
        ("mod(4*b + 3, 2)", lambda a, b: 1),
        ("floordiv(6*a*b, 3*b)", lambda a, b: 2 * a),
    ],
)
def test_texts(text: str, value: Callable[[int, int], int]) -> None:
    (dim,) = symbolic_shape(text)
    for a in range(1, 9):
        for b in range(1, 9):
            found = dim.value({"a": a, "b": b}) if isinstance(dim, SymbolicDim) else dim
            assert found == value(a, b)
    # What is printed is read as the same.
    (again,) = symbolic_shape(str(dim))
    assert str(again) == str(dim)


@pytest.mark.parametrize("text", ["max(a, b, c)", "max(b)", "foo(b)", "b // 2", "b % 3", "b(2)"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="cannot read the size"):
        symbolic_shape(text)


def test_division_by_zero() -> None:
    with pytest.raises(ZeroDivisionError, match="the symbolic dimension b by zero"):
        symbolic_shape("floordiv(b, 0)")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda a, b: b % 3, "mod(b, 3)"),
        (lambda a, b: 7 // b, "floordiv(7, b)"),
        (lambda a, b: 7 % b, "mod(7, b)"),
        (lambda a, b: divmod(b, 2)[0], "floordiv(b, 2)"),
        (lambda a, b: a // b, "floordiv(a, b)"),
        (lambda a, b: (a * b) // b, "a"),
        (lambda a, b: (a * b) % b, "0"),
        (lambda a, b: (a * a - b * b) // (a + b), "a - b"),
        (lambda a, b: (6 * b + 4) // 2, "3*b + 2"),
        (lambda a, b: (3 * b + 5) % 3, "2"),
        (lambda a, b: b % 1, "0"),
        (lambda a, b: greater(b, 3), "max(b, 3)"),
        (lambda a, b: greater(3, b), "max(3, b)"),
        (lambda a, b: greater(b, 1), "b"),
        (lambda a, b: greater(a + b, b), "a + b"),
        (lambda a, b: lesser(b, 0), "0"),
        (lambda a, b: lesser(b, b + 1), "b"),
        (lambda a, b: greater(3, 5), "5"),
    ],
)
def test_arithmetic(make: Callable[..., Any], text: str) -> None:
    assert str(make(*symbolic_shape("a, b"))) == text


def test_comparisons() -> None:
    (b,) = symbolic_shape("b")
    for yes in (
        b % 3 >= 0,
        b % 3 < 3,
        b % 3 <= 2,
        b // 2 <= b,
        b // 2 >= 0,
        b // 2 * 2 <= b,
        (b + 2) // 3 * 3 >= b,
        greater(b, 3) >= 3,
        greater(b, 3) >= b,
        lesser(b, 3) <= 3,
    ):
        assert yes
    assert not b % 3 > 2
    assert not lesser(b, 3) > 3
    assert b % 3 == b % 3
    assert hash(b % 3) == hash(b % 3)
    for ask in (lambda: b // 2 >= 1, lambda: b % 3 > 0, lambda: greater(b, 3) > b):
        with pytest.raises(InconclusiveDimensionOperation):
            ask()


def test_comparisons_are_true_of_all_sizes() -> None:
    """What is said of random sizes holds for small values of them."""
    rng = random.Random(0)
    a, b = symbolic_shape("a, b")
    values = [{"a": x, "b": y} for x in range(1, 14) for y in range(1, 14)]

    def size(depth: int) -> Any:
        if depth == 0:
            return rng.choice([a, b, 2 * a, b + 1, a - b, rng.randint(-4, 4)])
        x, y = size(depth - 1), size(depth - 1)
        divisor = rng.choice([2, 3, -2, b])
        return rng.choice([x + y, x - y, x // divisor, x % divisor, greater(x, y), lesser(x, y)])

    said = 0
    for _ in range(400):
        x, y = size(rng.choice([1, 2])), size(1)
        try:
            answer = x >= y
        except InconclusiveDimensionOperation:
            continue
        said += 1
        for v in values:
            p, q = (d.value(v) if isinstance(d, SymbolicDim) else d for d in (x, y))
            assert (p >= q) == answer, (x, y, v)
    assert said > 60


def test_names_of_functions() -> None:
    name = "floordiv(2*b + 1, mod(a, 3))"
    function, left, right = parsed_call(name)
    assert (function, text_of(left), text_of(right)) == ("floordiv", "2*b + 1", "mod(a, 3)")
    assert variables({(name,): 1}) == {"a", "b"}


def test_constraints() -> None:
    scope = SymbolicScope(["floordiv(b, 2) >= 3", "max(a, b) == a", "mod(b, 5) == 1"])
    for a, b, fine in ((6, 6, True), (5, 6, False), (11, 11, True), (9, 7, False), (9, 1, False)):
        assert scope.holds({"a": a, "b": b}) is fine


# ---- forms of numbers


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda b: b // 2, "floordiv(b, 2)"),
        (lambda b: (b + 1) // 2, "floordiv(b + 1, 2)"),
        (lambda b: -(-b // 7), "floordiv(b + 6, 7)"),
        (lambda b: 3 * b // 4 + 5, "floordiv(3*b + 20, 4)"),
        (lambda b: b + -b % 3, "3*floordiv(b + 2, 3)"),
        (lambda b: b - b // 3, "floordiv(2*b + 2, 3)"),
        (lambda b: b % 5, "mod(b, 5)"),
        (lambda b: 2 * b + (2 * b + 1) % 3, "2*b + mod(2*b + 1, 3)"),
        (lambda b: min(b, 3), "min(b, 3)"),
        (lambda b: max(b - 6, 0), "max(0, b - 6)"),
        (lambda b: min(2 * b, b + 4), "min(2*b, b + 4)"),
        (lambda b: 7, "7"),
        (lambda b: b * b, "b*b"),
    ],
)
def test_functions_of_one_size(function: Callable[[int], int], text: str) -> None:
    sizes = [45, 66, 4, 90, 2011, *range(2, 32)]
    points = [{"b": n} for n in sizes]
    fitter = FunctionFitter(["b"], points, {"b": list(range(5, len(points)))})
    terms = fitter.fit([function(n) for n in sizes])
    assert terms is not None
    assert text_of(terms) == text


@pytest.mark.parametrize(
    "function",
    [lambda b: round(b**0.5), lambda b: b & 5, lambda b: b // 2 * (b // 2), lambda b: b // 17],
)
def test_functions_without_a_form(function: Callable[[int], int]) -> None:
    sizes = [45, 66, 4, 90, 2011, *range(2, 32)]
    points = [{"b": n} for n in sizes]
    fitter = FunctionFitter(["b"], points, {"b": list(range(5, len(points)))})
    assert fitter.fit([function(n) for n in sizes]) is None


# ---- programs

PROGRAMS: dict[str, tuple[Callable[..., Any], str]] = {
    "every other": (lambda x: x[::2] * 2, "floordiv(b + 1, 2)"),
    "first half": (lambda x: jnp.sin(x[: x.shape[0] // 2]), "floordiv(b, 2)"),
    "rows of three": (
        lambda x: jnp.pad(x, (0, -x.shape[0] % 3)).reshape(-1, 3).sum(1),
        "floordiv(b + 2, 3)",
    ),
    "greatest in windows": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3,), (2,), "SAME"),
        "floordiv(b + 1, 2)",
    ),
    "numbers": (lambda x: jnp.arange(0, x.shape[0], 3) + x[0], "floordiv(b + 2, 3)"),
    "a convolution": (
        lambda x: lax.conv_general_dilated(x[None, None], jnp.ones((1, 1, 3)), (2,), "SAME")[0, 0],
        "floordiv(b + 1, 2)",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    function, size = PROGRAMS[name]
    exported = export(xpr.jit(function))(spec("b"))
    assert [str(a) for a in exported.out_avals] == [f"float32[{size}]"]
    restored = deserialize(exported.serialize())
    assert [str(a) for a in restored.out_avals] == [f"float32[{size}]"]
    x = np.random.default_rng(0).standard_normal(23).astype(F32)
    for n in (1, 2, 3, 7, 23):
        wanted = np.asarray(function(jnp.asarray(x[:n])))
        for e in (exported, restored):
            found = e.call(x[:n])
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["every other", "first half", "numbers"])
def test_bundles(name: str) -> None:
    """One compiled module computes the sizes itself."""
    function, size = PROGRAMS[name]
    model = Bundle(bundle_bytes(export(xpr.jit(function))(spec("b"))))
    x = np.random.default_rng(1).standard_normal(40).astype(F32)
    for n in (2, 3, 8, 39):
        found = model(x[:n])
        wanted = np.asarray(function(jnp.asarray(x[:n])))
        assert np.asarray(found).shape == wanted.shape, size
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-6)


def test_functions_of_two_sizes() -> None:
    def f(x: Any, y: Any) -> Any:
        wide = jnp.ones(max(x.shape[0], y.shape[0])) * x.sum()
        return wide, jnp.concatenate([x[: x.shape[0] // 2], y]), jnp.outer(y, x[::3])

    scope = SymbolicScope()
    exported = export(xpr.jit(f))(spec("a", scope), spec("b", scope))
    assert [str(t) for t in exported.out_avals] == [
        "float32[max(a, b)]",
        "float32[b + floordiv(a, 2)]",
        "float32[b,floordiv(a + 2, 3)]",
    ]
    for m, n in ((2, 3), (5, 4), (9, 30)):
        x, y = np.arange(m, dtype=F32), np.arange(n, dtype=F32)
        for found, wanted in zip(exported.call(x, y), f(x, y), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_arguments_whose_sizes_are_functions() -> None:
    scope = SymbolicScope()
    f = xpr.jit(lambda x, y: x.sum() + y)
    exported = export(f)(spec("b", scope), spec("mod(b, 3)", scope))
    assert [str(a) for a in exported.out_avals] == ["float32[mod(b, 3)]"]
    for n in (3, 4, 5):
        x, y = np.ones(n, F32), np.ones(n % 3, F32)
        np.testing.assert_array_equal(exported.call(x, y), y + n)
    message = r"expected float32\[mod\(b, 3\)\], got shape \[1\], where b is 5"
    with pytest.raises(ArgumentValueError, match=message):
        exported.call(np.ones(5, F32), np.ones(1, F32))


@pytest.mark.parametrize("text", ["floordiv(b, 2)", "a*b", "max(b, 3)", "b*b"])
def test_sizes_that_the_arguments_do_not_tell(text: str) -> None:
    with pytest.raises(ValueError, match="Cannot solve for values of dimension variables"):
        export(xpr.jit(lambda x: x + 1))(spec(text))


def test_the_gradient_of_a_program() -> None:
    exported = export(xpr.jit(lambda x: (x[::2] ** 2).sum()))(spec("b"))
    x = np.arange(7, dtype=F32)
    wanted = np.where(np.arange(7) % 2 == 0, 2 * x, 0)
    np.testing.assert_allclose(xpr.grad(exported.call)(x), wanted)


def test_what_is_said_of_programs_without_a_form() -> None:
    message = "another way than by sums, products and simple quotients"
    with pytest.raises(SizeDependenceError, match=message):
        export(xpr.jit(lambda x: x[: round(x.shape[0] ** 0.5)]))(spec("b"))


def test_what_bundles_do_not_do() -> None:
    """An operation that needs such a size as a constant; the exported function has it."""
    exported = export(xpr.jit(PROGRAMS["greatest in windows"][0]))(spec("b"))
    with pytest.raises(SizeDependenceError, match=r"stablehlo.pad .* needs one as a constant"):
        bundle_bytes(exported)
