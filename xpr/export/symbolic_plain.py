"""The forms that operations take with symbolic dimensions in plain StableHLO: its dynamic ones.

Sizes are numbers of int32, as `get_dimension_size` gives them, and shapes are rows of them: what
XLA and other compilers refine once the shapes of a call are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from xpr.export.generalize import ADVICE, SizeDependenceError
from xpr.export.symbolic_values import (
    Dim,
    Dims,
    SizeValues,
    SymbolicBuilder,
    SymbolicNumber,
    SymbolicOp,
    SymbolicValue,
    place_of,
)
from xpr.lowering.ir.graph import Value

Form = Callable[[SymbolicBuilder, SymbolicOp], Sequence[Value]]

_INT32 = np.dtype(np.int32)
_ARITHMETIC = {
    "addi": "add",
    "subi": "subtract",
    "muli": "multiply",
    "divui": "divide",
    "divsi": "divide",
    "remsi": "remainder",
    "maxsi": "maximum",
    "minsi": "minimum",
}


class PlainSizes(SizeValues):
    """Sizes by operations of StableHLO."""

    def index(self, value: int) -> Value:
        about = {"value": f"dense<{value}>"}
        return self.define("stablehlo.constant", (), SymbolicValue((), _INT32), about)

    def _combined(self, name: str, x: Value, y: Value) -> Value:
        return self.define(f"stablehlo.{_ARITHMETIC[name]}", (x, y), SymbolicValue((), _INT32))

    def _extent(self, argument: SymbolicValue, axis: int) -> Value:
        out = SymbolicValue((), _INT32)
        return self.define("stablehlo.get_dimension_size", (argument,), out, {"dimension": axis})

    def vector(self, dims: Sequence[Dim]) -> Value:
        count = len(dims)
        if all(isinstance(d, int) for d in dims):
            text = f"dense<[{', '.join(map(str, dims))}]>" if dims else "dense<>"
            out = SymbolicValue((count,), _INT32)
            return self.define("stablehlo.constant", (), out, {"value": text})
        return self.row([self.value(d) for d in dims])

    def row(self, values: Sequence[Value]) -> Value:
        """Numbers of rank 0 as one of rank 1."""
        rows = [self.define("stablehlo.reshape", (v,), SymbolicValue((1,), _INT32)) for v in values]
        if len(rows) == 1:
            return rows[0]
        out = SymbolicValue((len(rows),), _INT32)
        return self.define("stablehlo.concatenate", rows, out, {"dim": 0})

    def scalar(self, number: SymbolicNumber, dtype: np.dtype) -> Value:
        value = self.value(number.terms)
        if dtype != _INT32:
            value = self.define("stablehlo.convert", (value,), SymbolicValue((), dtype))
        if not number.inverse:
            return value
        about = {"value": "dense<1.0>"}
        one = self.define("stablehlo.constant", (), SymbolicValue((), dtype), about)
        return self.define("stablehlo.divide", (one, value), SymbolicValue((), dtype))


def _constant(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    out, about = op.result, op.attributes
    if "row" in about:
        row = b.sizes.vector(about["row"])
        if out.dtype == _INT32:
            return [row]
        return [b.make("stablehlo.convert", (row,), out.dims, out.dtype)]
    if "symbolic" in about:
        scalar = b.sizes.scalar(about["symbolic"], out.dtype)
    else:
        scalar = b.sizes.define("stablehlo.constant", (), SymbolicValue((), out.dtype), about)
    return [_broadcast(b, scalar, (), out.dims, out.dtype) if out.dims else scalar]


def _broadcast(
    b: SymbolicBuilder, x: Value, places: Sequence[int], dims: Dims, dtype: np.dtype
) -> Value:
    about = {"broadcast_dimensions": tuple(places)}
    operands = (x, b.sizes.vector(dims))
    return b.make("stablehlo.dynamic_broadcast_in_dim", operands, dims, dtype, about)


def _broadcast_in_dim(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    out = op.result
    return [_broadcast(b, op.operands[0], op.attributes["dims"], out.dims, out.dtype)]


def _iota(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    out, along = op.result, {"iota_dimension": op.attributes["dim"]}
    return [
        b.make("stablehlo.dynamic_iota", (b.sizes.vector(out.dims),), out.dims, out.dtype, along)
    ]


def _reshape(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    out = op.result
    operands = (op.operands[0], b.sizes.vector(out.dims))
    return [b.make("stablehlo.dynamic_reshape", operands, out.dims, out.dtype)]


def _slice(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    out = op.result
    bounds = [b.sizes.vector(op.attributes[k]) for k in ("start", "limit", "strides")]
    operands = (op.operands[0], *bounds)
    return [b.make("stablehlo.real_dynamic_slice", operands, out.dims, out.dtype)]


def _pad(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    edges = [op.attributes[k] for k in ("low", "high", "interior")]
    if all(isinstance(n, int) for row in edges for n in row):
        return b.as_it_is(op)
    out = op.result
    operands = (*op.operands, *map(b.sizes.vector, edges))
    return [b.make("stablehlo.dynamic_pad", operands, out.dims, out.dtype)]


def _dynamic_slice(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    sizes: Dims = op.attributes["sizes"]
    if all(isinstance(n, int) for n in sizes):
        return b.as_it_is(op)
    (x, *starts), out = op.tensors, op.result
    count = (len(sizes),)

    def binary(name: str, left: Value, right: Value) -> SymbolicValue:
        return b.make(f"stablehlo.{name}", (left, right), count, _INT32)

    row = [
        b.make("stablehlo.convert", (v,), (), _INT32) if v.dtype != _INT32 else v for v in starts
    ]
    ones = [b.make("stablehlo.reshape", (v,), (1,), _INT32) for v in row]
    start = b.make("stablehlo.concatenate", ones, count, _INT32, {"dim": 0})
    most = binary("subtract", b.sizes.vector(x.dims), b.sizes.vector(sizes))
    start = binary("maximum", binary("minimum", start, most), b.sizes.vector((0,) * len(sizes)))
    limit = binary("add", start, b.sizes.vector(sizes))
    operands = (x, start, limit, b.sizes.vector((1,) * len(sizes)))
    return [b.make("stablehlo.real_dynamic_slice", operands, out.dims, out.dtype)]


def _gather(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    about = dict(op.attributes)
    sizes: Dims = about.pop("slice_sizes")
    if all(isinstance(n, int) for n in sizes):
        return b.as_it_is(op)
    out = op.result
    operands = (*op.operands, b.sizes.vector(sizes))
    return [b.make("stablehlo.dynamic_gather", operands, out.dims, out.dtype, about)]


def _refused(b: SymbolicBuilder, op: SymbolicOp) -> NoReturn:
    raise SizeDependenceError(
        f"{place_of(op.first)} cannot be written for symbolic dimensions: nothing says what shape "
        f"its results have. {ADVICE}"
    )


PLAIN_FORMS: dict[str, Form] = {
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.constant": _constant,
    "stablehlo.custom_call": _refused,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.gather": _gather,
    "stablehlo.iota": _iota,
    "stablehlo.pad": _pad,
    "stablehlo.reshape": _reshape,
    "stablehlo.slice": _slice,
}
"""The operations that a type with a symbolic dimension is not enough for."""
