"""Values of symbolic shapes, and the values that are computed from the symbolic dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.core.polynomials import Terms, is_call, parsed_call
from xpr.export.generalize import ADVICE, SizeDependenceError
from xpr.lowering.ir.builder import Builder
from xpr.lowering.ir.graph import (
    NO_ATTRIBUTES,
    Attributes,
    Block,
    Op,
    PlainValue,
    Shape,
    Value,
)
from xpr.lowering.ir.types import element_type

Dim = int | Terms
Dims = tuple[Dim, ...]

INDEX = "index"
_UNKNOWN = -1


class SymbolicValue(Value):
    """A tensor some of whose extents, `dims`, are polynomials in the symbolic dimensions."""

    __slots__ = ("dims",)

    def __init__(self, dims: Sequence[Dim], dtype: np.dtype[Any]) -> None:
        shape: Shape = tuple(d if isinstance(d, int) else _UNKNOWN for d in dims)
        super().__init__(shape, dtype)
        self.dims = tuple(dims)

    @property
    def type(self) -> str:
        sizes = "".join(f"{d}x" if isinstance(d, int) else "?x" for d in self.dims)
        return f"tensor<{sizes}{element_type(self.dtype)}>"

    @property
    def is_symbolic(self) -> bool:
        """Whether a dimension is symbolic."""
        return _UNKNOWN in self.shape

    @property
    def symbolic_dims(self) -> list[Terms]:
        """The symbolic dimensions."""
        return [d for d in self.dims if not isinstance(d, int)]


class SymbolicNumber(NamedTuple):
    """A number that is a polynomial in the symbolic dimensions, or the inverse of one."""

    terms: Terms
    inverse: bool = False


class SymbolicOp(NamedTuple):
    """An operation for all sizes: what it is at the first of the points, and its general parts."""

    first: Op
    operands: Sequence[Value]
    results: Sequence[Value]
    attributes: Attributes
    regions: Sequence[Block]

    @property
    def tensors(self) -> list[SymbolicValue]:
        """The operands of an operation on tensors."""
        found = [v for v in self.operands if isinstance(v, SymbolicValue)]
        assert len(found) == len(self.operands)
        return found

    @property
    def result(self) -> SymbolicValue:
        """The type of its only result."""
        (found,) = self.results
        assert isinstance(found, SymbolicValue)
        return found


def place_of(op: Op) -> str:
    """An operation and the user's line, for messages."""
    if op.source.code is None:
        return op.name
    line, _ = op.source.position()
    return f"{op.name} (at {op.source.filename}:{line})"


def refusal(op: Op) -> SizeDependenceError:
    """The error for operations of which no general one can be made."""
    return SizeDependenceError(
        f"{place_of(op)} cannot be compiled for symbolic dimensions: it takes forms that differ "
        f"in more "
        f"than sums and products of them. {ADVICE}"
    )


def needs_constant(op: Op) -> SizeDependenceError:
    """The error for an operation that takes a symbolic dimension where there must be a number."""
    return SizeDependenceError(
        f"{place_of(op)} cannot be compiled for symbolic dimensions: it needs one as a constant. "
        f"{ADVICE}"
    )


def product(dims: Sequence[Dim]) -> Dim:
    """The product of some extents."""
    total: Terms = {(): 1}
    for dim in dims:
        factors = {(): dim} if isinstance(dim, int) else dim
        result: Terms = {}
        for m, a in total.items():
            for n, b in factors.items():
                key = tuple(sorted(m + n))
                result[key] = result.get(key, 0) + a * b
        total = result
    return total.get((), 0) if not any(total) else total


