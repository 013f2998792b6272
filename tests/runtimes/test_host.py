"""Host buffers: both faces, alignment, sharing, deletion."""

from __future__ import annotations

import gc
import mmap
import weakref
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xpr.runtimes import hal, host
from xpr.runtimes.host import HostBuffer, aligned_copy, aligned_empty

from .programs import ELEMENTS, cpu, put

RNG = np.random.default_rng(20)
LARGE = 5000  # elements of float32: more than the size up to which buffers are always copied


def address(array: np.ndarray[Any, Any]) -> int:
    return array.__array_interface__["data"][0]


def misaligned(count: int) -> np.ndarray[Any, Any]:
    """A float32 array that starts 4 bytes after a multiple of 64."""
    return aligned_empty((count + 1,), np.float32)[1:]


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (7,), (2, 3, 4), (1000, 3)])
@pytest.mark.parametrize("dtype", [np.bool_, np.float32, np.complex128, ml_dtypes.bfloat16])
def test_aligned_empty(shape: tuple[int, ...], dtype: Any) -> None:
    array = aligned_empty(shape, dtype)
    assert array.shape == shape
    assert array.dtype == dtype
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert address(array) % 64 == 0 or array.size == 0


def test_aligned_copy_of_strided_arrays() -> None:
    base = RNG.standard_normal((40, 60))
    for source in (base.T, base[::2, ::-3], np.broadcast_to(base[0], (5, 60))):
        copy = aligned_copy(source)
        assert copy.flags.c_contiguous
        assert address(copy) % 64 == 0
        np.testing.assert_array_equal(copy, source)
        assert not np.shares_memory(copy, source)


@pytest.mark.parametrize("dtype", [*ELEMENTS.values(), ml_dtypes.int4, ml_dtypes.float8_e3m4])
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (5,), (2, 3), (100, 100)])
def test_values_pass_through_iree(dtype: Any, shape: tuple[int, ...]) -> None:
    source = RNG.integers(0, 2, shape).astype(np.float32).astype(dtype)
    view = put(source).hal_view()
    back = HostBuffer(None, cpu()[1], view, (shape, np.dtype(dtype)))
    found = back.host_view()
    assert found.dtype == dtype
    assert found.shape == shape
    assert found.tobytes() == source.tobytes()
    assert not found.flags.writeable
    assert back.nbytes == source.nbytes
    assert (back.shape, back.dtype) == (shape, np.dtype(dtype))


def test_dtype_that_iree_cannot_store() -> None:
    with pytest.raises(TypeError, match=r"IREE buffers cannot hold elements of dtype datetime64"):
        put(np.zeros(3, "datetime64[s]")).hal_view()


def test_host_view_is_read_only_and_leaves_the_array_writable() -> None:
    mine = np.arange(4.0)
    buffer = put(mine)
    view = buffer.host_view()
    assert not view.flags.writeable
    assert buffer.host_view() is view
    assert np.shares_memory(view, mine)
    mine[0] = 9  # still the caller's own
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_subclasses_become_plain_arrays() -> None:
    assert type(put(np.ma.masked_array([1.0, 2.0])).host_view()) is np.ndarray


def test_large_aligned_arrays_are_imported_without_a_copy() -> None:
    for dtype in (np.float32, np.bool_, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2):
        source = aligned_copy(np.ones((100, 100)).astype(dtype))
        buffer = put(source)
        low, high = HostBuffer(None, cpu()[1], buffer.hal_view(), buffer.kind).memory_span()
        assert (low, high) == (address(source), address(source) + source.nbytes)


@pytest.mark.parametrize(
    "source",
    [
        misaligned(LARGE),
        np.asfortranarray(RNG.random((70, 90))),
        RNG.random((90, 200))[::2, ::-1],
        np.broadcast_to(np.float32(3), (80, 80)),
    ],
    ids=["misaligned", "fortran", "strided", "broadcast"],
)
def test_other_large_arrays_are_copied_once_to_aligned_memory(source: np.ndarray[Any, Any]) -> None:
    source = source.copy(order="K") if source.flags.forc and source.size != LARGE else source
    expected = np.array(source)
    buffer = put(source)
    view = buffer.hal_view()
    assert buffer.hal_view() is view
    low, high = buffer.memory_span()
    assert low % 64 == 0
    assert high - low == expected.nbytes
    found = buffer.host_view()
    np.testing.assert_array_equal(found, expected)
    assert address(found) == low  # the values are in memory once
    assert not np.shares_memory(found, source)


