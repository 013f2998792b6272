"""Writes `golden/jax.tar.xz`: programs that JAX 0.10.2 exported, with inputs and JAX's results.

Run in an environment of its own that has JAX and not xpr, from this folder:

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python make_golden.py

Each program is `NAME.jax`, the bytes of `jax.export.Exported.serialize()`, and `NAME.npz`, with the
flat inputs `in0`, `in1`, ... and JAX's flat results on the CPU `out0`, `out1`, ... Those whose
names begin with `vjp_` hold their derivative, too.
"""

from __future__ import annotations

import importlib
import io
import pathlib
import tarfile
from collections.abc import Callable
from typing import Any

import numpy as np

# Set by `main`: this file can be read where there is no JAX.
jax: Any = None
jnp: Any = None
lax: Any = None

F = np.float32
PROGRAMS: dict[str, Any] = {}


def program(*args: Any, shapes: Any = None, vjp: int = 0, **options: Any) -> Callable[[Any], Any]:
    """Adds a function to the programs, with its arguments."""

    def add(function: Any) -> Any:
        PROGRAMS[function.__name__] = (function, args, shapes, vjp, options)
        return function

    return add


def rand(*shape: int, seed: int = 0, dtype: Any = F) -> Any:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


MLP = {"w1": rand(8, 16), "b1": rand(16), "w2": rand(16, 4), "b2": rand(4)}


def logits(params, x):
    h = jnp.tanh(x @ params["w1"] + params["b1"])
    return h @ params["w2"] + params["b2"]


def loss(params, x, y):
    return -jnp.mean(jax.nn.log_softmax(logits(params, x))[jnp.arange(y.shape[0]), y])


LABELS = np.arange(6, dtype=np.int32) % 4


@program(MLP, rand(6, 8), vjp=1)
def vjp_mlp(params, x):
    return logits(params, x)


