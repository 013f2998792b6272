"""Programs on operands whose types carry shardings: what `explicit_golden.json` holds results of.

Each family maps programs to lists of operands. A program is an expression of the operands `a`, `b`,
`c`, and of the modules and functions in `make_explicit_golden.py`. Operands are written as "8@X 4":
a float32 array of shape (8, 4), the first axis sharded over the mesh axis X; "i:" in front is for
int32, "k:" for uint32 (keys), "b:" for bool, "-" alone is for a scalar. The mesh is (X: 2, Y: 2).
"""

from __future__ import annotations

from typing import Any

_PAIRS = (
    "8@X 4 | 8@X 4",
    "8@X 4 | 8 4",
    "8 4 | 8 4@Y",
    "8@X 4 | 8 4@Y",
    "8@X 4 | 8@Y 4",
    "8@X 4 | 8 4@X",
    "8@X 4@Y | 8 4",
    "8@X 4@Y | 8 4@X",
    "8@X,Y 4 | 8@X 4",
    "8@X,Y 4 | 8 4",
)

PROGRAMS: dict[str, dict[str, tuple[str, ...]]] = {
    "elementwise": {
        "a + b": (
            *_PAIRS,
            "8@X 4@Y | 4",
            "8@X 4@Y | 4@Y",
            "8@X 4@Y | 4@X",
            "8@X 4 | 4@Y",
            "8@X 4 | 4@X",
            "8@X 4 | -",
            "8 4 | -",
            "8@X 4 | 1 4",
            "8@X 4 | 8 1",
            "8@X 1 | 1 4@Y",
            "8@X 1 | 1 4@X",
            "8 4 | 4@Y",
            "8 4 | 1 4@Y",
        ),
        "a * 2.0": ("8@X 4@Y", "8@X,Y", "8 4"),
        "jnp.sin(a)": ("8@X 4@Y",),
        "jnp.where(a > 0, a, b)": ("8@X 4 | 8@X 4", "8@X 4 | 8 4", "8@X 4 | -"),
        "lax.select(a, b, c)": (
            "b:8@X | 8@X | 8@X",
            "b:8 | 8@X | 8@X",
            "b:8@X | 8 | 8",
            "b:- | 8@X | 8@X",
            "b:8@X | 8@X | 8@Y",
            "b:8@Y | 8@X | 8@X",
            "b:- | 8@X | 8",
        ),
        "lax.clamp(0.0, a, 1.0)": ("8@X 4@Y",),
        "lax.clamp(a, b, c)": (
            "8@X | 8@X | 8@X",
            "8 | 8@X | 8@X",
            "- | 8@X | -",
            "8@Y | 8@X | 8@X",
        ),
        "a.astype(jnp.int32)": ("8@X 4@Y",),
        "a == b": ("8@X 4 | 8@X 4", "8@X 4 | 8 4", "8@X 4 | 8@Y 4"),
        "lax.add(a, b)": ("8@X 4 | 8 4", "8@X 4 | 8@Y 4"),
        "lax.complex(a, b)": ("8@X 4 | 8 4",),
        "jnp.power(a, 2)": ("8@X 4",),
        "jax.nn.relu(a)": ("8@X 4",),
        "jax.nn.softmax(a)": ("8@X 4", "8@X 4@Y"),
        "jax.nn.gelu(a)": ("8@X 4",),
        "lax.stop_gradient(a)": ("8@X 4",),
        "lax.optimization_barrier(a)": ("8@X 4",),
        "lax.bitcast_convert_type(a, jnp.int32)": ("8@X 4",),
        "lax.bitcast_convert_type(a, jnp.int16)": ("8@X 4",),
        "lax.reduce_precision(a, 5, 2)": ("8@X 4",),
        "lax.nextafter(a, b)": ("8@X 4 | 8 4",),
    },
    "reductions": {
        "a.sum()": ("8@X 4@Y", "8@X,Y"),
        "a.sum(0)": ("8@X 4@Y", "8 4@Y"),
        "a.sum(1)": ("8@X 4@Y", "8@X 4"),
        "a.sum(1, keepdims=True)": ("8@X 4@Y", "8@X 4"),
        "a.max(0)": ("8@X 4@Y",),
        "a.mean(1)": ("8@X 4@Y",),
        "jnp.argmax(a, 0)": ("8@X 4@Y", "8 4@Y"),
        "jnp.argmax(a, 1)": ("8@X 4@Y", "8@X 4"),
        "jnp.argmin(a)": ("8@X 4@Y", "8@X 4"),
        "jnp.all(a > 0)": ("8@X 4@Y",),
        "jnp.var(a, 0)": ("8@X 4@Y",),
        "jax.nn.logsumexp(a, 0)": ("8@X 4@Y",),
        "lax.reduce(a, 0.0, lax.add, (0,))": ("8@X 4@Y", "8 4@Y"),
        "lax.reduce(a, 0.0, lambda x, y: x + 2 * y, (0,))": ("8@X 4@Y", "8 4@Y"),
        "jnp.prod(a, 1)": ("8@X 4@Y",),
        "lax.reduce_precision(a, 8, 7).sum(0)": ("8@X 4@Y",),
        "jnp.linalg.norm(a)": ("8@X 4@Y",),
        "jnp.median(a, 0)": ("8 4@Y",),
    },
    "contractions": {
        "a @ b": (
            "8@X 4 | 4 2@Y",
            "8@X 4 | 4 2",
            "8@X 4@Y | 4 2",
            "8 4@Y | 4 2",
            "8 4 | 4@Y 2",
            "8@X 4@Y | 4@Y 2",
            "8 4@Y | 4@Y 2",
            "8@X 4@Y | 4@X 2",
            "8@X 4 | 4 2@X",
            "8@X 4@Y | 4 2@Y",
            "8@X 4@Y | 4 2@X",
            "8@X,Y 4 | 4 2",
            "4 | 4 2@Y",
            "4@X | 4 2@Y",
            "4@X | 4@X",
            "4@X | 4",
            "8@X 4 | 4",
            "2@X 8 4 | 2@X 4 2@Y",
            "2@X 8 4 | 2 4 2@Y",
            "2@X 8 4 | 2@Y 4 2",
            "2@X 8 4 | 4 2@Y",
            "2 8 4@X | 2 4@X 2",
        ),
        "jnp.dot(a, b)": ("8@X 4 | 4 2@Y", "8@X 4@Y | 4@Y 2", "- | 8@X 4"),
        "jnp.matmul(a, b, out_sharding=P())": (
            "8@X 4@Y | 4@Y 2",
            "8 4@Y | 4@Y 2",
            "8@X 4 | 4 2@Y",
            "2@X 8 4@Y | 2@X 4@Y 2",
        ),
        "jnp.matmul(a, b, out_sharding=P('X', 'Y'))": (
            "8@X 4@Y | 4@Y 2",
            "8@X 4 | 4 2@Y",
            "8@X 4 | 4 2",
            "8 4 | 4 2",
        ),
        "jnp.matmul(a, b, out_sharding=P('X', None))": ("8@X 4@Y | 4@Y 2", "8@X 4@Y | 4 2"),
        "jnp.dot(a, b, out_sharding=P('X'))": ("8@X 4@Y | 4@Y 2", "8@X 4 | 4 2@Y", "8@X 4@Y | 4@Y"),
        "jnp.dot(a, b, out_sharding=NamedSharding(MESH, P('X')))": ("8@X 4@Y | 4@Y 2",),
        "jnp.dot(a, b, out_sharding=P(None, 'X'))": ("8@X 4@Y | 4@Y 2",),
        "jnp.dot(a, b, out_sharding=P('Z'))": ("8@X 4@Y | 4@Y 2",),
        "jnp.dot(a, b, out_sharding=P('X', None, None))": ("8@X 4@Y | 4@Y 2",),
        "jnp.einsum('ij,jk->ik', a, b)": ("8@X 4 | 4 2@Y", "8@X 4@Y | 4@Y 2"),
        "jnp.einsum('ij,jk->ik', a, b, out_sharding=P('X'))": ("8@X 4@Y | 4@Y 2",),
        "jnp.einsum('ij,jk->ki', a, b)": ("8@X 4 | 4 2@Y",),
        "jnp.einsum('bij,bjk->bik', a, b)": ("2@X 8 4 | 2@X 4 2@Y",),
        "jnp.einsum('ij->ji', a)": ("8@X 4@Y",),
        "jnp.einsum('ij->i', a)": ("8@X 4@Y",),
        "jnp.einsum('ij,ij->', a, b)": ("8@X 4@Y | 8@X 4@Y",),
        "jnp.einsum('ij,ij->', a, b, out_sharding=P())": ("8@X 4@Y | 8@X 4@Y",),
        "jnp.tensordot(a, b, 1)": ("8@X 4 | 4 2@Y", "8@X 4@Y | 4@Y 2"),
        "jnp.tensordot(a, b, 1, out_sharding=P('X'))": ("8@X 4@Y | 4@Y 2",),
        "lax.dot_general(a, b, (((1,), (0,)), ((), ())))": ("8@X 4 | 4 2@Y", "8@X 4@Y | 4@Y 2"),
        "lax.dot_general(a, b, (((1,), (0,)), ((), ())), out_sharding=P('X'))": (
            "8@X 4@Y | 4@Y 2",
        ),
        "lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,))))": (
            "2@X 8 4 | 2@X 4 2@Y",
            "2@X 8 4 | 2 4 2",
        ),
        "jnp.outer(a, b)": ("8@X | 4@Y", "8@X | 4"),
        "jnp.vdot(a, b)": ("8@X | 8@X", "8 | 8"),
        "jnp.inner(a, b)": ("8@X 4 | 2@Y 4",),
    },
    "shapes": {
        "jnp.reshape(a, (32,))": ("8@X 4", "8 4@Y", "8@X 4@Y", "8 4"),
        "jnp.reshape(a, (32,), out_sharding=P('X'))": ("8@X 4", "8 4@Y", "8@X 4@Y"),
        "jnp.reshape(a, (32,), out_sharding=P())": ("8@X 4", "8 4@Y"),
        "jnp.reshape(a, (2, 4, 4))": ("8@X 4", "8@X,Y 4", "8 4@Y", "8@X 4@Y"),
        "jnp.reshape(a, (4, 2, 4))": ("8@X 4", "8@X,Y 4", "8 4@Y", "8@X 4@Y"),
        "jnp.reshape(a, (1, 8, 4))": ("8@X 4@Y",),
        "jnp.reshape(a, (8, 1, 4))": ("8@X 4@Y",),
        "jnp.reshape(a, (8, 4))": (
            "8@X 1 4@Y",
            "1 8@X 4@Y",
            "2@X 4 4",
            "2 4@X 4",
            "2@X 4@Y 4",
            "8@X 2 2",
            "8@X 2@Y 2",
        ),
        "jnp.reshape(a, (4, 8))": ("8@X 4", "8 4@Y"),
        "jnp.reshape(a, (3, 4, 4))": ("12@X 4",),
        "jnp.reshape(a, (3, 4, 4), out_sharding=P(None, 'X'))": ("12@X 4", "12 4"),
        "lax.reshape(a, (32,), out_sharding=P('X'))": ("8@X 4",),
        "lax.reshape(a, (4, 8), dimensions=(1, 0))": ("8 4", "8@X 4"),
        "a.ravel()": ("8@X 4", "8@X", "8@X 1"),
        "jnp.ravel(a, out_sharding=P('X'))": ("8@X 4",),
        "a.T": ("8@X 4@Y",),
        "jnp.transpose(a, (2, 0, 1))": ("8@X 4@Y 2",),
        "jnp.swapaxes(a, 0, 1)": ("8@X 4@Y 2",),
        "jnp.expand_dims(a, 1)": ("8@X 4@Y",),
        "a[None]": ("8@X 4@Y",),
        "a[:, None]": ("8@X 4@Y",),
        "jnp.squeeze(a, 1)": ("8@X 1 4@Y",),
        "lax.squeeze(a, (0,))": ("1 4@Y",),
        "jnp.broadcast_to(a, (3, 8, 4))": ("8@X 4@Y", "1 4@Y", "8@X 1"),
        "jnp.broadcast_to(a, (4, 8, 4), out_sharding=P('Y', 'X'))": ("8@X 4", "8 4"),
        "lax.broadcast(a, (4,))": ("8@X 4@Y",),
        "lax.broadcast(a, (4,), out_sharding=P('Y', 'X'))": ("8@X 4", "8 4"),
        "lax.broadcast_in_dim(a, (4, 8), (1,))": ("8@X", "8"),
        "lax.broadcast_in_dim(a, (4, 8), (1,), out_sharding=P('Y', 'X'))": ("8@X", "8", "8@Y"),
        "jnp.flip(a, 0)": ("8@X 4@Y",),
        "jnp.flip(a, 1)": ("8@X 4",),
        "jnp.roll(a, 1, 0)": ("8 4@Y", "8@X 4@Y"),
        "jnp.pad(a, ((1, 1), (0, 0)))": ("8@X 4", "8 4@Y"),
        "jnp.pad(a, ((2, 2), (0, 0)))": ("8@X 4",),
        "lax.pad(a, 0.0, ((0, 0, 1), (0, 0, 0)))": ("8@X 4", "8 4@Y"),
        "jnp.tile(a, (2, 1))": ("8@X 4@Y", "8 4@Y"),
        "jnp.tile(a, (3,))": ("8@X",),
        "jnp.repeat(a, 2, 0)": ("8 4@Y", "8@X 4"),
        "jnp.repeat(a, 2, 0, out_sharding=P('X'))": ("8@X 4",),
        "jnp.diag(a)": ("8@X 8", "8 8", "8@X"),
        "jnp.tril(a)": ("8@X 8@Y",),
    },
    "joining": {
        "jnp.concatenate([a, b], 0)": (
            "8@X 4 | 8@X 4",
            "8 4@Y | 4 4@Y",
            "8@X 4 | 8 4",
            "8 4@Y | 8 4",
            "8@X 4 | 3 4",
        ),
        "jnp.concatenate([a, b], 1)": (
            "8@X 4 | 8@X 4",
            "8@X 4 | 8@X 3",
            "8@X 4@Y | 8@X 4@Y",
            "8@X 4 | 8 4",
            "8@X 4 | 8@Y 4",
        ),
        "jnp.stack([a, b])": ("8@X 4 | 8@X 4", "8@X 4 | 8 4"),
        "jnp.stack([a, b], 1)": ("8@X 4 | 8@X 4",),
        "jnp.split(a, 2, 0)[0]": ("8@X 4", "8 4@Y"),
        "jnp.split(a, 2, 1)[1]": ("8@X 4", "8@X 4@Y"),
        "jnp.hstack([a, b])": ("8@X 4 | 8@X 4",),
        "jnp.unstack(a)[0]": ("8 4@Y", "8@X 4"),
        "lax.concatenate([a], 0)": ("8@X 4",),
    },
    "slicing": {
        "a[0]": ("8@X 4@Y", "8 4@Y"),
        "a[:, 0]": ("8@X 4@Y", "8@X 4"),
        "a[-1]": ("8@X 4", "8 4@Y"),
        "a[2:4]": ("8@X 4@Y", "8 4@Y"),
        "a[:4]": ("8@X 4@Y",),
        "a[:3]": ("8@X 4@Y",),
        "a[::2]": ("8@X 4@Y",),
        "a[:, 1:3]": ("8@X 4", "8@X 4@Y"),
        "a[:]": ("8@X 4@Y",),
        "a[::-1]": ("8@X 4@Y",),
        "a[..., 0]": ("8@X 4",),
        "lax.slice(a, (0, 0), (4, 4))": ("8@X 4", "8 4@Y"),
        "lax.slice_in_dim(a, 0, 2, axis=1)": ("8@X 4",),
        "lax.dynamic_slice(a, (0, 0), (4, 4))": ("8@X 4", "8 4@Y", "8@X 4@Y"),
        "lax.dynamic_slice(a, (b, 0), (4, 4))": ("8@X 4 | i:-", "8 4@Y | i:-"),
        "lax.dynamic_slice(a, (b, 0), (3, 4))": ("8@X 4 | i:-",),
        "lax.dynamic_slice(a, (b, 0), (8, 2))": ("8@X 4 | i:-",),
        "lax.dynamic_index_in_dim(a, b, 0)": ("8@X 4 | i:-", "8 4@Y | i:-"),
        "lax.dynamic_index_in_dim(a, b, 0, keepdims=False)": ("8 4@Y | i:-", "8@X 4 | i:-"),
        "lax.dynamic_update_slice(a, b, (0, 0))": (
            "8@X 4 | 8@X 4",
            "8@X 4 | 8@X 2",
            "8@X 4 | 4 4",
            "8@X 4 | 4@X 4",
            "8 4@Y | 4 4@Y",
            "8 4@Y | 4 4",
        ),
        "lax.dynamic_update_index_in_dim(a, b, 0, 0)": (
            "8@X 4 | 1 4",
            "8 4@Y | 1 4@Y",
            "8 4 | 1 4",
        ),
        "a[b]": (
            "8@X 4 | i:-",
            "8 4@Y | i:-",
            "8@X 4 | i:4",
            "8 4@Y | i:4",
            "8 4@Y | i:4@X",
            "8 4 | i:4@X",
            "8 4 | i:4 2@X",
            "8@X 4 | i:4@X",
            "8@X 4 | i:4@Y",
            "8 4@Y | i:4@Y",
            "8@X | i:8@X",
            "8 4 | i:4",
        ),
        "a[:, b]": ("8@X 4 | i:-", "8@X 4 | i:2", "8@X 4 | i:2@Y", "8@X 4@Y | i:2"),
        "a[b, 0]": ("8 4 | i:4@X", "8@X 4 | i:4"),
        "a.at[b].get()": ("8 4@Y | i:4", "8@X 4 | i:4"),
        "a.at[b].get(out_sharding=P('X'))": (
            "8@X 4 | i:4",
            "8 4@Y | i:4",
            "8 4 | i:4@X",
            "8@X 4 | i:-",
        ),
        "a.at[b].get(out_sharding=P(None, 'Y'))": ("8@X 4@Y | i:4", "8 4@Y | i:4"),
        "a.at[b].get(out_sharding=NamedSharding(MESH, P('X', 'Y')))": ("8@X 4@Y | i:4",),
        "a.at[0].get(out_sharding=P())": ("8@X 4",),
        "a.at[2:4].get(out_sharding=P('X'))": ("8@X 4",),
        "jnp.take(a, b, 0)": ("8@X 4 | i:4", "8 4@Y | i:4", "8 4 | i:4@X"),
        "jnp.take(a, b, 1)": ("8@X 4 | i:2",),
        "jnp.take_along_axis(a, b, 1)": ("8@X 4 | i:8@X 2", "8@X 4 | i:8 2", "8 4 | i:8 2"),
        "jnp.take_along_axis(a, b, 0)": ("8@X 4 | i:8@X 4",),
        "lax.gather(a, b, lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4))": (
            "8 4@Y | i:4 1",
            "8@X 4 | i:4 1",
            "8 4 | i:4@X 1",
        ),
    },
    "updates": {
        "a.at[0].set(1.0)": ("8@X 4", "8 4@Y", "8@X 4@Y"),
        "a.at[b].set(1.0)": ("8@X 4 | i:4", "8 4@Y | i:4"),
        "a.at[b].add(c)": (
            "8@X 4 | i:4 | 4 4",
            "8 4@Y | i:4 | 4 4@Y",
            "8 4 | i:4@X | 4@X 4",
            "8 4@Y | i:4 | 4 4",
            "8@X 4 | i:4 | 4@X 4",
        ),
        "a.at[:, b].set(c)": ("8@X 4 | i:2 | 8@X 2", "8@X 4 | i:2 | 8 2"),
        "a.at[2:4].set(0.0)": ("8@X 4", "8 4@Y"),
        "a.at[b].add(c, out_sharding=P('X'))": ("8@X 4 | i:4 | 4 4", "8 4 | i:4@X | 4@X 4"),
        "a.at[b].set(c, out_sharding=P())": ("8@X 4 | i:4 | 4 4",),
        "lax.scatter_add(a, b, c, lax.ScatterDimensionNumbers((1,), (0,), (0,)))": (
            "8 4@Y | i:4 1 | 4 4@Y",
            "8@X 4 | i:4 1 | 4 4",
        ),
    },
    "windows": {
        "lax.conv_general_dilated(a, b, (1,), 'SAME')": (
            "8@X 4 16 | 4 4 3",
            "8 4 16 | 4@X 4 3",
            "8@X 4 16 | 4@Y 4 3",
            "8@X 4 16 | 4@X 4 3",
            "8 4@X 16 | 4 4 3",
            "8 4@X 16 | 4 4@X 3",
            "8 4 16@X | 4 4 3",
            "8 4 16 | 4 4 3",
        ),
        "lax.conv_general_dilated(a, b, (1,), 'SAME', feature_group_count=2)": (
            "8@X 4 16 | 4 2 3",
        ),
        "lax.reduce_window(a, 0.0, lax.add, (2, 1), (2, 1), 'VALID')": ("8 4@Y", "8@X 4"),
        "lax.reduce_window(a, -jnp.inf, lax.max, (2, 1), (1, 1), 'SAME')": ("8 4@Y", "8@X 4"),
        "jnp.convolve(a, b)": ("8 | 3", "8@X | 3"),
    },
    "more windows": {
        "lax.conv_general_dilated(a, b, (1,), 'SAME', out_sharding=P('X'))": (
            "8 4@X 16 | 4 4@X 3",
            "8 4 16 | 4@Y 4 3",
        ),
        "lax.reduce_window(a, 0.0, lax.add, (3, 1), (1, 1), 'VALID')": ("8@X 4", "9 4@Y"),
        "jax.grad(lambda k: lax.conv_general_dilated(a, k, (1,), 'SAME').sum())(b)": (
            "8@X 4 16 | 4 4 3",
            "8 4 16@X | 4 4 3",
        ),
        "jax.grad(lambda k: lax.conv_general_dilated(k, b, (1,), 'SAME').sum())(a)": (
            "8@X 4 16 | 4 4 3",
        ),
    },
    "layers": {
        "jax.nn.log_softmax(a).sum()": ("8@X 4", "8@X 4@Y"),
        "jax.grad(lambda x: -jnp.mean(jnp.sum(jax.nn.log_softmax(x) * b, 1)))(a)": (
            "8@X 4 | 8@X 4",
        ),
        "(a - a.mean(1, keepdims=True)) * lax.rsqrt(a.var(1, keepdims=True) + 1e-5)": (
            "8@X 4",
            "8@X 4@Y",
        ),
        "jnp.einsum('bqhd,bkhd->bhqk', a, b)": (
            "2@X 8 4@Y 2 | 2@X 8 4@Y 2",
            "2@X 8@Y 4 2 | 2@X 8 4 2",
            "2@X 8 4 2@Y | 2@X 8 4 2@Y",
        ),
        "jax.nn.dot_product_attention(a, a, a)": ("2@X 8 4@Y 2",),
        "jax.grad(lambda w: jnp.dot(jax.nn.relu(a @ w), c, out_sharding=P('X')).sum())(b)": (
            "8@X 4 | 4 8@Y | 8@Y 4",
            "8@X 4 | 4 8 | 8 4",
        ),
        "jax.grad(lambda w: jnp.dot(jax.nn.relu(a @ b), w, out_sharding=P('X')).sum())(c)": (
            "8@X 4 | 4 8@Y | 8@Y 4",
        ),
        "lax.scan(lambda h, w: (jnp.tanh(jnp.dot(h, w, out_sharding=P('X'))), h.sum()), a, b)[0]": (
            "8@X 4 | 3 4 4",
            "8@X 4 | 3 4 4@Y",
        ),
        "jax.grad(lambda w: lax.scan(lambda h, u: (jnp.tanh(h @ u), None), a, w)[0].sum())(b)": (
            "8@X 4 | 3 4 4",
        ),
        "b[a]": ("i:8@X | 16 4", "i:8 | 16 4@Y", "i:8 2 | 16 4@Y"),
        "b.at[a].get(out_sharding=P('X', None, 'Y'))": ("i:8@X 2 | 16 4@Y",),
        "jax.grad(lambda t: t.at[a].get(out_sharding=P('X')).sum())(b)": ("i:8@X | 16 4@Y",),
        "jax.nn.one_hot(a, 4) @ b": ("i:8@X | 4 2@Y",),
        "jnp.mean((a - b) ** 2)": ("8@X 4 | 8@X 4", "8@X 4@Y | 8@X 4"),
        "jax.tree.map(lambda x, y: x - 0.1 * y, (a, b), (a, b))[1]": ("8@X 4 | 4 2@Y",),
        "jax.vmap(lambda w: a @ w)(b)": ("8@X 4 | 2 4 4", "8@X 4 | 4@Y 4 2", "8@X 4 | 4@X 4 2"),
        "jax.vmap(lambda x: jax.vmap(lambda y: x * y)(b))(a)": ("8@X | 4@Y", "8@X | 4", "8 | 4"),
        "jax.vmap(lambda x: jnp.stack([x, x]))(a)": ("8@X 4@Y",),
        "jax.vmap(lambda x: jnp.argmax(x))(a)": ("8@X 4",),
        "jax.vmap(lambda x: jnp.cumsum(x))(a)": ("8@X 4",),
        "jax.vmap(lambda x: x @ x.T)(a)": ("4@X 8@Y 2",),
    },
    "sorting": {
        "jnp.sort(a, 0)": ("8@X 4@Y", "8 4@Y"),
        "jnp.sort(a, 1)": ("8@X 4", "8@X 4@Y"),
        "jnp.argsort(a, 1)": ("8@X 4", "8@X 4@Y"),
        "lax.sort([a, b], dimension=1)[1]": ("8@X 4 | 8@X 4", "8@X 4 | 8 4"),
        "lax.top_k(a, 2)[0]": ("8@X 4", "8@X 4@Y"),
        "lax.top_k(a, 2)[1]": ("8@X 4", "8 4"),
        "jnp.cumsum(a, 0)": ("8@X 4@Y", "8 4@Y"),
        "jnp.cumsum(a, 1)": ("8@X 4", "8@X 4@Y"),
        "lax.cummax(a, 0)": ("8@X 4", "8 4@Y"),
        "lax.cumlogsumexp(a, 1)": ("8@X 4",),
        "lax.associative_scan(lax.add, a)": ("8 4@Y",),
        "jnp.searchsorted(a, b)": ("8 | 4@X", "8@X | 4"),
        "jnp.unique(a, size=4)": ("8@X", "8"),
        "jnp.digitize(a, b)": ("8@X | 3",),
        "lax.rev(a, (0,))": ("8@X 4", "8 4@Y"),
    },
    "creation": {
        "jnp.zeros((8, 4), out_sharding=P('X', 'Y'))": ("-",),
        "jnp.ones((8, 4), out_sharding=P('X', 'Y'))": ("-",),
        "jnp.full((8, 4), a, out_sharding=P('X', 'Y'))": ("-",),
        "jnp.full((8, 4), a, device=NamedSharding(MESH, P('X')))": ("-",),
        "jnp.zeros((8, 4), device=NamedSharding(MESH, P('X')))": ("-",),
        "jnp.zeros((8, 4))": ("-",),
        "jnp.empty((8, 4), out_sharding=P('X'))": ("-",),
        "jnp.arange(8, out_sharding=P('X'))": ("-",),
        "jnp.arange(1, 8, 2, out_sharding=P('X'))": ("-",),
        "jnp.linspace(0, 1, 8, out_sharding=P('X'))": ("-",),
        "jnp.linspace(0, 1, 8, device=NamedSharding(MESH, P('X')))": ("-",),
        "jnp.eye(8, out_sharding=P('X'))": ("-",),
        "jnp.eye(8, device=NamedSharding(MESH, P('X')))": ("-",),
        "jnp.array(a, out_sharding=P('X'))": ("8 4", "8@X 4"),
        "jnp.asarray(a, out_sharding=P('X'))": ("8 4",),
        "jnp.zeros_like(a)": ("8@X 4@Y", "8 4"),
        "jnp.ones_like(a)": ("8@X 4@Y",),
        "jnp.full_like(a, 3.0)": ("8@X 4@Y",),
        "jnp.full_like(a, b)": ("8@X 4@Y | -",),
        "jnp.zeros_like(a, shape=(3, 2))": ("8@X 4@Y",),
        "jnp.zeros_like(a, out_sharding=P('Y'))": ("8@X 4",),
        "jnp.zeros_like(a, dtype=jnp.int32)": ("8@X 4",),
        "jnp.empty_like(a)": ("8@X 4",),
        "lax.full((8, 4), 1.0, sharding=NamedSharding(MESH, P('X')))": ("-",),
        "lax.full_like(a, 1.0)": ("8@X 4",),
        "lax.iota(jnp.int32, 8)": ("-",),
        "lax.iota(jnp.int32, 8, out_sharding=P('X'))": ("-",),
        "lax.broadcasted_iota(jnp.int32, (8, 4), 1, out_sharding=P('X'))": ("-",),
        "lax.broadcasted_iota(jnp.int32, (8, 4), 1)": ("-",),
        "jnp.zeros((8, 4), out_sharding=P('Z'))": ("-",),
        "jnp.zeros((8, 4), out_sharding=P('X', None, None))": ("-",),
        "jnp.zeros((7, 4), out_sharding=P('X'))": ("-",),
        "jnp.zeros((8, 4), out_sharding=P('X', 'X'))": ("-",),
        "a + jnp.arange(8)": ("8@X",),
        "jnp.identity(4)": ("-",),
        "jnp.array([a[0], a[1]])": ("8",),
        "jax.nn.one_hot(a, 4)": ("i:8@X", "i:8"),
        "jnp.meshgrid(a, b)[0]": ("8@X | 4@Y", "8@X | 4"),
    },
    "random": {
        "random.normal(a, (8, 4))": ("k:2",),
        "random.normal(a, (8, 4), out_sharding=P('X', 'Y'))": ("k:2",),
        "random.uniform(a, (8, 4), out_sharding=P('X', 'Y'))": ("k:2",),
        "random.bits(a, (8, 4), out_sharding=P('X', 'Y'))": ("k:2",),
        "random.randint(a, (8, 4), 0, 5, out_sharding=P('X'))": ("k:2",),
        "random.bernoulli(a, 0.5, (8, 4), out_sharding=P('X'))": ("k:2",),
        "random.truncated_normal(a, -1.0, 1.0, (8, 4), out_sharding=P('X'))": ("k:2",),
        "random.gumbel(a, (8, 4), out_sharding=P('X'))": ("k:2",),
        "random.exponential(a, (8, 4), out_sharding=P('X'))": ("k:2",),
        "random.categorical(a, b, out_sharding=P('X'))": ("k:2 | 8@X 4",),
        "random.categorical(a, b)": ("k:2 | 8@X 4", "k:2 | 8 4"),
        "random.permutation(a, b)": ("k:2 | 8", "k:2 | 8@X"),
        "random.permutation(a, b, out_sharding=P('X'))": ("k:2 | 8",),
        "random.split(a, 4)": ("k:2",),
        "random.fold_in(a, 3)": ("k:2",),
        "random.choice(a, b, (4,))": ("k:2 | 8", "k:2 | 8@X"),
        "random.laplace(a, (8,), out_sharding=P('X'))": ("k:2",),
    },
    "resharding": {
        "jax.sharding.reshard(a, P('X', 'Y'))": ("8 4", "8@X 4", "8@Y 4"),
        "jax.sharding.reshard(a, P())": ("8@X 4@Y",),
        "jax.sharding.reshard(a, NamedSharding(MESH, P(None, 'X')))": ("8@X 4",),
        "jax.sharding.reshard(a, P('Z'))": ("8 4",),
        "jax.sharding.reshard(a, P('X', None, 'Y'))": ("8 4",),
        "jax.sharding.reshard(a, P('X'))": ("7 4",),
        "jax.sharding.reshard((a, b), P('X'))[1]": ("8 4 | 8@Y 4",),
        "jax.sharding.reshard((a, b), (P('X'), P('Y')))[1]": ("8 4 | 8 4",),
        "lax.with_sharding_constraint(a, P('X'))": ("8@X 4", "8 4"),
        "jax.sharding.auto_axes(lambda x: x * 2, out_sharding=P('X'))(a)": ("8@X 4", "8 4@Y"),
        "jax.sharding.auto_axes(lambda x, y: x @ y, out_sharding=P('X'))(a, b)": (
            "8@X 4@Y | 4@Y 2",
        ),
        "jax.sharding.auto_axes(lambda x, y: x @ y)(a, b, out_sharding=P('X'))": (
            "8@X 4@Y | 4@Y 2",
        ),
        "jax.sharding.auto_axes(lambda x: x * 2)(a)": ("8@X 4",),
        "jax.sharding.auto_axes(lambda x: x * 2, axes='X', out_sharding=P('X', 'Y'))(a)": (
            "8@X 4@Y",
        ),
        "jax.sharding.auto_axes(lambda x: EX(x), out_sharding=P('X'))(a)": ("8@X 4",),
    },
    "control flow": {
        "lax.scan(lambda c, x: (c + x, c * x), a, b)[0]": (
            "4@X | 3 4@X",
            "4@X | 3 4",
            "4 | 3 4@X",
            "4 | 4@X 4",
            "4@X | 4@Y 4@X",
        ),
        "lax.scan(lambda c, x: (c + x, c * x), a, b)[1]": ("4@X | 3 4@X", "4@X | 3 4"),
        "lax.scan(lambda c, x: (c, x.sum()), a, b)[1]": ("4@X | 3 4@Y",),
        "lax.map(lambda x: x * 2, a)": ("3 4@X", "4@X 4"),
        "lax.while_loop(lambda c: c.sum() < 0, lambda c: c + 1, a)": ("8@X 4",),
        "lax.while_loop(lambda c: c.sum() < 0, lambda c: c + b, a)": ("8@X 4 | 8 4", "8 4 | 8@X 4"),
        "lax.fori_loop(0, 3, lambda i, c: c + b, a)": ("8@X 4 | 8 4", "8 4 | 8@X 4"),
        "lax.cond(a > 0, lambda x, y: x, lambda x, y: y, b, c)": (
            "- | 8@X | 8@X",
            "- | 8@X | 8",
            "- | 8@X | 8@Y",
        ),
        "lax.cond(a > 0, lambda x: x * 2, lambda x: x, b)": ("- | 8@X 4",),
        "lax.switch(a, [lambda x: x * 2, lambda x: x], b)": ("i:- | 8@X 4",),
        "jax.jit(lambda x: x * 2)(a)": ("8@X 4",),
        "jax.jit(lambda x, y: x @ y)(a, b)": ("8@X 4 | 4 2@Y", "8@X 4@Y | 4@Y 2"),
        "jax.checkpoint(lambda x: jnp.sin(x))(a)": ("8@X 4",),
        "CJ(a)": ("8@X 4",),
        "CV(a)": ("8@X 4",),
        "lax.custom_linear_solve(lambda x: x * 2, a, lambda f, y: y / 2)": ("8@X",),
    },
    "derivatives": {
        "jax.grad(lambda x: (x * x).sum())(a)": ("8@X 4@Y", "8@X 4"),
        "jax.grad(lambda x: jnp.sin(x @ b).sum())(a)": ("8@X 4 | 4 2@Y", "8@X 4 | 4 2"),
        "jax.grad(lambda y: jnp.sin(a @ y).sum())(b)": (
            "8@X 4 | 4 2@Y",
            "8@X 4 | 4 2",
            "8 4 | 4 2@Y",
        ),
        "jax.grad(lambda y: jnp.sin(jnp.dot(a, y, out_sharding=P('X'))).sum())(b)": (
            "8@X 4@Y | 4@Y 2",
        ),
        "jax.grad(lambda x: jnp.sin(jnp.dot(x, b, out_sharding=P('X'))).sum())(a)": (
            "8@X 4@Y | 4@Y 2",
        ),
        "jax.grad(lambda x: (x + b).sum())(a)": (
            "8@X 4 | 8 4",
            "8 4 | 8@X 4",
            "4@Y | 8@X 4@Y",
            "- | 8@X 4",
        ),
        "jax.grad(lambda x: jnp.sum(x[0] * 2))(a)": ("8 4@Y",),
        "jax.grad(lambda x: jnp.sum(x.reshape(32) ** 2))(a)": ("8@X 4",),
        "jax.grad(lambda x: jnp.sum(x.T ** 2))(a)": ("8@X 4@Y",),
        "jax.grad(lambda x: jnp.sum(jax.sharding.reshard(x, P('Y')) ** 2))(a)": ("8@X 4",),
        "jax.grad(lambda x: lax.scan(lambda c, y: (c * y, None), x, b)[0].sum())(a)": (
            "4@X | 3 4@X",
        ),
        "jax.grad(lambda y: lax.scan(lambda c, z: (c * z, None), a, y)[0].sum())(b)": (
            "4@X | 3 4@X",
        ),
        "jax.grad(lambda x: jnp.max(x, 0).sum())(a)": ("8@X 4@Y",),
        "jax.grad(lambda x: jnp.cumsum(x, 0).sum())(a)": ("8 4@Y",),
        "jax.grad(lambda x: jnp.concatenate([x, x], 0).sum())(a)": ("8 4@Y",),
        "jax.grad(lambda x: jax.nn.softmax(x).sum())(a)": ("8@X 4",),
        "jax.grad(lambda x: jnp.sort(x, 1)[:, 0].sum())(a)": ("8@X 4",),
        "jax.grad(lambda x: x[jnp.array([0, 1])].sum())(a)": ("8 4@Y",),
        "jax.vjp(lambda x: x * 2, a)[1](b)[0]": ("8@X 4 | 8@X 4", "8@X 4 | 8 4"),
        "jax.jvp(lambda x: jnp.sin(x), (a,), (b,))[1]": ("8@X 4 | 8@X 4", "8@X 4 | 8 4"),
        "jax.grad(lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x).sum())(a)": ("8@X 4",),
        "jax.grad(lambda x: CV(x).sum())(a)": ("8@X 4",),
        "jax.grad(lambda x: CJ(x).sum())(a)": ("8@X 4",),
        "jax.hessian(lambda x: (x ** 3).sum())(a)": ("4", "4@X"),
        "jax.jacrev(lambda x: x ** 2)(a)": ("4", "4@X"),
        "jax.jacfwd(lambda x: x ** 2)(a)": ("4", "4@X"),
        "jax.linearize(lambda x: jnp.sin(x), a)[1](b)": ("8@X 4 | 8@X 4",),
        "jax.value_and_grad(lambda x: (x ** 2).mean())(a)[1]": ("8@X 4@Y",),
    },
    "vmap": {
        "jax.vmap(lambda x: x * 2)(a)": ("8@X 4@Y", "8 4@Y"),
        "jax.vmap(lambda x: x.sum())(a)": ("8@X 4@Y",),
        "jax.vmap(lambda x, y: x @ y)(a, b)": (
            "8@X 4 2 | 8@X 2 4@Y",
            "8@X 4 2 | 8 2 4@Y",
            "8@X 4 | 8@X 4",
        ),
        "jax.vmap(lambda x, y: x @ y, in_axes=(0, None))(a, b)": (
            "8@X 4 2 | 2 4@Y",
            "8@X 4 | 4 2",
            "8@X 4 | 4 2@Y",
        ),
        "jax.vmap(lambda x: x * 2, in_axes=1)(a)": ("8@X 4@Y",),
        "jax.vmap(lambda x: x * 2, in_axes=1, out_axes=1)(a)": ("8@X 4@Y",),
        "jax.vmap(lambda x, y: x + y)(a, b)": ("8@X 4 | 8@X 4", "8@X 4 | 8 4", "8@X 4 | 8@Y 4"),
        "jax.vmap(lambda x, y: x + y, in_axes=(0, None))(a, b)": (
            "8@X 4 | 4",
            "8@X 4 | 4@Y",
            "8@X 4 | 4@X",
        ),
        "jax.vmap(lambda x: jnp.zeros((3,)) + 1)(a)": ("8@X 4",),
        "jax.vmap(lambda x: x.reshape(2, 2))(a)": ("8@X 4",),
        "jax.vmap(lambda x: x[0])(a)": ("8@X 4",),
        "jax.vmap(lambda x, i: x[i])(a, b)": ("8@X 4 | i:8@X", "8@X 4 | i:8"),
        "jax.vmap(jnp.sin)(a)": ("8@X,Y 4",),
        "jax.vmap(lambda x: jnp.sort(x))(a)": ("8@X 4",),
        "jax.vmap(lambda x: lax.scan(lambda c, y: (c + y, c), 0.0, x)[1])(a)": ("8@X 4",),
        "jax.vmap(lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x))(a)": ("8@X 4",),
        "jax.vmap(lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x))(a)": (
            "8@X 4",
        ),
        "jax.vmap(jax.grad(lambda x: jnp.sin(x).sum()))(a)": ("8@X 4@Y",),
        "jax.vmap(jax.vmap(jnp.sin))(a)": ("8@X 4@Y 2",),
        "jax.vmap(lambda x: jax.jit(jnp.sin)(x))(a)": ("8@X 4",),
        "jax.vmap(lambda x: jax.sharding.reshard(x, P('Y')))(a)": ("8@X 4",),
        "jax.vmap(lambda x: jnp.dot(x, b, out_sharding=P('Y')))(a)": ("8@X 4 | 4 2",),
        "jax.vmap(jnp.sin, spmd_axis_name='X')(a)": ("8@X 4", "8 4"),
        "jax.vmap(lambda k: random.normal(k, (4,)))(a)": ("k:8@X 2", "k:8 2"),
        "jax.vmap(lambda x: jnp.concatenate([x, x]))(a)": ("8@X 4",),
        "jax.vmap(lambda x: x.sum(), out_axes=0)(a)": ("8@X 4 2",),
    },
    "linear algebra": {
        "jnp.linalg.cholesky(a)": ("4 4", "8@X 4 4", "4@X 4"),
        "jnp.linalg.inv(a)": ("4 4", "8@X 4 4"),
        "jnp.linalg.qr(a)[0]": ("8@X 4 4", "4 4"),
        "jnp.linalg.eigh(a)[1]": ("8@X 4 4", "4 4"),
        "jnp.linalg.svd(a)[1]": ("8@X 4 4",),
        "jnp.linalg.solve(a, b)": ("4 4 | 4", "4 4 | 4@X"),
        "jax.scipy.linalg.solve_triangular(a, b)": ("4 4 | 4 2@X", "4 4 | 4 2"),
        "jnp.fft.fft(a)": ("8@X 4", "8@X"),
        "jnp.linalg.det(a)": ("8@X 4 4", "4 4"),
    },
    "typeof": {
        "str(jax.typeof(a))": ("8@X 4@Y", "8@X,Y 4", "8 4"),
        "str(jax.typeof(a).sharding.spec)": ("8@X 4@Y", "8@X,Y 4", "8 4"),
        "jax.vmap(lambda x: SHOWN(x))(a)": ("8@X 4@Y",),
        "jax.jit(lambda x: SHOWN(x))(a)": ("8@X 4@Y",),
        "lax.scan(lambda c, x: (c, SHOWN(x)), 0.0, a)[1]": ("8 4@Y",),
    },
}

