"""xpr.dlpack, xpr.typing and xpr.stages: small modules under JAX's names."""

from __future__ import annotations

import typing
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp


@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool", "float16", "bfloat16", "complex64"])
def test_dlpack_dtypes(dtype: str) -> None:
    assert xpr.dlpack.is_supported_dtype(dtype)
    assert xpr.dlpack.is_supported_dtype(jnp.dtype(dtype))


def test_dtypes_that_dlpack_does_not_know() -> None:
    assert not xpr.dlpack.is_supported_dtype("datetime64[s]")
    assert not xpr.dlpack.is_supported_dtype(np.dtype([("a", "i4")]))
    assert xpr.dlpack.is_supported_dtype(jnp.float32)
    untyped: Any = None
    with pytest.raises(TypeError, match="requires a dtype, got None"):
        xpr.dlpack.is_supported_dtype(untyped)


def test_from_dlpack_copies() -> None:
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = xpr.dlpack.from_dlpack(host, device=xpr.devices()[0])
    host[0, 0] = 7
    np.testing.assert_array_equal(found, np.arange(6).reshape(2, 3))
    assert found.devices() == {xpr.devices()[0]}
    np.testing.assert_array_equal(xpr.dlpack.from_dlpack(found), found)
    with pytest.raises(ValueError, match="copy=False"):
        xpr.dlpack.from_dlpack(host, copy=False)
    with pytest.raises(TypeError, match="__dlpack__"):
        xpr.dlpack.from_dlpack([1.0])


def test_array_like() -> None:
    members = typing.get_args(xpr.typing.ArrayLike)
    accepted = tuple(typing.get_origin(m) or m for m in members)
    for value in (jnp.ones(2), np.ones(2), np.float32(1), True, 1, 1.0, 1j):
        assert isinstance(value, accepted)
    assert not isinstance([1.0], accepted)


def test_stages() -> None:
    jitted = xpr.jit(lambda x: x + 1)
    assert isinstance(jitted, xpr.stages.Wrapped)
    traced = jitted.trace(jnp.ones(2))
    assert isinstance(traced, xpr.stages.Traced)
    lowered = traced.lower()
    assert isinstance(lowered, xpr.stages.Lowered)
    compiled = lowered.compile()
    assert isinstance(compiled, xpr.stages.Compiled)
    np.testing.assert_array_equal(compiled(jnp.ones(2)), [2, 2])


def test_meshes_in_use_by_their_short_names() -> None:
    assert xpr.get_mesh is xpr.sharding.get_mesh
    assert xpr.get_abstract_mesh is xpr.sharding.get_abstract_mesh
    assert xpr.use_abstract_mesh is xpr.sharding.use_abstract_mesh
    with xpr.use_abstract_mesh(xpr.sharding.AbstractMesh((2,), ("x",))):
        assert xpr.get_abstract_mesh().shape == {"x": 2}
    assert xpr.get_abstract_mesh().empty


def test_the_type_of_keys() -> None:
    """It is for annotations: a call gives its argument back."""

    def sample(key: xpr.random.Key) -> xpr.Array:
        return xpr.random.normal(key)

    assert typing.get_type_hints(sample)["key"] is xpr.random.Key
    key = xpr.random.key(0)
    assert xpr.random.Key(key) is key
    assert sample(xpr.random.Key(key)) == xpr.random.normal(key)
