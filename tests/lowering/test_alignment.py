"""Parts of arrays that begin where no vector of elements does, on devices that run SPIR-V."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.harness import run_compiled, run_reference
from tests.lowering.vulkan_util import does_not_compile, run_on, vulkan_device
from xpr import lax
from xpr.core.config import override
from xpr.lowering import passes
from xpr.lowering.ir.alignment import is_misaligned

MENDED = "IREE has mended this: `lowering/passes/misaligned_slices.py` can go"
F32 = np.dtype(np.float32)


@pytest.mark.parametrize(
    ("whole", "part", "starts", "expected"),
    [
        ((48, 64), (48, 32), (0, 2), True),
        ((48, 64), (48, 32), (0, 8), False),
        ((48, 64), (48, 31), (0, 2), False),
        ((48, 66), (48, 32), (0, 2), False),
        ((48, 66), (48, 32), (0, 1), True),
        ((48, 64), (5, 64), (3, 0), False),
        ((48, 33, 2), (48, 16, 2), (0, 1, 0), False),
        ((48, 32, 2), (48, 16, 2), (0, 1, 0), True),
        ((48, 64, 1), (48, 32, 1), (0, 2, 0), True),
        ((48, 64), (48, 32), (0, None), True),
        ((48, 64), (8, 64), (None, 0), False),
        ((1000,), (800,), (2,), True),
        ((1000,), (4,), (2,), False),
        ((0, 64), (0, 32), (0, 2), False),
    ],
)
def test_what_is_misaligned(
    whole: tuple[int, ...], part: tuple[int, ...], starts: tuple[int | None, ...], expected: bool
) -> None:
    assert is_misaligned(F32, whole, part, starts) is expected


def test_vectors_of_bytes_are_longer() -> None:
    assert is_misaligned(np.dtype(np.int8), (8, 64), (8, 32), (0, 4))
    assert is_misaligned(np.dtype(np.float16), (8, 64), (8, 32), (0, 4))
    assert not is_misaligned(np.dtype(np.float64), (8, 64), (8, 32), (0, 4))


def test_a_part_is_read_from_the_wrong_place() -> None:
    x = np.arange(48 * 64, dtype=F32).reshape(48, 64)
    body = """
      %part = stablehlo.slice %a0 [0:48, 2:34] : (tensor<48x64xf32>) -> tensor<48x32xf32>
      %r = stablehlo.add %part, %part : tensor<48x32xf32>
      %r
    """
    found = run_on(vulkan_device(), body, [x], np.zeros((48, 32), F32))
    assert not np.array_equal(found, 2 * x[:, 2:34]), MENDED
    np.testing.assert_array_equal(found, 2 * x[:, :32])


def test_without_the_pass_a_part_is_misplaced(monkeypatch: pytest.MonkeyPatch) -> None:
    vulkan_device()
    monkeypatch.delitem(passes.PASSES, "misaligned_slices")
    x = np.arange(48 * 64, dtype=F32).reshape(48, 64)
    ((found,),) = run_compiled([(lambda x: x[:, 2:34] * 2, (x,))], "vulkan")
    np.testing.assert_array_equal(found, 2 * x[:, :32], MENDED)


def test_strides_of_single_elements_do_not_compile() -> None:
    """Where the array lies behind another one in memory."""
    x = np.ones((8, 8), F32)
    half = "tensor<8x{0}xf32>) -> tensor<8x{1}xf32>"
    lines = []
    for n, name in ((8, "a0"), (4, "h4"), (2, "h2")):
        text = half.format(n, n // 2)
        lines += [
            f"%e{n} = stablehlo.slice %{name} [0:8, 0:{n}:2] : ({text}",
            f"%o{n} = stablehlo.slice %{name} [0:8, 1:{n}:2] : ({text}",
            f"%h{n // 2} = stablehlo.add %e{n}, %o{n} : tensor<8x{n // 2}xf32>",
        ]
    with does_not_compile():
        run_on(vulkan_device(), "\n".join([*lines, "%h1"]), [x], np.zeros((8, 1), F32))


def test_without_the_pass_strides_of_single_elements_do_not_compile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vulkan_device()
    x = np.ones((8, 8), F32)

    def halved(x: Any) -> Any:
        for _ in range(3):
            x = x[:, ::2] + x[:, 1::2]
        return x

    ((found,),) = run_compiled([(halved, (x,))], "vulkan")
    np.testing.assert_array_equal(found, np.full((8, 1), 8))
    monkeypatch.delitem(passes.PASSES, "unit_strides")
    with does_not_compile():
        run_compiled([(halved, (x,))], "vulkan")


def _updated(x: Any) -> Any:
    """What is cut is updated behind it, in a loop and outside of it."""

    def step(i: Any, y: Any) -> Any:
        part = y[:, 1:33] * 0.5
        return y.at[:, :32].set(part + y[:, 32:64]).at[0, i].add(1)

    y = jnp.sin(x)
    part = y[:, 1:33]
    return lax.fori_loop(0, 3, step, y.at[:, :40].set(1)), part * 2


Function = Callable[[Any], Any]
PROGRAMS: dict[str, Function] = {
    "slice": lambda x: x[:, 1:33] * 2,
    "computed": lambda x: (x * x)[:, 2:34],
    "two": lambda x: x[:, 1:33] * x[:, 2:34],
    "rows": lambda x: x[1:33].T @ x[1:33],
    "columns": lambda x: x[:, 1:33] @ x[:32, 2:34],
    "middle": lambda x: x.reshape(x.shape[0], 2, -1)[:, 1, 1:29] + 1,
    "merged": lambda x: x.reshape(x.shape[0], -1, 2)[:, 1:17] * 3,
    "reduction": lambda x: x[:, 1:33].sum(1),
    "softmax": lambda x: xpr.nn.softmax(x[:, 3:35]),
    "mapped": xpr.vmap(lambda row: row[1:33] * row[2:34]),
    "padded": lambda x: jnp.pad(x * x, ((0, 0), (2, 2))),
    "cropped": lambda x: lax.pad(x * x, jnp.zeros((), x.dtype), ((0, 0, 0), (-2, 6, 0))) + 1,
    "found": lambda x: lax.dynamic_slice_in_dim(x, jnp.argmax(x[0, :2]) + 1, 32, 1) * 2,
    "updated": _updated,
    "added": lambda x: x.at[:, 2:34].add(x[:, :32]),
    "called": lambda x: xpr.jit(lambda part: part * 2)(xpr.jit(lambda y: y + 1)(x)[:, 1:33]),
    "looped": lambda x: lax.scan(lambda c, row: (c + row[1:33], c[:4]), x[0, :32], x),
    "heat": lambda x: x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:],
    "gradient": xpr.grad(lambda x: (jnp.sin(x[:, 1:33]) * x[:, 2:34]).sum()),
    "running": lambda x: lax.associative_scan(jnp.add, x, axis=1),
}


@pytest.mark.parametrize("shape", [(48, 64), (64, 100)])
def test_programs_of_parts(shape: tuple[int, int]) -> None:
    vulkan_device()
    x = np.random.default_rng(7).normal(size=shape).astype(F32)
    cases = [(lambda x, f=f: xpr.tree.leaves(f(x)), (x,)) for f in PROGRAMS.values()]
    for name, found, expected in zip(
        PROGRAMS, run_compiled(cases, "vulkan"), run_reference(cases), strict=True
    ):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=name)


def test_parts_of_every_width() -> None:
    vulkan_device()
    rng = np.random.default_rng(8)
    cases, expected = [], []
    for dtype in ("int8", "uint8", "int16", "float16", "int32", "float64", "complex64"):
        for columns in (64, 66):
            x = rng.integers(0, 50, (16, columns)).astype(dtype)
            for start in (1, 2, 4, 6, 8):

                def f(x: Any, start: int = start) -> Any:
                    return x[:, start : start + 32] + x[:, start : start + 32]

                cases.append((f, (x,)))
                expected.append(2 * x[:, start : start + 32])
    with override("enable_x64", True):
        found = run_compiled(cases, "vulkan")
    for (a,), b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
