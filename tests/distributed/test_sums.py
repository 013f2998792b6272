"""Parts of sums over the devices of several processes."""

from __future__ import annotations


def test_sums_over_processes_are_put_off(run_processes):
    """Each device keeps its part of a product, and a collective between processes completes it."""

    def program():
        import numpy as np
        import pytest

        import xpr
        import xpr.numpy as jnp
        from xpr import lax
        from xpr.sharding import NamedSharding, reshard
        from xpr.sharding import PartitionSpec as P

        me = xpr.process_index()
        mesh = xpr.make_mesh((4,), ("x",))
        a = np.arange(32, dtype=np.float32).reshape(4, 8) / 8
        b = np.arange(24, dtype=np.float32).reshape(8, 3) / 4

        def own(x):
            return [np.asarray(s.data) for s in x.addressable_shards]

        with xpr.set_mesh(mesh):
            left = xpr.device_put(a, P(None, "x"))
            right = xpr.device_put(b, P("x"))
            dot = xpr.jit(lambda a, b: jnp.dot(a, b, out_sharding=P(unreduced={"x"})))
            for part in (dot(left, right), jnp.dot(left, right, out_sharding=P(unreduced={"x"}))):
                assert str(xpr.typeof(part)) == "float32[4,3]{U:x}"
                assert "unreduced={'x'}" in repr(part)
                for i, found in enumerate(own(part), 2 * me):
                    k = slice(2 * i, 2 * i + 2)
                    np.testing.assert_allclose(found, a[:, k] @ b[k], rtol=1e-5)
                np.testing.assert_allclose(np.asarray(reshard(part, P())), a @ b, rtol=1e-5)
                scattered = reshard(part, P("x"))
                for i, found in enumerate(own(scattered), 2 * me):
                    np.testing.assert_allclose(found, (a @ b)[i : i + 1], rtol=1e-5)
                with pytest.raises(NotImplementedError, match="unreduced array are on no device"):
                    np.asarray(part)

            x = xpr.device_put(a, P("x"))
            weights = xpr.device_put(b, NamedSharding(mesh, P(reduced={"x"})))
            found = xpr.jit(xpr.grad(lambda w, x: jnp.sin(x @ w).sum()))(weights, x)
            assert str(xpr.typeof(found)) == "float32[8,3]{U:x}"
            wanted = a.T @ np.cos(a @ b)
            np.testing.assert_allclose(
                np.asarray(reshard(found, P())), wanted, rtol=1e-4, atol=1e-4
            )
            total = xpr.shard_map(
                lambda x: lax.psum(lax.pcast(x, "x", to="unreduced"), "x"), out_specs=P()
            )
            np.testing.assert_allclose(
                np.asarray(xpr.jit(total)(x)), a.sum(0, keepdims=True), rtol=1e-5
            )

        print("done")

    assert run_processes(2, program, devices=2).out == ["done\n"] * 2
