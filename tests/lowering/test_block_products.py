"""Products with blocks in low precision by kernels that come with xpr."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import Call, run
from tests.nn.block_layouts import decoded, random_blocks, rounded
from xpr.lowering import module as lowering
from xpr.lowering import prebuilt, rules
from xpr.lowering.iree import driver
from xpr.lowering.targets import get_target
from xpr.nn.quantize import QuantizedArray, from_blocks
from xpr.runtimes import processor

rules.load_all()
CPU = get_target("cpu")
RNG = np.random.default_rng(5)

NEEDS = {"vnni": {"avx512f", "avx512bw", "avx512_vnni"}, "int8": {"avx2", "fma", "f16c"}}
KINDS = [
    pytest.param(
        kind,
        marks=pytest.mark.skipif(
            prebuilt.content(f"products_{kind}") is None
            or not needed.issubset(processor.description().split()),
            reason="needs the native part, for x86-64, and a processor of this kind",
        ),
    )
    for kind, needed in NEEDS.items()
]


def lowered(function: Callable[..., Any], args: Sequence[Any], kind: str | None) -> Any:
    target = dataclasses.replace(CPU, block_kernels=None if kind is None else lambda: kind)
    return lowering.lower_jaxpr_to_module(xpr.make_jaxpr(function)(*args), target, name="program")


def results(function: Callable[..., Any], args: Sequence[Any], kind: str) -> list[Any]:
    """What IREE's own runtime gives."""
    program = lowered(function, args, kind)
    assert "xpr_blocks" in program.text
    module, said = driver.compile_module(
        program.text, CPU.flag_sets(program.hints)[0], name="program", verify=True
    )
    assert module is not None, said
    status, (answer,) = run(module, [Call("main", list(xpr.tree.leaves(args)))])
    assert (status, answer.error) == (0, "")
    return answer.results


# Around the panels of 16 rows, the rows that are multiplied together, the four blocks that are, and
# the 64 blocks after which a panel is done.
SIZES = [
    *((1, 1, 32), (1, 16, 128), (1, 300, 160), (2, 17, 96), (3, 15, 256), (4, 16, 128)),
    *((5, 33, 224), (8, 31, 2048), (9, 20, 2080), (19, 18, 4256)),
]


@pytest.mark.parametrize("layout", ["q8_0", "q4_0"])
@pytest.mark.parametrize("kind", KINDS)
def test_products_of_all_sizes(kind: str, layout: str) -> None:
    xs = [RNG.standard_normal((m, k)).astype(np.float32) for m, _, k in SIZES]
    xs[1][:] = 0
    data = [random_blocks(RNG, layout, (n, k)) for _, n, k in SIZES]

    def program(xs: list[Any], data: list[Any]) -> list[Any]:
        return [x @ from_blocks(w, layout).T for x, w in zip(xs, data, strict=True)]

    found = results(lambda *a: program(list(a[:10]), list(a[10:])), [*xs, *data], kind)
    for x, w, y in zip(xs, data, found, strict=True):
        wide, given = decoded(layout, w), rounded(x)
        # A number half-way between two integers may be rounded to either one.
        step = np.abs(x).max() / 127
        bound = 1e-5 * (np.abs(given) @ np.abs(wide).T) + step * np.abs(wide).max() * 1.01
        assert (np.abs(y - given @ wide.T) <= bound).all(), (x.shape, w.shape)
        assert np.median(np.abs(y - given @ wide.T)) <= 1e-5 * np.abs(given @ wide.T).max() + 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_finite_gives_nan_in_its_row_alone(kind: str) -> None:
    x = RNG.standard_normal((6, 64)).astype(np.float32)
    x[1, 3], x[4, 40], x[5, 0] = np.inf, np.nan, 1e-42
    w = random_blocks(RNG, "q8_0", (20, 64))
    for rows in (x, x[:2]):
        (y,) = results(lambda x, w: x @ from_blocks(w, "q8_0").T, (rows, w), kind)
        strange = ~np.isfinite(rows).all(1)
        assert np.isnan(y[strange]).all()
        assert np.isfinite(y[~strange]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_operands_in_any_order_of_axes(kind: str) -> None:
    x, w = RNG.standard_normal((3, 5, 64)).astype("f4"), random_blocks(RNG, "q4_0", (2, 7, 64))
    specs = ["abk,ijk->abij", "abk,ijk->ijab", "bak,ijk->baij"]
    found = results(
        lambda x, w: [jnp.einsum(s, x, from_blocks(w, "q4_0")) for s in specs], (x, w), kind
    )
    for spec, y in zip(specs, found, strict=True):
        wide = np.einsum(spec, rounded(x), decoded("q4_0", w))
        np.testing.assert_allclose(y, wide, rtol=1e-4, atol=1e-4, err_msg=spec)


def test_where_the_kernels_do_not_fit_products_are_computed_as_any_other() -> None:
    kind = "int8"
    w = from_blocks(random_blocks(RNG, "q8_0", (64, 64)), "q8_0")
    exact = from_blocks(w.parts[0], "q8_0", activations="float32")
    x = RNG.standard_normal((3, 64)).astype("f4")
    cases: list[tuple[Callable[..., Any], QuantizedArray]] = [
        (lambda x, w: x @ w, w),  # along the other axis
        (lambda x, w: x @ w.T, exact),
        (lambda x, w: jnp.matmul(x, w.T, precision="highest"), w),
    ]
    for function, matrix in cases:
        assert "xpr_blocks" not in lowered(function, (x, matrix), kind).text
    assert "xpr_blocks" in lowered(lambda x, w: x @ w.T, (x, w), kind).text
    assert "xpr_blocks" not in lowered(lambda x, w: x @ w.T, (x, w), None).text