DIFFERENT: dict[tuple[str, str], str] = {
    # Another program computes the same: it needs what JAX's does not, or the other way round.
    ("jnp.median(a, 0)", "8 4@Y"): "ShardingTypeError",
    ("jnp.searchsorted(a, b)", "8 | 4@X"): "ShardingTypeError",
    ("jnp.digitize(a, b)", "8@X | 3"): "ShardingTypeError",
    ("jnp.repeat(a, 2, 0)", "8@X 4"): "float32[16@X,4]",
    ("jnp.diag(a)", "8@X 8"): "float32[8@X]",
    ("a.at[0].set(1.0)", "8@X 4"): "float32[8@X,4]",
    ("a.at[0].set(1.0)", "8@X 4@Y"): "float32[8@X,4@Y]",
    ("a.at[2:4].set(0.0)", "8@X 4"): "float32[8@X,4]",
    ("jnp.linalg.cholesky(a)", "8@X 4 4"): "float32[8@X,4,4]",
    ("jnp.linalg.inv(a)", "8@X 4 4"): "float32[8@X,4,4]",
    # Derivatives of operations have no conflicts of their own.
    ("jax.grad(lambda x: jnp.sort(x, 1)[:, 0].sum())(a)", "8@X 4"): "float32[8@X,4]",
    # Without a mesh of its own a constant agrees with every sharding.
    (
        "jax.vmap(lambda x: lax.scan(lambda c, y: (c + y, c), 0.0, x)[1])(a)",
        "8@X 4",
    ): "~float32[8@X,4]",
    # An axis that one operand alone is sharded along is sharded so in the result.
    ("a @ b", "2@X 8 4 | 2 4 2@Y"): "float32[2@X,8,2@Y]",
    # `out_sharding` says it for every way to index.
    ("a.at[b].get(out_sharding=P('X'))", "8@X 4 | i:-"): "float32[4@X]",
    ("a.at[0].get(out_sharding=P())", "8@X 4"): "float32[4]",
    # JAX does not look at this `device` inside a program, but does at that of `eye`.
    ("jnp.zeros((8, 4), device=NamedSharding(MESH, P('X')))", "-"): "float32[8@X,4]",
    ("jnp.full((8, 4), a, device=NamedSharding(MESH, P('X')))", "-"): "float32[8@X,4]",
    # Other exceptions.
    ("a @ b", "2@X 8 4 | 2@Y 4 2"): "ShardingTypeError",
    ("a[b]", "8 4@Y | i:4@Y"): "ShardingTypeError",
    ("a.at[b].add(c)", "8@X 4 | i:4 | 4@X 4"): "ShardingTypeError",
    ("jax.sharding.reshard(a, P('X', None, 'Y'))", "8 4"): "ValueError",
}
"""Outcomes that differ from JAX's, and why."""

