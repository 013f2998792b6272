"""The program of the tutorials on several hosts, as it stands there, with `import xpr as jax`."""

from __future__ import annotations


def test_multi_host_programs(run_processes):
    def program():
        import xpr as jax

        jax.distributed.initialize()
        # A process's local devices are a subset of the global devices.
        assert set(jax.local_devices()) <= set(jax.devices())
        print(jax.process_index(), jax.process_count())
        print(jax.local_device_count(), jax.device_count(), jax.local_devices())
        xs = jax.numpy.ones(jax.local_device_count())
        print(jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(xs))
        print(jax.pmap(lambda x: x + jax.lax.axis_index("i"), axis_name="i")(xs))
        jax.distributed.shutdown()

    for p, out in enumerate(run_processes(2, program, devices=2, initialize=False).out):
        assert out.splitlines() == [
            f"{p} 2",
            f"2 4 [CpuDevice(id={2 * p}), CpuDevice(id={2 * p + 1})]",
            "[4. 4.]",
            f"[{1 + 2 * p}. {2 + 2 * p}.]",
        ]
