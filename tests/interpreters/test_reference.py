"""Jaxprs evaluated by the reference rules: what programs inside programs say of themselves."""

from __future__ import annotations

import inspect

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import Primitive, registry
from xpr.interpreters.reference import called_program, interpret


def test_rules_that_run_programs_say_so() -> None:
    for name, primitive in registry.items():
        takes = "interpret" in inspect.signature(primitive.reference).parameters
        assert primitive.interprets == takes, name
    assert {n for n, p in registry.items() if p.interprets} == {"cond", "scan", "while"}


def test_calls_are_evaluated_equation_by_equation() -> None:
    @xpr.custom_jvp
    def double(x):
        return 2 * x

    double.defjvp(lambda primals, tangents: (double(*primals), 2 * tangents[0]))

    def f(x):
        y = xpr.jit(lambda v: v + 1)(x)
        return xpr.lax.fori_loop(0, 3, lambda _, v: double(v), xpr.checkpoint(jnp.abs)(y))

    closed = xpr.make_jaxpr(f)(np.ones(2, np.float32))
    names = {e.primitive.name for e in closed.eqns if called_program(e) is not None}
    assert names == {"jit", "remat2"}
    (found,) = interpret(closed, closed.consts, [np.array([-3.0, 1.0], np.float32)])
    np.testing.assert_array_equal(found, np.array([16.0, 16.0], np.float32))


def test_an_attribute_makes_a_call_and_no_family_does() -> None:
    jitted = xpr.make_jaxpr(xpr.jit(lambda x: x * x))(3.0).eqns[0]
    mine = Primitive("squared", "call", multiple_results=True)
    assert called_program(jitted.replace(primitive=mine)) is None
    mine = Primitive("squared", "of_mine", multiple_results=True)
    mine.calls = "program"
    inner = jitted.params["jaxpr"]
    assert isinstance(inner, ClosedJaxpr)
    eqn = jitted.replace(primitive=mine, params={"program": inner})
    assert called_program(eqn) is inner
    program = xpr.make_jaxpr(lambda x: x)(3.0).jaxpr
    closed = ClosedJaxpr(
        program.replace(invars=eqn.invars, outvars=list(eqn.outvars), eqns=[eqn]), []
    )
    assert interpret(closed, [], [np.array(3.0, np.float32)]) == [9.0]
