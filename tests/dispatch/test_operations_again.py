"""Operations outside of programs whose like was done before: what decides is looked at anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.primitive import get_primitive
from xpr.dispatch import eager


def _twice(function: Callable[[], Any]) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(function()) for _ in range(3)]


def test_parameters_decide() -> None:
    x = jnp.asarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    host = np.asarray(x)
    for _ in range(3):
        for axis in (0, 1, 2, -1, None, (0, 2)):
            np.testing.assert_array_equal(jnp.sum(x, axis), host.sum(axis))
            np.testing.assert_array_equal(
                jnp.max(x, axis, keepdims=True), host.max(axis, keepdims=True)
            )
        for shape in ((24,), (4, 6), (3, 2, 4)):
            np.testing.assert_array_equal(jnp.reshape(x, shape), host.reshape(shape))
        for order in ((0, 2, 1), (2, 1, 0)):
            np.testing.assert_array_equal(jnp.transpose(x, order), host.transpose(order))
        for dtype in (np.int32, np.int8, np.float16):
            found = lax.convert_element_type(x, dtype)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, host.astype(dtype))


def test_values_and_types_of_operands_decide() -> None:
    for dtype in (np.float32, np.int32, np.uint8, np.bool_):
        for shape in ((), (3,), (0, 2)):
            host = np.ones(shape, dtype)
            for x in (jnp.asarray(host), jnp.asarray(host)):
                for found in _twice(lambda x=x: jnp.where(x, x, x)):
                    assert found.dtype == dtype
                    np.testing.assert_array_equal(found, host)
    x = jnp.arange(3.0)
    for k in range(4):  # NumPy's scalars are values, not parts of the program
        for scalar in (np.float32(k), np.float64(k), np.int32(k), k, float(k)):
            np.testing.assert_array_equal(jnp.add(x, scalar), np.arange(3) + k)
    assert jnp.add(x, 1).weak_type is jnp.add(x, np.float32(1)).weak_type is False


def test_products() -> None:
    rng = np.random.default_rng(0)
    a, b, v = rng.normal(size=(3, 4)), rng.normal(size=(4, 5)), rng.normal(size=4)
    for dtype in (np.float32, np.float16, np.int32, np.complex64):
        x, y, z = ((8 * h).astype(dtype) for h in (a, b, v))
        for left, right in ((x, y), (x, z), (z, y), (z, z)):
            for found in _twice(lambda p=left, q=right: jnp.asarray(p) @ jnp.asarray(q)):
                assert found.dtype == dtype
                np.testing.assert_allclose(found, (left @ right), rtol=2e-3, atol=1e-2)
    with pytest.raises(TypeError, match="contracting dimensions"):
        jnp.ones((2, 3)) @ jnp.ones((4, 5))


def test_results_cannot_be_written_to() -> None:
    x = jnp.arange(6.0)
    for _ in range(3):
        for y in (jnp.sin(x), jnp.reshape(x, (2, 3)), jnp.transpose(jnp.reshape(x, (2, 3)))):
            assert not np.asarray(y).flags.writeable


def test_numpy_warns_as_before() -> None:
    x = jnp.asarray(np.array([0.0, -1.0, np.inf], np.float32))
    for _ in range(3):
        assert np.isnan(np.asarray(jnp.log(x))[1])  # without a warning, which would be an error
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.log(np.zeros(1))
    with np.errstate(divide="raise"):
        jnp.log(x)
        with pytest.raises(FloatingPointError):
            np.log(np.zeros(1))


def test_an_error_leaves_numpy_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    if eager._apply_again is None:
        pytest.skip("the native part was not built here")
    x = jnp.asarray(np.ones(3, np.float32))

    def fails(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("said by the rule")

    primitive = get_primitive("cbrt")
    fails_now = [False]
    right = primitive.reference

    def reference(*args: Any, **params: Any) -> Any:
        return fails() if fails_now[0] else right(*args, **params)

    monkeypatch.setattr(primitive, "reference", reference)
    jnp.cbrt(x)
    fails_now[0] = True
    before = np.geterr()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="said by the rule"):
            jnp.cbrt(x)
    assert np.geterr() == before
    fails_now[0] = False
    np.testing.assert_array_equal(jnp.cbrt(x), np.cbrt(np.ones(3, np.float32)))


def test_settings_decide() -> None:
    x = jnp.asarray(np.array([-1.0, 4.0], np.float32))
    for _ in range(3):
        np.testing.assert_array_equal(jnp.sqrt(x), np.array([np.nan, 2], np.float32))
    with xpr.debug_nans(True), pytest.raises(FloatingPointError, match="sqrt"):
        jnp.sqrt(x)
    np.testing.assert_array_equal(jnp.sqrt(x), np.array([np.nan, 2], np.float32))
    n = jnp.arange(3, dtype=np.int32)
    assert jnp.sum(n).dtype == jnp.sum(n).dtype == np.int32
    with xpr.enable_x64(True):
        assert jnp.sum(n).dtype == jnp.sum(n).dtype == np.int64
    assert jnp.sum(n).dtype == np.int32


def test_inside_of_transformations_nothing_is_computed_again() -> None:
    x = jnp.arange(3.0)
    for _ in range(2):
        jnp.sin(x)
    assert "sin" in str(xpr.make_jaxpr(jnp.sin)(x))
    np.testing.assert_allclose(xpr.vmap(jnp.sin)(x), np.sin(np.arange(3)), rtol=1e-6)
    np.testing.assert_allclose(xpr.grad(lambda x: jnp.sin(x).sum())(x), np.cos(np.arange(3)), 1e-6)


def test_deleted_arrays_are_refused() -> None:
    x = jnp.asarray(np.arange(3, dtype=np.float32))
    for _ in range(2):
        jnp.cos(x)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jnp.cos(x)


def test_the_device_of_operands_decides() -> None:
    cpu = xpr.devices("cpu")[0]
    reference = xpr.devices("reference")[0]
    x = np.arange(3, dtype=np.float32)
    for _ in range(2):
        for device in (cpu, reference):
            assert jnp.tan(xpr.device_put(x, device)).devices() == {device}
        assert jnp.tan(jnp.asarray(x)).devices() == {cpu}
    with xpr.default_device(reference):
        assert jnp.tan(jnp.asarray(x)).devices() == {reference}
