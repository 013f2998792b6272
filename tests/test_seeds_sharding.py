"""Introductions to programs on several devices, as their readers type them.

Each runs in a process of its own, which starts with one device as a reader's does. What they print
was compared with JAX 0.10.2, all but the pictures (which it draws with another package) and
`shard_map` of arrays that no mesh holds, on a mesh whose axes are Explicit (it refuses these).
"""

from __future__ import annotations

import os
import subprocess
import sys

BASICS = """
import xpr as jax
import xpr.numpy as jnp
import numpy as np
jax.config.update('jax_num_cpu_devices', 8)
arr = jnp.arange(32.0).reshape(4, 8)
print(arr.devices())

from xpr.sharding import PartitionSpec as P
mesh = jax.make_mesh((2, 4), ('x', 'y'))
sharding = jax.sharding.NamedSharding(mesh, P('x', 'y'))
print(sharding)
arr_sharded = jax.device_put(arr, sharding)
print(arr_sharded)
jax.debug.visualize_array_sharding(arr_sharded)

# jit: partitioned as its inputs are
@jax.jit
def f_elementwise(x):
    return 2 * jnp.sin(x) + 1
result = f_elementwise(arr_sharded)
print("shardings match:", result.sharding == arr_sharded.sharding)

@jax.jit
def f_contract(x):
    return x.sum(axis=0)
result = f_contract(arr_sharded)
jax.debug.visualize_array_sharding(result)
print(result)
"""
BASICS_PRINT = """
{CpuDevice(id=0)}
NamedSharding(mesh=Mesh('x': 2, 'y': 4, axis_types=(Explicit, Explicit)), spec=P('x', 'y'), memory_kind=device)
[[ 0.  1.  2.  3.  4.  5.  6.  7.]
 [ 8.  9. 10. 11. 12. 13. 14. 15.]
 [16. 17. 18. 19. 20. 21. 22. 23.]
 [24. 25. 26. 27. 28. 29. 30. 31.]]
┌──────────┬──────────┬──────────┬──────────┐
│          │          │          │          │
│  CPU 0   │  CPU 1   │  CPU 2   │  CPU 3   │
│          │          │          │          │
│          │          │          │          │
├──────────┼──────────┼──────────┼──────────┤
│          │          │          │          │
│  CPU 4   │  CPU 5   │  CPU 6   │  CPU 7   │
│          │          │          │          │
│          │          │          │          │
└──────────┴──────────┴──────────┴──────────┘
shardings match: True
┌───────┬───────┬───────┬───────┐
│CPU 0,4│CPU 1,5│CPU 2,6│CPU 3,7│
└───────┴───────┴───────┴───────┘
[48. 52. 56. 60. 64. 68. 72. 76.]
"""  # noqa: E501  as it is printed

TYPES = """
import xpr as jax
import xpr.numpy as jnp
import numpy as np
jax.config.update('jax_num_cpu_devices', 8)
from xpr.sharding import AxisType, PartitionSpec as P

some_array = np.arange(8)
print(f"type of some_array: {jax.typeof(some_array)}")

@jax.jit
def foo(x):
    print(f"type of x during tracing: {jax.typeof(x)}")
    return x + x
foo(some_array)

mesh = jax.make_mesh((2, 4), ("X", "Y"), axis_types=(AxisType.Explicit, AxisType.Explicit))
replicated_array = np.arange(8).reshape(4, 2)
sharded_array = jax.device_put(replicated_array, jax.NamedSharding(mesh, P("X", None)))
print(f"replicated_array type: {jax.typeof(replicated_array)}")
print(f"sharded_array type: {jax.typeof(sharded_array)}")

arg0 = jax.device_put(np.arange(4).reshape(4, 1), jax.NamedSharding(mesh, P("X", None)))
arg1 = jax.device_put(np.arange(8).reshape(1, 8), jax.NamedSharding(mesh, P(None, "Y")))

@jax.jit
def add_arrays(x, y):
    ans = x + y
    print(f"x sharding: {jax.typeof(x)}")
    print(f"y sharding: {jax.typeof(y)}")
    print(f"ans sharding: {jax.typeof(ans)}")
    return ans
with jax.set_mesh(mesh):
    print(add_arrays(arg0, arg1))
"""
TYPES_PRINT = """
type of some_array: int32[8]
type of x during tracing: int32[8]
replicated_array type: int32[4,2]
sharded_array type: int32[4@X,2]
x sharding: int32[4@X,1]
y sharding: int32[1,8@Y]
ans sharding: int32[4@X,8@Y]
[[ 0  1  2  3  4  5  6  7]
 [ 1  2  3  4  5  6  7  8]
 [ 2  3  4  5  6  7  8  9]
 [ 3  4  5  6  7  8  9 10]]
"""