def test_small_arrays_are_copied() -> None:
    source = np.arange(8.0, dtype=np.float32)
    buffer = put(source)
    buffer.hal_view()
    source[:] = 0
    back = HostBuffer(None, cpu()[1], buffer.view, buffer.kind)
    np.testing.assert_array_equal(back.host_view(), np.arange(8.0))
    assert back.memory_span()[0] % 64 == 0


def test_read_only_sources(tmp_path: Path) -> None:
    frozen = aligned_copy(np.arange(LARGE, dtype=np.float32))
    frozen.setflags(write=False)
    path = tmp_path / "weights"
    path.write_bytes(frozen.tobytes())
    mapped = np.memmap(path, np.float32, "r")
    raw = np.frombuffer(path.read_bytes(), np.float32)
    half = np.memmap(path, ml_dtypes.bfloat16, "r")
    for source in (frozen, mapped, raw, half):
        buffer = HostBuffer(source, cpu()[1])
        view = buffer.hal_view()
        back = HostBuffer(None, cpu()[1], view, (source.shape, source.dtype))
        assert back.host_view().tobytes() == source.tobytes()
        if address(source) % 64 == 0:
            assert back.memory_span()[0] == address(source)
        assert not source.flags.writeable
    assert address(mapped) % mmap.PAGESIZE == 0


# ---- lifetimes


class Tracked(np.ndarray[Any, Any]):
    """An array that can be watched by a weak reference."""


def test_iree_holds_an_imported_array_until_its_last_user_is_gone() -> None:
    array = aligned_copy(np.arange(LARGE, dtype=np.float32)).view(Tracked)
    alive = weakref.ref(array)
    assert host.is_importable(array)
    view = hal.start().imported(array, array.dtype)
    del array
    gc.collect()
    assert alive() is not None
    back = HostBuffer(None, cpu()[1], view, ((LARGE,), np.dtype(np.float32)))
    del view
    values = back.host_view()
    back.delete()
    del back
    gc.collect()
    assert alive() is not None, "the array was freed while a view of its memory exists"
    np.testing.assert_array_equal(values, np.arange(LARGE))
    part = values[3:9:2]
    del values
    gc.collect()
    assert alive() is not None
    np.testing.assert_array_equal(part, [3, 5, 7])
    del part
    gc.collect()
    assert alive() is None, "the array is never freed"


def test_host_view_outlives_the_buffer() -> None:
    source = RNG.random(LARGE)
    view = put(misaligned(LARGE)).hal_view()
    assert view is not None
    buffer = put(source[1:])
    buffer.hal_view()
    values = buffer.host_view()
    buffer.delete()
    del buffer, view
    gc.collect()
    noise = [np.full(LARGE, 7.0) for _ in range(50)]
    np.testing.assert_array_equal(values, source[1:])
    assert len(noise) == 50


# ---- sharing


def states(make: Any) -> list[tuple[str, HostBuffer]]:
    """Buffers over arrays that nobody else holds, in every state a buffer can be in."""
    plain, imported, viewed, frozen, mapped = (HostBuffer(make(), cpu()[1]) for _ in range(5))
    imported.hal_view()
    frozen.host_view()
    viewed.host_view()
    viewed.hal_view()
    view = HostBuffer(make(), cpu()[1]).hal_view()
    own = HostBuffer(None, cpu()[1], view, mapped.kind)
    mapped.hal_view()
    mapped.host_view()
    seen = HostBuffer(None, cpu()[1], hal.start().copied(make()), mapped.kind)
    seen.host_view()
    return [
        ("plain", plain),
        ("imported", imported),
        ("viewed", viewed),
        ("frozen", frozen),
        ("mapped", mapped),
        ("own", own),
        ("seen", seen),
    ]


