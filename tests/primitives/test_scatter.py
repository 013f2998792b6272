"""The scatter family: order of updates, special values, errors, arguments left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.harness import run_compiled, run_reference
from tests.primitives.index_oracle import scatter_oracle
from xpr.primitives import scatter as sc
from xpr.primitives.elementwise import add, mul, neg
from xpr.primitives.scatter import ScatterDimensionNumbers as Numbers

X = np.arange(12, dtype=np.float32).reshape(3, 4)
I = np.array([[2], [0]], np.int32)  # noqa: E741  the indices
U = np.ones((2, 4), np.float32)
ROWS = Numbers((1,), (0,), (0,))
LINE = Numbers((), (0,), (0,))


def _both(case: Any, runtime: str) -> list[np.ndarray[Any, Any]]:
    return [run_reference([case])[0][0], run_compiled([case], runtime)[0][0]]


def test_equations_print_as_jaxs() -> None:
    def text(function: Callable[..., Any]) -> str:
        return " ".join(str(xpr.make_jaxpr(function)(X, I, U)).split())

    numbers = (
        "dimension_numbers=ScatterDimensionNumbers(update_window_dims=(1,), "
        "inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), operand_batching_dims=(), "
        "scatter_indices_batching_dims=())"
    )
    assert text(lambda x, i, u: sc.scatter(x, i, u, ROWS)) == (
        "{ lambda ; a:f32[3,4] b:i32[2,1] c:f32[2,4]. let d:f32[3,4] = scatter[ "
        f"{numbers} indices_are_sorted=False mode=GatherScatterMode.FILL_OR_DROP "
        "unique_indices=False update_consts=() update_jaxpr=None ] a b c in (d,) }"
    )
    assert text(lambda x, i, u: sc.scatter_add(x, i, u, ROWS, mode="clip")) == (
        "{ lambda ; a:f32[3,4] b:i32[2,1] c:f32[2,4]. let d:f32[3,4] = scatter-add[ "
        f"{numbers} indices_are_sorted=False mode=GatherScatterMode.CLIP unique_indices=False "
        "update_consts=() "
        "update_jaxpr={ lambda ; e:f32[] f:f32[]. let g:f32[] = add e f in (g,) } ] a b c in (d,) }"
    )


@pytest.mark.parametrize("mode", ["clip", "drop", "promise_in_bounds"])
@pytest.mark.parametrize("width", [(), (3,)])
def test_the_last_of_several_updates_stays(mode: str, width: tuple[int, ...], runtime: str) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((20, *width)).astype(np.float32)
    i = rng.integers(-3, 23, (500, 1)).astype(np.int32)
    u = rng.standard_normal((500, *width)).astype(np.float32)
    numbers = Numbers(tuple(range(1, 1 + len(width))), (0,), (0,))
    case = (lambda a, i, u: sc.scatter(a, i, u, numbers, mode=mode), [x, i, u])
    wanted = scatter_oracle(x, i, u, numbers, mode, lambda old, new: new)
    for found in _both(case, runtime):
        np.testing.assert_array_equal(found, wanted)


def test_overlapping_windows_in_order(runtime: str) -> None:
    x = np.zeros(10, np.float32)
    i = np.array([[2], [4], [9], [3], [-1]], np.int32)
    u = np.arange(1.0, 16.0, dtype=np.float32).reshape(5, 3)
    numbers = Numbers((1,), (), (0,))
    case = (lambda a, i, u: sc.scatter(a, i, u, numbers, mode="drop"), [x, i, u])
    for found in _both(case, runtime):
        np.testing.assert_array_equal(found, [0, 0, 1, 10, 11, 12, 6, 0, 0, 0])


@pytest.mark.parametrize("inside", [0, 1, 2, 40])
def test_updates_of_which_few_lie_inside(inside: int, runtime: str) -> None:
    rng = np.random.default_rng(inside)
    x = rng.standard_normal((6, 2)).astype(np.float32)
    i = np.full((40, 1), 99, np.int32)
    i[rng.permutation(40)[:inside], 0] = rng.integers(0, 6, inside)
    u = rng.standard_normal((40, 2)).astype(np.float32)
    cases: list[Any] = []
    wanted = []
    for function, combine in (
        (sc.scatter, lambda a, b: b),
        (sc.scatter_add, np.add),
        (sc.scatter_mul, np.multiply),
        (sc.scatter_min, np.minimum),
    ):
        cases.append((lambda a, i, u, f=function: f(a, i, u, ROWS), [x, i, u]))
        wanted.append(scatter_oracle(x, i, u, ROWS, "drop", combine))
    for found, want in zip(run_compiled(cases, runtime), wanted, strict=True):
        np.testing.assert_allclose(found[0], want, rtol=1e-6)


def test_dropped_updates_change_no_bit(runtime: str) -> None:
    # Adding 0.0 would change -0.0, multiplying an infinite complex number by 1 would give NaN.
    special = np.array([-0.0, 0.0, np.inf, -np.inf, np.nan], np.float32)
    far = np.full((6, 1), 77, np.int32)
    cases: list[Any] = []
    wanted: list[np.ndarray[Any, Any]] = []
    for dtype in ("float32", "complex64"):
        x = special.astype(dtype)
        u = np.full(6, 2, dtype)
        for function in (
            sc.scatter_add,
            sc.scatter_sub,
            sc.scatter_mul,
            sc.scatter_max,
            sc.scatter,
        ):
            cases.append((lambda a, i, u, f=function: f(a, i, u, LINE), [x, far, u]))
            wanted.append(x)
    for (function, _), found, want in zip(cases, run_compiled(cases, runtime), wanted, strict=True):
        assert found[0].tobytes() == want.tobytes(), function


def test_nan_in_minima_and_maxima(runtime: str) -> None:
    x = np.array([1, np.nan, 3, np.inf], np.float32)
    i = np.array([[0], [1], [2], [3]], np.int32)
    u = np.array([np.nan, 2, 5, -np.inf], np.float32)
    for function, wanted in (
        (sc.scatter_max, [np.nan, np.nan, 5, np.inf]),
        (sc.scatter_min, [np.nan, np.nan, 3, -np.inf]),
    ):
        case = (lambda a, i, u, f=function: f(a, i, u, LINE), [x, i, u])
        for found in _both(case, runtime):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("count", [1, 5, 60])
def test_apply_counts_repeated_indices(count: int, runtime: str) -> None:
    rng = np.random.default_rng(count)
    x = rng.standard_normal((7, 2)).astype(np.float32)
    i = rng.integers(-2, 9, (count, 1)).astype(np.int32)
    shape = (count, 2)

    def change(e: Any) -> Any:
        return add(mul(e, np.float32(0.5)), np.float32(1))

    for mode in ("clip", "drop"):
        wanted = scatter_oracle(
            x, i, np.zeros(shape), ROWS, mode, lambda a, _: a * np.float32(0.5) + np.float32(1)
        )
        case = (
            lambda a, i, m=mode: sc.scatter_apply(a, i, change, ROWS, update_shape=shape, mode=m),
            [x, i],
        )
        for found in _both(case, runtime):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_apply_refuses_other_types_and_traced_constants() -> None:
    with pytest.raises(TypeError, match="scatter_apply requires a computation that returns"):
        sc.scatter_apply(X, I, lambda e: e > 0, ROWS, update_shape=(2, 4))
    with pytest.raises(NotImplementedError, match="cannot close over traced values"):
        xpr.jit(
            lambda x, c: sc.scatter_apply(x, I, lambda e: mul(e, c), ROWS, update_shape=(2, 4))
        )(X, np.float32(2))
    doubled = sc.scatter_apply(jnp.array(X), I, neg, ROWS, update_shape=(2, 4))
    np.testing.assert_array_equal(np.asarray(doubled), X * [[-1], [1], [-1]])


@pytest.mark.parametrize(
    ("numbers", "updates", "match"),
    [
        (ROWS, U[:1], "updates bound is 1, indices bound is 2"),
        (ROWS, U.astype(np.int32), "same dtypes, got float32, int32"),
        (ROWS, np.ones((2, 5), "f4"), "updates bound is 5, operand bound is 4"),
        (Numbers((0,), (0,), (0,)), U, "scatter dimension 1|scatter dimension 0"),
        (Numbers((1,), (), (0,)), U, "window of size 1; doesn't match operand of rank 2"),
        (Numbers((1,), (0,), (0, 1)), U, "2 elements in scatter_dims_to_operand_dims"),
        (Numbers((2,), (0,), (0,)), U, r"update_window_dims .* \[0, 2\); got: 2"),
        (Numbers((1,), (0,), (4,)), U, r"scatter_dims_to_operand_dims .* got: 4"),
        (ROWS, np.float32(1), "Updates tensor must be of rank 2; got 0"),
        (Numbers((1,), (), (1,), (0,), (0,)), U, r"same shape, got \(3,\) and \(2,\)"),
    ],
)
def test_bad_arguments(numbers: Numbers, updates: Any, match: str) -> None:
    with pytest.raises(TypeError, match=match):
        sc.scatter_add(X, I, updates, numbers)


def test_kinds_of_dtypes() -> None:
    with pytest.raises(ValueError, match="indices must have an integer type"):
        sc.scatter(X, I.astype(np.float32), U, ROWS)
    with pytest.raises(TypeError, match="add does not accept dtype bool"):
        sc.scatter_add(X > 0, I, U > 0, ROWS)
    found = sc.scatter_max(jnp.array(X > 3), I, U > 0, ROWS)
    np.testing.assert_array_equal(np.asarray(found)[:, 0], [True, True, True])


def test_weak_types() -> None:
    def weak(x: Any, u: Any) -> bool:
        def f(a: Any, b: Any) -> Any:
            return sc.scatter_add(jnp.broadcast_to(a, (3,)), I, jnp.broadcast_to(b, (2,)), LINE)

        return xpr.make_jaxpr(f)(x, u).jaxpr.outvars[0].aval.weak_type

    assert weak(1.0, 1.0)
    assert not weak(1.0, np.float32(1))
    assert not weak(np.float32(1), 1.0)


@pytest.mark.parametrize("function", [sc.scatter, sc.scatter_add, sc.scatter_max])
def test_arguments_are_left_alone(function: Callable[..., Any], runtime: str) -> None:
    # IREE would write a scatter into the argument's own buffer.
    device = xpr.devices(runtime)[0]
    x, u = xpr.device_put(X, device), xpr.device_put(U + 50, device)
    jitted = xpr.jit(lambda a, i, u: function(a, i, u, ROWS))
    for indices in (I, I[:1]):
        for _ in range(2):
            jitted(x, indices, u[: len(indices)])
            np.testing.assert_array_equal(np.asarray(x), X)
    np.testing.assert_array_equal(np.asarray(u), U + 50)
