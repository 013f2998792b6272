"""Tracers: their errors name the function, the argument and the line; leaks are found."""

from __future__ import annotations

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import errors


def test_boolean_conversion_names_function_and_argument() -> None:
    @xpr.jit
    def f(x, neg):
        return -x if neg else x

    with pytest.raises(
        errors.TracerBoolConversionError, match=r"traced array with shape bool\[\]"
    ) as e:
        f(1, True)
    assert "the function f at " in str(e.value)
    assert "for jit" in str(e.value)
    assert "the value of the argument neg" in str(e.value)
    assert isinstance(e.value, errors.ConcretizationTypeError)
    assert isinstance(e.value, TypeError)


def test_argument_names_reach_into_trees() -> None:
    with pytest.raises(errors.TracerBoolConversionError, match=r"argument params\['w'\]\[1\]"):
        xpr.jit(lambda params: 1 if params["w"][1] else 2)({"w": (1.0, 2.0)})


def test_value_made_by_operations_names_their_line() -> None:
    @xpr.jit
    def f(x):
        return x.reshape(jnp.array(x.shape).prod())

    with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete values") as e:
        f(jnp.ones((2, 3)))
    assert "test_trace.py" in str(e.value)


def test_numpy_conversion() -> None:
    with pytest.raises(errors.TracerArrayConversionError, match=r"__array__\(\) was called"):
        xpr.jit(lambda x: np.sin(np.asarray(x)))(1.0)


def test_integer_conversion() -> None:
    with pytest.raises(
        errors.TracerIntegerConversionError, match=r"__index__\(\) method was called"
    ):
        xpr.jit(lambda n: list(range(n)))(3)


@pytest.mark.parametrize("convert", [int, float, complex])
def test_scalar_conversion(convert) -> None:
    with pytest.raises(errors.ConcretizationTypeError, match=f"`{convert.__name__}` function"):
        xpr.jit(lambda x: convert(x))(1)


def test_item_and_tolist() -> None:
    with pytest.raises(errors.ConcretizationTypeError, match=r"item\(\)"):
        xpr.jit(lambda x: x.item())(1)
    with pytest.raises(errors.ConcretizationTypeError, match=r"tolist\(\)"):
        xpr.jit(lambda x: x.tolist())(1)


def test_leaked_tracer_names_function_and_line() -> None:
    leaked = []

    @xpr.jit
    def f(x):
        leaked.append(x * 2)
        return x

    f(1.0)
    with pytest.raises(errors.UnexpectedTracerError, match="the value leaked was f at ") as e:
        leaked[0] + 1
    assert "was created on line" in str(e.value)
    assert "test_trace.py" in str(e.value)


def test_leaked_argument_is_named() -> None:
    leaked = []
    xpr.jit(lambda speed: leaked.append(speed))(1.0)
    with pytest.raises(errors.UnexpectedTracerError, match="the argument speed of that function"):
        jnp.sin(leaked[0])


def test_leak_into_another_trace() -> None:
    leaked = []
    xpr.jit(lambda x: leaked.append(x))(1.0)
    with pytest.raises(errors.UnexpectedTracerError, match="unexpected tracer"):
        xpr.jit(lambda y: y + leaked[0])(1.0)


def test_tracers_print_their_type() -> None:
    seen = []
    xpr.jit(lambda x: seen.append((str(x), repr(x), f"{x}")))(np.ones((2, 3), "f4"))
    assert seen == [("JitTracer(float32[2,3])",) * 3]


def test_tracers_cannot_be_hashed_or_assigned_to() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        xpr.jit(lambda x: hash(x))(1.0)

    def assign(x):
        x[0] = 1

    with pytest.raises(TypeError, match="immutable"):
        xpr.jit(assign)(np.ones(3))


def test_python_integers_out_of_range_are_refused() -> None:
    with pytest.raises(OverflowError, match="too large"):
        xpr.jit(lambda x: x + 2**40)(1)


def test_tracers_are_arrays() -> None:
    seen = []
    xpr.jit(lambda x: seen.append(isinstance(x, xpr.Array)))(1.0)
    assert seen == [True]
    assert isinstance(jnp.ones(3), xpr.Array)
    assert not isinstance(np.ones(3), xpr.Array)


def test_errors_carry_the_users_line() -> None:
    with pytest.raises(TypeError, match="incompatible shapes") as e:
        xpr.jit(lambda x, y: x + y)(np.ones(3), np.ones(4))
    assert any("test_trace.py" in note for note in e.value.__notes__)
