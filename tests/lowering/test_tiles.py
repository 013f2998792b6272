"""Tiles are smaller where that compiles faster and runs no slower."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import result
from xpr.lowering import module as lowering
from xpr.lowering import rules
from xpr.lowering.iree import driver, tiles, translation
from xpr.lowering.iree.dispatches import Nowhere
from xpr.lowering.iree.mlir import Mlir
from xpr.lowering.iree.post_passes import Change
from xpr.lowering.iree.versions.base import IreeVersion
from xpr.lowering.targets import get_target

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="tiles were measured on x86-64, where dispatches are compiled in this way",
)

rules.load_all()
CPU = get_target("cpu")
RNG = np.random.default_rng(8)


def softmax(x: Any) -> Any:
    return xpr.nn.softmax(x)


def standardized(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def places(x: Any) -> Any:
    return jnp.argmax(x, -1)


def sums(x: Any) -> Any:
    return x.sum(-1)


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def numpy_standardized(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


ROWS = r"vector_common_parallel = \[(\d+)[,\]]"
DEPTHS = r"vector_reduction = \[0, 0, (?:0, )*(\d+)\]"


def compiled(function: Callable[..., Any], *args: Any, tile: str = ROWS) -> tuple[bytes, set[str]]:
    """The module, and the tiles of a kind that its dispatches have."""
    lowered = lowering.lower_jaxpr_to_module(xpr.make_jaxpr(function)(*args), CPU, name="tiled")
    found: set[str] = set()

    def look(mlir: Mlir, module: int) -> None:
        found.update(re.findall(tile, mlir.printed(module)))

    module, said = driver.compile_module(
        lowered.text,
        CPU.flag_sets(lowered.hints)[0],
        name="program",
        verify=False,
        changes=[Change("look", 1, tiles.PHASE, look)],
    )
    assert module is not None, said
    return module, found


@pytest.mark.parametrize(
    ("function", "expected", "rows"),
    [
        (softmax, numpy_softmax, "4"),
        (standardized, numpy_standardized, "1"),
        (places, lambda x: x.argmax(-1), "4"),
        (sums, lambda x: x.sum(-1), "8"),
    ],
)
def test_rows_by_the_length_of_the_formula(
    function: Callable[..., Any], expected: Callable[[np.ndarray], np.ndarray], rows: str
) -> None:
    # 13 times 32 rows: as many as a tile of all three sizes divides.
    for shape in ((416, 128), (64, 1024)):
        x = RNG.standard_normal(shape).astype(np.float32)
        module, found = compiled(function, x)
        assert found == {rows}
        reference = expected(x.astype(np.float64))
        np.testing.assert_allclose(result(module, x), reference, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("shape", [(0, 8), (3, 1), (7, 5), (50, 33)])
def test_rows_that_no_tile_divides(shape: tuple[int, int]) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    for function, expected in ((softmax, numpy_softmax), (standardized, numpy_standardized)):
        found = np.asarray(xpr.jit(function)(x))
        reference = expected(x.astype(np.float64))
        np.testing.assert_allclose(found, reference, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("function", "shapes", "depths"),
    [
        (lambda x, y: x @ y, [(64, 96), (96, 10)], {"4"}),
        (lambda x, y: jnp.tanh(x @ y + 1.0), [(7, 48), (48, 33)], {"4"}),
        (lambda x, y: x @ y, [(3, 16, 32), (3, 32, 24)], {"4"}),
        (lambda x, y: x.T @ y, [(96, 64), (96, 10)], {"8"}),
        (lambda x, y: x @ y.T, [(64, 96), (32, 96)], {"16"}),
    ],
)
def test_products_are_less_deep_and_give_the_same_bits(
    function: Callable[..., Any],
    shapes: list[tuple[int, ...]],
    depths: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    args = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    module, found = compiled(function, *args, tile=DEPTHS)
    assert found == depths
    monkeypatch.setattr(tiles, "smaller_tiles", lambda mlir, module: None)
    other, found = compiled(function, *args, tile=DEPTHS)
    assert found == {"16"}
    answer = result(module, *args)
    np.testing.assert_array_equal(answer, result(other, *args))
    reference = function(*(x.astype(np.float64) for x in args))
    np.testing.assert_allclose(answer, np.asarray(reference), rtol=2e-5, atol=2e-5)


def several(x: Any, y: Any) -> Any:
    """A program of several dispatches, one with another number format and one with a product."""
    a = jnp.tanh(x).sum(0)
    b = softmax(x @ x.T)
    return a, b, (y * 2 + 1).astype(jnp.float32).max(-1), jnp.cumsum(x, 0), x.std(-1)


@pytest.mark.parametrize("dtype", [np.float16, "bfloat16"])
def test_translation_at_once_gives_what_one_by_one_gives(
    dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = RNG.standard_normal((48, 40)).astype(np.float32)
    y = jnp.asarray(x).astype(dtype)
    lowered = lowering.lower_jaxpr_to_module(xpr.make_jaxpr(several)(x, y), CPU, name="several")
    flags = CPU.flag_sets(lowered.hints)[0]
    asked: list[bool] = []
    passes = translation.passes

    def module(*, at_once: bool) -> bytes:
        def chosen(flags: Any, version: IreeVersion) -> str | None:
            asked.append(at_once)
            return passes(flags, version) if at_once else None

        monkeypatch.setattr(translation, "passes", chosen)
        made, said = driver.compile_module(
            lowered.text, flags, name="program", verify=False, dispatches=Nowhere()
        )
        assert made is not None, said
        return made

    assert module(at_once=True) == module(at_once=False)
    assert asked == [True, False]
