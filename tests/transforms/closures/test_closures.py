"""Functions with rules that close over values of the transformations around them, against JAX.

`golden.json` has JAX's numbers. Where JAX refuses a program, xpr refuses it, too, or computes what
another form of the same program gives; no program may give other numbers than JAX's. All run on the
reference runtime, which compiles nothing.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.custom_batching
import xpr.numpy as jnp
from tests.transforms.closures import programs

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("golden.json").read_text())
SHARE = 1 if os.environ.get("XPR_LONG_TESTS") else 4

# JAX drops the derivative in `k` of a backward rule's result, if the call is jitted.
DROPPED_BY_JAX = (
    "vjp_fixed_function jvp+grad grad_jit jit_grad",
    "vjp_bwd checkpoint+grad grad_jit jit_grad",
)
# The body of the scan has a call that nothing reads, and xpr differentiates it before it knows.
REFUSED = ("jvp_function scan+linearize second jit_grad",)
REFUSALS = (
    xpr.errors.UnexpectedTracerError,
    xpr.errors.ConcretizationTypeError,
    NotImplementedError,
    TypeError,
    ValueError,
)


@pytest.fixture(autouse=True)
def on_the_reference_runtime() -> Iterator[None]:
    with xpr.default_device(xpr.devices("reference")[0]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def names_of(form: str) -> list[str]:
    """Every so many programs of a form; all in the long tests."""
    return [n for n in GOLDEN if n.split()[0] == form][::SHARE]


@pytest.mark.parametrize("form", programs.FORMS)
def test_numbers_are_those_of_jax(form: str) -> None:
    wrong = []
    for name in names_of(form):
        expected = GOLDEN[name]
        if name in DROPPED_BY_JAX or name in REFUSED:
            continue
        if isinstance(expected, str):
            continue
        found = programs.run(xpr, name)
        same = len(found) == len(expected)
        if not same or not np.allclose(found, expected, rtol=2e-5, atol=1e-5):
            wrong.append((name, expected, found))
    assert wrong == []


@pytest.mark.parametrize("form", programs.FORMS)
def test_what_jax_refuses_is_refused_or_computed(form: str) -> None:
    """Where it is computed, the gradient is the same through `jit` and through `checkpoint`."""
    wrong = []
    for name in names_of(form):
        if not isinstance(GOLDEN[name], str):
            continue
        found = number_or_refusal(name)
        if found is None or " grad_jit " not in name:
            continue
        other = number_or_refusal(name.replace(" grad_jit ", " grad_checkpoint "))
        if other is not None and not np.allclose(found, other, rtol=1e-5, atol=1e-5):
            wrong.append((name, found, other))
    assert wrong == []


def number_or_refusal(name: str) -> list[float] | None:
    try:
        return programs.run(xpr, name)
    except REFUSALS:
        return None


def test_golden_data_are_of_these_programs() -> None:
    assert set(GOLDEN) == set(programs.names())
    assert set(DROPPED_BY_JAX) | set(REFUSED) <= set(GOLDEN)


@pytest.mark.parametrize("name", DROPPED_BY_JAX)
def test_the_derivative_that_jax_drops(name: str) -> None:
    """Each factor of `10 * x * k` is differentiated once: by `k`, and then by `x`."""
    np.testing.assert_allclose(programs.run(xpr, name), [10.0], rtol=1e-6)


# ---- by hand


def test_a_backward_rule_sees_the_cotangent_of_each_example() -> None:
    """The function gives all examples the same, but its backward rule closes over a mapped value.

    The cotangents of the examples differ: their sum would not do.
    """

    def f(x: Any, k: Any) -> Any:
        g = xpr.custom_vjp(lambda x: jnp.sin(x))
        g.defvjp(lambda x: (jnp.sin(x), None), lambda _, ct: (k * ct,))
        return g(x)

    weights = np.array([1.0, 10.0, 100.0], np.float32)
    ks = np.array([2.0, 3.0, 5.0], np.float32)
    found = xpr.grad(lambda x: (xpr.vmap(lambda k: f(x, k))(ks) * weights).sum())(0.5)
    assert found == (weights * ks).sum()


def test_results_that_are_the_same_for_all_examples_get_no_axis() -> None:
    f = xpr.custom_jvp(lambda x: jnp.sin(x))
    f.defjvp(lambda p, t: (f(*p), t[0]))
    w = jnp.ones(5)
    program = xpr.make_jaxpr(xpr.vmap(lambda x: x + f(w)))(jnp.ones((1000, 5)))
    (call,) = [e for e in program.eqns if e.primitive.name == "custom_jvp_call"]
    assert call.outvars[0].aval.shape == (5,)


def test_a_rule_alone_that_differs_between_examples_is_refused_once_it_was_traced() -> None:
    def f(x: Any, k: Any) -> Any:
        g = xpr.custom_jvp(lambda x: jnp.sin(x))
        g.defjvp(lambda p, t: (jnp.sin(p[0]), k * t[0]))
        return g(x)

    @xpr.jit
    def mapped(x: Any) -> Any:
        return xpr.vmap(lambda k: f(x, k))(np.arange(3, dtype=np.float32))

    np.testing.assert_allclose(mapped(0.5), np.full(3, np.sin(0.5)), rtol=1e-6)
    with pytest.raises(NotImplementedError, match=r"closes over a mapped value.*argument"):
        xpr.jvp(mapped, (0.5,), (1.0,))


def test_fixed_arguments_that_are_traced_are_constants_to_differentiation() -> None:
    @xpr.custom_jvp
    def f(x: Any, scales: Any) -> Any:
        return x * scales["a"]

    f = xpr.custom_jvp(f.fun, nondiff_argnums=(1,))
    f.defjvp(lambda scales, p, t: (f(p[0], scales), t[0] * scales["a"]))
    primal, tangent = xpr.jvp(lambda k: f(2.0, {"a": k, "b": "name"}), (3.0,), (1.0,))
    assert (primal, tangent) == (6.0, 0.0)
    assert xpr.jvp(lambda k: f(k, {"a": k, "b": "name"}), (3.0,), (1.0,)) == (9.0, 3.0)
    found = xpr.vmap(lambda k: xpr.grad(f)(2.0, {"a": k, "b": None}))(jnp.arange(3.0))
    np.testing.assert_array_equal(found, [0, 1, 2])
