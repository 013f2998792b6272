"""Jaxprs: printed form, checker, dead-code elimination, evaluation, literals and constants."""

from __future__ import annotations

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.core.aval import ShapedArray
from xpr.core.check import check_jaxpr
from xpr.core.errors import JaxprTypeError
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, Var, count_eqns, dce_jaxpr, eval_jaxpr

F32 = np.dtype("float32")


def test_printed_form_of_a_product() -> None:
    text = str(
        xpr.make_jaxpr(lambda x, y: jnp.dot(x + 1, y + 1))(np.ones((3, 4), "f4"), np.ones(4, "f4"))
    )
    assert text == (
        "{ lambda ; a:f32[3,4] b:f32[4]. let\n"
        "    c:f32[3,4] = add a 1.0:f32[]\n"
        "    d:f32[4] = add b 1.0:f32[]\n"
        "    e:f32[3] = dot_general[\n"
        "      dimension_numbers=(([1], [0]), ([], []))\n"
        "      preferred_element_type=float32\n"
        "    ] c d\n"
        "  in (e,) }"
    )


def test_printed_form_of_a_nested_jit() -> None:
    text = str(xpr.make_jaxpr(lambda x: xpr.jit(lambda y: y * 2)(x))(np.ones(3, "f4")))
    assert text == (
        "{ lambda ; a:f32[3]. let\n"
        "    b:f32[3] = jit[\n"
        "      name=<lambda>\n"
        "      jaxpr={ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }\n"
        "    ] a\n"
        "  in (b,) }"
    )


def test_programs_called_twice_are_printed_once() -> None:
    f = xpr.jit(lambda x: jnp.sin(x) * 2)
    assert str(xpr.make_jaxpr(lambda x: f(x) + f(x + 1))(np.ones(3, "f4"))) == (
        "let lambda = { lambda ; a:f32[3]. let\n"
        "    b:f32[3] = sin a\n"
        "    c:f32[3] = mul b 2.0:f32[]\n"
        "  in (c,) } in\n"
        "{ lambda ; d:f32[3]. let\n"
        "    e:f32[3] = jit[name=<lambda> jaxpr=lambda] d\n"
        "    f:f32[3] = add d 1.0:f32[]\n"
        "    g:f32[3] = jit[name=<lambda> jaxpr=lambda] f\n"
        "    h:f32[3] = add e g\n"
        "  in (h,) }"
    )


def test_identity_and_weak_scalars_print_as_in_jax() -> None:
    assert str(xpr.make_jaxpr(lambda x: x)(1.0)) == "{ lambda ; a:f32[]. let  in (a,) }"
    closed = xpr.make_jaxpr(lambda x: x + 1)(1.0)
    assert str(closed) == "{ lambda ; a:f32[]. let b:f32[] = add a 1.0:f32[] in (b,) }"
    assert repr(closed.in_avals) == "[ShapedArray(float32[], weak_type=True)]"


def test_closed_over_arrays_are_constants_and_scalars_are_literals() -> None:
    table = jnp.array([1.0, 2.0, 3.0])
    closed = xpr.make_jaxpr(lambda x: x + np.float32(2) + table)(np.ones(3, "f4"))
    assert str(closed).startswith("{ lambda a:f32[3]; b:f32[3]. let")
    assert len(closed.consts) == 1
    np.testing.assert_array_equal(np.asarray(closed.consts[0]), [1, 2, 3])


def test_numpy_constants_are_copied_when_traced() -> None:
    source = np.ones(3, "f4")
    f = xpr.jit(lambda x: x + source)
    first = np.asarray(f(np.zeros(3, "f4")))
    source[:] = 7
    np.testing.assert_array_equal(np.asarray(f(np.zeros(3, "f4"))), first)


def test_many_names() -> None:
    def f(x):
        for _ in range(30):
            x = x * 2.0
        return x

    lines = str(xpr.make_jaxpr(f)(1.0)).splitlines()
    assert lines[26].strip().startswith("ba:f32[] = mul z")
    assert lines[-1].strip() == "in (be,) }"


def test_source_info_names_the_users_line() -> None:
    closed = xpr.make_jaxpr(lambda x: jnp.sin(x))(1.0)
    source = closed.eqns[0].source_info
    assert source.filename == __file__
    assert "lambda" in source.function
    assert "test_jaxpr.py" in closed.pretty_print(source_info=True)


def test_dce_drops_equations_and_inputs() -> None:
    def f(x, y, z):
        jnp.sin(z)
        return x * y, jnp.cos(x)

    jaxpr = xpr.make_jaxpr(f)(1.0, 2.0, 3.0).jaxpr
    small, used = dce_jaxpr(jaxpr, [False, True])
    assert [e.primitive.name for e in small.eqns] == ["cos"]
    assert used == [True, False, False]
    same, used = dce_jaxpr(jaxpr, [False, True], instantiate=True)
    assert len(same.invars) == 3
    assert used == [True, True, True]


def test_dce_reaches_into_jit() -> None:
    inner = xpr.jit(lambda x, y: (jnp.sin(x), jnp.cos(y)))
    jaxpr = xpr.make_jaxpr(lambda x, y: inner(x, y)[0])(1.0, 2.0).jaxpr
    small, used = dce_jaxpr(jaxpr)
    assert used == [True, False]
    assert count_eqns(small) == 2
    check_jaxpr(small)


def test_eval_jaxpr_evaluates() -> None:
    closed = xpr.make_jaxpr(lambda x, y: (x * y + 1, x))(2.0, 3.0)
    out = eval_jaxpr(closed.jaxpr, closed.consts, 2.0, 3.0)
    assert [float(v) for v in out] == [7.0, 2.0]


def test_checker_accepts_traced_programs() -> None:
    check_jaxpr(xpr.make_jaxpr(lambda x: xpr.jit(jnp.sin)(x) + x)(np.ones((2, 3))))


def test_checker_finds_wrong_types_and_scopes() -> None:
    closed = xpr.make_jaxpr(lambda x: jnp.sin(x) + x)(np.ones(3, "f4"))
    sin, add = closed.jaxpr.eqns
    wrong = sin.replace(outvars=[Var(ShapedArray((4,), F32))])
    with pytest.raises(JaxprTypeError, match=r"sin gives f32\[3\], the variable has f32\[4\]"):
        check_jaxpr(closed.jaxpr.replace(eqns=[wrong], outvars=wrong.outvars))
    with pytest.raises(JaxprTypeError, match="read before it is bound"):
        check_jaxpr(closed.jaxpr.replace(eqns=[add, sin]))
    with pytest.raises(JaxprTypeError, match="bound twice"):
        check_jaxpr(closed.jaxpr.replace(eqns=[sin, sin, add]))


def test_closed_jaxpr_counts_its_constants() -> None:
    v = Var(ShapedArray((), F32))
    with pytest.raises(ValueError, match="got 0 values for 1 constant"):
        ClosedJaxpr(Jaxpr([v], [], [v], []), [])