_DTYPES = {"i": "int32", "k": "uint32", "b": "bool"}


def _operand(jax: Any, mesh: Any, text: str) -> Any:
    kind, colon, rest = text.strip().rpartition(":")
    axes = [] if rest == "-" else [size.partition("@") for size in rest.split()]
    spec = [tuple(names.split(",")) if names else None for _, _, names in axes]
    return jax.ShapeDtypeStruct(
        tuple(int(size) for size, _, _ in axes),
        _DTYPES[kind] if colon else "float32",
        sharding=jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)),
    )


def _with_rules(jax: Any) -> dict[str, Any]:
    """Functions with derivatives of their own, for the programs: `CJ` and `CV`."""
    jnp = jax.numpy
    by_jvp = jax.custom_jvp(lambda x: jnp.sin(x))
    by_jvp.defjvp(lambda p, t: (by_jvp(*p), jnp.cos(p[0]) * t[0]))
    by_vjp = jax.custom_vjp(lambda x: jnp.sin(x))
    by_vjp.defvjp(lambda x: (by_vjp(x), x), lambda x, ct: (jnp.cos(x) * ct,))
    return {"CJ": by_jvp, "CV": by_vjp}


def cases() -> list[tuple[str, str]]:
    """Every program with each of its operands."""
    return [
        (program, operands)
        for family in PROGRAMS.values()
        for program, rows in family.items()
        for operands in rows
    ]


