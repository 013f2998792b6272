"""Products of arrays: xpr.numpy against NumPy, eager and in `jit`; the programs they print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.numpy.cases import Case, check
from xpr import lax
from xpr.core.config import override

RNG = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype("f4")


def ints(*shape: int, dtype: str = "i4") -> np.ndarray[Any, Any]:
    return RNG.integers(-9, 9, shape).astype(dtype)


def complexes(*shape: int) -> np.ndarray[Any, Any]:
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype("c8")


def product(name: str, *args: Any, **kwargs: Any) -> Case:
    return Case(name, args, kwargs, rtol=2e-6, atol=2e-6)


def product_cases() -> list[Case]:
    cases = []
    for make in (floats, ints, complexes):
        cases += [
            product("dot", make(4), make(4)),
            product("dot", make(2, 3), make(3, 4)),
            product("dot", make(2, 3), make(3)),
            product("dot", make(3), make(4, 3, 2)),
            product("dot", make(2, 3), make(4, 3, 2)),
            product("dot", make(), make(2, 3)),
            product("vdot", make(2, 3), make(2, 3)),
            product("vdot", make(), make()),
            product("inner", make(2, 3), make(4, 3)),
            product("inner", make(3), make(2, 2, 3)),
            product("inner", make(), make(3)),
            product("outer", make(2, 2), make(3)),
            product("kron", make(2, 3), make(3, 2)),
            product("kron", make(3), make(2, 2, 2)),
            product("matmul", make(3, 4), make(4, 5)),
            product("matmul", make(4), make(4)),
            product("matmul", make(2, 3, 4), make(4)),
            product("matmul", make(4), make(2, 4, 3)),
            product("matmul", make(2, 1, 3, 4), make(5, 4, 2)),
            product("matmul", make(1, 3, 4), make(1, 4, 2)),
            product("matmul", make(2, 3, 4), make(2, 4, 1)),
            product("tensordot", make(2, 3, 4), make(3, 4, 5)),
            product("tensordot", make(2, 3), make(4, 5), axes=0),
            product("tensordot", make(2, 3, 4), make(4, 3, 5), axes=((1, 2), (1, 0))),
            product("tensordot", make(2, 3), make(3, 2), axes=(-1, 0)),
            product("cross", make(4, 3), make(3)),
            product("cross", make(3, 4), make(3, 4), axis=0),
            product("cross", make(3, 4), make(4, 3), axisa=0, axisc=0),
            product("vecdot", make(2, 3), make(2, 3)),
            product("vecdot", make(5, 1, 3), make(2, 3)),
            product("vecdot", make(3, 2), make(3, 2), axis=0),
            product("trace", make(3, 4)),
            product("trace", make(3, 4), offset=2),
            product("trace", make(4, 3), offset=-1),
            product("trace", make(3, 4), offset=9),
            product("trace", make(2, 3, 4), axis1=2, axis2=0),
        ]
    cases += [
        product("matmul", floats(0, 3), floats(3, 2)),
        product("matmul", floats(2, 0), floats(0, 3)),
        product("matmul", floats(0, 2, 3), floats(3, 2)),
        product("dot", floats(0), floats(0)),
        product("dot", floats(2, 3), ints(3)),
        product("trace", ints(3, 3), dtype=np.float32),
        product("trace", floats(0, 3)),
    ]
    return cases


def test_products() -> None:
    check(product_cases())


def test_vectors_of_two_elements_cross() -> None:
    def third(x: Any) -> Any:
        return np.concatenate([x, np.zeros((*x.shape[:-1], 1), x.dtype)], axis=-1)

    u, v, w = ints(4, 2), ints(4, 2), ints(4, 3)
    check(
        [
            Case("cross", (u, v), expected=lambda x, y: np.cross(third(x), third(y))[..., 2]),
            Case("cross", (u, w), expected=lambda x, y: np.cross(third(x), y)),
            Case("cross", (w, u), expected=lambda x, y: np.cross(x, third(y))),
        ]
    )


def test_matrices_and_vectors() -> None:
    a, v = complexes(5, 2, 3), complexes(3)
    u, b = complexes(5, 2), complexes(2, 3)
    check(
        [
            Case("matvec", (a, v), expected=lambda x, y: np.einsum("bij,j->bi", x, y), rtol=3e-6),
            Case("vecmat", (u, b), rtol=3e-6,
                 expected=lambda x, y: np.einsum("bi,ij->bj", x.conj(), y)),
        ]
    )  # fmt: skip


EINSUMS: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("ij,jk->ik", ((2, 3), (3, 4))),
    ("ij,jk", ((2, 3), (3, 4))),
    ("ij,jk->ki", ((2, 3), (3, 4))),
    ("bij,bjk->bik", ((5, 2, 3), (5, 3, 4))),
    ("bqhd,bkhd->bhqk", ((2, 3, 4, 5), (2, 6, 4, 5))),
    ("bhqk,bkhd->bqhd", ((2, 4, 3, 6), (2, 6, 4, 5))),
    ("i,j->ij", ((3,), (4,))),
    ("i,i->", ((3,), (3,))),
    ("i,i->i", ((3,), (3,))),
    ("ij,kj->i", ((2, 3), (4, 3))),
    ("ij,kl->jl", ((2, 5), (3, 4))),
    ("ij->ji", ((2, 3),)),
    ("ji", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("ij->j", ((2, 3),)),
    ("ii", ((3, 3),)),
    ("ii->i", ((3, 3),)),
    ("iij->ij", ((2, 2, 3),)),
    ("iji->j", ((2, 3, 2),)),
    ("iii->i", ((3, 3, 3),)),
    ("ijij->ij", ((2, 3, 2, 3),)),
    ("ijij->", ((2, 3, 2, 3),)),
    ("ii,ij->ij", ((3, 3), (3, 4))),
    ("...i,...i", ((2, 3), (2, 3))),
    ("...ij,...jk->...ik", ((5, 2, 3), (3, 4))),
    ("i...->...", ((2, 3, 4),)),
    ("...ii->...i", ((4, 3, 3),)),
    ("i...,j...->ij...", ((2, 5, 4), (3, 4))),
    ("...->...", ((2, 3),)),
    (",ij", ((), (2, 3))),
    ("->", ((),)),
    ("i,i,i->", ((3,), (3,), (3,))),
    ("i,j,k->kji", ((2,), (3,), (4,))),
    ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))),
    ("ab,ab,c->c", ((2, 3), (2, 3), (4,))),
    ("ab,bc,cd,da->", ((2, 3), (3, 4), (4, 5), (5, 2))),
    ("abc,cd,bdef->aef", ((2, 3, 4), (4, 5), (3, 5, 2, 3))),
    ("ij,jk->ik", ((0, 3), (3, 4))),
    ("ij,jk->ik", ((2, 0), (0, 4))),
    (" i j , j k -> i k ", ((2, 3), (3, 4))),
    ("iαβ->βα", ((2, 3, 4),)),
]


@pytest.mark.parametrize("make", [floats, ints, complexes])
def test_einsum(make: Callable[..., Any]) -> None:
    cases = []
    for text, shapes in EINSUMS:
        plain = text.replace("α", "x").replace("β", "y")
        cases.append(
            Case(f"einsum {text}", tuple(make(*s) for s in shapes), rtol=5e-6, atol=1e-5,
                 call=lambda m, *xs, t=text, p=plain: m.einsum(p if m is np else t, *xs))
        )  # fmt: skip
    check(cases)


def test_einsum_axes_of_size_one_go_with_any_size() -> None:
    x = floats(2, 3)
    cases = [
        Case(
            f"einsum {text} {shape}",
            (x, floats(*shape)),
            rtol=5e-6,
            call=lambda m, a, b, t=text: m.einsum(t, a, b),
        )
        for text, shape in (
            ("ij,ij->ij", (1, 3)),
            ("ij,ij->ij", (2, 1)),
            ("ij,ij->ij", (1, 1)),
            ("ij,kj->ik", (1, 1)),
            ("ij,ij->j", (1, 3)),
            ("...j,...j->...", (1, 3)),
        )
    ]
    check(cases)


def test_einsum_with_labels_as_sequences() -> None:
    x, y = floats(2, 3), floats(3, 4)
    for found, expected in (
        (jnp.einsum(x, [0, 1], y, [1, 2], [0, 2]), x @ y),
        (jnp.einsum(x, [0, 1], y, [1, 2]), x @ y),
        (jnp.einsum(x, [7, 3]), x.T),
        (jnp.einsum(x, [Ellipsis, 1], [1]), x.sum(0)),
        (jnp.einsum(x, "ij", y, "jk", "ki"), (x @ y).T),
    ):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=2e-6)


def test_einsum_in_any_order() -> None:
    xs = [floats(2, 3), floats(3, 4), floats(4, 5)]
    expected = xs[0] @ xs[1] @ xs[2]
    path = jnp.einsum_path("ij,jk,kl", *xs)[0]
    orders: tuple[Any, ...] = (
        "auto", "greedy", "optimal", True, False, path, [(1, 2), (0, 1)], [(0, 1, 2)],
        ["einsum_path", (0, 2), (0, 1)],
    )  # fmt: skip
    for order in orders:
        found = jnp.einsum("ij,jk,kl->il", *xs, optimize=order)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5)
    four = jnp.einsum("ab,bc,cd,de", *xs, floats(5, 2), optimize=False)
    assert four.shape == (2, 2)
    assert path == [(0, 1), (0, 1)]


def test_types_of_products() -> None:
    small = ints(3, dtype="i1")
    half = floats(3).astype(ml_dtypes.bfloat16)
    flag = np.array([True, False, True])
    functions: tuple[Callable[..., Any], ...] = (
        jnp.dot, jnp.vdot, jnp.inner, jnp.matmul, jnp.vecdot,
        lambda a, b, **k: jnp.einsum("i,i->", a, b, **k),
        lambda a, b, **k: jnp.tensordot(a, b, 1, **k),
    )  # fmt: skip

    def products(small: Any, half: Any, flag: Any) -> list[tuple[Any, ...]]:
        return [
            (
                *(f(small, small), f(small, half), f(flag, flag), f(flag, small)),
                f(small, small, preferred_element_type=np.int32),
                f(half, half, preferred_element_type=np.float32),
            )
            for f in functions
        ]

    types = (jnp.int8, jnp.bfloat16, jnp.bool, jnp.int8, jnp.int32, jnp.float32)
    expected = np.dot(half.astype("f8"), half.astype("f8"))
    for run in (products, xpr.jit(products)):
        for found in run(small, half, flag):
            assert tuple(x.dtype for x in found) == types
            assert bool(found[2]) is True
            assert int(found[4]) == int(np.dot(small.astype("i4"), small.astype("i4")))
            np.testing.assert_allclose(float(found[5]), expected, rtol=1e-6)
    assert jnp.dot(2, 3.0).weak_type
    assert jnp.dot(jnp.float32(2), 3.0).weak_type is False
    assert jnp.trace(jnp.ones((2, 2), "int8")).dtype == jnp.int32
    assert jnp.trace(jnp.ones((2, 2), bool)).dtype == jnp.int32
    assert jnp.trace(jnp.ones((2, 2), "bfloat16")).dtype == jnp.bfloat16
    assert jnp.einsum("i->", jnp.ones(3, "int8")).dtype == jnp.int8
    assert jnp.einsum("i->", jnp.ones(300, "int8"), preferred_element_type="int32") == 300
    # Booleans are counted where the result is a number.
    assert float(jnp.einsum("ij,i->", jnp.ones((2, 3), bool), jnp.ones(2))) == 6.0


def test_double_precision() -> None:
    x, y = RNG.standard_normal((2, 3, 50)), RNG.standard_normal((50, 4))
    with override("enable_x64", True):
        for f in (jnp.matmul, lambda a, b: jnp.einsum("abc,cd->abd", a, b)):
            for g in (f, xpr.jit(f)):
                found = np.asarray(g(x, y))
                assert found.dtype == np.float64
                np.testing.assert_allclose(found, x @ y, rtol=1e-12, atol=1e-13)


def test_precision_is_checked_and_kept() -> None:
    x = jnp.ones((2, 2))
    functions: tuple[Callable[..., Any], ...] = (
        jnp.dot, jnp.matmul, jnp.inner, jnp.vdot,
        lambda a, b, **k: jnp.einsum("ij,jk", a, b, **k),
    )  # fmt: skip
    for f in functions:
        with pytest.raises(ValueError, match="Precision argument must be one of"):
            f(x, x, precision="bogus")
        text = str(xpr.make_jaxpr(lambda a, f=f: f(a, a, precision=lax.Precision.HIGHEST))(x))
        assert "precision=(Precision.HIGHEST, Precision.HIGHEST)" in text


def test_trace_with_a_traced_offset() -> None:
    x = ints(3, 5)
    f = xpr.jit(lambda a, k: jnp.trace(a, k))
    for k in (-4, -1, 0, 2, 4, 7):
        assert int(f(x, k)) == np.trace(x, k)


def printed(f: Callable[..., Any], *shapes: tuple[int, ...]) -> list[str]:
    """The operations of the program, without their parameters, and those of dot_general."""
    jaxpr = xpr.make_jaxpr(f)(*[np.zeros(s, "f4") for s in shapes])
    out = []
    for eqn in jaxpr.jaxpr.eqns:
        numbers = eqn.params.get("dimension_numbers")
        out.append(f"{eqn.primitive.name}{numbers if eqn.primitive.name == 'dot_general' else ''}")
    return out


def test_einsum_becomes_dot_general_with_batch_axes() -> None:
    def program(text: str, *shapes: tuple[int, ...]) -> list[str]:
        return printed(lambda *xs: jnp.einsum(text, *xs), *shapes)

    assert program("ij,jk->ik", (2, 3), (3, 4)) == ["dot_general(((1,), (0,)), ((), ()))"]
    batched = ["dot_general(((2,), (1,)), ((0,), (0,)))"]
    assert program("bij,bjk->bik", (5, 2, 3), (5, 3, 4)) == batched
    assert program("ij,ij->ij", (2, 3), (2, 3)) == ["dot_general(((), ()), ((0, 1), (0, 1)))"]
    # The operands change places where that gives the axes in the order wanted.
    assert program("ab,bc->ca", (3, 2), (2, 5)) == ["dot_general(((0,), (1,)), ((), ()))"]
    assert program("abc,cd->adb", (3, 2, 4), (4, 5)) == [
        "dot_general(((0,), (2,)), ((), ()))",
        "transpose",
    ]
    # What only one operand has and the result lacks is summed first.
    assert program("ij,kj->i", (2, 3), (4, 3)) == [
        "reduce_sum",
        "dot_general(((1,), (0,)), ((), ()))",
    ]
    assert program("ij->j", (2, 3)) == ["reduce_sum"]
    assert program("i->i", (3,)) == []


def test_matmul_repeats_nothing_in_memory() -> None:
    assert printed(jnp.matmul, (2, 3, 4), (4, 5)) == ["dot_general(((2,), (0,)), ((), ()))"]
    assert printed(jnp.matmul, (7, 2, 3), (7, 3, 4)) == ["dot_general(((2,), (1,)), ((0,), (0,)))"]
    assert printed(jnp.matmul, (2, 1, 3, 4), (5, 4, 6)) == [
        "squeeze",
        "dot_general(((2,), (1,)), ((), ()))",
        "transpose",
    ]
    assert printed(jnp.vecdot, (2, 3), (2, 3)) == ["dot_general(((1,), (1,)), ((0,), (0,)))"]


def test_printed_program() -> None:
    text = str(xpr.make_jaxpr(lambda x, y: x @ y)(np.ones((2, 3), "f4"), np.ones((3, 2), "f4")))
    assert text == (
        "{ lambda ; a:f32[2,3] b:f32[3,2]. let\n"
        "    c:f32[2,2] = dot_general[\n"
        "      dimension_numbers=(([1], [0]), ([], []))\n"
        "      preferred_element_type=float32\n"
        "    ] a b\n"
        "  in (c,) }"
    )


def test_operators_and_methods() -> None:
    x, y = floats(2, 3), floats(3, 2)
    a, b = jnp.asarray(x), jnp.asarray(y)
    for found in (a @ b, x @ b, a @ y, a.dot(b)):
        assert isinstance(found, xpr.Array)
        np.testing.assert_allclose(np.asarray(found), x @ y, rtol=1e-6)
    np.testing.assert_allclose(float((a @ b).trace()), np.trace(x @ y), rtol=1e-6)
    with pytest.raises(TypeError, match="unsupported operand type"):
        a @ [1, 2, 3]  # type: ignore[operator]


X = jnp.ones((2, 3))
LIST: Any = [1]
HALF: Any = 1.5
ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: jnp.dot(LIST, X), TypeError, "dot requires ndarray or scalar.*list.*position 0"),
    (lambda: jnp.dot(X, X), TypeError, r"3 \(lhs axis 1\).*2 \(rhs axis 0\)"),
    (lambda: jnp.matmul(2, X), ValueError, "operand 0 must have ndim at least 1"),
    (lambda: jnp.matmul(X, 2), ValueError, "operand 1 must have ndim at least 1"),
    (lambda: jnp.matmul(X, X), TypeError, "contracting dimensions to have the same shape"),
    (lambda: jnp.matmul(jnp.ones((2, 3, 4)), jnp.ones((3, 4, 5))), ValueError,
     r"matmul arguments: f32\[2,3,4\] and f32\[3,4,5\].*\(2,\) and \(3,\)"),
    (lambda: jnp.vdot(X, X[0]), TypeError, "contracting dimensions"),
    (lambda: jnp.inner(X, X[:, 0]), TypeError, "contracting dimensions"),
    (lambda: jnp.outer(X, X, out=LIST), NotImplementedError, "'out' argument to jnp.outer"),
    (lambda: jnp.tensordot(X, X, 3), TypeError, "exceeds input ranks"),
    (lambda: jnp.tensordot(X, X, ((0, 1), (0,))), TypeError, "equal length"),
    (lambda: jnp.tensordot(X, X, ((5,), (0,))), ValueError, "axis 5 is out of bounds"),
    (lambda: jnp.tensordot(X, X, HALF), TypeError, "axes argument must be"),
    (lambda: jnp.cross(jnp.ones(4), X), ValueError, "either 2 or 3.*got 4 and 3"),
    (lambda: jnp.cross(X, X, axis=5), ValueError, "axis 5 is out of bounds"),
    (lambda: jnp.trace(X[0]), ValueError, "axis 1 is out of bounds"),
    (lambda: jnp.trace(X, 0, 1, 1), ValueError, "can not be same. axis1=1 and axis2=1"),
    (lambda: jnp.trace(X, out=LIST), NotImplementedError, "'out' argument to jnp.trace"),
    (lambda: jnp.vecdot(X, X[:, 0]), ValueError, r"axes must match.*\(2, 3\) and \(2,\)"),
    (lambda: jnp.matvec(X, X[:, 0]), ValueError, "inconsistent size for core .*: 2 vs 3"),
    (lambda: jnp.matvec(X[0], X[0]), ValueError, r"shape \(3,\) does not have enough dimensions"),
    (lambda: jnp.vecmat(X[0], X), ValueError, "inconsistent size for core .*: 2 vs 3"),
    (lambda: jnp.kron(X > 0, X > 0), TypeError, "mul does not accept dtype bool"),
    (lambda: jnp.einsum("ij,jk", X, X), ValueError,
     r"Size of label 'j' for operand 1 \(2\).*previous terms \(3\).*'ij,jk'"),
    (lambda: jnp.einsum("ij->k", X), ValueError, "'k' did not appear in the input.*'ij->k'"),
    (lambda: jnp.einsum("ij->ii", X), ValueError, "'i' appeared more than once.*'ij->ii'"),
    (lambda: jnp.einsum("ij,jk->ik", X), ValueError, "subscripts, 2, must be equal.*operands, 1"),
    (lambda: jnp.einsum("ij", X, X), ValueError, "subscripts, 1, must be equal.*operands, 2"),
    (lambda: jnp.einsum("ijk", X), ValueError, r"subscript 'ijk' does not contain.*shape \(2, 3\)"),
    (lambda: jnp.einsum("i", X), ValueError, "subscript 'i' does not contain.*operand 0"),
    (lambda: jnp.einsum("ij->i->", X), ValueError, "can only contain one '->'.*'ij->i->'"),
    (lambda: jnp.einsum("..ij", X), ValueError, "Invalid Ellipses"),
    (lambda: jnp.einsum("...i...", X), ValueError, "Invalid Ellipses"),
    (lambda: jnp.einsum("ij->i,j", X), ValueError, "output cannot have several terms"),
    (lambda: jnp.einsum("ij,j", X, LIST), TypeError, "einsum requires ndarray.*list.*position 1"),
    (lambda: jnp.einsum("ij", X, out=LIST), NotImplementedError, "'out' argument to jnp.einsum"),
    (lambda: jnp.einsum(X, [0, 1], [5]), ValueError, "output label 5 did not appear"),
    (lambda: jnp.einsum(X, [0, "a"]), TypeError, "types that can be ordered"),
    (lambda: jnp.einsum_path("ij,jk", X, X), ValueError, "Size of label 'j'"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), ERRORS, ids=[e[2] for e in ERRORS])
def test_errors(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
