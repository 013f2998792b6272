"""What works with symbolic dimensions: the table of docs/deploy.md, row by row, against NumPy and
SciPy."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.signal
import scipy.special

import xpr
import xpr.numpy as jnp
from tests.lowering.vulkan_util import vulkan_device
from xpr import lax, nn
from xpr.core.errors import CompileError
from xpr.dispatch import compiling
from xpr.export import SymbolicScope, export, modules, symbolic_shape
from xpr.export.generalize import SizeDependenceError
from xpr.export.symbolic_graph import general_graph
from xpr.export.writing import bundle_bytes
from xpr.runtimes.bundle import Bundle

SIZES = (1, 2, 7, 64)
F32, I32 = np.dtype(np.float32), np.dtype(np.int32)
rng = np.random.default_rng(0)
W = rng.standard_normal((16, 16)).astype(F32) / 4
KERNEL = rng.standard_normal((3, 3, 2, 3)).astype(F32)
TAPS = rng.standard_normal(3).astype(F32)
TABLE = rng.standard_normal((11, 4)).astype(F32)
ORDER = np.array([3, 1, 5, 1], I32)


class Case(NamedTuple):
    """A function of arguments with symbolic dimensions, and the same with NumPy."""

    row: str
    name: str
    specs: tuple[tuple[str, Any], ...]
    function: Callable[..., Any]
    oracle: Callable[..., Any]


CASES: list[Case] = []
WITHIN = ("b, 16", F32)
VECTOR, NUMBERS, LABELS = ("b", F32), ("b, 16", I32), ("b", I32)
IMAGES, MAPS = ("b, 6, 6, 2", F32), ("2, h, w, 2", F32)
TOKENS, MATRICES = ("b, t, 8", F32), ("b, 4, 4", F32)


def case(row: str, name: str, *specs: tuple[str, Any]) -> Callable[..., None]:
    """Notes a case; called with the function and its oracle."""
    return lambda function, oracle: CASES.append(Case(row, name, specs, function, oracle))


def _conv(x: Any, **options: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    strides = options.pop("strides", (1, 1))
    kernel = options.pop("kernel", KERNEL)
    return lax.conv_general_dilated(
        x, kernel, strides, "SAME", dimension_numbers=numbers, **options
    )


def _np_conv(x: np.ndarray, kernel: np.ndarray = KERNEL) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.einsum("bhwcij,ijco->bhwo", windows, kernel)


def _np_depthwise(x: np.ndarray) -> np.ndarray:
    columns = [_np_conv(x[..., i : i + 1], KERNEL[:, :, i : i + 1, :1]) for i in range(2)]
    return np.concatenate(columns, -1)


def _depthwise(x: Any) -> Any:
    return _conv(x, kernel=np.swapaxes(KERNEL[:, :, :, :1], 2, 3), feature_group_count=2)


def _attention(m: Any, softmax: Callable[..., Any]) -> Callable[..., Any]:
    """A block of a transformer with one head, without dropout, in the words of a library."""

    def normal(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / m.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def block(x: Any) -> Any:
        q, k, v = x @ W[:8, :8], x @ W[:8, 8:], x @ W[8:, :8]
        scores = m.einsum("btd,bsd->bts", q, k) / 3
        place = m.arange(x.shape[1])
        scores = m.where(place[:, None] >= place[None], scores, -1e9)
        x = normal(x + m.einsum("bts,bsd->btd", softmax(scores, axis=-1), v))
        return normal(x + m.tanh(x @ W[:8]) @ W[:, :8])

    return block


def _heads(m: Any, softmax: Callable[..., Any]) -> Callable[..., Any]:
    """Two heads of causal attention over one sequence: a mask is broadcast, and again by vmap."""

    def attend(x: Any) -> Any:
        q, k, v = (m.reshape(x @ w, (x.shape[0], 2, 4)) for w in (W[:8, :8], W[8:, :8], W[:8, 8:]))
        scores = m.einsum("the,she->hts", q, k)
        mask = m.tril(m.ones((x.shape[0], x.shape[0]), bool))
        return m.einsum("hts,she->the", softmax(m.where(mask, scores, -1e9), axis=-1), v)

    return attend


def _recurrent(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        state = jnp.tanh(state @ W + row[:, None])
        return state, state[:, 0]

    return lax.scan(step, jnp.zeros_like(x), x.T)


def _np_recurrent(x: np.ndarray) -> Any:
    state, seen = np.zeros_like(x), []
    for row in x.T:
        state = np.tanh(state @ W + row[:, None])
        seen.append(state[:, 0])
    return state, np.stack(seen)


def _spectrum(x: Any) -> Any:
    found = jnp.fft.rfft(x)
    return found.real, found.imag, jnp.fft.irfft(found)


def _np_spectrum(x: np.ndarray) -> Any:
    found = np.fft.rfft(x)
    return found.real, found.imag, x


def _swapped(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


ELEMENTWISE = "elementwise operations, casts, comparisons, `where`"
case(ELEMENTWISE, "tanh", WITHIN)(
    lambda x: jnp.where(x > 0, jnp.tanh(x), x.astype(int)),
    lambda x: np.where(x > 0, np.tanh(x), x.astype(int)),
)
case(ELEMENTWISE, "erf", WITHIN)(lax.erf, scipy.special.erf)

FOLDS = "sums, means, variances, norms, `max`, `argmax`, softmax, layer norm"
for axis in (0, 1):
    case(FOLDS, f"mean {axis}", WITHIN)(lambda x, a=axis: x.mean(a), lambda x, a=axis: x.mean(a))
    case(FOLDS, f"std {axis}", WITHIN)(lambda x, a=axis: x.std(a), lambda x, a=axis: x.std(a))
    case(FOLDS, f"argmax {axis}", WITHIN)(
        lambda x, a=axis: x.argmax(a), lambda x, a=axis: x.argmax(a)
    )
    case(FOLDS, f"softmax {axis}", WITHIN)(
        lambda x, a=axis: nn.softmax(x, axis=a), lambda x, a=axis: scipy.special.softmax(x, axis=a)
    )

PRODUCTS = "products of matrices and vectors, `einsum`"
case(PRODUCTS, "matrix", WITHIN)(lambda x: x @ W, lambda x: x @ W)
case(PRODUCTS, "matrix times vector", WITHIN)(lambda x: x @ W[0], lambda x: x @ W[0])
case(PRODUCTS, "over the symbolic axis", WITHIN)(lambda x: x.T @ x, lambda x: x.T @ x)
case(PRODUCTS, "vector times matrix", VECTOR, WITHIN)(lambda v, x: v @ x, lambda v, x: v @ x)
case(PRODUCTS, "outer", VECTOR)(lambda v: jnp.outer(v, W[0]), lambda v: np.outer(v, W[0]))
case(PRODUCTS, "dot", VECTOR)(lambda v: v @ v, lambda v: v @ v)
case(PRODUCTS, "integers", NUMBERS)(lambda n: n @ n[0], lambda n: n @ n[0])
case(PRODUCTS, "batched", MATRICES)(
    lambda m: jnp.einsum("bij,bj->bi", m, m[:, 0]), lambda m: np.einsum("bij,bj->bi", m, m[:, 0])
)

CONVOLUTIONS = "convolutions, with strides, dilation and groups"
for what, spec in (("batch", IMAGES), ("height and width", MAPS)):
    case(CONVOLUTIONS, f"same, {what}", spec)(_conv, _np_conv)
    case(CONVOLUTIONS, f"groups, {what}", spec)(_depthwise, _np_depthwise)
case(CONVOLUTIONS, "strides", IMAGES)(
    lambda x: _conv(x, strides=(2, 2)), lambda x: _np_conv(x)[:, 1::2, 1::2]
)
case(CONVOLUTIONS, "one axis", WITHIN)(
    lambda x: xpr.vmap(lambda row: jnp.convolve(row, TAPS))(x),
    lambda x: scipy.signal.convolve(x, TAPS[None]),
)
case(CONVOLUTIONS, "along the symbolic axis", VECTOR)(
    lambda v: jnp.convolve(v, TAPS), lambda v: np.convolve(v, TAPS)
)

POOLING = "pooling"
case(POOLING, "greatest", IMAGES)(
    lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    lambda x: x.reshape(-1, 3, 2, 3, 2, 2).max((2, 4)),
)
case(POOLING, "symbolic axes", ("2, 2*h, 2*w, 2", F32))(
    lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    lambda x: x.reshape(2, x.shape[1] // 2, 2, x.shape[2] // 2, 2, 2).sum((2, 4)),
)

CUMULATIVE = "cumulative sums, products, `cummax`, `cummin`, `cumlogsumexp`"
for axis in (0, 1):
    case(CUMULATIVE, f"sum {axis}", WITHIN)(
        lambda x, a=axis: lax.cumsum(x, a, reverse=True),
        lambda x, a=axis: np.flip(np.flip(x, a).cumsum(a), a),
    )
    case(CUMULATIVE, f"products {axis}", WITHIN)(
        lambda x, a=axis: jnp.cumprod(x, a), lambda x, a=axis: x.cumprod(a)
    )
    case(CUMULATIVE, f"max {axis}", NUMBERS)(
        lambda x, a=axis: lax.cummax(x, a), lambda x, a=axis: np.maximum.accumulate(x, a)
    )
    case(CUMULATIVE, f"bytes {axis}", NUMBERS)(
        lambda x, a=axis: jnp.cumsum(x.astype("uint8"), a, dtype="uint8"),
        lambda x, a=axis: x.astype("uint8").cumsum(a, dtype="uint8"),
    )
    case(CUMULATIVE, f"logsumexp {axis}", WITHIN)(
        lambda x, a=axis: lax.cumlogsumexp(x, a), lambda x, a=axis: np.logaddexp.accumulate(x, a)
    )

FOURIER = "Fourier transforms"
case(FOURIER, "of real numbers", WITHIN)(_spectrum, _np_spectrum)
case(FOURIER, "of two axes", MATRICES)(
    lambda x: jnp.fft.fft2(x).imag, lambda x: np.fft.fft2(x).imag
)

SORTING = "`sort`, `argsort`, `top_k`, `median`"
for axis in (0, 1):
    case(SORTING, f"sort {axis}", WITHIN)(
        lambda x, a=axis: jnp.sort(x, a), lambda x, a=axis: np.sort(x, a)
    )
    case(SORTING, f"argsort {axis}", WITHIN)(
        lambda x, a=axis: jnp.argsort(x, a), lambda x, a=axis: np.argsort(x, a, kind="stable")
    )
    case(SORTING, f"median {axis}", WITHIN)(
        lambda x, a=axis: jnp.median(x, a), lambda x, a=axis: np.median(x, a)
    )
case(SORTING, "top_k", WITHIN)(lambda x: lax.top_k(x, 3)[0], lambda x: -np.sort(-x)[:, :3])
case(SORTING, "a long axis", ("b, 150", F32))(lambda x: jnp.sort(x), lambda x: np.sort(x))

INDEXING = "`take`, `take_along_axis`, `x[i]`, `x.at[i].set`, embeddings, `one_hot`"
case(INDEXING, "embedding", NUMBERS)(lambda i: jnp.asarray(TABLE)[i], lambda i: TABLE[i])
case(INDEXING, "one_hot", LABELS)(lambda i: nn.one_hot(i, 11), lambda i: np.eye(11, dtype=F32)[i])
case(INDEXING, "columns", WITHIN)(lambda x: x[:, ORDER], lambda x: x[:, ORDER])
case(INDEXING, "take_along_axis", WITHIN, NUMBERS)(
    lambda x, i: jnp.take_along_axis(x, i, 1), lambda x, i: np.take_along_axis(x, i, 1)
)
case(INDEXING, "of labels", WITHIN, LABELS)(
    lambda x, i: x[jnp.arange(x.shape[0]), i], lambda x, i: x[np.arange(x.shape[0]), i]
)


def _without_columns(x: np.ndarray) -> np.ndarray:
    copy = x.copy()
    copy[:, ORDER] = 0
    return copy


case(INDEXING, "set", WITHIN)(lambda x: x.at[:, ORDER].set(0), _without_columns)

BLOCKS = "attention, blocks of transformers"
case(BLOCKS, "causal", TOKENS)(_attention(jnp, nn.softmax), _attention(np, scipy.special.softmax))
_np_heads = _heads(np, scipy.special.softmax)
case(BLOCKS, "heads under vmap", TOKENS)(
    xpr.vmap(_heads(jnp, nn.softmax)), lambda x: np.stack([_np_heads(row) for row in x])
)

LOOPS = "`scan`, `fori_loop`, `while_loop`, `cond`"
case(LOOPS, "scan", WITHIN)(_recurrent, _np_recurrent)
case(LOOPS, "scan along the symbolic axis", WITHIN)(
    lambda x: lax.scan(lambda c, row: (c + row, None), jnp.zeros(16), x)[0], lambda x: x.sum(0)
)
case(LOOPS, "cond", WITHIN)(
    lambda x: lax.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, x),
    lambda x: x * 2 if x.sum() > 0 else x - 1,
)
case(LOOPS, "while", WITHIN)(
    lambda x: lax.while_loop(lambda v: v.max() < 9, lambda v: v * 2 + 1, jnp.abs(x)),
    lambda x: _grown(np.abs(x)),
)


def _grown(x: np.ndarray) -> np.ndarray:
    while x.max() < 9:
        x = x * 2 + 1
    return x


FACTORS = "`cholesky`, `solve`, `inv`, `qr`, `eigh`, `svd`"
case(FACTORS, "cholesky", MATRICES)(
    lambda m: jnp.linalg.cholesky(m @ jnp.swapaxes(m, 1, 2) + jnp.eye(4)),
    lambda m: np.linalg.cholesky(m @ _swapped(m) + np.eye(4)),
)
case(FACTORS, "solve", MATRICES)(
    lambda m: jnp.linalg.solve(m + 9 * jnp.eye(4), m),
    lambda m: np.linalg.solve(m + 9 * np.eye(4), m),
)
case(FACTORS, "eigh", MATRICES)(
    lambda m: jnp.linalg.eigvalsh(m + jnp.swapaxes(m, 1, 2)),
    lambda m: np.linalg.eigvalsh(m + _swapped(m)),
)
case(FACTORS, "qr", MATRICES)(
    lambda m: jnp.abs(jnp.linalg.qr(m)[1]), lambda m: np.abs(np.linalg.qr(m)[1])
)

SHAPES = "`concatenate`, `stack`, `pad`, `roll`, slices, `reshape`, `repeat`"
for axis in (0, 1):
    case(SHAPES, f"pad {axis}", WITHIN)(
        lambda x, a=axis: jnp.pad(x, [(1, 2) if i == a else (0, 0) for i in (0, 1)]),
        lambda x, a=axis: np.pad(x, [(1, 2) if i == a else (0, 0) for i in (0, 1)]),
    )
    case(SHAPES, f"roll {axis}", WITHIN)(
        lambda x, a=axis: jnp.roll(x, 1, a), lambda x, a=axis: np.roll(x, 1, a)
    )
    case(SHAPES, f"concatenate {axis}", WITHIN)(
        lambda x, a=axis: jnp.concatenate([x, 2 * x], a),
        lambda x, a=axis: np.concatenate([x, 2 * x], a),
    )
case(SHAPES, "stack", WITHIN)(lambda x: jnp.stack([x, x * 2], 1), lambda x: np.stack([x, x * 2], 1))
case(SHAPES, "repeat", WITHIN)(lambda x: jnp.repeat(x, 2, 0), lambda x: np.repeat(x, 2, 0))
case(SHAPES, "reshape", WITHIN)(lambda x: x.reshape(-1), lambda x: x.reshape(-1))

ROWS = list(dict.fromkeys(c.row for c in CASES))


def argument(spec: tuple[str, Any], size: int) -> np.ndarray:
    """Values of that type: labels for integers; the second and third symbolic dimension are one
    more."""
    names: list[str] = []
    for name in re.findall(r"[a-z]", spec[0]):
        names += [name] if name not in names else []
    known = {name: size + i for i, name in enumerate(names)}
    shape = tuple(eval(d, {}, known) for d in spec[0].split(","))
    if spec[1] == I32:
        return rng.integers(0, 11, shape).astype(I32)
    return rng.standard_normal(shape).astype(F32)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_table(row: str) -> None:
    check([c for c in CASES if c.row == row], SIZES)


def check(cases: list[Case], sizes: tuple[int, ...], **options: Any) -> None:
    """Compares a bundle of all these functions with NumPy."""
    specs = list(dict.fromkeys(s for c in cases for s in c.specs))

    def together(*arguments: Any) -> list[Any]:
        known = dict(zip(specs, arguments, strict=True))
        return [c.function(*(known[s] for s in c.specs)) for c in cases]

    scope = SymbolicScope()
    structs = [xpr.ShapeDtypeStruct(symbolic_shape(s, scope=scope), d) for s, d in specs]
    model = Bundle(bundle_bytes(export(xpr.jit(together))(*structs), **options))
    for size in sizes:
        arguments = [argument(s, size) for s in specs]
        known = dict(zip(specs, arguments, strict=True))
        for one, found in zip(cases, model.call(*arguments), strict=True):
            expected = one.oracle(*(known[s] for s in one.specs))
            for a, b in zip(xpr.tree.leaves(found), xpr.tree.leaves(expected), strict=True):
                about = f"{one.name}, {size}"
                assert a.shape == np.shape(b), about
                np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4, err_msg=about)


VULKAN = ("columns", "of labels", "concatenate 1", "stack", "sum 0", "matrix times vector")


def test_symbolic_sizes_on_vulkan() -> None:
    """Arrays that are joined along the last axis came out wrong there, at every size."""
    vulkan_device()
    cases = [c for c in CASES if c.name in VULKAN]
    assert len(cases) == len(VULKAN)
    check(cases, (1, 7), targets="vulkan:device")


def test_joined_arrays_of_symbolic_size_come_out_wrong_on_vulkan(monkeypatch) -> None:
    device = vulkan_device()
    if not getattr(device, "is_software", False):
        pytest.skip(f"this is about the software device, not about {device.device_kind}")
    plain = functools.partial(general_graph, joins=True)
    monkeypatch.setattr(modules, "general_graph", lambda graphs, fitter, **_: plain(graphs, fitter))
    cases = [c for c in CASES if c.name == "stack"]
    with pytest.raises(AssertionError):  # else this is mended: `joins_symbolic_arrays` can go
        check(cases, (7,), targets="vulkan:device")


def test_the_table_of_the_page_is_the_one_that_is_tested() -> None:
    page = Path(__file__).parents[2] / "docs" / "deploy.md"
    section = page.read_text(encoding="utf-8").partition("## Symbolic dimensions\n")[2]
    listed = re.findall(r"^\| (.+?) \| .+ \|$", section.partition("\n## ")[0], re.MULTILINE)
    assert [name for name in listed if name not in ("operations", "---")] == ROWS


# ---- what is refused

REFUSED = {
    "fft": (
        lambda x: jnp.fft.fft(x, axis=0),
        r"a Fourier transform along an axis of symbolic dimension \(at .*_symbolic_sizes\.py:\d+\)",
    ),
    "qr": (
        lambda x: jnp.linalg.qr(x)[1],
        r"qr, of matrices of symbolic dimension, \(at "
        r".*\.py:\d+\)",
    ),
    "gather": (lambda x: x[:, ORDER % 2, ORDER % 4], r"stablehlo\.gather .* as a constant"),
    "unique": (lambda x: jnp.unique(x, size=4), "cannot be compiled|lowered in different ways"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_form_for_symbolic_dimensions(name: str) -> None:
    """It can be called and stored, but not compiled for all sizes; the error says what to do."""
    f, message = REFUSED[name]
    shape = "b, 4, 4" if name == "gather" else "b, 4"
    e = export(xpr.jit(f))(xpr.ShapeDtypeStruct(symbolic_shape(shape), F32))
    x = argument((shape, F32), 5)
    np.testing.assert_allclose(e.call(x), f(jnp.asarray(x)), rtol=1e-4, atol=1e-5)
    with pytest.raises(SizeDependenceError, match=message) as caught:
        bundle_bytes(e)
    assert "Export a bundle for each size, or one for arrays that are padded" in str(caught.value)


def test_what_cannot_be_exported_names_the_operation() -> None:
    struct = xpr.ShapeDtypeStruct(symbolic_shape("b"), F32)
    with pytest.raises(SizeDependenceError, match=r"different operations .* from '\w+' on"):
        export(xpr.jit(lambda x: jnp.searchsorted(x, 0.5, method="scan_unrolled")))(struct)
    with pytest.raises(SizeDependenceError, match=r"the operation scan .* in another way than by"):
        export(xpr.jit(lambda x: jnp.interp(0.5, x, x)))(struct)


def test_a_refusal_of_irees_compiler_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise CompileError(
            "no", stablehlo_path=None, diagnostics="error: cannot order", source_location=None
        )

    e = export(xpr.jit(lambda x: x * 2))(xpr.ShapeDtypeStruct(symbolic_shape("b"), F32))
    monkeypatch.setattr(compiling, "compile_module", refuse)
    with pytest.raises(
        SizeDependenceError, match=r"IREE cannot compile .* with symbolic dimensions"
    ):
        bundle_bytes(e)


def test_counts_that_depend_on_values() -> None:
    def f(x: xpr.Array) -> tuple[xpr.Array, ...]:
        places = jnp.nonzero(x > 0, size=4, fill_value=-1)[0]
        return places, jnp.unique(x, size=4), jnp.searchsorted(jnp.arange(4.0), x)

    e = export(xpr.jit(f))(xpr.ShapeDtypeStruct(symbolic_shape("b"), F32))
    call = Bundle(bundle_bytes(e)).call
    for n in SIZES:
        x = np.random.default_rng(n).integers(-2, 3, n).astype(np.float32)
        places, distinct, sorted_in = call(x)
        found = np.flatnonzero(x > 0)[:4]
        np.testing.assert_array_equal(places, [*found, *[-1] * (4 - len(found))])
        values = np.unique(x)[:4]
        np.testing.assert_array_equal(distinct, [*values, *[values[0]] * (4 - len(values))])
        np.testing.assert_array_equal(sorted_in, np.searchsorted(np.arange(4.0), x))
