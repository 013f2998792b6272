"""Layouts: arrays are row-major, and programs that ask for that run."""

from __future__ import annotations

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.experimental.layout import Format, Layout, with_layout_constraint
from xpr.sharding import SingleDeviceSharding

ROW_MAJOR = (
    "Layout(major_to_minor=(0, 1), tiling=(), sub_byte_element_size_in_bits=0)"  # JAX's words
)


def test_the_format_of_an_array():
    x = jnp.ones((2, 3))
    assert repr(x.format.layout) == ROW_MAJOR
    assert x.format.sharding == x.sharding
    assert x.format == jnp.zeros((2, 3)).format
    assert hash(Layout((0, 1))) == hash(Layout([0, 1]))
    assert Layout((0, 1)) != Layout((1, 0))
    assert repr(Layout.AUTO) == "AUTO"


def test_row_major_arrays_are_put_where_a_format_says():
    place = SingleDeviceSharding(xpr.devices()[0])
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = xpr.device_put(values, Format(Layout((0, 1)), place))
    assert x.committed
    np.testing.assert_array_equal(x, values)
    np.testing.assert_array_equal(xpr.device_put(values, Format(None, place)), values)
    f = xpr.jit(lambda v: with_layout_constraint(v, Layout((0, 1))) * 2)
    np.testing.assert_array_equal(f(values), values * 2)


def test_what_cannot_be_had_is_an_error():
    place = SingleDeviceSharding(xpr.devices()[0])
    x = jnp.ones((2, 3))
    with pytest.raises(NotImplementedError, match=r"row-major and dense: f32\[2,3\] cannot"):
        xpr.device_put(x, Format(Layout((1, 0)), place))
    with pytest.raises(ValueError, match="Length of major_to_minor and the rank"):
        with_layout_constraint(x, Layout((0,)))
    with pytest.raises(ValueError, match="layout in `Layout` instance should be concrete"):
        xpr.device_put(x, Format(Layout.AUTO, place))
    with pytest.raises(ValueError, match="Sharding has to be concrete when layout is of type"):
        Format(Layout((0, 1)), None)
    with pytest.raises(TypeError, match="takes a Layout, got"):
        with_layout_constraint(x, "rows")