def outcome(jax: Any, mesh: Any, program: str, operands: str) -> tuple[str, str]:
    """The type of the program's result, or the name of the error that it raises, and its text.

    `jax` is a module with JAX's names, `mesh` a mesh of it; it must be the one in use.
    """
    seen: list[str] = []
    P = jax.sharding.PartitionSpec

    def shown(x: Any) -> Any:
        seen.append(str(jax.typeof(x)))
        return x

    names: dict[str, Any] = {
        "jax": jax,
        "jnp": jax.numpy,
        "lax": jax.lax,
        "random": jax.random,
        "P": P,
        "NamedSharding": jax.sharding.NamedSharding,
        "MESH": mesh,
        "SHOWN": shown,
        "EX": lambda x: jax.sharding.explicit_axes(lambda y: y + 1, in_sharding=P("Y"))(x),
        **_with_rules(jax),
    }

    def run(*args: Any) -> Any:
        out = eval(program, names | dict(zip("abc", args, strict=False)))
        if isinstance(out, str):
            seen.append(out)
            return ()
        return out

    try:
        made = jax.make_jaxpr(run)(*(_operand(jax, mesh, o) for o in operands.split("|")))
    except Exception as error:  # the kind of error is what the table holds
        return type(error).__name__, str(error)
    return " ".join([*dict.fromkeys(seen), *map(str, made.out_avals)]), ""
