"""Operations on values in registers: the builder for loops that run inside one dispatch.

A `stablehlo.while` starts at least one dispatch for each step, which takes some microseconds. The
body of a loop over small values is written here with the `vector`, `arith` and `math` dialects.
Every array, whatever its shape, is one vector of its elements in row-major order, so that reshapes
cost nothing and all other rearrangements are shuffles. The class has the methods of
`LoweringContext` that elementwise rules and formulas use; what is not here raises `NotInRegisters`,
and the loop is then lowered in the plain way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.emitter import Program
from xpr.lowering.ir.constants import splat_of
from xpr.lowering.ir.graph import NO_ATTRIBUTES, Attributes, Block, Op
from xpr.lowering.ir.stablehlo import I1, Operand
from xpr.lowering.ir.types import scalar_text
from xpr.lowering.loops.registers.table import LongProgram, NotInRegisters, register_rule

MAX_ELEMENTS = 1024


@dataclass(frozen=True)
class Limit:
    """The most that a step in registers may be: registers that it fills, and bytes of an array."""

    work: int
    array_bytes: int


# LLVM compiles about 12000 operations on machine registers in a second, and few steps of more than
# the lower number are faster here than in memory; so are few with arrays that fill half of the
# registers. Where a step does more than the higher one, what it costs to start dispatches matters
# less.
SHORT = Limit(4_000, 1 << 10)
LONG = Limit(30_000, 1 << 13)
_REGISTER_BYTES = 32
# Booleans are bytes in memory.
_MEMORY_BYTE = np.dtype(np.int8)


# IREE leaves larger vector constants outside of a dispatch, unless all elements are equal, and
# crashes when it then makes operands of them.
_MAX_CONSTANT_BYTES = 256


def register_element(dtype: np.dtype[Any]) -> str:
    """The element type of a vector: integers are signless there."""
    kind = dtypes.kind(dtype)
    if kind == "b":
        return "i1"
    if dtype in dtypes.SMALL_INT_TYPES:
        raise NotInRegisters(f"dtype {dtype}")
    if kind in "iu" and dtype.itemsize in (1, 2, 4, 8):
        return f"i{8 * dtype.itemsize}"
    if dtype in (np.float32, np.float64):
        return f"f{8 * dtype.itemsize}"
    raise NotInRegisters(f"dtype {dtype}")


class Register(Value):
    """An array as one vector of its elements, or `root`'s elements as an array of another shape."""

    __slots__ = ("root",)

    def __init__(self, shape: Shape, dtype: np.dtype[Any], root: Register | None = None) -> None:
        super().__init__(shape, dtype)
        self.root: Register = self if root is None else root.root

    @property
    def type(self) -> str:
        return register_type(self.shape, self.dtype)


class ComplexRegister(Value):
    """Complex numbers inside of one elementwise rule, in two registers."""

    __slots__ = ("im", "re")

    def __init__(self, re: Value, im: Value) -> None:
        super().__init__(re.shape, np.dtype(f"c{2 * re.dtype.itemsize}"))
        self.re = re
        self.im = im


@dataclass(frozen=True)
class Memory:
    """An array that lies in memory, where it is `flat`: booleans are bytes there."""

    flat: Value
    shape: Shape
    dtype: np.dtype[Any]


def register_type(shape: Shape, dtype: np.dtype[Any]) -> str:
    """The vector type of an array; NotInRegisters if it is empty or too large."""
    size = math.prod(shape)
    if not 0 < size <= MAX_ELEMENTS:
        raise NotInRegisters(f"shape {shape}")
    return f"vector<{size}x{register_element(dtype)}>"


_FLOAT_UNARY = {
    "negate": "arith.negf",
    "abs": "math.absf",
    "floor": "math.floor",
    "ceil": "math.ceil",
    "round_nearest_even": "math.roundeven",
    "round_nearest_afz": "math.round",
    "sqrt": "math.sqrt",
    "tanh": "math.tanh",
    "log": "math.log",
    "log_plus_one": "math.log1p",
    "exponential": "math.exp",
    "exponential_minus_one": "math.expm1",
}
_FLOAT_BINARY = {
    "add": "arith.addf",
    "subtract": "arith.subf",
    "multiply": "arith.mulf",
    "divide": "arith.divf",
    "maximum": "arith.maximumf",
    "minimum": "arith.minimumf",
}
_INTEGER_BINARY = {
    "add": "arith.addi",
    "subtract": "arith.subi",
    "multiply": "arith.muli",
    "and": "arith.andi",
    "or": "arith.ori",
    "xor": "arith.xori",
    "shift_left": "arith.shli",
    "shift_right_logical": "arith.shrui",
    "shift_right_arithmetic": "arith.shrsi",
}
_SIGN_DEPENDENT = {"divide": "div", "remainder": "rem", "maximum": "max", "minimum": "min"}
_BOOLEAN_BINARY = {"maximum": "arith.ori", "minimum": "arith.andi"}
_FLOAT_COMPARE = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}


