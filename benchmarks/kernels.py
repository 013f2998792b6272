"""The kernels: array programs of the kinds that numerical code is made of.

Each is written once. ``np`` is `numpy`, `xpr.numpy` or `jax.numpy`; ``lax`` the matching module, or
`benchmarks.numpy_lax` for NumPy. Inputs are float32 unless the name says otherwise.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy

from benchmarks.cases import Case, MakeInputs, ProgramCase


def _normal(*shapes: tuple[int, ...], quick: tuple[tuple[int, ...], ...] = ()) -> MakeInputs:
    """Inputs of these shapes from a normal distribution; ``quick`` gives smaller ones."""

    def make(rng: Any, is_quick: bool) -> list[numpy.ndarray]:
        chosen = quick if is_quick and quick else shapes
        return [rng.standard_normal(shape, dtype=numpy.float32) for shape in chosen]

    return make


def _matmul(np: Any, lax: Any, a: Any, b: Any) -> Any:
    return a @ b


def _mlp(np: Any, lax: Any, x: Any, *weights: Any) -> Any:
    for w in weights[:-1]:
        x = np.maximum(x @ w, 0.0)
    return x @ weights[-1]


def _mlp_inputs(rng: Any, quick: bool) -> list[numpy.ndarray]:
    widths = (64, 128, 128, 10) if quick else (784, 1024, 1024, 10)
    batch = 32 if quick else 256
    weights = [
        rng.standard_normal((m, n), dtype=numpy.float32) / numpy.float32(m**0.5)
        for m, n in itertools.pairwise(widths)
    ]
    return [rng.standard_normal((batch, widths[0]), dtype=numpy.float32), *weights]


def _small_mlp(np: Any, lax: Any, x: Any, *parameters: Any) -> Any:
    w1, b1, w2, b2 = parameters
    return np.tanh(x @ w1 + b1) @ w2 + b2


def _twice_plus_one(np: Any, lax: Any, x: Any) -> Any:
    return x * 2.0 + 1.0


def _softmax(np: Any, lax: Any, x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def _layernorm(np: Any, lax: Any, x: Any, scale: Any, shift: Any) -> Any:
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-5) * scale + shift


def _layernorm_inputs(rng: Any, quick: bool) -> list[numpy.ndarray]:
    rows, width = (128, 256) if quick else (4096, 1024)
    shapes = ((rows, width), (width,), (width,))
    return [rng.standard_normal(shape, dtype=numpy.float32) for shape in shapes]


def _uniform(shape: tuple[int, ...], quick: tuple[int, ...]) -> MakeInputs:
    """One input between 0 and 1: its sums do not cancel, so their relative error has a meaning."""

    def make(rng: Any, is_quick: bool) -> list[numpy.ndarray]:
        return [rng.random(quick if is_quick else shape, dtype=numpy.float32)]

    return make


def _sum(np: Any, lax: Any, x: Any, axis: int | None = None) -> Any:
    return np.sum(x, axis=axis)


def _chain(np: Any, lax: Any, x: Any) -> Any:
    return np.tanh(x) * np.sin(x) + np.exp(x * 0.1) - np.sqrt(np.abs(x))


def _axpy(np: Any, lax: Any, a: Any, x: Any, y: Any) -> Any:
    return a * x + y


def _axpy_inputs(rng: Any, quick: bool) -> list[numpy.ndarray]:
    size = 100_000 if quick else 4_000_000
    a = numpy.asarray(0.5, dtype=numpy.float32)
    return [a, *(rng.standard_normal(size, dtype=numpy.float32) for _ in range(2))]


def _conv(np: Any, lax: Any, x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(x, w, (1, 1), "SAME")


def _quotient(np: Any, lax: Any, z: Any, w: Any) -> Any:
    return z / w


def _absolute(np: Any, lax: Any, z: Any, w: Any) -> Any:
    return np.abs(z)


def _complex_inputs(rng: Any, quick: bool) -> list[numpy.ndarray]:
    shape = (2, 10_000 if quick else 1_000_000, 2)
    return list(rng.standard_normal(shape).astype(numpy.float32).view(numpy.complex64)[..., 0])


def _cholesky(np: Any, lax: Any, x: Any) -> Any:
    return np.linalg.cholesky(x)


def _positive_inputs(rng: Any, quick: bool) -> list[numpy.ndarray]:
    x = rng.standard_normal((10, 10)).astype(numpy.float32)
    return [x @ x.T + 10 * numpy.eye(10, dtype=numpy.float32)]


def _gather(np: Any, lax: Any, x: Any, index: Any) -> Any:
    return np.take(x, index)


def _gather_inputs(rng: Any, quick: bool) -> list[numpy.ndarray]:
    size = 50_000 if quick else 1_000_000
    x = rng.standard_normal(size, dtype=numpy.float32)
    return [x, rng.integers(0, size, size, dtype=numpy.int32)]


def _scatter_add(np: Any, lax: Any, x: Any, index: Any, updates: Any) -> Any:
    return x.at[index].add(updates)


def _scatter_add_numpy(np: Any, lax: Any, x: Any, index: Any, updates: Any) -> Any:
    out = x.copy()
    np.add.at(out, index, updates)
    return out


def _scatter_inputs(rng: Any, quick: bool) -> list[numpy.ndarray]:
    x, index = _gather_inputs(rng, quick)
    return [x, index, rng.standard_normal(x.shape, dtype=numpy.float32)]


def _sort(np: Any, lax: Any, x: Any) -> Any:
    return np.sort(x)


def _argsort(np: Any, lax: Any, x: Any) -> Any:
    return np.argsort(x, stable=True)


def _fft(np: Any, lax: Any, x: Any) -> Any:
    return np.fft.fft(x)


def _fft_inputs(rng: Any, quick: bool) -> list[numpy.ndarray]:
    parts = rng.standard_normal((2, 1 << (10 if quick else 18)), dtype=numpy.float32)
    return [parts[0] + numpy.complex64(1j) * parts[1]]


def _cumsum(np: Any, lax: Any, x: Any) -> Any:
    return np.cumsum(x)


def _transpose(np: Any, lax: Any, x: Any) -> Any:
    # The addition makes NumPy write the result, where it would else only return a view.
    return x.T + 1.0


def _black_scholes(np: Any, lax: Any, spot: Any, strike: Any, years: Any) -> Any:
    """Call and put prices (Black and Scholes, 1973), rate 2 % and volatility 30 %."""
    rate, volatility = 0.02, 0.3

    def cumulative(d: Any) -> Any:
        return 0.5 * (1.0 + lax.erf(d * 0.7071067811865476))

    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / spread
    d2 = d1 - spread
    discounted = strike * np.exp(-rate * years)
    call = spot * cumulative(d1) - discounted * cumulative(d2)
    put = discounted * cumulative(-d2) - spot * cumulative(-d1)
    return call, put


def _black_scholes_inputs(rng: Any, quick: bool) -> list[numpy.ndarray]:
    size = 50_000 if quick else 1_000_000
    ranges = ((10.0, 50.0), (10.0, 50.0), (0.1, 2.0))
    return [rng.uniform(low, high, size).astype(numpy.float32) for low, high in ranges]


def _n_body(np: Any, lax: Any, position: Any, mass: Any) -> Any:
    """Accelerations of bodies that attract each other, softened at short distances."""
    difference = position[None, :, :] - position[:, None, :]
    squared = np.sum(difference * difference, axis=-1) + 1e-2
    inverse = lax.rsqrt(squared)
    weight = mass[None, :] * inverse * inverse * inverse
    return np.sum(difference * weight[:, :, None], axis=1)


def _n_body_inputs(rng: Any, quick: bool) -> list[numpy.ndarray]:
    bodies = 128 if quick else 1024
    position = rng.standard_normal((bodies, 3), dtype=numpy.float32)
    return [position, rng.uniform(0.5, 1.5, bodies).astype(numpy.float32)]


def _normalise_columns(np: Any, lax: Any, x: Any) -> Any:
    return (x - np.mean(x, axis=0)) / (np.std(x, axis=0) + 1e-6)


def _top_k(np: Any, lax: Any, x: Any) -> Any:
    return lax.top_k(x, 8)


def _top_k_inputs(rng: Any, quick: bool) -> list[numpy.ndarray]:
    # Distinct values: where equal ones stand is not the same in every library.
    rows, columns = (16, 1000) if quick else (256, 10_000)
    values = numpy.arange(columns, dtype=numpy.float32)
    return [numpy.stack([rng.permutation(values) for _ in range(rows)])]


def _stencil(np: Any, lax: Any, x: Any) -> Any:
    """Ten steps of heat flow on a square whose border is held fixed."""

    def step(_: Any, u: Any) -> Any:
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        inner = u[1:-1, 1:-1] + 0.1 * (around - 4.0 * u[1:-1, 1:-1])
        middle = np.concatenate([u[1:-1, :1], inner, u[1:-1, -1:]], axis=1)
        return np.concatenate([u[:1], middle, u[-1:]], axis=0)

    del lax
    for index in range(10):
        x = step(index, x)
    return x


_kernel = functools.partial(ProgramCase, group="kernels")

KERNELS: tuple[Case, ...] = (
    _kernel(name="matmul 256", program=_matmul, inputs=_normal((256, 256), (256, 256))),
    _kernel(
        name="matmul 1024",
        program=_matmul,
        inputs=_normal((1024, 1024), (1024, 1024), quick=((300, 300), (300, 300))),
    ),
    _kernel(
        name="mat-vec 4096",
        program=_matmul,
        inputs=_normal((4096, 4096), (4096,), quick=((512, 512), (512,))),
    ),
    _kernel(
        name="vec-mat 3000",
        program=_matmul,
        inputs=_normal((3000,), (3000, 3000), quick=((512,), (512, 512))),
    ),
    _kernel(
        name="4 rows 4096",
        program=_matmul,
        inputs=_normal((4, 4096), (4096, 4096), quick=((4, 512), (512, 512))),
    ),
    _kernel(name="MLP forward 256x784", program=_mlp, inputs=_mlp_inputs),
    _kernel(
        name="MLP forward 32x784x128x10",
        program=_small_mlp,
        inputs=_normal((32, 784), (784, 128), (128,), (128, 10), (10,)),
    ),
    _kernel(name="softmax 64x128", program=_softmax, inputs=_normal((64, 128))),
    _kernel(
        name="softmax 4096x1024",
        program=_softmax,
        inputs=_normal((4096, 1024), quick=((256, 128),)),
    ),
    _kernel(name="layernorm 4096x1024", program=_layernorm, inputs=_layernorm_inputs),
    _kernel(name="sum 16M", program=_sum, inputs=_uniform((1 << 24,), (1 << 18,))),
    _kernel(
        name="sum 4096² axis 0",
        program=functools.partial(_sum, axis=0),
        inputs=_uniform((4096, 4096), (512, 512)),
    ),
    _kernel(
        name="sum 4096² axis 1",
        program=functools.partial(_sum, axis=1),
        inputs=_uniform((4096, 4096), (512, 512)),
    ),
    _kernel(
        name="elementwise chain 4M",
        program=_chain,
        inputs=_normal((4_000_000,), quick=((100_000,),)),
    ),
    _kernel(
        name="x * 2 + 1, 1M",
        program=_twice_plus_one,
        inputs=_normal((1_000_000,), quick=((10_000,),)),
    ),
    _kernel(name="axpy 4M", program=_axpy, inputs=_axpy_inputs),
    _kernel(
        name="conv 3x3 8x32x64x64",
        program=_conv,
        inputs=_normal((8, 32, 64, 64), (64, 32, 3, 3), quick=((2, 8, 16, 16), (8, 8, 3, 3))),
    ),
    _kernel(
        name="conv 1x1 8x256x28x28",
        program=_conv,
        inputs=_normal((8, 256, 28, 28), (512, 256, 1, 1), quick=((2, 8, 9, 9), (8, 8, 1, 1))),
    ),
    _kernel(
        name="complex quotient 1M",
        program=_quotient,
        inputs=_complex_inputs,
    ),
    _kernel(name="complex absolute 1M", program=_absolute, inputs=_complex_inputs),
    _kernel(name="Cholesky 10", program=_cholesky, inputs=_positive_inputs),
    _kernel(name="gather 1M", program=_gather, inputs=_gather_inputs),
    _kernel(
        name="scatter-add 1M",
        program=_scatter_add,
        numpy_program=_scatter_add_numpy,
        inputs=_scatter_inputs,
    ),
    _kernel(name="sort 4096", program=_sort, inputs=_normal((4096,))),
    _kernel(name="sort 1M", program=_sort, inputs=_normal((1_000_000,), quick=((20_000,),))),
    _kernel(name="argsort 1M", program=_argsort, inputs=_normal((1_000_000,), quick=((20_000,),))),
    _kernel(name="fft 2^18", program=_fft, inputs=_fft_inputs),
    _kernel(
        name="cumsum 1M",
        program=_cumsum,
        inputs=_uniform((1_000_000,), (50_000,)),
        # A serial float32 sum of n terms errs by about sqrt(n) units in the last place.
        tolerance=1e-4,
    ),
    _kernel(
        name="transpose 4096²",
        program=_transpose,
        inputs=_normal((4096, 4096), quick=((512, 512),)),
    ),
    _kernel(name="Black-Scholes 1M", program=_black_scholes, inputs=_black_scholes_inputs),
    _kernel(name="n-body 1024", program=_n_body, inputs=_n_body_inputs),
    _kernel(
        name="normalise columns 10000x10",
        program=_normalise_columns,
        inputs=_normal((10_000, 10)),
    ),
    _kernel(name="top_k 256x10000, k=8", program=_top_k, inputs=_top_k_inputs),
    _kernel(
        name="stencil 1024², 10 steps",
        program=_stencil,
        inputs=_normal((1024, 1024), quick=((128, 128),)),
    ),
)
