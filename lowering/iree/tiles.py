"""Smaller tiles where IREE's take longer to compile and run no faster.

IREE unrolls what is done to a tile. Two of its choices make most of the code of a program that has
them, and of the time that it takes to compile:

- **Reductions of rows** take eight rows at a time. A softmax becomes 1 000 lines of LLVM's code.
  Sums gain something from several chains of additions. So short formulas get one row, and long
  ones, such as an exponential's, four, as do searches for the place of a value. From 64 x 256 to
  4096 x 128 elements, against eight rows: layer normalization takes 0.6 of the time to compile and
  0.85 to 1.0 to run, softmax 0.7 and 1.0 (with one row 0.5, and 1.1 to 1.4 to run), argmax 0.85
  and 1.0 (with one row 1.1 to 1.25 to run).
- **Products** take 16 of the contracted index at a time. Four give the same sums in the same order.
  From 7 x 33 x 48 to 224 x 224 x 224 they take 0.55 to 0.65 of the time to compile and 0.9 to 1.05
  to run; with the left operand transposed, eight take 0.75 and 1.0. Where the right one is, its
  rows are read in whole vectors along that index, and fewer would take 1.2 times as long to run.

All in float32 on x86-64 with AVX-512, in one thread.
"""

from __future__ import annotations

import re

from xpr.lowering.iree.mlir import Mlir
from xpr.lowering.iree.versions.base import Texts

REVISION = 1
"""Tells apart code with the tiles of an older form of this file."""

PHASE = "executable-configurations"
"""The phase behind which tiles have been chosen and nothing has been done with them."""

_CONFIGURATION, _MAPS = "lowering_config", "indexing_maps"
_FUNCTION = "func.func"

_COMPUTES = ("arith.", "math.")
_SEARCHES = "linalg.index"
_SHORTEST, _LONG = 5, 40
_ONE_ROW, _SOME_ROWS = 1, 4

_RESULTS = re.compile(r"-> \(([^)]*)\)")
_OPERANDS_AND_RESULT = 3
_FEW_DEEP, _SOME_DEEP = 4, 8


def smaller_tiles(mlir: Mlir, module: int, texts: Texts) -> None:
    """Changes the dispatches in a module behind `PHASE`."""
    for operation in mlir.walk(module):
        if mlir.name(operation) == _FUNCTION:
            inside = list(mlir.walk(operation))
            configured = {
                inner: mlir.attribute_text(inner, _CONFIGURATION)
                for inner in inside
                if mlir.attribute(inner, _CONFIGURATION) is not None
            }
            if any(map(texts.row_tiles.search, configured.values())):
                _fewer_rows(mlir, [mlir.name(inner) for inner in inside], configured, texts.rows)
            for inner, text in configured.items():
                if texts.depth.search(text):
                    _less_deep(mlir, inner, text, texts.depth)


def _fewer_rows(
    mlir: Mlir, names: list[str], configured: dict[int, str], eight: re.Pattern[str]
) -> None:
    length = sum(name.startswith(_COMPUTES) for name in names)
    if length < _SHORTEST:
        return
    rows = _SOME_ROWS if length >= _LONG or _SEARCHES in names else _ONE_ROW
    for operation, text in configured.items():
        mlir.set_attribute(operation, _CONFIGURATION, eight.sub(rf"\g<1>{rows}", text))


def _less_deep(mlir: Mlir, product: int, text: str, sixteen: re.Pattern[str]) -> None:
    if mlir.attribute(product, _MAPS) is None:
        return
    maps = [found.split(", ") for found in _RESULTS.findall(mlir.attribute_text(product, _MAPS))]
    if len(maps) != _OPERANDS_AND_RESULT:
        return
    column = maps[2][-1]
    with_columns = [axes for axes in maps[:2] if column in axes]
    others = [axes for axes in maps[:2] if column not in axes]
    if len(with_columns) != 1 or with_columns[0][-1] != column:
        return  # no product of matrices, or one with the transposed right operand
    is_transposed = others[0][-1] in maps[2]
    depth = _SOME_DEEP if is_transposed else _FEW_DEEP
    mlir.set_attribute(product, _CONFIGURATION, sixteen.sub(rf"\g<1>{depth}]", text))