def signless(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the same bits as signed integers, where `dtype` is one of unsigned ones."""
    return np.dtype(f"i{dtype.itemsize}") if element_type(dtype).startswith("u") else dtype


class SizeValues:
    """What one function computes from the sizes of its arguments, once, before all else."""

    def __init__(self, arguments: Sequence[SymbolicValue]) -> None:
        self._arguments = arguments
        self._builder = Builder(Block())
        self._known: dict[object, Value] = {}

    @property
    def ops(self) -> list[Op]:
        """The operations that do."""
        return self._builder.block.ops

    def define(
        self,
        name: str,
        operands: Sequence[Value],
        out: Value,
        attributes: Attributes = NO_ATTRIBUTES,
    ) -> Value:
        """One operation with this result; the result of an equal one if there is one."""
        key = name, tuple(operands), out.type, tuple(attributes.items())
        if key not in self._known:
            self._known[key] = out
            self._builder.append(name, operands, (out,), attributes)
        return self._known[key]

    def index(self, value: int) -> Value:
        return self.define("arith.constant", (), PlainValue(INDEX), {"value": value})

    def _combined(self, name: str, x: Value, y: Value) -> Value:
        return self.define(f"arith.{name}", (x, y), PlainValue(x.type))

    def _size(self, name: str) -> Value:
        """The value of a symbolic dimension."""
        for argument, axis, dim in self._single(name):
            value = self._extent(argument, axis)
            if dim.get((), 0):
                value = self._combined("subi", value, self.index(dim[()]))
            if dim[(name,)] != 1:
                value = self._combined("divui", value, self.index(dim[(name,)]))
            return value
        raise SizeDependenceError(
            f"a function of the program needs the symbolic dimension {name}, and none of its "
            f"arguments has "
            "it as a size of its own"
        )

    def _extent(self, argument: SymbolicValue, axis: int) -> Value:
        """A size of an argument."""
        return self.define("tensor.dim", (argument, self.index(axis)), PlainValue(INDEX))

    def _single(self, name: str) -> Iterator[tuple[SymbolicValue, int, Terms]]:
        """The extents of arguments that this size alone decides, and nothing but it."""
        for argument in self._arguments:
            for axis, dim in enumerate(argument.dims):
                if not isinstance(dim, int) and (name,) in dim and not set(dim) - {(), (name,)}:
                    yield argument, axis, dim

    def _called(self, name: str) -> Value:
        """The value of a function of two sizes."""
        function, left, right = parsed_call(name)
        x, y = self.value(left), self.value(right)
        if function in ("max", "min"):
            return self._combined(f"{function}si", x, y)
        # Rounded down, as in Python, whatever the signs: rem(rem(x, y) + y, y) is the remainder.
        rest = self._combined("remsi", x, y)
        rest = self._combined("remsi", self._combined("addi", rest, y), y)
        if function == "mod":
            return rest
        return self._combined("divsi", self._combined("subi", x, rest), y)

    def value(self, dim: Dim) -> Value:
        """A size as a value of type index."""
        if isinstance(dim, int):
            return self.index(dim)
        if not dim:
            return self.index(0)
        total: Value | None = None
        for monomial, factor in dim.items():
            part = self.index(factor) if factor != 1 or not monomial else None
            for name in monomial:
                size = self._called(name) if is_call(name) else self._size(name)
                part = size if part is None else self._combined("muli", part, size)
            assert part is not None
            total = part if total is None else self._combined("addi", total, part)
        assert total is not None
        return total

    def difference(self, x: Dim, y: Dim) -> Value:
        """One size less another."""
        return self._combined("subi", self.value(x), self.value(y))

    def vector(self, dims: Sequence[Dim]) -> Value:
        """Sizes as a tensor of rank 1."""
        return self.define(
            "tensor.from_elements",
            [self.value(d) for d in dims],
            PlainValue(f"tensor<{len(dims)}xindex>"),
        )

    def symbolic_dims(self, x: SymbolicValue) -> list[Value]:
        """The symbolic dimensions of a value."""
        return [self.value(d) for d in x.symbolic_dims]

    def scalar(self, number: SymbolicNumber, dtype: np.dtype[Any]) -> Value:
        """A number as a tensor of rank 0."""
        plain = signless(dtype)
        element = element_type(plain)
        value = self.value(number.terms)
        if dtype.kind in "iu":
            value = self.define("arith.index_cast", (value,), PlainValue(element))
        else:
            value = self.define("arith.index_cast", (value,), PlainValue("i64"))
            value = self.define("arith.sitofp", (value,), PlainValue(element))
            if number.inverse:
                one = self.define("arith.constant", (), PlainValue(element), {"value": "1.0"})
                value = self._combined("divf", one, value)
        made = self.define("tensor.from_elements", (value,), SymbolicValue((), plain))
        if plain == dtype:
            return made
        return self.define("stablehlo.bitcast_convert", (made,), SymbolicValue((), dtype))


class SymbolicBuilder(Builder):
    """Writes the operations of one block of a function of symbolic shapes."""

    def __init__(
        self,
        block: Block,
        sizes: SizeValues,
        broadcasts: dict[Value, tuple[SymbolicValue, list[int]]],
        *,
        joins: bool,
    ) -> None:
        super().__init__(block)
        self.sizes = sizes
        self.broadcasts = broadcasts
        """What values are broadcasts of, in this function, and along which axes."""

        self.joins = joins
        """Whether arrays are joined along any axis; else only along symbolic ones."""

    def make(
        self,
        name: str,
        operands: Sequence[Value],
        dims: Sequence[Dim],
        dtype: np.dtype[Any],
        attributes: Attributes = NO_ATTRIBUTES,
        regions: Sequence[Block] = (),
    ) -> SymbolicValue:
        """One operation with one result."""
        out = SymbolicValue(dims, dtype)
        self.append(name, operands, (out,), attributes, regions)
        return out

    def as_it_is(self, op: SymbolicOp) -> Sequence[Value]:
        """The operation with symbolic types; no attribute may be symbolic."""
        if any(_has_terms(a) for a in op.attributes.values()):
            raise needs_constant(op.first)
        self.append(op.first.name, op.operands, op.results, op.attributes, op.regions)
        return op.results

    def bitcast(self, x: SymbolicValue, dtype: np.dtype[Any]) -> SymbolicValue:
        """The same bits in another type."""
        if x.dtype == dtype:
            return x
        return self.make("stablehlo.bitcast_convert", (x,), x.dims, dtype)

    def signless(self, x: SymbolicValue) -> SymbolicValue:
        """The value as signed integers: IREE moves no unsigned ones with symbolic dimensions."""
        return self.bitcast(x, signless(x.dtype))


def _has_terms(attribute: object) -> bool:
    if isinstance(attribute, tuple) and not isinstance(attribute, SymbolicNumber):
        return any(map(_has_terms, attribute))
    return isinstance(attribute, (dict, SymbolicNumber))
