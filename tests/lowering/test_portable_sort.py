"""Sorting on targets that cannot call the host, against NumPy's stable sorts."""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
from tests.harness import Case, run_compiled, set_target
from xpr import lax
from xpr.core.config import override
from xpr.lowering.targets.cpu import cpu

Host = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)


@pytest.fixture(params=["digits", "network"], autouse=True)
def without_host_calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = request.param == "digits"
    target = dataclasses.replace(cpu, host_calls=False, single_dispatch_loops=digits)
    set_target(monkeypatch, target)


def _values(dtype: Any, *shape: int) -> Host:
    """Values of which many are equal; among floats also zeros of both signs, NaN and infinities."""
    dtype = np.dtype(dtype)
    kind = "f" if dtype.kind == "V" else dtype.kind
    if kind == "b":
        return RNG.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        limits = np.iinfo(dtype)
        x = RNG.integers(0, 9, shape).astype(dtype)
        return np.where(RNG.random(shape) < 0.3, RNG.choice([limits.min, limits.max], shape), x)
    x = RNG.integers(-4, 5, shape) / 2
    x = np.where(
        RNG.random(shape) < 0.2, RNG.choice([-0.0, 0.0, np.nan, np.inf, -np.inf], shape), x
    )
    if kind == "c":
        x = x + 1j * np.where(RNG.random(shape) < 0.1, np.nan, RNG.integers(-2, 3, shape))
    return x.astype(dtype)


DTYPES = "bool int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 complex64".split()


def _argsort(x: Host, axis: int) -> Host:
    if x.dtype.kind == "c":
        # NumPy puts numbers with a NaN in an order of its own: here by part, NaN last in each.
        return np.lexsort([x.imag, x.real], axis=axis)
    return np.argsort(x, axis=axis, kind="stable")


def _places(x: Any, axis: int) -> Any:
    return lax.sort((x, lax.broadcasted_iota(np.int32, x.shape, axis)), dimension=axis, num_keys=1)


def test_every_dtype_is_sorted_stably_along_every_axis() -> None:
    cases: list[Case] = []
    expected: list[Host] = []
    for dtype in [*map(np.dtype, DTYPES), np.dtype(ml_dtypes.bfloat16)]:
        for shape, axis in (((100,), 0), ((2, 33, 2), 1)):
            x = _values(dtype, *shape)
            cases.append((lambda v, axis=axis: _places(v, axis), [x]))
            wide = x.astype(np.float32) if dtype == ml_dtypes.bfloat16 else x
            expected.append(_argsort(wide, axis))
    with override("enable_x64", True):
        found = run_compiled(cases)
    for (_, (x,)), (values, places), order in zip(cases, found, expected, strict=True):
        axis = int(np.argmax(x.shape))
        np.testing.assert_array_equal(places, order, err_msg=f"{x.dtype} {x.shape}")
        moved = np.take_along_axis(x, order, axis)
        assert values.tobytes() == moved.tobytes(), f"{x.dtype} {x.shape}"


def test_several_keys_long_columns_and_top_k() -> None:
    a, b, c = _values(np.int32, 90), _values(np.float32, 90), RNG.random(90)
    long = RNG.integers(0, 50, 5000).astype(np.int32)
    wide = RNG.permutation(9000).astype(np.float64)
    cases: list[Case] = [
        (lambda *v: lax.sort(v, num_keys=2), [a, b, c]),
        (lambda v: _places(v, 0), [long]),
        (lambda v: _places(v, 0), [wide]),
        (lambda v: lax.top_k(v, 40), [long.astype(np.float32)]),
    ]
    with override("enable_x64", True):
        keys, few, many, top = run_compiled(cases)
    order = np.lexsort([b, a])
    for found, x in zip(keys, (a, b, c), strict=True):
        np.testing.assert_array_equal(found, x[order])
    np.testing.assert_array_equal(few[1], np.argsort(long, kind="stable"))
    np.testing.assert_array_equal(many[0], np.arange(9000.0))
    np.testing.assert_array_equal(top[1], np.argsort(-long, kind="stable")[:40])


def test_a_sort_between_other_operations_and_in_a_loop() -> None:
    x = RNG.integers(-100, 100, (4, 64)).astype(np.int32)

    def rounds(v: Any) -> Any:
        def body(_: Any, u: Any) -> Any:
            return lax.rev(lax.sort(u * 3 - 1, dimension=1), (1,)) + 1

        return lax.fori_loop(0, 3, body, v)

    expected = x
    for _ in range(3):
        expected = np.sort(expected * 3 - 1, axis=1)[:, ::-1] + 1
    np.testing.assert_array_equal(xpr.jit(rounds)(x), expected)