@program(MLP, rand(6, 8), LABELS)
def mlp_step(params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def _heads(x, n):
    return x.reshape(*x.shape[:-1], n, -1).swapaxes(-2, -3)


@program({k: 0.2 * rand(16, 16, seed=i) for i, k in enumerate("qkvoab")}, rand(2, 5, 16))
def transformer(p, x):
    def norm(x):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    y = norm(x)
    q, k, v = (_heads(y @ p[n], 4) for n in "qkv")
    scores = q @ k.swapaxes(-1, -2) / 2.0
    mask = jnp.tril(jnp.ones((5, 5), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    x = x + (weights @ v).swapaxes(-2, -3).reshape(x.shape) @ p["o"]
    return x + jax.nn.gelu(norm(x) @ p["a"]) @ p["b"]


@program(rand(2, 10, 10, 3), rand(3, 3, 3, 4), rand(3, 3, 4, 4, seed=3))
def convolutional(x, k1, k2):
    dims = ("NHWC", "HWIO", "NHWC")
    x = jax.nn.relu(lax.conv_general_dilated(x, k1, (1, 1), "SAME", dimension_numbers=dims))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = lax.conv_general_dilated(x, k2, (2, 2), "SAME", dimension_numbers=dims)
    return x.mean((1, 2))


@program(rand(1, 6, 6, 2), rand(3, 3, 2, 3))
def convolution_grad(x, k):
    def f(x, k):
        y = lax.conv_general_dilated(
            x, k, (1, 1), "SAME", rhs_dilation=(2, 2), dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        z = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return (z**2).sum()

    return jax.grad(f, (0, 1))(x, k)


@program(rand(5), rand(7, 5), rand(5, 5))
def scan_rnn(h, xs, w):
    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, h.sum()

    return lax.scan(step, h, xs)


@program(rand(5), rand(7, 5), 0.3 * rand(5, 5))
def scan_grad(h, xs, w):
    def f(w):
        return lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), h, xs)[0].sum()

    return jax.grad(f)(w)


@program(F(17.0))
def while_newton(x):
    def unfinished(state):
        return (jnp.abs(state[0] ** 2 - x) > 1e-4) & (state[1] < 50)

    return lax.while_loop(unfinished, lambda s: (0.5 * (s[0] + x / s[0]), s[1] + 1), (x, 0))


@program(np.int32(2), rand(4))
def switch_branches(i, x):
    return lax.switch(i, [jnp.sin, jnp.cos, lambda x: x * 2, lambda x: -x], x)


@program(np.bool_(True), rand(4))
def cond_branches(p, x):
    return lax.cond(p, lambda x: x + 1, lambda x: x - 1, x)


@program(np.array([[3, np.nan, -1, 0, -0.0, np.inf], [5, 4, 2, -7, 2, 1]], F))
def sorting(x):
    keys, values = lax.sort((x, jnp.broadcast_to(jnp.arange(6), x.shape)), num_keys=1)
    return jnp.sort(x, axis=0), jnp.argsort(x, axis=1), keys, values, -jnp.sort(-x)


@program(np.array([[3, 1, 2, 1], [0, 1, 0, 2]], np.int32), rand(2, 4))
def sort_two_keys(a, b):
    return lax.sort((a, b, a * 2), num_keys=2)


@program(rand(3, 9))
def top_values(x):
    return *lax.top_k(x, 4), jnp.argmax(x, 1), jnp.argmin(x, 0)


@program(rand(4, 8))
def fourier(x):
    y = jnp.fft.fft2(x)
    return y, jnp.fft.ifft(y).real, jnp.fft.rfft(x), jnp.fft.irfft(jnp.fft.rfft(x))


@program(rand(2, 4, 4))
def linear_cholesky(x):
    a = x @ x.swapaxes(-1, -2) + 4 * jnp.eye(4)
    c = jnp.linalg.cholesky(a)
    return c, jax.scipy.linalg.solve_triangular(c, x, lower=True), jnp.linalg.solve(a, x[..., :1])


@program(rand(5, 3))
def linear_svd(x):
    u, s, v = jnp.linalg.svd(x, full_matrices=False)
    return s, (u * s) @ v, jnp.linalg.svd(x, compute_uv=False)


@program(rand(4, 4))
def linear_eigh(x):
    w, v = jnp.linalg.eigh(x + x.T)
    return w, (v * w) @ v.T


@program(rand(5, 3))
def linear_qr(x):
    q, r = jnp.linalg.qr(x)
    return jnp.abs(r), q @ r


@program(rand(4, 4))
def linear_lu(x):
    p, low, up = jax.scipy.linalg.lu(x)
    return p, low, up, jnp.linalg.det(x), jnp.linalg.inv(x)


@program(rand(4, 4))
def linear_eigvals(x):
    return jnp.sort(jnp.abs(jnp.linalg.eigvals(x)))


@program(rand(4, 4))
def linear_schur(x):
    t, q = jax.scipy.linalg.schur(x)
    return q @ t @ q.T, jnp.abs(jnp.linalg.det(q))


@program(np.array([0, 42], np.uint32))
def random_numbers(data):
    key = jax.random.wrap_key_data(data)
    a, b, c = jax.random.split(key, 3)
    return (
        jax.random.normal(a, (5,)),
        jax.random.uniform(b, (3, 2)),
        jax.random.randint(c, (4,), 0, 100),
        jax.random.permutation(a, 6),
        jax.random.key_data(b),
    )


@program(rand(6, 4), np.array([0, 5, 2, 9, -1], np.int32), rand(5, 4, seed=2))
def gather_scatter(x, i, u):
    return (
        x[i],
        x.at[i].add(u),
        x.at[i].set(u[0]),
        jnp.take(x, i, axis=0, mode="clip"),
        x.at[i, 1].max(u[:, 0]),
    )


@program(rand(3, 7))
def cumulative(x):
    return jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, axis=1), lax.cumlogsumexp(x, axis=1)


@program(rand(6), np.abs(rand(6)) + 0.5)
def special_functions(x, y):
    s = jax.scipy.special
    return (
        s.erf(x),
        s.erfc(x),
        s.erfinv(jnp.tanh(x)),
        s.gammaln(y),
        s.digamma(y),
        s.i0e(x),
        s.betainc(y, y, 0.3),
        s.gammainc(y, y),
        jnp.arcsinh(x),
        jnp.logaddexp(x, y),
        lax.nextafter(x, y),
    )


@program(rand(5, 3), shapes=("b, 3",))
def symbolic_batch(x):
    return (
        jnp.concatenate([x.reshape(-1), jnp.zeros(x.shape[0])]),
        jax.nn.softmax(x @ x.T, axis=0),
        x.mean(0),
        jnp.arange(x.shape[0] * 2),
    )


@program(rand(6, 4), rand(4, 6), shapes=("2*n, m", "m, k"))
def symbolic_product(x, y):
    return (x @ y)[::2], jnp.pad(x, ((0, 1), (0, 0))), jnp.tile(x, (2, 1))


@program(rand(4), np.arange(4, dtype=np.int32))
def dtypes(x, i):
    return (
        x.astype(jnp.bfloat16),
        x.astype(jnp.float16) * 2,
        i.astype(jnp.uint8) + 250,
        (x > 0) & (i > 1),
        x + 1j * i,
        x.astype(jnp.float8_e4m3fn),
        i.astype(jnp.int4),
    )


@program((rand(3), [rand(2), None]), named={"a": rand(2)})
def trees(pair: Any, *, named: Any = None) -> Any:
    return {"sum": pair[0].sum() + pair[1][0].prod(), "list": [named["a"], ()], "none": None}


@program(rand(8, 4), rand(4, 8))
def shard_map_psum(x, y):
    def local(x, y):
        return (
            lax.psum(x @ y, "i"),
            lax.all_gather(x, "i", axis=1, tiled=True),
            lax.axis_index("i")[None],
        )

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("i",))
    return jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(jax.P(None, "i"), jax.P("i", None)),
        out_specs=(jax.P(), jax.P(), jax.P("i")),
        check_vma=False,
    )(x, y)


