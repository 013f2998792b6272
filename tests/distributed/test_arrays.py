"""Arrays over the devices of several processes: made, read, printed, moved and given up."""

from __future__ import annotations


def test_arrays_that_nobody_has_to_send(run_processes):
    """Everybody has what is put somewhere, and keeps the parts of its own devices."""

    def program():
        import copy
        import pickle

        import numpy as np
        import pytest

        import xpr
        import xpr.numpy as jnp
        from xpr.sharding import Mesh, NamedSharding, SingleDeviceSharding
        from xpr.sharding import PartitionSpec as P

        me = xpr.process_index()
        mesh = Mesh(np.array(xpr.devices()), ("x",))
        cut, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
        values = np.arange(8, dtype=np.float32)
        mine = values[4 * me : 4 * me + 4]

        def parts(x):
            return np.concatenate([np.asarray(s.data) for s in x.addressable_shards])

        # device_put: the same everywhere
        x = xpr.device_put(values, cut)
        assert not x.is_fully_addressable
        assert x.committed
        assert x.shape == (8,)
        np.testing.assert_array_equal(parts(x), mine)
        assert [s.index for s in x.addressable_shards] == [
            (slice(4 * me + 2 * i, 4 * me + 2 * i + 2),) for i in range(2)
        ]
        assert [s.data is None for s in x.global_shards] == [
            d.process_index != me for d in xpr.devices()
        ]
        assert x.devices() == set(xpr.devices())
        assert x.platform() == "cpu"
        np.testing.assert_array_equal(x.addressable_data(1), mine[2:])
        with pytest.raises(IndexError, match="list index out of range"):
            x.addressable_data(2)
        assert x.nbytes == x.on_device_size_in_bytes() == 32
        np.testing.assert_array_equal(parts(xpr.device_put(jnp.arange(8.0), cut)), mine)
        weak = xpr.device_put(2.0, whole)
        assert float(weak) == 2
        assert weak.weak_type
        with pytest.raises(
            AssertionError, match=f"not the same on each process.*process {1 - me} other"
        ):
            xpr.device_put(values + me, cut)
        with pytest.raises(AssertionError, match=r"has f32\[\d\], process \d f32"):
            xpr.device_put(np.zeros(4 + 4 * me), cut)
        with pytest.raises(ValueError, match="represents addressable devices"):
            xpr.device_put(xpr.device_put(values, xpr.local_devices()[0]), cut)

        # what each has of it
        y = xpr.make_array_from_process_local_data(cut, mine + 10)
        assert y.shape == (8,)
        np.testing.assert_array_equal(parts(y), mine + 10)
        np.testing.assert_array_equal(
            parts(xpr.make_array_from_process_local_data(cut, values, (8,))), mine
        )
        tree = xpr.make_array_from_process_local_data(whole, {"a": mine * 0, "b": np.float32(1)})
        assert tree["a"].shape == (4,)
        assert float(tree["b"]) == 1
        with pytest.raises(ValueError, match="the data must be the whole, 12, or what this"):
            xpr.make_array_from_process_local_data(cut, values, (12,))
        asked = []

        def part(index):
            asked.append(index)
            return values[index]

        np.testing.assert_array_equal(parts(xpr.make_array_from_callback((8,), cut, part)), mine)
        assert asked == [s.index for s in x.addressable_shards]
        singles = [xpr.device_put(mine[:2] * 3, d) for d in xpr.local_devices()]
        z = xpr.make_array_from_single_device_arrays((8,), cut, singles)
        np.testing.assert_array_equal(parts(z), np.tile(mine[:2] * 3, 2))
        with pytest.raises(ValueError, match="expected 2 arrays"):
            xpr.make_array_from_single_device_arrays((8,), cut, singles[:1])

        # reading
        same = xpr.device_put(values, whole)
        np.testing.assert_array_equal(same, values)
        assert repr(same) == "Array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float32)"
        assert repr(x) == str(x) == f"{x}" == "Array(shape=(8,), dtype=float32)"
        for read in (np.asarray, pickle.dumps, xpr.device_get, lambda a: a.tolist()):
            with pytest.raises(RuntimeError, match=r"spans non-addressable .*process_allgather"):
                read(x)
        with pytest.raises(RuntimeError, match="Pickling"):
            pickle.dumps(x)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(same)), values)
        with pytest.raises(BufferError, match="only supported for arrays on one device"):
            x.__dlpack__()
        # a mesh of which each process has all parts
        grid = Mesh(np.array(xpr.devices()).reshape(2, 2), ("p", "d"))
        np.testing.assert_array_equal(xpr.device_put(values, NamedSharding(grid, P("d"))), values)

        # eager operations that need nobody else
        np.testing.assert_array_equal(parts(x + x), mine * 2)
        np.testing.assert_array_equal(parts(jnp.sin(x) + np.ones(8, np.float32)), np.sin(mine) + 1)
        np.testing.assert_array_equal(parts(2 * x - jnp.arange(8.0)), mine)
        assert (x + 1).sharding == cut
        assert jnp.asarray(x) is x
        np.testing.assert_array_equal(parts(jnp.array(x)), mine)
        with pytest.raises(ValueError, match=r"device ids \[0, 1, 2, 3\]"):
            _ = x + xpr.device_put(values, xpr.local_devices()[0])

        # in the host's memory beside the devices
        beside = xpr.device_put(x, cut.with_memory_kind("pinned_host"))
        assert beside.sharding.memory_kind == "pinned_host"
        np.testing.assert_array_equal(parts(beside), mine)
        again = xpr.device_put(beside, whole)
        assert again.sharding == whole
        np.testing.assert_array_equal(again, values)

        # life
        kept = copy.deepcopy(x)
        x.delete()
        assert x.is_deleted()
        assert repr(x) == "<deleted Array of type f32[8]>"
        np.testing.assert_array_equal(parts(kept), mine)
        with pytest.raises(RuntimeError, match="deleted"):
            parts(x)
        given = xpr.device_put(kept, cut, donate=True)
        assert given is kept

        # devices of another process alone
        far = next(d for d in xpr.devices() if d.process_index != 0)
        r = xpr.device_put(values[:3], far)
        out = xpr.jit(lambda a: a * 2)(r + 1)
        assert out.sharding == r.sharding == SingleDeviceSharding(far)
        assert r.device is far
        assert out.shape == (3,)
        assert out.is_fully_addressable == (me == 1)
        if me == 1:
            np.testing.assert_array_equal(out, (values[:3] + 1) * 2)
        else:
            assert out.addressable_shards == []
            assert repr(out) == "Array(shape=(3,), dtype=float32)"
            with pytest.raises(RuntimeError, match=r"on devices of the processes \[1\]"):
                np.asarray(out)
            with pytest.raises(RuntimeError, match="spans non-addressable"):
                xpr.device_get(out)
            assert xpr.block_until_ready(out) is out
            assert copy.deepcopy(out).shape == (3,)
            assert not out.is_deleted()
            out.delete()
            assert out.is_deleted()
            with pytest.raises(ValueError, match="represents addressable devices"):
                xpr.device_put(xpr.device_put(values, xpr.local_devices()[0]), far)
        theirs = NamedSharding(Mesh(np.array(xpr.local_devices(1)), ("x",)), P("x"))
        t = xpr.device_put(values, theirs) + 1
        assert t.sharding == theirs
        if me == 1:
            np.testing.assert_array_equal(t, values + 1)
        assert len(t.addressable_shards) == 2 * me
        assert all(a.sharding is not None for a in xpr.live_arrays())
        print("done")

    assert run_processes(2, program, devices=2).out == ["done\n"] * 2
