"""Products of a few rows and a large matrix by kernels that come with xpr."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import needs_product_kernels
from tests.lowering.kernels_util import KINDS, lowered, results
from xpr.core.config import override
from xpr.lowering import prebuilt
from xpr.lowering.rules import _few_rows

RNG = np.random.default_rng(11)


def array(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.fixture
def for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the smallest products too, in small groups, so that there may be many."""
    for name in ("_LEAST", "_LEAST_DEPTH", "_LEAST_COLUMNS"):
        monkeypatch.setattr(_few_rows, name, 1)
    monkeypatch.setattr(_few_rows, "_GROUP_BYTES", 1 << 10)
    monkeypatch.setattr(_few_rows, "_BLOCK_BYTES", 1 << 8)
    monkeypatch.setattr(_few_rows, "_LEAST_BLOCK_BYTES", 1 << 7)


# Rows, contracted index, columns: around the vectors of 16, 8 and 4 lanes, and the rows and columns
# that are taken together.
SIZES = [
    *((1, 1, 1), (1, 16, 17), (1, 40, 33), (2, 15, 100), (3, 8, 9), (4, 7, 31), (5, 33, 64)),
    *((6, 100, 3), (9, 17, 70), (13, 64, 15), (1, 2100, 5), (7, 1030, 19), (19, 9, 23)),
]
# With the few rows first and second, and both operands in either order of axes.
SPECS = ["mk,kn->mn", "mk,nk->mn", "km,kn->mn", "km,nk->mn", "nk,km->nm", "kn,km->nm", "nk,mk->nm"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("for_all_sizes")
def test_products_of_all_sizes(kind: str, dtype: str) -> None:
    cases = [(spec, size) for spec in SPECS for size in SIZES]
    pairs = [
        [array(tuple(dict(zip("mkn", size, strict=True))[axis] for axis in axes), dtype)
         for axes in spec.split("->")[0].split(",")]
        for spec, size in cases
    ]  # fmt: skip

    def program(*args: Any) -> list[Any]:
        operands = zip(args[::2], args[1::2], strict=True)
        return [jnp.einsum(spec, *pair) for (spec, _), pair in zip(cases, operands, strict=True)]

    found = results(program, [x for pair in pairs for x in pair], kind, "xpr_dots")
    for (spec, size), pair, c in zip(cases, pairs, found, strict=True):
        wide = np.einsum(spec, *(x.astype(np.float64) for x in pair))
        bound = np.einsum(spec, *(np.abs(x).astype(np.float64) for x in pair))
        least = size[1] * np.finfo(dtype).eps * bound
        assert (np.abs(c - wide) <= least).all(), (spec, size)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("for_all_sizes")
def test_stacks_and_several_axes(kind: str) -> None:
    specs = {
        "bk,bkn->bn": ((3, 20), (3, 20, 35)),
        "bkn,bk->bn": ((3, 20, 35), (3, 20)),
        "bmk,bnk->bmn": ((3, 2, 17), (3, 50, 17)),
        "mbk,nbk->bmn": ((2, 3, 17), (40, 3, 17)),
        "kl,kln->n": ((5, 7), (5, 7, 19)),
        "nkl,kl->n": ((19, 5, 7), (5, 7)),
        "ak,kbc->abc": ((2, 17), (17, 3, 11)),
        "bnm,b->nm": ((30, 4, 5), (30,)),
    }
    operands = {s: [array(shape, "float32") for shape in shapes] for s, shapes in specs.items()}

    def program(*args: Any) -> list[Any]:
        pairs = zip(args[::2], args[1::2], strict=True)
        return [jnp.einsum(s, *pair) for s, pair in zip(specs, pairs, strict=True)]

    found = results(program, [x for pair in operands.values() for x in pair], kind, "xpr_sums")
    for (spec, pair), c in zip(operands.items(), found, strict=True):
        wide = np.einsum(spec, *(x.astype(np.float64) for x in pair))
        np.testing.assert_allclose(c, wide, rtol=1e-5, atol=1e-5, err_msg=spec)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("for_all_sizes")
def test_special_values_stay_in_their_rows_and_columns(kind: str) -> None:
    a, b = array((3, 40), "float32"), array((40, 35), "float32")
    a[1, 4], a[2, 0], b[7, 34], b[19, 2] = np.nan, np.inf, -np.inf, np.nan
    found = results(lambda a, b, c: (a @ b, a @ c.T), (a, b, b.T.copy()), kind, "xpr_dots")
    with np.errstate(invalid="ignore"):
        wide = np.stack([(row[:, None] * b).sum(0) for row in a])
    for c in found:
        np.testing.assert_array_equal(np.isnan(c), np.isnan(wide))
        np.testing.assert_array_equal(np.isinf(c), np.isinf(wide))
        finite = np.isfinite(wide)
        np.testing.assert_allclose(c[finite], wide[finite], rtol=1e-4, atol=1e-5)


@needs_product_kernels
def test_programs_run_and_are_differentiated() -> None:
    w, v = array((400, 300), "float32") * np.float32(0.05), array((400,), "float32")

    def loss(v: Any) -> Any:
        for _ in range(3):
            v = jnp.tanh(w @ jnp.tanh(v @ w))
        return jnp.sum(v**2)

    assert "xpr_sums_f32" in xpr.jit(loss).lower(v).as_text("iree")
    wide, found = v.astype(np.float64), np.asarray(xpr.jit(xpr.grad(loss))(v))

    def of(v: np.ndarray) -> np.ndarray:
        for _ in range(3):
            v = np.tanh(w.astype(np.float64) @ np.tanh(v @ w.astype(np.float64)))
        return (v**2).sum()

    for i in (0, 17, 399):
        ahead = np.zeros(400)
        ahead[i] = 1e-6
        slope = (of(wide + ahead) - of(wide - ahead)) / 2e-6
        assert abs(found[i] - slope) < 1e-3 * (1 + abs(slope))


def test_other_products_are_the_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    vector, matrix, small = array((300,), "float32"), array((300, 300), "float32"), np.ones((8, 8))
    kind = "products_avx2"
    with override("enable_x64", True):
        assert "xpr_sums" not in lowered(lambda a: a[0] @ a, (small,), kind).text
    halves = matrix.astype("float16")
    assert "xpr_sums" not in lowered(lambda v, a: v @ a, (halves[0], halves), kind).text
    assert "xpr_sums" not in lowered(lambda v, a: v @ a, (vector, matrix), None).text
    # What is computed of a matrix is computed where the compiler's code reads it.
    scaled = lowered(lambda v, a: v @ (2 * a.T).T, (vector, matrix), kind)
    assert "xpr_sums" not in scaled.text
    # Objects that are older than these files do not have the kernels.
    monkeypatch.setattr(prebuilt, "has", lambda file, function: False)
    assert "xpr_sums" not in lowered(lambda v, a: v @ a, (vector, matrix), kind).text
    empty = np.ones((0, 300), np.float32)
    np.testing.assert_array_equal(xpr.jit(jnp.matmul)(empty, matrix), np.ones((0, 300)))
    np.testing.assert_array_equal(xpr.jit(jnp.matmul)(empty.T, empty), np.zeros((300, 300)))