@program(rand(8, 4))
def shard_map_exchange(x):
    def local(x):
        right = lax.ppermute(x, "i", [(j, (j + 1) % 8) for j in range(8)])
        return (
            right,
            lax.psum_scatter(jnp.tile(x, (8, 1)), "i", tiled=True),
            lax.pmax(x, "i"),
            lax.all_to_all(jnp.tile(x, (8, 1)), "i", 0, 1, tiled=True),
        )

    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
    return jax.shard_map(
        local,
        mesh=mesh,
        in_specs=jax.P("i"),
        out_specs=(jax.P("i"), jax.P("i"), jax.P(), jax.P("i")),
        check_vma=False,
    )(x)


@program(rand(8, 16), rand(16, 4))
def sharded_product(x, w):
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    x = lax.with_sharding_constraint(x, jax.sharding.NamedSharding(mesh, jax.P("data", "model")))
    w = lax.with_sharding_constraint(w, jax.sharding.NamedSharding(mesh, jax.P("model", None)))
    return jax.nn.relu(x @ w).sum(0)


@program(rand(5), rand(5, seed=9))
def custom_rules(x, y):
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (2 * g * jnp.cos(x),))
    return (
        jax.grad(lambda x: f(x).sum())(x),
        jax.jvp(jnp.tanh, (x,), (y,))[1],
        jax.checkpoint(lambda x: jnp.exp(jnp.sin(x)))(x),
    )


@program(np.arange(6, dtype=np.float64), np.arange(6))
def wide_types(x, i):
    return jnp.linalg.norm(x), jnp.cumsum(i), x.astype(np.complex128) * 1j, i << 40


def _exported(name: str) -> tuple[bytes, list[Any], list[Any]]:
    """The bytes of a program, its flat inputs and JAX's flat results."""
    function, args, shapes, vjp, kwargs = PROGRAMS[name]
    export = importlib.import_module("jax.export")
    with jax.enable_x64(name == "wide_types"):
        specs = args
        if shapes is not None:
            scope = export.SymbolicScope()
            specs = tuple(
                jax.ShapeDtypeStruct(export.symbolic_shape(s, scope=scope), a.dtype)
                for s, a in zip(shapes, args, strict=True)
            )
        jitted = jax.jit(function)
        blob = bytes(export.export(jitted)(*specs, **kwargs).serialize(vjp_order=vjp))
        outs = jax.tree.leaves(jitted(*args, **kwargs))
        return blob, jax.tree.leaves((args, kwargs)), outs


def _stored(x: Any) -> Any:
    array = np.asarray(x)
    return array if array.dtype.kind in "biufc" else array.astype(F)


def main() -> None:
    """Writes the archive."""
    global jax, jnp, lax
    jax = importlib.import_module("jax")
    jnp, lax = importlib.import_module("jax.numpy"), importlib.import_module("jax.lax")
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    path = pathlib.Path(__file__).parent / "golden" / "jax.tar.xz"
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name in PROGRAMS:
            blob, ins, outs = _exported(name)
            data = {f"in{i}": _stored(x) for i, x in enumerate(ins)}
            data |= {f"out{i}": _stored(x) for i, x in enumerate(outs)}
            written = io.BytesIO()
            np.savez_compressed(written, **data)
            for ending, content in (("jax", blob), ("npz", written.getvalue())):
                entry = tarfile.TarInfo(f"{name}.{ending}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    main()