BY_HAND = """
import xpr as jax
import xpr.numpy as jnp
import numpy as np
jax.config.update('jax_num_cpu_devices', 8)
P = jax.P
mesh = jax.make_mesh((8,), ('x',))
@jax.jit
def f_elementwise(x):
    return 2 * jnp.sin(x) + 1
f_elementwise_sharded = jax.shard_map(
    f_elementwise,
    mesh=mesh,
    in_specs=P('x'),
    out_specs=P('x'))
arr = jnp.arange(32)
print(np.allclose(f_elementwise_sharded(arr), 2 * np.sin(np.arange(32)) + 1, atol=1e-6))

x = jnp.arange(32)
print(f"global shape: {x.shape=}")
def f(x):
    print(f"device local shape: {x.shape=}")
    return x * 2
y = jax.shard_map(f, mesh=mesh, in_specs=P('x'), out_specs=P('x'))(x)

# a sum of each part, and with psum the sum of all
def f(x):
    return jnp.sum(x, keepdims=True)
print(jax.shard_map(f, mesh=mesh, in_specs=P('x'), out_specs=P('x'))(x))
def f(x):
    sum_in_shard = x.sum()
    return jax.lax.psum(sum_in_shard, 'x')
print(jax.shard_map(f, mesh=mesh, in_specs=P('x'), out_specs=P())(x))

# where data is put, work follows
print(arr.devices(), arr.committed)
arr = jax.device_put(1, jax.devices()[2])
print(arr.devices(), arr.committed, (arr + x).devices())
"""
BY_HAND_PRINT = """
True
global shape: x.shape=(32,)
device local shape: x.shape=(4,)
[  6  22  38  54  70  86 102 118]
496
{CpuDevice(id=0)} False
{CpuDevice(id=2)} True {CpuDevice(id=2)}
"""

EVERY_DEVICE = """
import xpr as jax
import xpr.numpy as jnp
import numpy as np
jax.config.update('jax_num_cpu_devices', 8)
n = jax.local_device_count()
print(n, len(jax.local_devices()), len(jax.devices()), jax.process_index(), jax.process_count())

batch = np.arange(2.0 * n).reshape(n, 2)
print(jax.pmap(lambda v: v - jax.lax.pmean(v, 'i'), axis_name='i')(batch))

# vmap on each of the devices
inner = jax.vmap(jnp.dot, in_axes=(None, 0))
print(jax.pmap(inner, in_axes=(None, 0))(jnp.ones(3), np.arange(48.0).reshape(8, 2, 3)))

# data parallelism: shared parameters, the mean of the gradients
def loss(w, x, y):
    return jnp.mean((x @ w - y) ** 2)
def step(w, x, y):
    return w - 0.1 * jax.lax.pmean(jax.grad(loss)(w, x, y), 'i')
x = np.random.default_rng(0).normal(size=(n, 4, 2))
w_true = np.array([2.0, -1.0])
parallel = jax.pmap(step, axis_name='i', in_axes=(None, 0, 0), out_axes=None)
w = jnp.zeros(2)
for _ in range(60):
    w = parallel(w, x, x @ w_true)
print([round(float(v), 2) for v in w])
"""
EVERY_DEVICE_PRINT = """
8 8 8 0 1
[[-7. -7.]
 [-5. -5.]
 [-3. -3.]
 [-1. -1.]
 [ 1.  1.]
 [ 3.  3.]
 [ 5.  5.]
 [ 7.  7.]]
[[  3.  12.]
 [ 21.  30.]
 [ 39.  48.]
 [ 57.  66.]
 [ 75.  84.]
 [ 93. 102.]
 [111. 120.]
 [129. 138.]]
[2.0, -1.0]
"""


def check(program: str, printed: str) -> None:
    out = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"},
        check=False,
    )
    assert out.stderr == ""
    assert [line.rstrip() for line in out.stdout.splitlines()] == printed.strip("\n").splitlines()


def test_arrays_on_a_mesh_and_what_jit_makes_of_them() -> None:
    check(BASICS, BASICS_PRINT)


def test_types_that_show_shardings() -> None:
    check(TYPES, TYPES_PRINT)


def test_functions_of_one_part() -> None:
    check(BY_HAND, BY_HAND_PRINT)


def test_a_slice_for_every_device() -> None:
    check(EVERY_DEVICE, EVERY_DEVICE_PRINT)
