"""Products of matrices by kernels that come with xpr."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import Call, Store, needs_product_kernels, run
from tests.lowering.kernels_util import CPU, KINDS, lowered, results
from xpr import export, lax
from xpr.export import load
from xpr.export.targets import export_target
from xpr.export.writing import bundle_bytes
from xpr.lowering import prebuilt
from xpr.lowering.iree import driver, objects
from xpr.lowering.iree.stopwatch import Stopwatch
from xpr.lowering.rules import _packed_products

RNG = np.random.default_rng(7)


def array(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.fixture
def for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packs the smallest products too, so that there may be many."""
    monkeypatch.setattr(_packed_products, "_WORK", {"float32": (1, 1), "float64": (1, 1)})
    monkeypatch.setattr(_packed_products, "_LEAST", 1)


# Around the tiles of 14 rows and 32 or 16 columns, of 6 and of 16 or 8, and the depths at which a
# sum is put aside.
SIZES = [
    *((1, 1, 1), (14, 16, 32), (15, 17, 33), (13, 15, 31), (6, 8, 16), (7, 9, 17)),
    *((28, 256, 64), (27, 257, 65), (29, 385, 40), (300, 5, 70), (5, 600, 3), (130, 70, 290)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("for_all_sizes")
def test_products_of_all_sizes(kind: str, dtype: str) -> None:
    pairs = [(array((m, k), dtype), array((k, n), dtype)) for m, k, n in SIZES]

    def program(*args: Any) -> list[Any]:
        return [a @ b for a, b in zip(args[::2], args[1::2], strict=True)]

    found = results(program, [x for pair in pairs for x in pair], kind)
    for (a, b), c in zip(pairs, found, strict=True):
        wide = a.astype(np.float64) @ b.astype(np.float64)
        bound = (np.abs(a).astype(np.float64) @ np.abs(b)) * np.finfo(dtype).eps
        assert (np.abs(c - wide) <= a.shape[1] * bound).all(), a.shape


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("for_all_sizes")
def test_operands_in_any_order_of_axes(kind: str) -> None:
    specs = {
        "mk,kn->mn": ((20, 33), (33, 40)),
        "km,kn->mn": ((33, 20), (33, 40)),
        "mk,nk->mn": ((20, 33), (40, 33)),
        "km,nk->mn": ((33, 20), (40, 33)),
        "bmk,bkn->bmn": ((3, 20, 17), (3, 17, 19)),
        "bmk,bnk->bmn": ((3, 20, 17), (3, 19, 17)),
        "mbk,nbk->bmn": ((20, 3, 17), (19, 3, 17)),
        "abk,kn->abn": ((4, 5, 17), (17, 19)),
        "abkl,kln->abn": ((4, 5, 3, 7), (3, 7, 19)),
        "akbl,lnk->abn": ((4, 3, 5, 7), (7, 19, 3)),
        "abcd,bdef->acef": ((2, 3, 4, 5), (3, 5, 6, 7)),
    }
    operands = {s: [array(shape, "float32") for shape in shapes] for s, shapes in specs.items()}

    def program(*args: Any) -> list[Any]:
        return [
            jnp.einsum(s, *pair)
            for s, pair in zip(specs, zip(args[::2], args[1::2], strict=True), strict=True)
        ]

    found = results(program, [x for pair in operands.values() for x in pair], kind)
    for (spec, pair), c in zip(operands.items(), found, strict=True):
        wide = np.einsum(spec, *(x.astype(np.float64) for x in pair))
        np.testing.assert_allclose(c, wide, rtol=1e-5, atol=1e-5, err_msg=spec)


@pytest.mark.parametrize("kind", KINDS)
def test_halves_are_summed_in_float32(kind: str) -> None:
    a, b = array((220, 250), "float16"), array((250, 240), "float16")
    (found,) = results(
        lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.float32), (a, b), kind
    )
    wide = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(found, wide, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_transposed_operands_are_read_where_they_are(kind: str) -> None:
    a, b = array((260, 250), "float32"), array((240, 260), "float32")
    program = lowered(lambda a, b: a.T @ b.T, (a, b), kind)
    # What was transposed has no use any more.
    text = program.text
    dispatch = next(line for line in text.splitlines() if "@xpr_pack_f32[" in line)
    assert "%arg0, %arg1" in dispatch
    (found,) = results(lambda a, b: a.T @ b.T, (a, b), kind)
    wide = a.T.astype(np.float64) @ b.T.astype(np.float64)
    np.testing.assert_allclose(found, wide, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("for_all_sizes")
def test_special_values_stay_in_their_rows_and_columns(kind: str, dtype: str) -> None:
    a, b = array((17, 20), dtype), array((20, 35), dtype)
    a[3, 4], a[16, 0], b[7, 34], b[19, 2] = np.nan, np.inf, -np.inf, np.nan
    (found,) = results(lambda a, b: a @ b, (a, b), kind)
    with np.errstate(invalid="ignore"):
        wide = np.stack([(row[:, None] * b).sum(0) for row in a])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wide))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(wide))
    finite = np.isfinite(wide)
    np.testing.assert_allclose(found[finite], wide[finite], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_those_of_fused_operations_in_order(kind: str) -> None:
    # The same however the result is cut in blocks and tiles, and whatever the processor.
    a, b = array((200, 777), "float32"), array((777, 130), "float32")
    (found,) = results(lambda a, b: a @ b, (a, b), kind)
    rows, columns = [0, 13, 14, 199], [0, 15, 16, 31, 32, 129]
    for i in rows:
        for j in columns:
            total = np.float32(0)
            for x, y in zip(a[i], b[:, j], strict=True):
                # The product of two numbers of 24 bits is exact in float64; so is the sum, but
                # for double rounding, which these numbers do not meet.
                total = np.float32(np.float64(x) * np.float64(y) + np.float64(total))
            assert found[i, j] == total


def test_other_products_are_the_compilers() -> None:
    small = array((8, 8), "float32")
    whole = np.ones((300, 300), np.int32)
    for x in (small, whole):
        assert "xpr_product" not in lowered(lambda x: x @ x, (x,), "products_avx2").text
    assert "xpr_product" not in lowered(lambda x: x @ x, (array((300, 300), "float32"),), None).text


@needs_product_kernels
def test_programs_run_as_with_the_compilers_products() -> None:
    x, w = array((64, 300), "float32"), array((300, 300), "float32")

    def loss(w: Any) -> Any:
        def step(h: Any, _: Any) -> tuple[Any, None]:
            return jnp.tanh(h @ w), None

        final, _ = lax.scan(step, jnp.asarray(x), None, length=3)
        return jnp.sum(jnp.tanh(jnp.tanh(x @ w) @ w) ** 2) + jnp.sum(final)

    assert "xpr_product_f32" in xpr.jit(xpr.grad(loss)).lower(w).as_text("iree")
    found = np.asarray(xpr.jit(xpr.grad(loss))(w))

    def of(w: np.ndarray) -> np.ndarray:
        h1 = np.tanh(x @ w)
        h2 = np.tanh(h1 @ w)
        d2 = 2 * h2 * (1 - h2**2)
        total = h1.T @ d2 + x.T @ ((d2 @ w.T) * (1 - h1**2))
        states = [x.astype(np.float64)]
        for _ in range(3):
            states.append(np.tanh(states[-1] @ w))
        d = np.ones_like(states[-1])
        for before, after in zip(states[-2::-1], states[:0:-1], strict=True):
            d = d * (1 - after**2)
            total = total + before.T @ d
            d = d @ w.T
        return total

    wide = of(w.astype(np.float64))
    assert np.abs(found - wide).max() <= 1e-4 * np.abs(wide).max()


@pytest.mark.parametrize("kind", KINDS)
def test_all_ways_of_linking_give_the_same_bits(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a = array((250, 300), "float32")
    program = lowered(lambda a: jnp.tanh(a @ a.T), (a,), kind)

    def compiled(store: Store | None = None) -> np.ndarray:
        watch = Stopwatch()
        module, said = driver.compile_module(
            program.text,
            CPU.flag_sets(program.hints)[0],
            name="program",
            verify=False,
            dispatches=store,
            watch=watch,
        )
        assert module is not None, said
        if store is not None:
            # The kernels need no compile.
            assert (watch.kept, watch.dispatches) == (2, 3)
        status, (answer,) = run(module, [Call("main", [a])])
        assert (status, answer.error) == (0, "")
        return answer.results[0]

    by_libraries, by_own_linker = compiled(Store()), compiled()
    monkeypatch.setattr(objects, "is_possible", lambda flags: False)
    by_the_compilers = compiled()
    # As where the shell would take the folder's name for several.
    monkeypatch.setattr(prebuilt, "_PLAIN", re.compile("nothing"))
    prebuilt._place.cache_clear()
    np.testing.assert_array_equal(by_libraries, compiled())
    prebuilt._place.cache_clear()
    np.testing.assert_array_equal(by_libraries, by_own_linker)
    np.testing.assert_array_equal(by_libraries, by_the_compilers)
    wide = np.tanh(a.astype(np.float64) @ a.T.astype(np.float64))
    np.testing.assert_allclose(by_libraries, wide, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_bundles_hold_the_kernels(kind: str) -> None:
    level = {"products_avx512": "x86_64-v4", "products_avx2": "x86_64-v3"}[kind]
    target = export_target(level).target
    assert target.product_kernels is not None
    assert target.product_kernels() == kind
    a = array((256, 300), "float32")
    exported = export.export(xpr.jit(lambda a: a @ a.T))(a)
    bundle = load(bundle_bytes(exported, targets=[level]))
    wide = a.astype(np.float64) @ a.T.astype(np.float64)
    np.testing.assert_allclose(np.asarray(bundle(a)), wide, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("folder", ["/usr/lib/xpr/", "/home/a user/xpr/"])
def test_a_program_is_the_same_wherever_xpr_is_installed(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f'objects([#hal.executable.object<{{path = "{prebuilt.path("products_avx2")}"}}>])'
    monkeypatch.setattr(prebuilt, "_FOLDER", folder)
    prebuilt._place.cache_clear()
    placed = prebuilt.with_objects(text)
    assert (folder in placed) == (" " not in folder)
    assert " user" not in placed
    assert prebuilt.without_objects(placed) == text
    prebuilt._place.cache_clear()


def test_symbolic_sizes_are_no_numbers_of_kernels() -> None:
    (rows,) = export.symbolic_shape("b")
    w = array((512, 512), "float32")
    exported = export.export(xpr.jit(lambda x, w: x @ w))(
        xpr.ShapeDtypeStruct((rows, 512), jnp.float32), w
    )
    for n in (3, 100):
        x = array((n, 512), "float32")
        wide = x.astype(np.float64) @ w.astype(np.float64)
        np.testing.assert_allclose(np.asarray(exported.call(x, w)), wide, rtol=1e-3, atol=1e-3)
