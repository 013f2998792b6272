"""Errors as results: messages are those of JAX 0.10.2, places and values are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr import numpy as jnp
from xpr.experimental import checkify
from xpr.primitives.check import NOT_FUNCTIONALIZED
from xpr.sharding import PartitionSpec

f32, i32 = jnp.float32, jnp.int32


def positive(x: Any) -> Any:
    checkify.check(x > 0, "{x} must be positive, is {y:.2f}", x=x, y=x * 2)
    return x * 2


def below_three(v: Any) -> Any:
    checkify.check(v < 3, "body {v}", v=v)
    return v + 1


def below_four(v: Any) -> Any:
    checkify.check(v < 4, "cond {v}", v=v)
    return v < 5


def downwards(x: Any) -> Any:
    return lax.scan(lambda c, y: (c - y, positive(c)), x, jnp.arange(5.0))


def message(f: Callable[..., Any], *args: Any, errors: Any = checkify.user_checks) -> Any:
    """What checkify finds, outside `jit` and in it, where it must be the same."""
    eager = checkify.checkify(f, errors=errors)(*args)[0].get()
    assert xpr.jit(checkify.checkify(f, errors=errors))(*args)[0].get() == eager
    return eager


NEGATIVE = "{} must be positive, is {:.2f} (`check` failed)"


def test_result_and_error() -> None:
    error, out = checkify.checkify(positive)(f32(3))
    assert error.get() is None
    assert error.get_exception() is None
    assert error.throw() is None
    assert str(error) == "Error(None)"
    np.testing.assert_array_equal(out, np.float32(6))
    error, out = checkify.checkify(positive)(f32(-3))
    assert error.get() == NEGATIVE.format(-3.0, -6)
    assert str(error) == f"Error({error.get()})"
    np.testing.assert_array_equal(out, np.float32(-6))
    with pytest.raises(checkify.JaxRuntimeError, match="must be positive") as caught:
        error.throw()
    assert type(caught.value.__cause__).__name__ == "FailedCheckError"
    assert any("test_checkify.py" in note for note in caught.value.__notes__)


def test_keywords_and_structure() -> None:
    error, out = checkify.checkify(lambda a, *, b: {"q": positive(a) + b, "n": None})(f32(1), b=2)
    assert error.get() is None
    assert out["n"] is None
    assert float(out["q"]) == 4


def test_eager_raises() -> None:
    with pytest.raises(checkify.JaxRuntimeError, match=r"-3.0 must be positive, is -6.00"):
        positive(f32(-3))
    with pytest.raises(checkify.JaxRuntimeError, match=r"^-3.0 must"):
        xpr.vmap(positive)(jnp.array([1.0, -2.0, -3.0]))
    with pytest.raises(checkify.JaxRuntimeError, match=r"^-3.0 must"):
        xpr.grad(positive)(f32(-3))


@pytest.mark.parametrize("x", [3.0, -3.0])
@pytest.mark.parametrize("f", [positive, downwards], ids=lambda f: f.__name__)
def test_programs_with_checks_do_not_compile(f: Callable[..., Any], x: float) -> None:
    with pytest.raises(ValueError, match="not functionalized") as caught:
        xpr.jit(f)(f32(x))
    assert str(caught.value) == NOT_FUNCTIONALIZED


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (xpr.jit(positive), f32(-3), NEGATIVE.format(-3.0, -6)),
        (xpr.checkpoint(positive), f32(-3), NEGATIVE.format(-3.0, -6)),
        (xpr.grad(positive), f32(-3), NEGATIVE.format(-3.0, -6)),
        (xpr.grad(xpr.checkpoint(positive)), f32(-3), NEGATIVE.format(-3.0, -6)),
        (xpr.vmap(positive), [1.0, -2.0, -3.0], NEGATIVE.format(-3.0, -6)),
        (downwards, f32(4), NEGATIVE.format(-2.0, -4)),
        (xpr.jit(downwards), f32(4), NEGATIVE.format(-2.0, -4)),
        (downwards, f32(40), None),
        (lambda v: lax.while_loop(below_four, below_three, v), i32(0), "body 3 (`check` failed)"),
        (lambda v: lax.while_loop(below_four, below_three, v), i32(4), "cond 4 (`check` failed)"),
        (
            lambda v: lax.fori_loop(0, 5, lambda _, v: below_three(v), v),
            i32(0),
            "body 3 (`check` failed)",
        ),
        (
            lambda v: lax.cond(v > 0, positive, lambda v: positive(v) + 1, v),
            f32(-1),
            NEGATIVE.format(-1.0, -2),
        ),
        (
            lambda v: lax.switch(2, [lambda v: v, positive, below_three], v),
            f32(7),
            "body 7.0 (`check` failed)",
        ),
        (
            xpr.vmap(lambda v: lax.cond(v > 0, lambda v: v, positive, v)),
            [1.0, -2.0, 3.0],
            NEGATIVE.format(-2.0, -4),
        ),
        (lambda x: (positive(x), below_three(x + 5)), f32(-1), NEGATIVE.format(-1.0, -2)),
    ],
)
def test_user_checks(f: Callable[..., Any], x: Any, expected: str | None) -> None:
    assert message(f, jnp.asarray(x)) == expected


def test_batches_of_errors() -> None:
    check = xpr.vmap(checkify.checkify(positive))
    error, _ = check(jnp.array([1.0, -2.0, -3.0]))
    assert error.get() == (
        f"at mapped index 1: {NEGATIVE.format(-2.0, -4)}\n"
        f"at mapped index 2: {NEGATIVE.format(-3.0, -6)}"
    )
    with pytest.raises(checkify.JaxRuntimeError, match=r"^-3.0 must"):
        error.throw()
    assert check(jnp.array([1.0, 2.0]))[0].get() is None
    error, _ = xpr.vmap(check)(jnp.array([[1.0, -2.0], [-3.0, 4.0]]))
    assert error.get() == (
        f"at mapped index 0, 1: {NEGATIVE.format(-2.0, -4)}\n"
        f"at mapped index 1, 0: {NEGATIVE.format(-3.0, -6)}"
    )


def test_loops_of_each_example() -> None:
    def loop(v: Any) -> Any:
        return lax.while_loop(lambda c: c < 5, below_three, v)

    error, out = xpr.vmap(checkify.checkify(loop))(jnp.array([0, 7]))
    assert error.get() == "at mapped index 0: body 3 (`check` failed)"
    np.testing.assert_array_equal(out, [5, 7])


AXIS0 = "out-of-bounds indexing for array of shape (3, 4): index {} is out of bounds for axis 0 "
AXIS0 += "with size 3. "
AXIS1 = AXIS0.replace("axis 0 with size 3", "axis 1 with size 4")
ONE = "out-of-bounds indexing for array of shape (3,): index {} is out of bounds for axis 0 with "
ONE += "size 3. "


@pytest.mark.parametrize(
    ("f", "args", "expected"),
    [
        (lambda a, i: a[i], (np.ones(3), 5), ONE.format(5)),
        (lambda a, i: a[i], (np.ones(3), -5), ONE.format(-2)),
        (lambda a, i: a[i], (np.ones(3), -1), None),
        (lambda a, i: a[1, i], (np.ones((3, 4)), 9), AXIS1.format(9)),
        (lambda a, i: a[i], (np.ones((3, 4)), [0, 7, 8]), AXIS0.format(7)),
        (lambda a, i: a[:, i], (np.ones((3, 4)), [0, 7, 8]), AXIS1.format(7)),
        (lambda a, i: a.at[i].set(1.0), (np.ones(3), 5), ONE.format(5)),
        (lambda a, i: a.at[i].add(1.0), (np.ones((3, 4)), [1, 5]), AXIS0.format(5)),
        (lambda a, i: a.at[:, i].mul(2.0), (np.ones((3, 4)), [1, -9]), AXIS1.format(-5)),
        (
            lambda a, i: lax.dynamic_slice(a, (i, 0), (2, 2)),
            (np.ones((3, 4)), 2),
            AXIS0.format(2),
        ),
        (lambda a, i: lax.dynamic_slice(a, (i, 0), (2, 2)), (np.ones((3, 4)), 1), None),
        (
            lambda a, i: lax.dynamic_update_slice(a, jnp.ones((2, 2)), (0, i)),
            (np.ones((3, 4)), 3),
            AXIS1.format(3),
        ),
        (lambda a, i: jnp.take(a, i, axis=0), (np.ones((3, 4)), [1, 4]), AXIS0.format(4)),
    ],
)
def test_index_checks(f: Callable[..., Any], args: tuple[Any, ...], expected: str | None) -> None:
    array, index = args
    found = message(f, f32(array), jnp.asarray(index), errors=checkify.index_checks)
    assert found == expected
    assert message(f, f32(array), jnp.asarray(index), errors=checkify.float_checks) is None


DIVISION = "division by zero"
NAN = "nan generated by primitive: {}."


@pytest.mark.parametrize(
    ("f", "args", "errors", "expected"),
    [
        (jnp.sin, (np.inf,), checkify.nan_checks, NAN.format("sin")),
        (jnp.sin, (1.0,), checkify.nan_checks, None),
        (jnp.log, (-1.0,), checkify.float_checks, NAN.format("log")),
        (xpr.jit(lambda x: jnp.sqrt(x) + 1), (-1.0,), checkify.all_checks, NAN.format("sqrt")),
        (lambda a, b: a / b, (1.0, 0.0), checkify.div_checks, DIVISION),
        (lambda a, b: a / b, (0.0, 0.0), checkify.float_checks, DIVISION),
        (lambda a, b: a / b, (0.0, 0.0), checkify.nan_checks, NAN.format("div")),
        (lambda a, b: a / b, (0.0, 0.0), checkify.index_checks, None),
        (positive, (-1.0,), checkify.nan_checks, None),
        (lambda x: (x / 0.0, positive(x)), (-1.0,), checkify.all_checks, DIVISION),
        (
            lambda x: (positive(x), x / 0.0),
            (-1.0,),
            checkify.all_checks,
            NEGATIVE.format(-1.0, -2),
        ),
        (
            lambda x: lax.scan(lambda c, y: (c / y, c), x, jnp.array([1.0, 0.0, 0.0])),
            (0.0,),
            checkify.float_checks,
            DIVISION,
        ),
        (
            lambda x: lax.while_loop(
                lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.log(c[1] - 1)), (0, x)
            ),
            (1.5,),
            checkify.float_checks,
            NAN.format("log"),
        ),
        (jnp.mean, (np.zeros(0),), checkify.all_checks, DIVISION),
        (xpr.grad(xpr.nn.relu), (1.0,), checkify.all_checks, None),
    ],
)
def test_automatic_checks(
    f: Callable[..., Any], args: tuple[Any, ...], errors: Any, expected: str | None
) -> None:
    assert message(f, *map(f32, args), errors=errors) == expected


def test_integers_are_divided_by_zero() -> None:
    assert message(lax.div, i32(1), i32(0), errors=checkify.all_checks) == DIVISION


def test_the_sets() -> None:
    assert checkify.float_checks == checkify.nan_checks | checkify.div_checks
    assert checkify.automatic_checks == checkify.float_checks | checkify.index_checks
    assert checkify.all_checks == checkify.automatic_checks | checkify.user_checks
    assert sorted(e.__name__ for e in checkify.all_checks) == [
        "DivisionByZeroError",
        "FailedCheckError",
        "NaNError",
        "OOBError",
    ]


def test_debug_check() -> None:
    def f(x: Any) -> Any:
        checkify.debug_check(x != 0, "cannot be zero {}!", x)
        return x

    assert float(f(f32(0))) == 0
    assert float(xpr.jit(f)(f32(0))) == 0
    assert message(f, f32(0)) == "cannot be zero 0.0! (`check` failed)"


def test_check_error() -> None:
    def f(x: Any) -> Any:
        error, out = xpr.jit(checkify.checkify(positive))(x)
        checkify.check_error(error)
        return out

    assert float(f(f32(1))) == 2
    with pytest.raises(checkify.JaxRuntimeError, match=r"^-1.0 must be positive"):
        f(f32(-1))
    assert message(f, f32(-1)) == NEGATIVE.format(-1.0, -2)
    assert message(f, f32(-1), errors=checkify.float_checks) is None
    with pytest.raises(ValueError, match="not functionalized"):
        xpr.jit(f)(f32(-1))


def test_check_error_of_several_categories() -> None:
    """Of an error that may be of two categories, the one asked for is found."""

    def f(x: Any, y: Any) -> Any:
        error, out = checkify.checkify(lambda: (positive(x), x / y), checkify.all_checks)()
        checkify.check_error(error)
        return out

    assert message(f, f32(-1), f32(1)) == NEGATIVE.format(-1.0, -2)
    assert message(f, f32(1), f32(0)) is None
    assert message(f, f32(1), f32(0), errors=checkify.div_checks) == DIVISION
    assert message(f, f32(-1), f32(1), errors=checkify.div_checks) is None


@xpr.custom_jvp
def own_jvp(x: Any) -> Any:
    checkify.check(x > 0, "jvp {}", x)
    return x * 3


@own_jvp.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return primals[0] * 3, tangents[0] * 5


@xpr.custom_vjp
def own_vjp(x: Any) -> Any:
    checkify.check(x > 0, "vjp {}", x)
    return x * 3


own_vjp.defvjp(lambda x: (x * 3, None), lambda _, ct: (ct * 5,))


@pytest.mark.parametrize("f", [own_jvp, own_vjp], ids=["jvp", "vjp"])
def test_custom_derivatives(f: Callable[..., Any]) -> None:
    name = "jvp" if f is own_jvp else "vjp"
    assert message(lambda x: f(x), f32(-1)) == f"{name} -1.0 (`check` failed)"

    def checked(x: Any) -> Any:
        error, out = checkify.checkify(lambda x: f(x))(x)
        return out, error

    (out, error), slope = xpr.jit(xpr.value_and_grad(checked, has_aux=True))(f32(-1))
    assert (float(out), float(slope)) == (-3, 5)
    assert error.get() is None  # the rule stands for the function, and has no checks
    assert message(xpr.grad(lambda x: f(x)), f32(-1)) is None


def test_derivatives_of_checked_functions() -> None:
    def f(x: Any) -> Any:
        error, (last, ys) = checkify.checkify(downwards)(x)
        return last + ys.sum(), error

    (_, error), slope = xpr.value_and_grad(f, has_aux=True)(f32(4))
    assert error.get() == NEGATIVE.format(-2.0, -4)
    assert float(slope) == 11


def test_errors_are_pytrees() -> None:
    error, _ = checkify.checkify(positive)(f32(-1))
    assert xpr.jit(lambda e: e)(error).get() == error.get()
    leaves, tree = xpr.tree.flatten(error)
    assert xpr.tree.unflatten(tree, leaves).get() == error.get()
    assert checkify.init_error.get() is None


def test_arguments_are_pytrees_of_arrays() -> None:
    def f(x: Any) -> None:
        checkify.check(x > 0, "t {} {a}", {"b": x}, a=[np.arange(3)])

    expected = "t {'b': Array(-1., dtype=float32)} [Array([0, 1, 2], dtype=int32)] (`check` failed)"
    assert xpr.jit(checkify.checkify(f))(f32(-1))[0].get() == expected


def test_tracing_again_gives_the_same_program() -> None:
    texts = {
        xpr.jit(checkify.checkify(lambda x: positive(x))).lower(f32(1)).as_text() for _ in range(2)
    }
    assert len(texts) == 1


def test_refusals() -> None:
    with pytest.raises(TypeError, match=r"^check takes a scalar pred as argument, got 1"):
        checkify.check(1, "m")
    with pytest.raises(TypeError, match=r"^check takes a scalar pred as argument, got \[ True\]"):
        checkify.check(jnp.array([True]), "m")
    with pytest.raises(TypeError, match=r"^debug_check takes a scalar pred as argument"):
        checkify.debug_check(jnp.array([True]), "m")
    with pytest.raises(TypeError, match=r"PyTrees of arrays, but got 3 of type <class 'int'>"):
        checkify.check(True, "m {}", 3)
    with pytest.raises(TypeError, match=r"PyTrees of arrays, but got 's' of type <class 'str'>"):
        checkify.check(True, "m {x}", x="s")
    with pytest.raises(TypeError, match=r"^check_error takes an Error as argument, got type"):
        checkify.check_error(3)  # type: ignore[arg-type]


def test_shard_map() -> None:
    mesh = xpr.make_mesh((1,), ("i",))
    spec = PartitionSpec("i")

    def mapped(f: Callable[..., Any]) -> Any:
        return xpr.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec)

    error, _ = checkify.checkify(mapped(lambda x: x + 1))(jnp.zeros(2))
    assert error.get() is None
    with pytest.raises(NotImplementedError, match="does not look inside shard_map"):
        checkify.checkify(mapped(jnp.sin), errors=checkify.nan_checks)(jnp.zeros(2))


@pytest.mark.parametrize(
    "function",
    [
        xpr.jit(positive),
        lambda x: lax.scan(lambda c, y: (positive(c) * y, y), x, jnp.ones(2))[0],
        lambda x: lax.cond(x > 3, positive, lambda v: positive(v), x),
        xpr.checkpoint(positive),
    ],
)
def test_errors_of_inner_programs_keep_no_tracers(function: Callable[..., Any]) -> None:
    with xpr.checking_leaks():
        error, _ = xpr.jit(checkify.checkify(function))(jnp.float32(-1.0))
    assert "must be positive, is -2.00" in (error.get() or "")
