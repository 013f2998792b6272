"""Arrays on several devices: saved in parts, restored as another sharding wishes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorstore

import xpr
import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.experimental import checkpoint
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

DEVICES = np.array(xpr.devices("cpu")[:8])
VALUES = np.arange(64 * 48, dtype=np.float32).reshape(64, 48)

PLACES = {
    "rows of 8": NamedSharding(Mesh(DEVICES, ("x",)), P("x")),
    "columns of 4": NamedSharding(Mesh(DEVICES[:4], ("x",)), P(None, "x")),
    "4 by 2": NamedSharding(Mesh(DEVICES.reshape(4, 2), ("x", "y")), P("x", "y")),
    "rows of 2, 4 times": NamedSharding(Mesh(DEVICES.reshape(2, 4), ("x", "y")), P("x")),
    "both along rows, backwards": NamedSharding(
        Mesh(DEVICES[::-1].reshape(4, 2), ("x", "y")), P(("y", "x"))
    ),
    "everywhere": NamedSharding(Mesh(DEVICES, ("x",)), P()),
    "one device of a mesh": NamedSharding(Mesh(DEVICES[3:4], ("x",)), P("x")),
    "rows of 2, in the host's memory": NamedSharding(
        Mesh(DEVICES[:2], ("x",)), P("x"), memory_kind="pinned_host"
    ),
    "one device": xpr.sharding.SingleDeviceSharding(DEVICES[5]),
}


@pytest.mark.parametrize("name", PLACES)
def test_from_every_sharding_to_every_other(name: str, tmp_path: Path) -> None:
    tree = {
        "x": xpr.device_put(VALUES, PLACES[name]),
        "few": xpr.device_put(VALUES[:8, :8], PLACES[name]),
    }
    checkpoint.save(tmp_path, 0, tree)
    for place in PLACES.values():
        like = {
            "x": xpr.ShapeDtypeStruct(VALUES.shape, np.float32, sharding=place),
            "few": xpr.ShapeDtypeStruct((8, 8), np.float32, sharding=place),
        }
        found = checkpoint.restore(tmp_path, like=like)
        np.testing.assert_array_equal(found["x"], VALUES)
        np.testing.assert_array_equal(found["few"], VALUES[:8, :8])
        for key in found:
            assert found[key].sharding == place
            assert found[key].committed
        for shard in found["x"].addressable_shards:
            np.testing.assert_array_equal(shard.data, VALUES[shard.index])
            assert shard.data.devices() == {shard.device}
    whole = checkpoint.restore(tmp_path)["x"]
    np.testing.assert_array_equal(whole, VALUES)
    assert whole.devices() == {xpr.devices()[0]}


def test_like_of_arrays_and_what_is_computed_next(tmp_path: Path) -> None:
    place = PLACES["4 by 2"]
    x = xpr.device_put(VALUES, place)
    checkpoint.save(tmp_path, 0, [x, x + 1])
    a, b = checkpoint.restore(tmp_path, like=[x, x])
    assert a.sharding == b.sharding == place
    step = xpr.jit(lambda a, b: a * 2 + b, donate_argnums=0)
    np.testing.assert_array_equal(step(a, b), VALUES * 3 + 1)


def test_explicit_axes(tmp_path: Path) -> None:
    mesh = Mesh(DEVICES, ("x",), axis_types=(xpr.sharding.AxisType.Explicit,))
    x = xpr.device_put(VALUES, NamedSharding(mesh, P("x")))
    checkpoint.save(tmp_path, 0, x)
    found = checkpoint.restore(tmp_path, like=x)
    assert xpr.typeof(found) == xpr.typeof(x)
    np.testing.assert_array_equal(found, VALUES)


@pytest.mark.parametrize("dtype", ["int4", "bool", "bfloat16", "complex64", "float8_e4m3fn"])
def test_other_dtypes_in_parts(dtype: str, tmp_path: Path) -> None:
    host = (VALUES % 5 - 2).astype(np.int8).astype(np.float32).astype(jnp.dtype(dtype))
    x = xpr.device_put(host, PLACES["4 by 2"])
    checkpoint.save(tmp_path, 0, x)
    for name in ("columns of 4", "one device"):
        like = xpr.ShapeDtypeStruct(x.shape, x.dtype, sharding=PLACES[name])
        found = checkpoint.restore(tmp_path, like=like)
        assert np.asarray(found).tobytes() == host.tobytes()
    assert dtypes.is_supported(host.dtype)


def _bytes_read() -> int:
    name = "/tensorstore/kvstore/file/bytes_read"
    found = tensorstore.experimental_collect_matching_metrics(name)
    return found[0]["values"][0]["value"] if found else 0


def test_each_value_is_written_and_read_once(tmp_path: Path) -> None:
    """Copies on other devices are neither written nor read, and files hold nothing else."""
    place = PLACES["rows of 2, 4 times"]
    x = xpr.device_put(np.ones((1000, 1000), np.float32), place)
    checkpoint.save(tmp_path, 0, x)
    files = [p for p in tmp_path.rglob("c/*/*") if p.is_file()]
    assert len(files) == 2  # a file for each part
    assert sum(p.stat().st_size for p in files) == 4_000_000 + 2 * 4  # with a checksum each
    before = _bytes_read()
    checkpoint.restore(tmp_path, like=x)
    assert _bytes_read() - before < 4_010_000


def test_unfit_shardings_name_the_leaf(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 0, {"w": jnp.ones((300, 7))})
    like = {"w": jnp.ones((300, 7)).astype(jnp.float32)}
    place = PLACES["rows of 8"]
    mesh = place.mesh.abstract_mesh
    for sharding in (place, NamedSharding(mesh, P())):
        struct = xpr.ShapeDtypeStruct.__new__(xpr.ShapeDtypeStruct)
        struct.shape, struct.dtype, struct.weak_type = (300, 7), like["w"].dtype, False
        struct.sharding = sharding
        with pytest.raises((ValueError, TypeError), match=r"leaf \['w'\]"):
            checkpoint.restore(tmp_path, like={"w": struct})


def test_deleted_arrays_name_the_leaf(tmp_path: Path) -> None:
    for place in ("4 by 2", "one device"):
        x = xpr.device_put(VALUES, PLACES[place])
        x.delete()
        with pytest.raises(RuntimeError, match=r"leaf \['w'\]\[1\] cannot be saved.*deleted"):
            checkpoint.save(tmp_path, 0, {"w": [1, x]})
    assert checkpoint.all_steps(tmp_path) == []