class VectorContext(LoweringContext):
    """Emits the operations of a loop's body on registers."""

    def __init__(self, module: Program, block: Block, limit: Limit = LONG) -> None:
        super().__init__(module, block, in_region=True)
        self._limit = limit
        # What lies in memory, too, by its register.
        self.memory: dict[Value, Memory] = {}
        # The machine registers that all operations of the loop fill, in one shared place.
        self.work = [0]

    formulas_inline = True
    makes_dispatches = False

    def rule_for(self, primitive: Primitive) -> Callable[..., Any]:
        """The rule of a primitive on registers."""
        return register_rule(primitive, self.target)

    # ---- the basic forms

    def _refuse(self, what: str) -> NoReturn:
        raise NotInRegisters(what)

    def append(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[Value] = (),
        attributes: Attributes = NO_ATTRIBUTES,
        regions: Sequence[Block] = (),
    ) -> Op:
        if name.startswith(("stablehlo.", "util.")):
            self._refuse(name)
        roots = [v.root if isinstance(v, Register) else v for v in operands]
        if any(isinstance(v, Register) and v.owner is None for v in roots):
            self._refuse("an array that is not in registers")
        for v in results:
            if isinstance(v, Register):
                register_type(v.shape, v.dtype)  # raises for sizes and types that do not do
        return super().append(name, roots, results, attributes, regions)

    def value(self, shape: Shape, dtype: np.dtype[Any]) -> Value:
        dtype = np.dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        self.work[0] += 1 + size // _REGISTER_BYTES
        if self.work[0] > self._limit.work or size > self._limit.array_bytes:
            raise LongProgram("a long program")
        return Register(tuple(shape), dtype)

    def op(self, name: str, *_: Any, **__: Any) -> list[Value]:
        self._refuse(name)

    def barrier(self, x: Value) -> Value:
        return x

    # ---- memory and indices

    def read(self, source: Memory, offset: Value, shape: Shape) -> Value:
        """The elements of a flat array in memory from `offset` on."""
        dtype = _MEMORY_BYTE if source.dtype == I1 else source.dtype
        element = register_element(dtype)
        zero = {"value": "0.0" if element.startswith("f") else "0"}
        pad = self.plain("arith.constant", (), element, zero)
        out = Register(tuple(shape), dtype)
        self.append("vector.transfer_read", (source.flat, offset, pad), (out,))
        if source.dtype != I1:
            return out
        return self.compare("NE", out, self.constant(0, _MEMORY_BYTE, tuple(shape)))

    def write(self, x: Value, target: Value, offset: Value) -> Value:
        """The flat array `target` with the elements of `x` from `offset` on."""
        if x.dtype == I1:
            x = self.convert(x, _MEMORY_BYTE)
        return self.plain("vector.transfer_write", (x, target, offset), target.type)

    def index(self, value: int) -> Value:
        """An index that is known now."""
        return self.plain("arith.constant", (), "index", {"value": str(value)})

    def as_index(self, x: Value) -> Value:
        """A rank-0 integer as an index."""
        element = self.plain("vector.extract", (x,), register_element(x.dtype))
        op = "index_cast" if dtypes.kind(x.dtype) == "i" else "index_castui"
        return self.plain(f"arith.{op}", (element,), "index")

    def times_index(self, index: Value, factor: int) -> Value:
        if factor == 1:
            return index
        return self.plain("arith.muli", (index, self.index(factor)), "index")

    def plus_index(self, a: Value, b: Value) -> Value:
        return self.plain("arith.addi", (a, b), "index")

    def nested(self, block: Block) -> VectorContext:
        """The context of a block inside this one."""
        inner = VectorContext(self.module, block, self._limit)
        inner.memory, inner.work = self.memory, self.work
        inner.source = self.source
        return inner

    # ---- constants

    def constant(self, value: Any, dtype: np.dtype[Any], shape: Shape = ()) -> Value:
        dtype = np.dtype(dtype)
        if dtype.kind == "c":
            part, whole = np.dtype(f"f{dtype.itemsize // 2}"), complex(value)
            return self.complex(*(self.constant(v, part, shape) for v in (whole.real, whole.imag)))
        key = (str(value), dtype, tuple(shape))
        known = self._constants.get(key)
        if known is None:
            text = scalar_text(_signless(np.asarray(value, dtype))[()], _signless_dtype(dtype))
            number = float(value) if dtype.kind == "f" else int(value)
            attributes: dict[str, Any] = {"value": f"dense<{text}>", "number": number}
            known = self.assign("arith.constant", (), shape, dtype, attributes)
            self._constants[key] = known
        return known

    def dense(self, values: np.ndarray[Any, Any]) -> Value:
        if values.nbytes > _MAX_CONSTANT_BYTES:
            raise NotInRegisters(f"a table of shape {values.shape}")
        flat = _signless(np.ascontiguousarray(values)).reshape(-1)
        texts = ", ".join(scalar_text(v, flat.dtype) for v in flat)
        value = {"value": f"dense<[{texts}]>"}
        return self.assign("arith.constant", (), values.shape, values.dtype, value)

    # ---- elementwise

    def unary(self, op: str, x: Value) -> Value:
        kind = dtypes.kind(x.dtype)
        if kind == "f":
            if op == "rsqrt":
                return self.div(self.constant(1, x.dtype, x.shape), self.unary("sqrt", x))
            if op == "logistic":
                one = self.constant(1, x.dtype, x.shape)
                return self.div(one, self.add(one, self.unary("exponential", self.neg(x))))
            if op not in _FLOAT_UNARY:
                self._refuse(op)
            return self.assign(_FLOAT_UNARY[op], [x], x.shape, x.dtype)
        if op == "negate":
            return self.sub(self.constant(0, x.dtype, x.shape), x)
        if op == "not":
            all_bits = True if kind == "b" else ~x.dtype.type(0)
            ones = self.constant(all_bits, x.dtype, x.shape)
            return self.assign("arith.xori", [x, ones], x.shape, x.dtype)
        if op == "abs" and kind == "i":
            return self.assign("math.absi", [x], x.shape, x.dtype)
        if op == "sign" and kind == "i":
            one = self.constant(1, x.dtype, x.shape)
            return self.maximum(self.minimum(x, one), self.neg(one))
        self._refuse(op)

    def binary(self, op: str, x: Operand, y: Operand) -> Value:
        a, b = self.match(x, y)
        kind = dtypes.kind(a.dtype)
        if kind == "f":
            name = _FLOAT_BINARY.get(op)
        elif kind == "b" and op in _BOOLEAN_BINARY:
            name = _BOOLEAN_BINARY[op]
        elif op in ("divide", "remainder"):
            return self._integer_division(op, a, b)
        elif op in _SIGN_DEPENDENT:
            name = f"arith.{_SIGN_DEPENDENT[op]}{'si' if kind == 'i' else 'ui'}"
        else:
            name = _INTEGER_BINARY.get(op)
        if name is None:
            self._refuse(op)
        return self.assign(name, [a, b], a.shape, a.dtype)

    def _integer_division(self, op: str, a: Value, b: Value) -> Value:
        """StableHLO's quotient and remainder, defined by 0 and of the least integer by -1 too.

        The processor traps on both.
        """
        kind = dtypes.kind(a.dtype)
        if kind not in "iu":
            self._refuse(op)
        one = self.constant(1, a.dtype, a.shape)
        by_zero = self.compare("EQ", b, 0)
        unsafe = by_zero
        if kind == "i":
            unsafe = self.or_(by_zero, self.compare("EQ", b, -1))
        name = f"arith.{_SIGN_DEPENDENT[op]}{'si' if kind == 'i' else 'ui'}"
        safe = self.assign(name, [a, self.select(unsafe, one, b)], a.shape, a.dtype)
        if op == "remainder":
            # The remainder by 1 is that by -1, and by 0 the dividend.
            return self.select(by_zero, a, safe)
        if kind == "i":
            safe = self.select(self.compare("EQ", b, -1), self.neg(a), safe)
        return self.select(by_zero, self.constant(~a.dtype.type(0), a.dtype, a.shape), safe)

    def known_number(self, x: Value) -> float | None:
        return splat_of(x.root if isinstance(x, Register) else x)

    def product_error(self, x: Value, y: Value, product: Value) -> Value | None:
        if not self.target.fuses_products:
            return None
        operands = (x, y, self.neg(product))
        return self.assign("math.fma", operands, product.shape, product.dtype)

    def abs(self, x: Value) -> Value:
        return x if dtypes.kind(x.dtype) == "u" else self.unary("abs", x)

    def compare(self, direction: str, x: Operand, y: Operand, kind: str | None = None) -> Value:
        a, b = self.match(x, y)
        if kind == "TOTALORDER":
            self._refuse("comparison by total order")
        if dtypes.kind(a.dtype) == "f":
            test, op = _FLOAT_COMPARE[direction], "arith.cmpf"
        else:
            sign = "s" if dtypes.kind(a.dtype) == "i" else "u"
            test = direction.lower() if direction in ("EQ", "NE") else sign + direction.lower()
            op = "arith.cmpi"
        return self.assign(op, (a, b), a.shape, I1, {"predicate": test})

    def real(self, x: Value) -> Value:
        assert isinstance(x, ComplexRegister)
        return x.re

    def imag(self, x: Value) -> Value:
        assert isinstance(x, ComplexRegister)
        return x.im

    def complex(self, re: Value, im: Value) -> Value:
        return ComplexRegister(re, im)

    def select(self, pred: Value, on_true: Operand, on_false: Operand) -> Value:
        a, b = self.match(on_true, on_false)
        if isinstance(a, ComplexRegister):
            return self.by_parts(lambda x, y: self.select(pred, x, y), a, b)
        if pred.shape and pred.shape != a.shape:
            a, b = (self.broadcast_in_dim(v, pred.shape, ()) for v in (a, b))
        if pred.shape != a.shape:
            pred = self.broadcast_in_dim(pred, a.shape, ())
        return self.assign("arith.select", (pred, a, b), a.shape, a.dtype)

    def convert(self, x: Value, dtype: Any) -> Value:
        d = np.dtype(dtype)
        if x.dtype == d:
            return x
        if d == I1:
            return self.compare("NE", x, self.constant(0, x.dtype, x.shape))
        source, target = dtypes.kind(x.dtype), dtypes.kind(d)
        narrower = d.itemsize < x.dtype.itemsize
        if source == target == "f":
            op = "truncf" if narrower else "extf"
        elif target == "f":
            op = "sitofp" if source == "i" else "uitofp"
        elif source == "f":
            op = "fptosi" if target == "i" else "fptoui"
        elif source == "b":
            op = "extui"
        elif d.itemsize == x.dtype.itemsize:
            return _view(x, x.shape, d)
        else:
            op = "trunci" if narrower else "extsi" if source == "i" else "extui"
        return self.assign(f"arith.{op}", (x,), x.shape, d)

    def bitcast(self, x: Value, dtype: Any) -> Value:
        d = np.dtype(dtype)
        out = register_type(x.shape, d)
        if out == x.type:
            return _view(x, x.shape, d)
        if d.itemsize != x.dtype.itemsize or I1 in (d, x.dtype):
            self._refuse("bitcast between widths")
        return self.assign("arith.bitcast", (x,), x.shape, d)

    # ---- shapes

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        return _view(x, tuple(shape), x.dtype)

    def broadcast_in_dim(self, x: Value, shape: Shape, dims: Sequence[int]) -> Value:
        shape = tuple(shape)
        if isinstance(x, ComplexRegister):
            return self.by_parts(lambda v: self.broadcast_in_dim(v, shape, dims), x)
        if math.prod(x.shape) == 1:
            if math.prod(shape) == 1:
                return self.reshape(x, shape)
            return self.assign("vector.broadcast", (x,), shape, x.dtype)
        inner = [1] * len(shape)
        for axis, d in zip(range(len(x.shape)), dims, strict=True):
            inner[d] = x.shape[axis]
        places = np.arange(math.prod(x.shape)).reshape(inner)
        return self.rearranged([x], np.broadcast_to(places, shape))

    def slice(
        self,
        x: Value,
        start: Sequence[int],
        limit: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Value:
        steps = strides or (1,) * len(x.shape)
        window = tuple(map(slice, start, limit, steps))
        return self.rearranged([x], np.arange(math.prod(x.shape)).reshape(x.shape)[window])

    def iota(self, dtype: Any, shape: Shape, dimension: int) -> Value:
        numbers = np.arange(shape[dimension], dtype=dtype)
        along = [-1 if i == dimension else 1 for i in range(len(shape))]
        return self.dense(np.broadcast_to(numbers.reshape(along), shape))

    def rearranged(self, xs: Sequence[Value], places: np.ndarray[Any, Any]) -> Value:
        """The elements at `places` of the operands' elements, one operand after the other."""
        joined, count = xs[0], math.prod(xs[0].shape)
        for x in xs[1:]:
            more = math.prod(x.shape)
            joined = self._shuffle(joined, x, np.arange(count + more), (count + more,))
            count += more
        flat = places.reshape(-1)
        if flat.size == count and np.array_equal(flat, np.arange(count)):
            return self.reshape(joined, places.shape)
        return self._shuffle(joined, joined, flat, places.shape)

    def _shuffle(
        self, a: Value, b: Value, places: np.ndarray[Any, Any], shape: Sequence[int]
    ) -> Value:
        mask = {"places": tuple(places.tolist())}
        return self.assign("vector.shuffle", (a, b), tuple(shape), a.dtype, mask)


def _view(x: Value, shape: Shape, dtype: np.dtype[Any]) -> Register:
    """The same register as an array of another shape, or of a type with the same bits."""
    assert isinstance(x, Register)
    return Register(shape, dtype, x)


def _signless_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"i{dtype.itemsize}") if dtypes.kind(dtype) == "u" else dtype


def _signless(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values with the bits of unsigned integers as signed ones."""
    return values.view(_signless_dtype(values.dtype))
