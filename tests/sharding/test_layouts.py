"""Layouts in shardings: accepted where they are what arrays have, and told where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.experimental.layout import Format, Layout
from xpr.sharding import Mesh, NamedSharding, SingleDeviceSharding
from xpr.sharding import PartitionSpec as P

MESH = Mesh(np.array(xpr.devices("cpu")[:4]).reshape(2, 2), ("x", "y"))
CUT = NamedSharding(MESH, P("x", "y"))
TURNED = NamedSharding(MESH, P("y", "x"))
ALONE = SingleDeviceSharding(xpr.devices("cpu")[1])
M = np.arange(32, dtype=np.float32).reshape(4, 8)
ROWS = Layout((0, 1))


def turn(x: Any) -> Any:
    return x.T * 2


def test_jit_with_formats() -> None:
    f = xpr.jit(turn, in_shardings=Format(ROWS, CUT), out_shardings=Format(ROWS, TURNED))
    out = f(M)
    np.testing.assert_array_equal(out, 2 * M.T)
    assert out.sharding == TURNED
    assert out.format == Format(ROWS, TURNED)
    alone = xpr.jit(turn, out_shardings=Format(ROWS, ALONE))(M)
    assert alone.devices() == {xpr.devices("cpu")[1]}


def test_auto_is_the_layout_that_arrays_have() -> None:
    x = xpr.device_put(M, CUT)
    automatic = xpr.jit(turn, in_shardings=Format(Layout.AUTO), out_shardings=Format(Layout.AUTO))
    compiled = automatic.lower(x).compile()
    assert compiled.input_formats == ((x.format,), {})
    out = compiled(x)
    assert out.format == compiled.output_formats
    np.testing.assert_array_equal(out, 2 * M.T)
    np.testing.assert_array_equal(automatic(x), 2 * M.T)
    both = xpr.jit(turn, in_shardings=Format(Layout.AUTO, CUT), out_shardings=Format())
    assert both(M).sharding.device_set == set(xpr.devices("cpu")[:4])
    again = xpr.jit(turn, in_shardings=compiled.input_formats[0])
    np.testing.assert_array_equal(again(x), 2 * M.T)


def test_trees_of_formats() -> None:
    places = {"a": Format(ROWS, CUT), "b": None, "c": CUT}
    f = xpr.jit(lambda t: t, in_shardings=(places,), out_shardings=places)
    for leaf in f({"a": M, "b": M, "c": M}).values():
        np.testing.assert_array_equal(leaf, M)


def test_donation() -> None:
    place = Format(ROWS, CUT)
    x = xpr.device_put(M, place)
    f = xpr.jit(lambda x: x * x, in_shardings=place, out_shardings=place, donate_argnums=0)
    np.testing.assert_array_equal(f(x), M * M)
    assert x.is_deleted()


def test_where_else_formats_are_taken() -> None:
    place = Format(ROWS, CUT)
    struct = xpr.ShapeDtypeStruct(M.shape, M.dtype, sharding=place)
    assert struct.sharding == CUT
    assert struct.format == place
    made = xpr.make_array_from_callback(M.shape, place, lambda index: M[index])
    np.testing.assert_array_equal(made, M)
    assert made.format == place
    out = xpr.jit(lambda x: lax.with_sharding_constraint(x, place))(M)
    assert out.format == place


def test_what_is_refused() -> None:
    columns = Layout((1, 0))
    with pytest.raises(NotImplementedError, match="row-major and dense"):
        xpr.jit(turn, in_shardings=Format(columns, CUT))
    with pytest.raises(NotImplementedError, match="row-major and dense"):
        xpr.jit(turn, out_shardings=Format(Layout((0, 1), tiling=((8, 128),)), CUT))
    with pytest.raises(ValueError, match="does not accept device-local layouts directly"):
        xpr.jit(turn, in_shardings=Layout.AUTO)
    rank = "Length of major_to_minor and the rank of the value should match"
    deep = Format(Layout((0, 1, 2)), SingleDeviceSharding(xpr.devices("cpu")[0]))
    with pytest.raises(ValueError, match=rank):
        xpr.jit(turn, in_shardings=deep)(M)
    with pytest.raises(ValueError, match=rank):
        xpr.jit(turn, out_shardings=deep)(M)
    with pytest.raises(ValueError, match=rank):
        xpr.jit(lambda x: lax.with_sharding_constraint(x, deep))(M)
    with pytest.raises(TypeError, match="cannot be used in place of a device-local layout"):
        xpr.ShapeDtypeStruct(M.shape, M.dtype, sharding=Format(Layout.AUTO, CUT))
    with pytest.raises(TypeError, match="cannot be used in place of a device-local layout"):
        xpr.make_array_from_callback(M.shape, Format(Layout.AUTO, CUT), lambda index: M[index])
    with pytest.raises(NotImplementedError, match="row-major and dense"):
        jnp.asarray(xpr.device_put(M, Format(columns, CUT)))
