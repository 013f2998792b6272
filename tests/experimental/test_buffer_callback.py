"""Python functions that fill buffers: values against NumPy, trees, batches, aliases, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.experimental.buffer_callback import Buffer, ExecutionStage, buffer_callback

F4 = xpr.ShapeDtypeStruct((3,), jnp.float32)


def _divmod(ctx: Any, out: Any, x: Any, *, by: Any) -> None:
    assert ctx.stage is ExecutionStage.EXECUTE
    assert isinstance(out["quotient"], Buffer)
    assert (x.shape, x.dtype, x.ndim) == ((3,), np.float32, 1)
    np.asarray(out["quotient"])[...] = np.asarray(x) // np.asarray(by)
    np.from_dlpack(out["rest"])[...] = np.asarray(x) % np.asarray(by)


def test_trees_and_keywords() -> None:
    f = buffer_callback(_divmod, {"quotient": F4, "rest": F4})
    x = np.array([5, -7, 9.5], np.float32)
    for call in (f, xpr.jit(f)):
        found = call(x, by=jnp.float32(3))
        np.testing.assert_array_equal(found["quotient"], x // 3)
        np.testing.assert_array_equal(found["rest"], x % np.float32(3))


def test_batches() -> None:
    def cumulate(_: Any, out: Any, x: Any) -> None:
        np.cumsum(np.asarray(x), axis=-1, out=np.asarray(out))

    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for method in ("expand_dims", "broadcast_all", "sequential"):
        f = buffer_callback(cumulate, F4, vmap_method=method)
        np.testing.assert_array_equal(xpr.vmap(f)(x), np.cumsum(x, axis=1))
    with pytest.raises(NotImplementedError, match="vmap_method"):
        xpr.vmap(buffer_callback(cumulate, F4))(x)


def test_aliases_begin_with_the_arguments_values() -> None:
    def double(_: Any, out: Any, x: Any, y: Any) -> None:
        np.asarray(out)[0] *= 2

    x, y = np.arange(3, dtype=np.float32) + 1, np.zeros(3, np.float32)
    f = buffer_callback(double, F4, input_output_aliases={0: 0})
    np.testing.assert_array_equal(f(x, y), [2, 2, 3])
    np.testing.assert_array_equal(x, [1, 2, 3])
    for aliases, match in (
        ({2: 0}, r"'2:0' with input index 2 outside the range \[0, 2\)"),
        ({0: 1}, r"'0:1' with output index 1 outside the range \[0, 1\)"),
    ):
        with pytest.raises(ValueError, match=match):
            buffer_callback(double, F4, input_output_aliases=aliases)(x, y)
    with pytest.raises(ValueError, match="referring to an input with abstract value"):
        buffer_callback(double, F4, input_output_aliases={1: 0})(x, np.zeros(2, np.float32))


def test_side_effects_and_errors() -> None:
    seen = []

    def look(_: Any, out: Any, x: Any) -> None:
        seen.append(float(np.asarray(x)[0]))
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(x)[0] = 5
        np.asarray(out)[...] = 0

    f = xpr.jit(lambda x: buffer_callback(look, F4, has_side_effect=True)(x) * 0 + x)
    np.testing.assert_array_equal(f(jnp.ones(3)), [1, 1, 1])
    assert seen == [1.0]
    with pytest.raises(ValueError, match="must not return any values"):
        buffer_callback(lambda ctx, out, x: 3, F4)(jnp.ones(3))
    with pytest.raises(ValueError, match="callback"):
        xpr.grad(lambda x: buffer_callback(look, F4)(x).sum())(jnp.ones(3))
