"""``python -m benchmarks.hazards``: how much slower the forms are that the lowering avoids.

Each row compiles a form that IREE runs slowly and the one that xpr writes in its place, checks both
results and prints the ratio of their times. A ratio near 1 means that IREE has mended it, and that
the guard in the lowering can go. The exit status is 1 if a result is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.lowering.iree_util import LESS, Call, answers, barrier, function
from xpr.lowering.targets.flags import ProgramHints, llvm_cpu_flag_sets

Array = np.ndarray[Any, Any]

_PLAIN = tuple(llvm_cpu_flag_sets(ProgramHints())[0])
_DATA_TILING = tuple(llvm_cpu_flag_sets(ProgramHints(matmul_size=(1024, 1024, 1024)))[0])
_REPEAT = 9
_RNG = np.random.default_rng(20260731)


@dataclass(frozen=True)
class Form:
    """A function of StableHLO named ``f``, and what it gives for its arguments."""

    text: str
    arguments: Sequence[Array]
    expected: Array
    flags: tuple[str, ...] = _PLAIN

    def seconds(self) -> float:
        """The best time of a call. Raises AssertionError if its result is wrong."""
        (found,) = answers(self.text, [Call("f", list(self.arguments), _REPEAT)], self.flags)
        assert not found.error, found.error
        np.testing.assert_allclose(found.results[0], self.expected, rtol=1e-5)
        return found.seconds


@dataclass(frozen=True)
class Pair:
    """Two forms of one program, or a program and a larger one; the ratio that time should have."""

    name: str
    slow: Form
    quick: Form
    fair: float = 1.0


def _sort(n: int) -> Form:
    vector = f"tensor<{n}xf32>"
    body = f'%r = "stablehlo.sort"(%x) {LESS} {{dimension = 0 : i64}} : ({vector}) -> {vector}\n'
    x = _RNG.random(n, dtype=np.float32)
    return Form(
        function("f", f"%x: {vector}", vector, f"{body}{barrier('%x', vector)}%r"), [x], np.sort(x)
    )


def _top_k(k: int) -> Form:
    x = np.random.default_rng(1).random(131_072, dtype=np.float32)
    pair = f"tensor<{k}xf32>, tensor<{k}xi32>"
    body = f"%v, %i = chlo.top_k(%x, k = {k}) : tensor<131072xf32> -> ({pair})\n%v, %i"
    return Form(function("f", "%x: tensor<131072xf32>", pair, body), [x], np.sort(x)[::-1][:k])


def _matrix_vector(flags: tuple[str, ...]) -> Form:
    matrix, vector = "tensor<1024x1024xf32>", "tensor<1024xf32>"
    body = (
        f"%r = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : "
        f"({matrix}, {vector}) -> {vector}\n%r"
    )
    rng = np.random.default_rng(2)
    a, x = rng.random((1024, 1024), np.float32), rng.random(1024, np.float32)
    text = function("f", f"%a: {matrix}, %x: {vector}", vector, body)
    return Form(text, [a, x], a.astype(float) @ x, flags)


_X, _W, _Y = "tensor<1x64x18x18xf32>", "tensor<64x64x3x3xf32>", "tensor<1x64x16x16xf32>"
_XT, _WT, _YT = "tensor<1x18x18x64xf32>", "tensor<3x3x64x64xf32>", "tensor<1x16x16x64xf32>"


def _convolution(body: str) -> Form:
    attributes = "window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
    text = function("f", f"%x: {_X}, %w: {_W}", _Y, body.replace("ATTRIBUTES", attributes))
    arguments = [np.ones(s, np.float32) for s in ((1, 64, 18, 18), (64, 64, 3, 3))]
    return Form(text, arguments, np.full((1, 64, 16, 16), 576.0))


_CHANNELS_FIRST = f"""
    %r = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
      ATTRIBUTES : ({_X}, {_W}) -> {_Y}
    %r
"""
_CHANNELS_LAST = f"""
    %a = stablehlo.transpose %x, dims = [0, 2, 3, 1] : ({_X}) -> {_XT}
    %b = stablehlo.transpose %w, dims = [2, 3, 1, 0] : ({_W}) -> {_WT}
    %c = util.optimization_barrier %a : {_XT}
    %d = util.optimization_barrier %b : {_WT}
    %e = stablehlo.convolution(%c, %d) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      ATTRIBUTES : ({_XT}, {_WT}) -> {_YT}
    %r = stablehlo.transpose %e, dims = [0, 3, 1, 2] : ({_YT}) -> {_Y}
    %r
"""


def pairs() -> list[Pair]:
    """The slow forms, each beside a quick one."""
    return [
        Pair("sort of 2048 / of 512 values", _sort(2048), _sort(512), fair=4.9),
        Pair("top_k of 128 / of 8 values", _top_k(128), _top_k(8)),
        Pair(
            "matrix times vector, with / without data tiling",
            _matrix_vector(_DATA_TILING),
            _matrix_vector(_PLAIN),
        ),
        Pair(
            "convolution, channels first / last",
            _convolution(_CHANNELS_FIRST),
            _convolution(_CHANNELS_LAST),
        ),
    ]


def main() -> int:
    """Print a row for each pair; 0 if all results are right."""
    print("| hazard | time | guarded | ratio | ratio if it were mended |")
    print("| --- | --- | --- | --- | --- |")
    status = 0
    for pair in pairs():
        try:
            slow, quick = pair.slow.seconds(), pair.quick.seconds()
        except AssertionError as error:
            status = 1
            print(f"| {pair.name} | wrong: {error} | | | |")
            continue
        times = f"{slow * 1e3:.3f} ms | {quick * 1e3:.3f} ms | {slow / quick:.1f} | {pair.fair}"
        print(f"| {pair.name} | {times} |")
    return status


if __name__ == "__main__":
    sys.exit(main())
