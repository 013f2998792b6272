"""What is saved comes back: every dtype, every kind of leaf, every container."""

from __future__ import annotations

import collections
import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import tree_util
from xpr.core import dtypes
from xpr.experimental import checkpoint
from xpr.experimental.checkpoint.leaves import INLINE_BYTES, chunk_shape

ALL_DTYPES = [d for d in dtypes._KIND if d != dtypes.float0]


class Moments(NamedTuple):
    mean: Any
    variance: Any


@tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any
    name: str = dataclasses.field(default="dense", metadata={"static": True})


def _bytes(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Values of all bit patterns that the dtype has."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    bits = {"int1": 1, "uint1": 1, "int2": 2, "uint2": 2, "int4": 4, "uint4": 4}.get(dtype.name)
    if bits is not None:
        low = 0 if dtype.name.startswith("u") else -(1 << (bits - 1))
        return rng.integers(low, low + (1 << bits), shape).astype(np.int8).astype(dtype)
    small = {"float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}.get(dtype.name)
    if small is not None:
        return rng.integers(0, 1 << small, shape).astype(np.uint8).view(dtype)
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).reshape(shape)


def _same_bits(found: Any, expected: np.ndarray[Any, Any]) -> None:
    host = np.asarray(found)
    assert host.dtype == expected.dtype
    assert host.shape == expected.shape
    assert host.tobytes() == expected.tobytes()


@pytest.mark.parametrize("shape", [(40, 60), (3,), (), (0, 4)], ids=str)
def test_every_dtype(shape: tuple[int, ...], tmp_path: Path) -> None:
    with xpr.enable_x64():
        expected = {d.name: _bytes(d, shape, i) for i, d in enumerate(ALL_DTYPES)}
        arrays = {name: jnp.asarray(value) for name, value in expected.items()}
        checkpoint.save(tmp_path, 0, {"xpr": arrays, "numpy": expected})
        found = checkpoint.restore(tmp_path)
        for name, value in expected.items():
            assert isinstance(found["xpr"][name], xpr.Array)
            assert type(found["numpy"][name]) is np.ndarray
            _same_bits(found["xpr"][name], value)
            _same_bits(found["numpy"][name], value)
            assert found["numpy"][name].flags.writeable
    assert len(expected) == 32


def test_float0_and_numpy_scalars(tmp_path: Path) -> None:
    tree = [np.zeros((2, 3), dtypes.float0), np.float64(1.5), np.int8(-3), dtypes.bfloat16.type(2)]
    checkpoint.save(tmp_path, 0, tree)
    zeros, *scalars = checkpoint.restore(tmp_path)
    assert (zeros.shape, zeros.dtype) == ((2, 3), dtypes.float0)
    assert [(type(s), s) for s in scalars] == [(type(s), s) for s in tree[1:]]


def test_numpy_arrays_of_other_layouts(tmp_path: Path) -> None:
    base = np.arange(4000.0).reshape(50, 80)
    tree = [base.T, base[::2, ::-3], base.astype(">f8"), np.asfortranarray(base)]
    checkpoint.save(tmp_path, 0, tree)
    for found, value in zip(checkpoint.restore(tmp_path), tree, strict=True):
        np.testing.assert_array_equal(found, value)
        assert found.dtype == np.float64


PLAIN = [
    *(True, False, 0, -1, 10**30, 0.1, -0.0, float("inf"), 5e-324, 1e308),
    *(complex(0.1, -float("inf")), "", "text\n'\"\\ äß 🌍 \ud800", b"", b"\x00\xff"),
]  # fmt: skip


def test_plain_values(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 0, PLAIN)
    found = checkpoint.restore(tmp_path)
    assert [(type(v), repr(v)) for v in found] == [(type(v), repr(v)) for v in PLAIN]
    checkpoint.save(tmp_path, 1, float("nan"))
    assert np.isnan(checkpoint.restore(tmp_path))


def test_containers_without_like(tmp_path: Path) -> None:
    tree = {
        "list": [1, [2.0, None], []],
        "tuple": (1, (), (2,)),
        "ordered": collections.OrderedDict([("z", 1), ("a", 2)]),
        "numbers": {1: "one", 2: "two"},
        "pairs": {(1, "a"): 0, (1, "b"): 1},
        "named": Moments(jnp.ones(2), 3),
        "class": Layer(1, [2]),
        "none": None,
        "empty": {},
    }
    checkpoint.save(tmp_path, 0, tree)
    found = checkpoint.restore(tmp_path)
    np.testing.assert_array_equal(found["named"].pop("mean"), [1, 1])
    assert found == {
        **tree,
        "named": {"variance": 3},
        "class": {"weight": 1, "bias": [2]},
    }
    assert type(found["ordered"]) is collections.OrderedDict
    assert list(found["ordered"]) == ["z", "a"]


def test_containers_with_like(tmp_path: Path) -> None:
    tree = {
        "named": Moments(jnp.ones(2), 3),
        "class": [Layer(jnp.zeros((2, 2)), None, "out")],
        "default": collections.defaultdict(list, x=1),
        "key": xpr.random.key(7),
        "keys": xpr.random.split(xpr.random.key(8), 3),
    }
    checkpoint.save(tmp_path, 0, tree)
    found = checkpoint.restore(tmp_path, like=tree)
    assert tree_util.tree_structure(found) == tree_util.tree_structure(tree)
    assert found["class"][0].name == "out"
    for a, b in zip(tree_util.tree_leaves(found), tree_util.tree_leaves(tree), strict=True):
        if xpr.dtypes.issubdtype(getattr(b, "dtype", None), xpr.dtypes.prng_key):
            assert a.dtype == b.dtype
            a, b = xpr.random.key_data(a), xpr.random.key_data(b)
        np.testing.assert_array_equal(a, b)
    abstract = xpr.eval_shape(lambda: tree)
    abstract = {**abstract, "named": Moments(abstract["named"].mean, 3), "default": {"x": 0}}
    found = checkpoint.restore(tmp_path, like=abstract)
    assert type(found["key"]) is type(tree["key"])
    np.testing.assert_array_equal(xpr.random.bits(found["key"]), xpr.random.bits(tree["key"]))


def test_keys_without_like(tmp_path: Path) -> None:
    keys = xpr.random.split(xpr.random.key(1), 4)
    checkpoint.save(tmp_path, 0, {"keys": keys})
    found = checkpoint.restore(tmp_path)["keys"]
    assert found.dtype == keys.dtype
    assert bool(jnp.all(found == keys))


def test_weak_types_stay_weak(tmp_path: Path) -> None:
    tree = [jnp.asarray(1.0), jnp.ones(3)]
    checkpoint.save(tmp_path, 0, tree)
    for like in (None, tree):
        found = checkpoint.restore(tmp_path, like=like)
        assert [x.weak_type for x in found] == [x.weak_type for x in tree] == [True, False]
        assert not any(x.committed for x in found)


def test_a_tree_that_is_a_leaf(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 3, jnp.arange(1000))
    np.testing.assert_array_equal(checkpoint.restore(tmp_path, 3), np.arange(1000))
    checkpoint.save(tmp_path, 4, None)
    assert checkpoint.restore(tmp_path) is None


def test_many_leaves_and_large_arrays(tmp_path: Path) -> None:
    """More than is written at a time, and arrays that take several files."""
    rng = np.random.default_rng(0)
    large = rng.integers(0, 1 << 30, (3, 2500, 2500)).astype(np.int32)
    tree = {"large": jnp.asarray(large), "small": [jnp.full(300, i) for i in range(50)]}
    checkpoint.save(tmp_path, 0, tree)
    found = checkpoint.restore(tmp_path)
    np.testing.assert_array_equal(found["large"], large)
    assert [int(x[-1]) for x in found["small"]] == list(range(50))
    files = [p for p in tmp_path.rglob("c/*/*/*") if p.is_file()]
    assert len(files) > 3


def test_the_structure_is_readable(tmp_path: Path) -> None:
    """Few values are beside the structure; others are arrays that any reader of Zarr reads."""
    few = INLINE_BYTES // 4
    tree = {"a": (jnp.arange(few), 2), "b w": jnp.ones((few, 2))}
    checkpoint.save(tmp_path, 12, tree)
    content = json.loads((tmp_path / "12" / "tree.json").read_text())["content"]
    assert content["step"] == 12
    assert content["tree"] == {
        "dict": {"a": {"tuple": [{"leaf": 0}, {"leaf": 1}]}, "b w": {"leaf": 2}}
    }
    first, second, third = content["leaves"]
    assert (first["path"], first["shape"], first["dtype"]) == ("['a'][0]", [few], "int32")
    assert second == {"path": "['a'][1]", "value": {"int": 2}}
    assert third["store"] == "2.b_w"
    assert "data" not in third
    assert [p.name for p in (tmp_path / "12" / "arrays").iterdir()] == ["2.b_w"]
    zarr = json.loads((tmp_path / "12" / "arrays" / "2.b_w" / "zarr.json").read_text())
    assert (zarr["zarr_format"], zarr["shape"], zarr["data_type"]) == (3, [few, 2], "float32")


def test_metadata(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 1, {"w": jnp.ones((2, 3)), "n": 5, "h": np.zeros(4)})
    found = checkpoint.metadata(tmp_path)
    assert found["n"] == 5
    assert (found["w"].shape, found["w"].dtype) == ((2, 3), np.float32)
    assert found["h"].dtype == np.float64
    again = checkpoint.restore(tmp_path, like=found)
    np.testing.assert_array_equal(again["w"], np.ones((2, 3)))
    assert type(again["h"]) is np.ndarray


def test_parts_that_are_not_read(tmp_path: Path) -> None:
    tree = {"params": {"w": jnp.ones((300, 3)), "b": jnp.zeros(3)}, "opt": [jnp.ones((300, 3)), 1]}
    checkpoint.save(tmp_path, 1, tree)
    for file in (tmp_path / "1" / "arrays").glob("*opt*/**/*"):
        if file.is_file():
            file.unlink()
    found = checkpoint.restore(tmp_path, like={"params": tree["params"], "opt": ...})
    assert found["opt"] is Ellipsis
    np.testing.assert_array_equal(found["params"]["w"], np.ones((300, 3)))
    with pytest.raises(checkpoint.DamagedCheckpointError, match=r"leaf \['opt'\]\[0\]"):
        checkpoint.restore(tmp_path)


@pytest.mark.parametrize(
    ("shape", "itemsize", "counts", "limit", "expected"),
    [
        ((100,), 4, (1,), 400, (100,)),
        ((100,), 4, (1,), 100, (25,)),
        ((101,), 4, (1,), 100, (21,)),
        ((100, 10), 4, (4, 1), 100, (1, 10)),
        ((100, 10), 4, (4, 1), 400, (5, 10)),
        ((202, 10), 4, (2, 1), 400, (101, 1)),  # 101 rows are left together
        ((8, 8, 8), 1, (2, 2, 2), 8, (1, 2, 4)),
        ((), 4, (), 1, ()),
        ((1, 1), 8, (1, 1), 1, (1, 1)),
    ],
)
def test_shapes_of_files(shape, itemsize, counts, limit, expected) -> None:
    found = chunk_shape(shape, itemsize, counts, limit)
    assert found == expected
    for size, count, chunk in zip(shape, counts, found, strict=True):
        assert count == 1 or (size // count) % chunk == 0
