"""Writes operations of StableHLO into a block: values in, operations of a graph out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.ir.attributes import Table
from xpr.lowering.ir.builder import Builder
from xpr.lowering.ir.constants import LITERAL, constant_attributes, splat_of
from xpr.lowering.ir.graph import Block, Shape, Value
from xpr.lowering.ir.rewrite import BARRIER
from xpr.lowering.ir.types import scalar_text

I1 = np.dtype(np.bool_)

Operand = Value | int | float | bool | complex | np.generic


class StablehloBuilder(Builder):
    """Appends operations, whose names its methods have.

    Elementwise ones take Python numbers too, which become constants of the other operand's type,
    and broadcast rank-0 operands.
    """

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self._constants: dict[tuple[str, np.dtype[Any], Shape], Value] = {}

    # ---- what formulas ask for

    def known_number(self, x: Value) -> float | None:
        """The number that all elements of an array are, if the program says so."""
        return splat_of(x)

    def product_error(self, x: Value, y: Value, product: Value) -> Value | None:
        """The rounding error of a product, by one operation; None where there is none for it."""
        return None

    # ---- constants

    def constant(self, value: Any, dtype: np.dtype[Any], shape: Shape = ()) -> Value:
        """A tensor filled with one number."""
        key = scalar_text(value, dtype), dtype, shape
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self.assign(
                "stablehlo.constant", (), shape, dtype, constant_attributes(value, dtype, shape)
            )
        return found

    def literal(self, value: Any, dtype: np.dtype[Any], shape: Shape = ()) -> Value:
        """A constant that stands in the jaxpr; a formula that has the same number shares it."""
        found = self.constant(value, dtype, shape)
        if found.op is not None:
            found.op.attributes = {**found.op.attributes, LITERAL: True}
        return found

    def dense(self, values: np.ndarray[Any, Any]) -> Value:
        """A small table written into the program."""
        value = {"value": Table(values)}
        return self.assign("stablehlo.constant", (), values.shape, values.dtype, value)

    def full_like(self, x: Value, value: Any) -> Value:
        """A constant of the type of `x`."""
        return self.constant(value, x.dtype, x.shape)

    # ---- elementwise

    def unary(self, op: str, x: Value) -> Value:
        """`stablehlo.<op>` where the result has the operand's type."""
        return self.assign(f"stablehlo.{op}", (x,), x.shape, x.dtype)

    def match(self, *operands: Operand) -> list[Value]:
        """Numbers made constants, and rank-0 values broadcast, to go with the widest operand."""
        if len(operands) == 2:
            x, y = operands
            if isinstance(x, Value):
                if not isinstance(y, Value):
                    return [x, self.constant(y, x.dtype, x.shape)]
                if x.shape == y.shape:
                    return [x, y]
                if not y.shape:
                    return [x, self.broadcast_in_dim(y, x.shape, ())]
        values = [v for v in operands if isinstance(v, Value)]
        shape = max((v.shape for v in values), key=len, default=())
        if any(v.shape and v.shape != shape for v in values):
            shape = np.broadcast_shapes(*(v.shape for v in values))
        dtype = values[0].dtype
        out = []
        for x in operands:
            if not isinstance(x, Value):
                out.append(self.constant(x, dtype, shape))
            elif x.shape == shape:
                out.append(x)
            else:
                dims = tuple(range(len(shape))) if x.shape else ()
                out.append(self.broadcast_in_dim(x, shape, dims))
        return out

    def binary(self, op: str, x: Operand, y: Operand) -> Value:
        """`stablehlo.<op>` of two operands of one type."""
        a, b = self.match(x, y)
        return self.assign(f"stablehlo.{op}", (a, b), a.shape, a.dtype)

    def add(self, x: Operand, y: Operand) -> Value:
        return self.binary("add", x, y)

    def sub(self, x: Operand, y: Operand) -> Value:
        return self.binary("subtract", x, y)

    def mul(self, x: Operand, y: Operand) -> Value:
        return self.binary("multiply", x, y)

    def div(self, x: Operand, y: Operand) -> Value:
        return self.binary("divide", x, y)

    def rem(self, x: Operand, y: Operand) -> Value:
        return self.binary("remainder", x, y)

    def maximum(self, x: Operand, y: Operand) -> Value:
        return self.binary("maximum", x, y)

    def minimum(self, x: Operand, y: Operand) -> Value:
        return self.binary("minimum", x, y)

    def and_(self, x: Operand, y: Operand) -> Value:
        return self.binary("and", x, y)

    def or_(self, x: Operand, y: Operand) -> Value:
        return self.binary("or", x, y)

    def xor(self, x: Operand, y: Operand) -> Value:
        return self.binary("xor", x, y)

    def not_(self, x: Value) -> Value:
        return self.unary("not", x)

    def neg(self, x: Value) -> Value:
        return self.unary("negate", x)

    def abs(self, x: Value) -> Value:
        """The absolute value; of complex numbers the modulus, a real tensor."""
        if not dtypes.is_complex(x.dtype):
            return self.unary("abs", x)
        real = np.dtype(np.float32 if x.dtype.itemsize == 8 else np.float64)
        return self.assign("stablehlo.abs", (x,), x.shape, real)

    def compare(self, direction: str, x: Operand, y: Operand, kind: str | None = None) -> Value:
        """A comparison: EQ, NE, LT, LE, GT or GE; the kind follows the dtype unless given."""
        a, b = self.match(x, y)
        if kind is None:
            kind = {"f": "FLOAT", "c": "FLOAT", "i": "SIGNED"}.get(dtypes.kind(a.dtype), "UNSIGNED")
        how = {"direction": direction, "kind": kind}
        return self.assign("stablehlo.compare", (a, b), a.shape, I1, how)

    def select(self, pred: Value, on_true: Operand, on_false: Operand) -> Value:
        """`on_true` where `pred`, else `on_false`; one of the two must be a Value."""
        a, b = self.match(on_true, on_false)
        if pred.shape and pred.shape != a.shape:
            a, b = (self.broadcast_in_dim(v, pred.shape, ()) for v in (a, b))
        return self.assign("stablehlo.select", (pred, a, b), a.shape, a.dtype)

    def real(self, x: Value) -> Value:
        """The real parts of complex numbers."""
        return self._part("real", x)

    def imag(self, x: Value) -> Value:
        """The imaginary parts of complex numbers."""
        return self._part("imag", x)

    def _part(self, side: str, x: Value) -> Value:
        part = np.dtype(f"f{x.dtype.itemsize // 2}")
        return self.assign(f"stablehlo.{side}", (x,), x.shape, part)

    def parts(self, x: Value) -> tuple[Value, Value]:
        """The real and the imaginary parts of complex numbers."""
        return self.real(x), self.imag(x)

    def complex(self, re: Value, im: Value) -> Value:
        """Complex numbers of these parts."""
        dtype = np.dtype(f"c{2 * re.dtype.itemsize}")
        return self.assign("stablehlo.complex", (re, im), re.shape, dtype)

    def by_parts(self, function: Callable[..., Value], *operands: Value) -> Value:
        """`function` of the real and of the imaginary parts of complex operands."""
        re, im = (function(*side) for side in zip(*map(self.parts, operands), strict=True))
        return self.complex(re, im)

    def convert(self, x: Value, dtype: Any) -> Value:
        """A plain `stablehlo.convert`; out-of-range floats to integers must be clamped before."""
        d = np.dtype(dtype)
        return x if x.dtype == d else self.assign("stablehlo.convert", (x,), x.shape, d)

    def bitcast(self, x: Value, dtype: Any) -> Value:
        """The same bits as another type of the same width."""
        d = np.dtype(dtype)
        if d == x.dtype:
            return x
        if x.op is not None and x.op.name == "stablehlo.bitcast_convert":
            source = x.op.operands[0]
            if source.dtype == d and source.shape == x.shape:
                return source
        return self.assign("stablehlo.bitcast_convert", (x,), x.shape, d)

    # ---- shapes

    def broadcast_in_dim(self, x: Value, shape: Shape, dims: Sequence[int]) -> Value:
        """`x` broadcast to `shape`, its axis i becoming axis `dims[i]`."""
        if x.shape == tuple(shape) and tuple(dims) == tuple(range(len(shape))):
            return x
        places = {"dims": tuple(dims)}
        return self.assign("stablehlo.broadcast_in_dim", (x,), tuple(shape), x.dtype, places)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """The elements of `x` in another shape."""
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if math.prod(x.shape) != math.prod(shape):
            raise AssertionError(f"reshape from {x.shape} to {shape} changes the size")
        return self.assign("stablehlo.reshape", (x,), shape, x.dtype)

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """The axes of `x` in another order."""
        if tuple(permutation) == tuple(range(len(x.shape))):
            return x
        shape = tuple(x.shape[i] for i in permutation)
        order = {"dims": tuple(permutation)}
        return self.assign("stablehlo.transpose", (x,), shape, x.dtype, order)

    def iota(self, dtype: Any, shape: Shape, dimension: int) -> Value:
        """0, 1, 2, ... along one axis."""
        d = np.dtype(dtype)
        return self.assign("stablehlo.iota", (), shape, d, {"dim": dimension})

    def slice(
        self,
        x: Value,
        start: Sequence[int],
        limit: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Value:
        """A static slice."""
        steps = tuple(strides) if strides is not None else (1,) * len(x.shape)
        shape = tuple(max(0, -(-(b - a) // s)) for a, b, s in zip(start, limit, steps, strict=True))
        bounds = {"start": tuple(start), "limit": tuple(limit), "strides": steps}
        return self.assign("stablehlo.slice", (x,), shape, x.dtype, bounds)

    def barrier(self, x: Value) -> Value:
        """`x`, which the compiler computes on its own and moves nothing across."""
        return self.assign(BARRIER, (x,), x.shape, x.dtype)

    def concatenate(self, xs: Sequence[Value], dimension: int) -> Value:
        """The operands joined along one axis."""
        if len(xs) == 1:
            return xs[0]
        shape = list(xs[0].shape)
        shape[dimension] = sum(x.shape[dimension] for x in xs)
        along = {"dim": dimension}
        return self.assign("stablehlo.concatenate", tuple(xs), tuple(shape), xs[0].dtype, along)

    def pad(
        self,
        x: Value,
        value: Value,
        low: Sequence[int],
        high: Sequence[int],
        interior: Sequence[int] | None = None,
    ) -> Value:
        """`stablehlo.pad`: edges and gaps filled with the rank-0 `value`."""
        interior = (0,) * len(x.shape) if interior is None else interior
        shape = tuple(
            max(0, a + b + s + max(s - 1, 0) * i)
            for s, a, b, i in zip(x.shape, low, high, interior, strict=True)
        )
        edges = {"low": tuple(low), "high": tuple(high), "interior": tuple(interior)}
        return self.assign("stablehlo.pad", (x, value), shape, x.dtype, edges)
