"""Assignment to concrete arrays, where the setting `mutable_arrays` allows it."""

from __future__ import annotations

import copy
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.core.config import override


@pytest.fixture(autouse=True)
def mutable() -> Iterator[None]:
    with override("mutable_arrays", True):
        yield


INDICES: dict[str, Any] = {
    "integer": 1,
    "negative": -1,
    "slice": slice(1, None, 2),
    "ellipsis": ...,
    "integers": np.array([2, 0]),
    "mask": np.array([True, False, True, False]),
    "pair": (1, slice(None, 2)),
    "empty": slice(2, 2),
}


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64"])
def test_assignment_is_numpys(name: str, dtype: str) -> None:
    expected = np.arange(12).reshape(4, 3).astype(dtype)
    array = jnp.asarray(expected)
    expected[INDICES[name]] = 1
    array[INDICES[name]] = 1
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array, expected)


def test_in_place_operators_on_parts() -> None:
    array, expected = jnp.arange(6.0), np.arange(6, dtype=np.float32)
    for x in (array, expected):
        x[1:3] += 10
        x[x > 5] *= -1
        x[0], x[5] = 7, x[4]
    np.testing.assert_array_equal(array, expected)


def test_whatever_shares_the_values_keeps_them() -> None:
    array = jnp.arange(3.0)
    host = np.asarray(array)
    others = [
        array.reshape(3), array.T, array.real, +array, jnp.positive(array), jnp.conj(array),
        jnp.squeeze(array), jnp.broadcast_to(array, (3,)), jnp.ravel(array), array[...],
        jnp.asarray(array), xpr.device_put(array), array.astype("float32"), copy.copy(array),
    ]  # fmt: skip
    array[0] = 9
    for kept in (host, *others):
        np.testing.assert_array_equal(kept, [0, 1, 2])
    np.testing.assert_array_equal(array, [9, 1, 2])


def test_no_function_gives_its_operand() -> None:
    """Assigning to a result must not change the operand."""
    array, same = jnp.ones((2, 2)), []
    for name in dir(jnp):
        function = getattr(jnp, name)
        if name.startswith("_") or not callable(function) or inspect.isclass(function):
            continue
        for more in ((), ((2, 2),), (0,)):
            try:
                result = function(array, *more)
            except Exception:  # not every function takes these operands
                continue
            same += [name] if result is array else []
    assert same == []


def test_derivatives_and_programs_keep_what_they_have_read() -> None:
    array = jnp.arange(3.0)
    _, pull = xpr.vjp(lambda x: (x * x * array).sum(), array)
    program = xpr.jit(lambda x: x + array)
    np.testing.assert_array_equal(program(1.0), [1, 2, 3])
    array[1] = 10
    np.testing.assert_array_equal(pull(1.0)[0], [0, 2, 8])
    np.testing.assert_array_equal(program(1.0), [1, 2, 3])
    np.testing.assert_array_equal(program(jnp.ones(3)), [1, 11, 3])


def test_sharded_arrays_stay_where_they_are() -> None:
    mesh = xpr.make_mesh((1,), ("i",))
    array = xpr.device_put(jnp.arange(4.0), xpr.NamedSharding(mesh, xpr.P("i")))
    before = array.sharding
    array[2] = 7
    assert array.sharding == before
    np.testing.assert_array_equal(array, [0, 1, 7, 3])


def test_tracers_and_traced_values_are_refused() -> None:
    array = jnp.arange(3.0)

    def assigns_traced(x: Any) -> None:
        array[0] = x

    def assigns_to_traced(x: Any) -> None:
        x[0] = 1

    with pytest.raises(TypeError, match=r"x\[0\] = \.\.\. cannot be traced"):
        xpr.jit(assigns_traced)(1.0)
    with pytest.raises(TypeError, match="immutable"):
        xpr.jit(assigns_to_traced)(array)
    with pytest.raises(ValueError, match="Incompatible types"):
        array[:2] = np.ones(3)
    np.testing.assert_array_equal(array, [0, 1, 2])


def test_without_the_setting_arrays_are_immutable() -> None:
    with override("mutable_arrays", False), pytest.raises(TypeError, match="immutable"):
        jnp.arange(3)[0] = 1


SCIPY = """
import numpy as np, xpr, xpr.numpy as jnp
from scipy import integrate, signal, special, stats
assert xpr.config.mutable_arrays
x = np.random.default_rng(0).normal(size=(20, 6)); a = jnp.asarray(x)
for f in (
    lambda v: special.logsumexp(v, axis=0), lambda v: special.softmax(v, axis=1), stats.zscore,
    lambda v: stats.pearsonr(v[:, 0], v[:, 1]).statistic, stats.skew, stats.rankdata,
    lambda v: stats.ttest_ind(v[:10], v[10:]).pvalue, lambda v: stats.trim_mean(v, 0.1),
    lambda v: stats.quantile(v, 0.3), signal.hilbert, signal.detrend, integrate.cumulative_simpson,
    lambda v: signal.fftconvolve(v, v),
):
    found = f(a)
    assert isinstance(found, xpr.Array), f
    np.testing.assert_allclose(found, f(x), rtol=1e-9, atol=1e-9)
"""


def test_functions_of_scipy_take_arrays() -> None:
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "XPR_ENABLE_X64": "1"}
    environment.pop("XPR_MUTABLE_ARRAYS", None)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCIPY],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
