"""`xpr.experimental.multihost_utils`: what processes tell each other outside of programs."""

from __future__ import annotations

import numpy as np
import pytest

import xpr
from xpr.experimental import multihost_utils as utils
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P


def test_several_processes(run_processes):
    def program():
        import ml_dtypes
        import numpy as np
        import pytest

        import xpr
        import xpr.numpy as jnp
        from xpr.experimental import multihost_utils as utils
        from xpr.sharding import Mesh, NamedSharding
        from xpr.sharding import PartitionSpec as P

        me, count = xpr.process_index(), xpr.process_count()
        mesh = Mesh(np.array(xpr.devices()), ("x",))
        same = np.testing.assert_array_equal

        # everybody's
        mine = np.arange(2) + 10 * me
        same(utils.process_allgather(mine), [[0, 1], [10, 11], [20, 21]])
        same(utils.process_allgather(mine, tiled=True), [0, 1, 10, 11, 20, 21])
        for tiled in (False, True):
            same(utils.process_allgather(me, tiled), [0, 1, 2])
        tree = utils.process_allgather({"a": jnp.full((1, 2), me), "b": np.bool_(me == 1)})
        same(tree["a"], [[[0, 0]], [[1, 1]], [[2, 2]]])
        same(tree["b"], [False, True, False])
        half = utils.process_allgather(np.full(2, me, ml_dtypes.bfloat16), tiled=True)
        assert half.dtype == ml_dtypes.bfloat16
        same(half.astype(float), [0, 0, 1, 1, 2, 2])
        assert utils.process_allgather(np.zeros((0, 3)), tiled=True).shape == (0, 3)
        x = xpr.device_put(np.arange(6.0), NamedSharding(mesh, P("x")))
        same(utils.process_allgather(x, tiled=True), np.arange(6))
        with pytest.raises(ValueError, match="only supports tiled=True, got tiled=False"):
            utils.process_allgather(x)
        with pytest.raises(ValueError, match=r"process \d has int32\[\d\], process \d int32"):
            utils.process_allgather(np.arange(1 + me))

        # one's
        same(utils.broadcast_one_to_all(mine), [0, 1])
        tree = utils.broadcast_one_to_all({"a": mine, "b": me * 2.5}, is_source=me == 2)
        same(tree["a"], [20, 21])
        assert tree["b"] == 5
        assert tree["b"].dtype == np.float32
        with pytest.raises(ValueError, match=r"one source, got 2: the processes \[0, 1\]"):
            utils.broadcast_one_to_all(mine, is_source=me < 2)
        with pytest.raises(ValueError, match="arrays of the same type in all processes"):
            utils.broadcast_one_to_all(np.arange(1 + me))

        # the same
        utils.sync_global_devices("here")
        with pytest.raises(AssertionError, match=r"is at 'step \d', process \d at 'step"):
            utils.sync_global_devices(f"step {me}")
        utils.assert_equal({"a": np.arange(3), "b": 2})
        with pytest.raises(AssertionError, match=r"lost\. At \['b'\]: .*, process \d other values"):
            utils.assert_equal({"a": np.arange(3), "b": 2 + (me == 1)}, "lost")
        utils.assert_equal(xpr.device_put(np.arange(3), NamedSharding(mesh, P())))
        with pytest.raises(ValueError, match="compares what each process has whole"):
            utils.assert_equal(x)

        # arrays of one and of all
        whole = utils.host_local_array_to_global_array(
            {"cut": mine, "same": np.ones(2)}, mesh, {"cut": P("x"), "same": P()}
        )
        assert whole["cut"].shape == (6,)
        assert whole["same"].shape == (2,)
        same(whole["cut"].addressable_data(0), mine)
        same(utils.process_allgather(whole["cut"], tiled=True), [0, 1, 10, 11, 20, 21])
        assert utils.host_local_array_to_global_array(whole["cut"], mesh, P("x")) is whole["cut"]
        back = utils.global_array_to_host_local_array(whole, mesh, {"cut": P("x"), "same": P()})
        same(back["cut"], mine)
        same(back["same"], np.ones(2))
        assert back["cut"].is_fully_addressable
        same(utils.global_array_to_host_local_array(x, mesh, P()), np.arange(6))
        with pytest.raises(ValueError, match="`pspecs` must be PartitionSpecs, got None"):
            utils.host_local_array_to_global_array(mine, mesh, None)
        with pytest.raises(NotImplementedError, match="cannot be traced"):
            xpr.jit(lambda a: utils.host_local_array_to_global_array(a, mesh, P("x")))(mine)

        with pytest.raises(NotImplementedError, match="needs a service that tells"):
            utils.reached_preemption_sync_point(3)
        with pytest.raises(NotImplementedError, match="live and end together"):
            utils.live_devices(xpr.devices())
        print("done", count)

    assert run_processes(3, program).out == ["done 3\n"] * 3


def test_one_process():
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    np.testing.assert_array_equal(utils.process_allgather(x), x[None])
    np.testing.assert_array_equal(utils.process_allgather(x, tiled=True), x)
    np.testing.assert_array_equal(utils.process_allgather(3.0, tiled=True), [3])
    np.testing.assert_array_equal(utils.broadcast_one_to_all(x), x)
    with pytest.raises(ValueError, match="needs one source, got 0"):
        utils.broadcast_one_to_all(x, is_source=False)
    utils.sync_global_devices("here")
    utils.assert_equal(x)
    mesh = Mesh(np.array(xpr.devices("cpu")[:2]), ("x",))
    whole = utils.host_local_array_to_global_array(x, mesh, P("x"))
    assert whole.sharding == NamedSharding(mesh, P("x"))
    np.testing.assert_array_equal(utils.process_allgather(whole), x[None])
    assert utils.global_array_to_host_local_array(whole, mesh, P("x")) is whole
    assert not utils.reached_preemption_sync_point(0)
    with pytest.raises(TypeError, match="takes a Mesh, got"):
        utils.host_local_array_to_global_array(x, "x", P("x"))  # pyright: ignore[reportArgumentType]
