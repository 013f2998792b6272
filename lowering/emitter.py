"""Operations of StableHLO as lines of text, in order: what every lowering context is built on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.primitive import Primitive
from xpr.core.source_info import UNKNOWN, SourceInfo
from xpr.lowering.folding import KNOWN, fold_of, roots_of
from xpr.lowering.producers import joined, note_operation
from xpr.lowering.registry import find_rule
from xpr.lowering.types import tensor_type
from xpr.lowering.value import Shape, Value

if TYPE_CHECKING:
    from xpr.lowering.module import ModuleBuilder

# What makes new elements, which are not folded, and what rearranges those of its first operand.
_UNFOLDED = frozenset(
    {
        *("reduce", "reduce_window", "dot_general", "convolution"),
        *("while", "case", "sort", "scatter"),
    }
)
_BARRIER = "optimization_barrier"
# What may be computed where it is used, whatever it reads; and what is computed on its own.
_FUSED = frozenset({"reduce", "reduce_window", "dot_general", "convolution", "gather"})
_APART = frozenset({"while", "case", "if", _BARRIER})
# What has its elements in their places, what rearranges them (in methods that tell how it reads
# them), and what is used element by element in other places.
_ELEMENTWISE = frozenset({"map", "abs", "real", "imag", "complex", "bitcast_convert", "clamp"})
_ARRANGED = frozenset({"broadcast", "reshape", "transpose"})
_MOVED = frozenset({"slice", "concatenate", "pad", "reverse", "dynamic_slice"})
_OF_FIRST = frozenset({"gather", "dynamic_slice", "reverse", "broadcast_in_dim"})

Results = Sequence[tuple[Shape, np.dtype[Any]]]


class Emitter:
    """The lines of one function or one region, and the SSA names of its values."""

    # Whether the operations are those of a function or of control flow, which IREE fuses into
    # dispatches; those of a reduction, and of a loop on registers, lie inside of one.
    makes_dispatches = True

    def __init__(self, module: ModuleBuilder, prefix: str = "", indent: str = "    ") -> None:
        self.module = module
        self.target = module.target
        self.in_avals: list[ShapedArray] = []
        self.out_avals: list[ShapedArray] = []
        self.source: SourceInfo = UNKNOWN
        # Each entry is a whole operation; `sources` runs in step with it.
        self.lines: list[str] = []
        self.sources: list[SourceInfo] = []
        self._prefix = prefix
        self._indent = indent
        self._count = 0
        self._kept_apart: set[str] = set()

    def rule_for(self, primitive: Primitive) -> Callable[..., Any]:
        """The lowering rule of a primitive here."""
        return find_rule(primitive, self.target)

    @property
    def in_region(self) -> bool:
        """Whether the operations go into the region of another one, not into a function."""
        return bool(self._prefix)

    def fresh(self) -> str:
        """A new SSA name."""
        name = f"%{self._prefix}{self._count}"
        self._count += 1
        return name

    def emit(self, text: str) -> None:
        """Appends one operation."""
        self.lines.append(self._indent + text)
        self.sources.append(self.source)

    def assign(
        self, text: str, shape: Shape, dtype: np.dtype[Any], op: str = "", of: Sequence[Value] = ()
    ) -> Value:
        """Appends `%n = text` and returns the new value.

        `op` and `of` name the operation and the operands of what a compiler folds.
        """
        name = self.fresh()
        self.lines.append(f"{self._indent}{name} = {text}")
        self.sources.append(self.source)
        out = Value(name, shape, dtype)
        if of:
            out.fold, out.roots = fold_of(op, of), roots_of(op, of)
            out.product = any(v.product for v in of)
            self._note_origin(of, out)
            if any(v.reads for v in of):
                if op in _MOVED:
                    note_operation(self, name, [out])
                elif op not in _ARRANGED:
                    out.reads = joined(self, of)
        return out

    def _note_origin(self, operands: Sequence[Value], result: Value) -> None:
        """Notes what a result on elements may be computed from, where it is read.

        Where it matters for more than speed, the narrowest elements are also those that are perhaps
        not kept in memory.
        """
        bits = result.narrowest
        least = min(v.narrowest for v in operands)
        result.narrowest = min(least, bits) if self.target.repeats_conversions else least
        known = [v for v in operands if v.fold != KNOWN]
        full = [v.source_width for v in known if not v.spread]
        result.spread = bool(known) and not full
        width = max(full, default=bits)
        # A narrow result may be kept in memory; one of comparisons is rarely worth it.
        result.source_width = width if result.dtype == np.bool_ else min(bits, width)
        result.mixed = len(result.roots) > 1 or any(v.mixed for v in operands)

    def defines(self, x: Value) -> bool:
        """Whether `x` is the only result of an operation that was written here."""
        start = f"%{self._prefix}"
        return x.name.startswith(start) and x.name.removeprefix(start).isdigit()

    def hold(self, name: str, results: Results) -> None:
        """Puts the results of an operation that has been written behind a barrier.

        `name` is the SSA name of the operation, not of one of several results.
        """
        if name in self._kept_apart:
            return
        self._kept_apart.add(name)
        start = self._indent + name
        ends = (f"{start} ", f"{start}:")
        place = next(i for i, line in enumerate(self.lines) if line.startswith(ends))
        inner = f"%w{name[1:]}"
        rest = self.lines[place][len(start) :]
        types = ", ".join(tensor_type(*r) for r in results)
        barrier = (
            f'{self._indent}{_left(name, results)} = "stablehlo.{_BARRIER}"'
            f"({', '.join(_names(inner, results))}) : ({types}) -> ({types})"
        )
        self.lines[place : place + 1] = [f"{self._indent}{inner}{rest}", barrier]
        self.sources.insert(place, self.sources[place])

    def op(
        self,
        name: str,
        operands: Sequence[Value],
        results: Results,
        attributes: str = "",
        regions: Sequence[str] = (),
    ) -> list[Value]:
        """An operation in MLIR's generic form, with any number of results and regions.

        `attributes` is the inside of `<{...}>`, such as `dimension = 0 : i64`.
        """
        props = f" <{{{attributes}}}>" if attributes else ""
        body = f" ({', '.join(regions)})" if regions else ""
        outs = [tensor_type(s, d) for s, d in results]
        out_type = outs[0] if len(outs) == 1 else f"({', '.join(outs)})"
        args = ", ".join(v.name for v in operands)
        types = ", ".join(v.type for v in operands)
        found = self._named(f'"{name}"({args}){props}{body} : ({types}) -> {out_type}', results)
        operation = name.removeprefix("stablehlo.")
        if len(found) == 1 and operands and operation not in _UNFOLDED:
            of = operands[:1] if operation in _OF_FIRST else operands
            found[0].fold = fold_of(operation, of)
            found[0].product = operation != _BARRIER and any(v.product for v in of)
        if operation not in _APART:
            self._note_reads(operation, operands, found)
            if operands and operation not in _FUSED:
                for v in found:
                    self._note_origin(operands, v)
        return found

    def _note_reads(
        self, operation: str, operands: Sequence[Value], results: Sequence[Value]
    ) -> None:
        in_place = operation in _ELEMENTWISE and all(
            v.shape in ((), results[0].shape) for v in operands
        )
        if in_place:
            results[0].reads = joined(self, operands)
        elif operation in _FUSED or any(v.reads for v in operands):
            joined(self, operands)
            note_operation(self, results[0].name.partition("#")[0], results)

    def op1(
        self,
        name: str,
        operands: Sequence[Value],
        shape: Shape,
        dtype: np.dtype[Any],
        attributes: str = "",
        regions: Sequence[str] = (),
    ) -> Value:
        """`op` with one result."""
        return self.op(name, operands, [(shape, dtype)], attributes, regions)[0]

    def call(self, symbol: str, operands: Sequence[Value], results: Results) -> list[Value]:
        """A call of another function of the module."""
        types = ", ".join(v.type for v in operands)
        outs = ", ".join(tensor_type(s, d) for s, d in results)
        args = ", ".join(v.name for v in operands)
        return self._named(f"func.call @{symbol}({args}) : ({types}) -> ({outs})", results)

    def _named(self, text: str, results: Results) -> list[Value]:
        """Appends an operation and names its results."""
        base = self.fresh()
        self.emit(f"{_left(base, results)} = {text}" if results else text)
        named = zip(_names(base, results), results, strict=True)
        return [Value(name, shape, dtype) for name, (shape, dtype) in named]


def _left(base: str, results: Results) -> str:
    """What stands on the left of an operation."""
    return base if len(results) == 1 else f"{base}:{len(results)}"


def _names(base: str, results: Results) -> list[str]:
    """The SSA names of an operation's results."""
    return [base] if len(results) == 1 else [f"{base}#{i}" for i in range(len(results))]