MAKERS = {
    "large aligned": lambda: aligned_empty((LARGE,), np.float32),
    "large misaligned": lambda: np.ones(LARGE + 1, np.float32)[1:].copy(),
    "small": lambda: np.ones(8, np.float32),
    "large bf16": lambda: aligned_empty((LARGE,), ml_dtypes.bfloat16),
    "owner": lambda: np.ones((LARGE,), np.float32),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_unshared_buffers_are_seen_as_unshared(maker: str) -> None:
    found = {name: b.is_shared() for name, b in states(MAKERS[maker])}
    assert found == dict.fromkeys(found, False)


@pytest.mark.parametrize("maker", MAKERS)
def test_shared_buffers_are_seen_as_shared(maker: str) -> None:
    for name, buffer in states(MAKERS[maker]):
        held = buffer.host_view()
        own_memory = HostBuffer(None, cpu()[1], buffer.hal_view(), buffer.kind).memory_span()[0]
        overlaps = address(held) == own_memory
        assert buffer.is_shared() or not overlaps, name
        part = held[2:4]
        del held
        assert buffer.is_shared() or not overlaps, name
        del part
        assert not buffer.is_shared(), name


def test_every_way_to_see_the_memory_counts() -> None:
    def sees(make: Any) -> bool:
        buffer = put(aligned_copy(np.arange(LARGE, dtype=np.float32)))
        buffer.hal_view()
        other = make(buffer.host_view())
        assert other is not None
        return buffer.is_shared()

    assert sees(lambda a: a)
    assert sees(lambda a: a[1:])
    assert sees(lambda a: a.reshape(50, 100).T)
    assert sees(memoryview)
    assert sees(lambda a: memoryview(a)[3:])
    assert sees(lambda a: np.asarray(memoryview(a)))
    assert sees(lambda a: a.__array_interface__ and a.view(np.int32))
    assert sees(lambda a: a.__dlpack__(max_version=(1, 0)))
    assert sees(lambda a: np.from_dlpack(a))
    assert not sees(lambda a: a.copy())
    assert not sees(lambda a: a.sum())


def test_the_users_own_array_counts() -> None:
    mine = aligned_copy(np.zeros(LARGE, np.float32))
    buffer = put(mine)
    assert buffer.is_shared()
    buffer.hal_view()
    assert buffer.is_shared()
    whole = aligned_copy(np.zeros((4, LARGE), np.float32))
    row = HostBuffer(whole[2], cpu()[1])
    assert row.is_shared()


def test_memory_of_unknown_owners_counts_as_shared() -> None:
    block = bytearray(LARGE * 4)
    assert HostBuffer(np.frombuffer(block, np.float32), cpu()[1]).is_shared()


def test_two_buffers_over_one_array_are_shared() -> None:
    array = aligned_copy(np.zeros(LARGE, np.float32))
    first, second = put(array), put(array)
    del array
    assert first.is_shared()
    assert second.is_shared()
    second.delete()
    del second
    assert not first.is_shared()


def test_private_view_copies_only_when_needed() -> None:
    values = np.arange(LARGE, dtype=np.float32)
    buffer = put(values)
    own = HostBuffer(None, cpu()[1], buffer.copied_view(), buffer.kind)
    assert own.private_view() is own.view
    own.host_view()
    assert own.private_view() is own.view
    held = own.host_view()[7:]
    for seen in (own, put(aligned_copy(values))):
        low, high = seen.memory_span()
        private = HostBuffer(None, cpu()[1], seen.private_view(), seen.kind)
        assert private.memory_span()[0] not in range(low, high)
        np.testing.assert_array_equal(private.host_view(), values)
    np.testing.assert_array_equal(held, values[7:])


# ---- deletion


@pytest.mark.parametrize("maker", MAKERS)
def test_deleted_buffers_raise(maker: str) -> None:
    for _, buffer in states(MAKERS[maker]):
        kind = buffer.kind
        buffer.delete()
        buffer.delete()
        assert buffer.is_deleted()
        assert (buffer.shape, buffer.dtype) == kind
        message = rf"Array has been deleted with shape={kind[1].name}\[{kind[0][0]}\]\."
        for use in (
            buffer.host_view,
            buffer.hal_view,
            buffer.block_until_ready,
            buffer.private_view,
        ):
            with pytest.raises(RuntimeError, match=message):
                use()
        assert "deleted" in repr(buffer)


def test_deletion_frees_the_memory() -> None:
    array = aligned_copy(np.zeros(LARGE, np.float32)).view(Tracked)
    alive = weakref.ref(array)
    buffer = HostBuffer(array, cpu()[1])
    buffer.hal_view()
    del array
    assert alive() is not None
    buffer.delete()
    gc.collect()
    assert alive() is None


def test_repr_names_type_and_device() -> None:
    assert repr(put(np.zeros((2, 3), np.int8))) == "HostBuffer(int8[2, 3], CpuDevice(id=0), NumPy)"
