"""Fewer rows at a time in reductions of rows.

IREE has a dispatch that reduces rows take eight of them at a time, and unrolls what is done to an
element for all eight: a softmax becomes 1 000 lines of LLVM's code, which take longer to compile
than all else of the program and run no faster. Sums of rows gain something from several chains of
additions. So short formulas get one row, and long ones, such as an exponential's, four, as do
searches for the place of a value.

Measured on x86-64 with AVX-512, one thread, from 64 x 256 to 4096 x 128 elements, against eight
rows: layer normalization takes 0.6 of the time to compile and 0.85 to 1.0 to run, softmax 0.7 and
1.0 (with one row 0.5, and 1.1 to 1.4 to run), argmax 0.85 and 1.0 (with one row 1.1 to 1.25 to
run).
"""

from __future__ import annotations

import re

from xpr.lowering.iree.mlir import Mlir

PHASE = "executable-configurations"
"""The phase behind which tiles have been chosen and nothing has been done with them."""

_CONFIGURATION = "lowering_config"
_FUNCTION = "func.func"
# The eight rows, beside a vector along the axis that is reduced.
_TILES = re.compile(r"vector_common_parallel = \[8, 0\], vector_reduction = \[0, (?:8|16)\]")
_ROWS = re.compile(r"(vector_common_parallel = \[)8\b")
_COMPUTES = ("arith.", "math.")

_SHORTEST, _LONG = 5, 40
_FEW, _SOME = 1, 4


def fewer_rows(mlir: Mlir, module: int) -> None:
    """Changes the dispatches in a module behind `PHASE`."""
    for operation in mlir.walk(module):
        if mlir.name(operation) == _FUNCTION:
            _change(mlir, operation)


def _change(mlir: Mlir, function: int) -> None:
    inside = list(mlir.walk(function))
    configured = {
        operation: mlir.attribute_text(operation, _CONFIGURATION)
        for operation in inside
        if mlir.attribute(operation, _CONFIGURATION) is not None
    }
    if not any(map(_TILES.search, configured.values())):
        return
    length = sum(mlir.name(operation).startswith(_COMPUTES) for operation in inside)
    if length < _SHORTEST:
        return
    searches = any(mlir.name(operation) == "linalg.index" for operation in inside)
    rows = _SOME if searches or length >= _LONG else _FEW
    for operation, text in configured.items():
        mlir.set_attribute(operation, _CONFIGURATION, _ROWS.sub(rf"\g<1>{rows}", text))
