"""`from_stablehlo`: programs that other tools wrote."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xpr.export.exported import Exported

Source = str | bytes | bytearray | memoryview | os.PathLike[str]


def from_stablehlo(source: Source, *, entry: str | None = None) -> Exported:
    """A StableHLO program as an exported function, to be called, transformed, saved and compiled.

    `source` is MLIR text, MLIR bytecode, a portable artifact (VHLO), the bytes of JAX's
    `Exported.serialize()`, or the path of a file that holds one of these. `entry` names the
    function to call where the module has several; otherwise it is `main`, or the only public one.

    The operations become xpr's primitives, so that the program can be differentiated, vectorised
    and sharded, and runs on every device. Of JAX's bytes the structure of arguments and results is
    kept; a module alone takes its arguments in a row, and returns a tuple unless it has one result.
    Sizes that are left open in the module are those of the arguments of each call.

    Raises StableHLOError, a ValueError, for input that is damaged, that is of a newer version, or
    that holds an operation or a custom call without a counterpart; it names the operation and its
    line. Raises OSError for a file that cannot be read.

    >>> text = '''
    ... func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    ...   %y = stablehlo.add %x, %x : tensor<2xf32>
    ...   return %y : tensor<2xf32>
    ... }'''
    >>> import numpy as np
    >>> from_stablehlo(text).call(np.ones(2, np.float32))
    Array([2., 2.], dtype=float32)
    """
    from xpr.export.stablehlo.loading import load  # noqa: PLC0415  few programs need the rules

    return load(source, entry)
