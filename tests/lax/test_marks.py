"""Composites, tokens, placement, and collectives that are made of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.test_util import check_grads

HERE = xpr.sharding.SingleDeviceSharding(xpr.devices()[0])


# ---- composite


def power(x: Any, *, exponent: int = 2, also: Any = None) -> Any:
    return {"y": x**exponent}


def test_a_composite_is_its_decomposition() -> None:
    named = lax.composite(power, "my.power")
    x = np.array([1.0, 2.0, 3.0], np.float32)
    np.testing.assert_array_equal(named(x, exponent=3, also=None)["y"], x**3)
    np.testing.assert_array_equal(xpr.jit(named)(x)["y"], x**2)
    np.testing.assert_array_equal(xpr.vmap(named)(x)["y"], x**2)
    np.testing.assert_array_equal(xpr.grad(lambda x: named(x)["y"].sum())(x), 2 * x)
    with xpr.enable_x64(True):
        check_grads(lambda x: named(x, exponent=3)["y"], (x.astype(np.float64),), order=2)


def test_a_composite_is_one_equation_with_its_name() -> None:
    shift = np.ones(3, np.float32)
    named = lax.composite(lambda x: x + shift, "my.shift", version=2)
    jaxpr = xpr.make_jaxpr(lambda x: named(named(x)))(shift)
    assert [str(e.params["name"]) for e in jaxpr.eqns] == ["my.shift.v2", "my.shift.v2"]
    np.testing.assert_array_equal(xpr.jit(lambda x: named(named(x)))(shift), 3 * shift)


def test_errors_of_composites() -> None:
    with pytest.raises(TypeError, match="Expected a callable value, got 3"):
        lax.composite(3, "three")  # type: ignore[arg-type]
    named = lax.composite(power, "my.power")
    with pytest.raises(TypeError, match="the attribute also is a traced value"):
        xpr.jit(lambda x: named(x, also=x))(1.0)
    with pytest.raises(TypeError, match=r"Argument 'x' of type .*composite my\.power"):
        named("x")


# ---- order and place


def test_tokens_pass_through_programs() -> None:
    token = lax.after_all()

    def step(x: Any, t: Any) -> Any:
        return x + 1, lax.after_all(t, lax.after_all())

    value, after = xpr.jit(step)(1, token)
    assert int(value) == 2
    assert after == token
    assert repr(after) == "Token()"
    assert hash(after) == hash(token)
    with pytest.raises(TypeError, match="Arguments to after_all must be tokens, got"):
        lax.after_all(1.0)  # type: ignore[arg-type]


def test_stage_makes_arrays() -> None:
    assert lax.stage(1.5).weak_type
    assert lax.stage(np.float32(1.5)).dtype == np.float32
    x = jnp.arange(3)
    assert lax.stage(x) is x
    np.testing.assert_array_equal(xpr.jit(lambda x: lax.stage(x) + lax.stage(1))(x), [1, 2, 3])
    with pytest.raises(TypeError, match="stage requires an array or a number, got 'a'"):
        lax.stage("a")


def test_a_constraint_places_arrays() -> None:
    tree = {"a": np.arange(3), "b": (jnp.ones(2),)}
    for places in (HERE, {"a": HERE, "b": HERE}):
        found = lax.with_sharding_constraint(tree, places)
        assert found["b"][0].sharding == HERE
        np.testing.assert_array_equal(found["a"], tree["a"])
    inside = xpr.jit(xpr.grad(lambda x: (lax.with_sharding_constraint(x, HERE) ** 2).sum()))
    np.testing.assert_array_equal(inside(np.array([1.0, 2.0], np.float32)), [2.0, 4.0])


@pytest.mark.parametrize(
    ("places", "error", "message"),
    [
        (None, ValueError, "got sharding None which is not allowed"),
        ("x", TypeError, "or None, but got 'x' of type <class 'str'>"),
        ({"b": HERE}, ValueError, "prefix"),
    ],
)
def test_errors_of_constraints(places: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        lax.with_sharding_constraint({"a": jnp.ones(2)}, places)


# ---- collectives


def test_a_broadcast_gives_everybody_the_value_of_the_source() -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)

    def spread(tree: Any) -> Any:
        return lax.pbroadcast(tree, "i", 1)

    found = xpr.vmap(spread, axis_name="i")({"a": x, "b": x > 2})
    np.testing.assert_array_equal(found["a"], np.tile(x[1], (3, 1)))
    np.testing.assert_array_equal(found["b"], np.tile(x[1] > 2, (3, 1)))
    weights = np.arange(6, dtype=np.float32).reshape(3, 2)
    gradient = xpr.grad(lambda x: (weights * xpr.vmap(spread, axis_name="i")(x)).sum())(x)
    np.testing.assert_array_equal(gradient, [[0, 0], weights.sum(0), [0, 0]])
    with pytest.raises(ValueError, match="the place 3 is outside the axis 'i' of size 3"):
        xpr.vmap(lambda x: lax.pbroadcast(x, "i", 3), axis_name="i")(x)
    with pytest.raises(NameError, match="unbound axis name: i"):
        spread(x)


def exchanged(operand: Any, output: Any, numbers: Any) -> np.ndarray:
    """What `ragged_all_to_all` is to give, by a loop over senders and parts."""
    begins, lengths, places = numbers[:3]
    out = output.copy()
    size, count = begins.shape
    for sender in range(size):
        for i in range(count):
            target, n = i // (count // size), lengths[sender, i]
            a, b = begins[sender, i], places[sender, i]
            out[target, b : b + n] = operand[sender, a : a + n]
    return out


def random_exchange(rng: Any, size: int, parts: int) -> tuple[Any, ...]:
    """Parts that do not overlap at their receivers, with gaps between them."""
    operand = rng.integers(1, 100, (size, 12, 2)).astype(np.int32)
    output = -rng.integers(1, 100, (size, 40, 2)).astype(np.int32)
    count = size * parts
    begins = rng.integers(0, 8, (size, count)).astype(np.int32)
    lengths = rng.integers(0, 4, (size, count)).astype(np.int32)
    shares = 40 // count
    places = np.zeros((size, count), np.int32)
    for sender, i in np.ndindex(size, count):
        places[sender, i] = (sender * parts + i % parts) * shares
    lengths = np.minimum(lengths, shares)
    by_receiver = lengths.reshape(size, size, parts).transpose(1, 0, 2).reshape(size, count)
    return operand, output, (begins, lengths, places, by_receiver)


def test_parts_of_all_lengths_arrive() -> None:
    rng = np.random.default_rng(5)
    cases = [random_exchange(rng, 3, 1), random_exchange(rng, 3, 2)]

    def one(operand: Any, output: Any, numbers: Any) -> Any:
        return lax.ragged_all_to_all(operand, output, *numbers, axis_name="i")

    def everything(cases: Any) -> Any:
        return [xpr.vmap(one, axis_name="i")(*c) for c in cases]

    for run in (everything, xpr.jit(everything)):
        for case, found in zip(cases, run(cases), strict=True):
            np.testing.assert_array_equal(np.asarray(found), exchanged(*case), strict=True)


def test_derivatives_go_back_to_the_senders() -> None:
    operand, output, numbers = random_exchange(np.random.default_rng(6), 3, 1)
    weights = np.random.default_rng(7).standard_normal(output.shape)

    def total(operand: Any, output: Any) -> Any:
        exchange = lambda a, b, n: lax.ragged_all_to_all(a, b, *n, axis_name="i")  # noqa: E731
        return (weights * xpr.vmap(exchange, axis_name="i")(operand, output, numbers)).sum()

    with xpr.enable_x64(True):
        check_grads(total, (operand.astype(np.float64), output.astype(np.float64)), order=1)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"output": np.ones((2, 3), np.float32)}, ValueError, "rows of one shape"),
        ({"output": np.ones(3, np.int32)}, TypeError, "of one dtype, got float32 and int32"),
        ({"send_sizes": np.ones(2, np.float32)}, TypeError, "send_sizes must be integer type"),
        ({"recv_sizes": np.ones((1, 2), int)}, ValueError, "recv_sizes must be rank 1"),
        ({"send_sizes": np.ones(4, int)}, ValueError, "of one length, a multiple of the size 2"),
        ({"axis_index_groups": [[0], [1]]}, NotImplementedError, "axis_index_groups"),
    ],
)
def test_errors_of_exchanges(change: Any, error: Any, message: str) -> None:
    numbers = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")
    given = {"operand": np.ones(4, np.float32), "output": np.ones(3, np.float32)}
    given |= {name: np.zeros(2, int) for name in numbers}
    options = given | change
    with pytest.raises(error, match=message):
        xpr.vmap(lambda _: lax.ragged_all_to_all(**options, axis_name="i"), axis_name="i")(
            np.arange(2)
        )


def test_sending_alone_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="psend over 'i': sending from one device"):
        lax.psend(1.0, "i", [(0, 1)])
    with pytest.raises(NotImplementedError, match="precv over 'i': sending from one device"):
        lax.precv(lax.after_all(), xpr.ShapeDtypeStruct((), np.float32), "i", [(0, 1)])
