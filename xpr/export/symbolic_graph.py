"""The graph of a program for all sizes, made of those for several choices of the symbolic
dimensions.

What belongs together is found from the results backwards: the operations that define the operands
of operations that belong together, do so too. The order in which they stand does not count, nor
whether two constants are one at some of the sizes. An extent or an attribute that differs between
the choices must be a polynomial in the sizes; operations that need a symbolic dimension as a value
take their dynamic forms (`symbolic_forms.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from xpr.export.generalize import ADVICE, Fitter, SizeDependenceError
from xpr.export.symbolic_forms import FORMS
from xpr.export.symbolic_plain import PLAIN_FORMS, PlainSizes
from xpr.export.symbolic_values import (
    Dim,
    SizeValues,
    SymbolicBuilder,
    SymbolicNumber,
    SymbolicOp,
    SymbolicValue,
    place_of,
    refusal,
)
from xpr.lowering.ir.attributes import Table
from xpr.lowering.ir.graph import Attributes, Block, Function, Module, Op, PlainValue, Value
from xpr.lowering.ir.traits import Kind

Ops = tuple[Op, ...]
Values = tuple[Value, ...]
Blocks = tuple[Block, ...]
"""What belongs together: one for each choice of the sizes."""

# Of so many integers in a row each may be a symbolic dimension.
_ROW = 32


def general_graph(
    modules: Sequence[Module], fitter: Fitter, *, joins: bool = True, plain: bool = False
) -> Module:
    """The module for all sizes from those at the fitter's points.

    Without `joins`, arrays are joined along fixed axes by choices between padded ones. Modules of
    `plain` StableHLO stay that.

    Raises SizeDependenceError, naming the operation and the user's line, when an operation has no
    form for symbolic dimensions.
    """
    general = _General(modules, fitter, joins, plain)
    general.function(tuple(m.functions[-1].name for m in modules))
    return general.module


class _General:
    """The module under construction."""

    def __init__(self, modules: Sequence[Module], fitter: Fitter, joins: bool, plain: bool) -> None:
        first = modules[0]
        self.module = Module(first.attributes, dict(first.declarations))
        self.fitter = fitter
        self.joins = joins
        self.forms = PLAIN_FORMS if plain else FORMS
        self.sizes = PlainSizes if plain else SizeValues
        self._by_name = [{f.name: f for f in m.functions} for m in modules]
        self._names: dict[tuple[str, ...], str] = {}

    def function(self, names: tuple[str, ...]) -> str:
        """The name of the function for all sizes; it is made if it is not there."""
        if names in self._names:
            return self._names[names]
        if any(name not in known for name, known in zip(names, self._by_name, strict=True)):
            return names[0]  # a function of the host
        functions = [known[name] for name, known in zip(names, self._by_name, strict=True)]
        first = functions[0]
        taken = set(self._names.values())
        name = first.name if first.name not in taken else f"{first.name}_{len(taken)}"
        self._names[names] = name
        body = _FunctionBody(self, tuple(f.body for f in functions))
        block = body.made()
        types = [v.type for v in block.ops[-1].operands]
        self.module.functions.append(
            Function(name, first.visibility, block, types, first.argument_attributes, first.donated)
        )
        return name


class _FunctionBody:
    """The operations of one function that belong together."""

    def __init__(self, general: _General, bodies: Blocks) -> None:
        self._general = general
        self._fitter = general.fitter
        self._bodies = bodies
        self._values: dict[Values, Value] = {}
        self._ops: dict[Blocks, dict[Ops, None]] = {}
        self._broadcasts: dict[Value, tuple[SymbolicValue, list[int]]] = {}

    def made(self) -> Block:
        """The body for all sizes."""
        self._find()
        block = self._with_arguments(self._bodies)
        arguments = [v for v in block.arguments if isinstance(v, SymbolicValue)]
        self._sizes = self._general.sizes(arguments)
        self._write(self._bodies, block)
        for op in self._sizes.ops:
            op.block = block
        block.ops = [*self._sizes.ops, *block.ops]
        return block

    # ---- what belongs together

    def _find(self) -> None:
        """Follows operands from the ends of blocks, and from barriers that nothing uses."""
        pending = list(self._roots(self._bodies))
        while pending:
            ops = pending.pop()
            found = self._ops.get(tuple(op.block for op in ops if op.block is not None))
            if found is None:
                _other_forms(ops)
            if ops in found:
                continue
            self._check(ops)
            found[ops] = None
            for regions in zip(*(op.regions for op in ops), strict=True):
                pending += self._roots(regions)
            for values in zip(*(op.operands for op in ops), strict=True):
                definitions = tuple(v.op for v in values if v.op is not None)
                if len(definitions) == len(values):
                    pending.append(definitions)
                elif definitions:
                    _other_forms(definitions)

    def _roots(self, blocks: Blocks) -> list[Ops]:
        """What a block ends with, and the barriers of which nothing is used."""
        self._ops[blocks] = {}
        kept = [
            [op for op in b.ops[:-1] if op.kind is Kind.BARRIER and not _is_used(op)]
            for b in blocks
        ]
        ends = tuple(b.ops[-1] for b in blocks)
        if len({len(ops) for ops in kept}) != 1:
            _other_forms(ends)
        return [*zip(*kept, strict=True), ends]

    def _check(self, ops: Ops) -> None:
        shapes = {(op.name, len(op.operands), len(op.results), len(op.regions)) for op in ops}
        if len(shapes) != 1:
            _other_forms(ops)

    # ---- the operations for all sizes

    def _with_arguments(self, blocks: Blocks) -> Block:
        arguments = []
        for values in zip(*(b.arguments for b in blocks), strict=True):
            arguments.append(self._type(values, None))
            self._values[values] = arguments[-1]
        return Block(arguments)

    def _write(self, blocks: Blocks, block: Block) -> None:
        """The operations of a block, in the order of the first choice of the sizes."""
        builder = SymbolicBuilder(block, self._sizes, self._broadcasts, joins=self._general.joins)
        places = {op: i for i, op in enumerate(blocks[0].ops)}
        for ops in sorted(self._ops[blocks], key=lambda ops: places[ops[0]]):
            builder.source = ops[0].source
            made = self._operation(builder, ops)
            for i, v in enumerate(made):
                self._values[tuple(op.results[i] for op in ops)] = v

    def _operation(self, builder: SymbolicBuilder, ops: Ops) -> Sequence[Value]:
        first = ops[0]
        regions = []
        for blocks in zip(*(op.regions for op in ops), strict=True):
            regions.append(self._with_arguments(blocks))
            self._write(blocks, regions[-1])
        op = SymbolicOp(
            first,
            [self._operand(values, ops) for values in zip(*(o.operands for o in ops), strict=True)],
            [self._type(values, first) for values in zip(*(o.results for o in ops), strict=True)],
            self._attributes(ops),
            regions,
        )
        form = self._general.forms.get(first.name)
        is_symbolic = any(
            isinstance(v, SymbolicValue) and v.is_symbolic for v in (*op.operands, *op.results)
        )
        if form is None or (not is_symbolic and op.attributes is first.attributes):
            return builder.as_it_is(op)
        return form(builder, op)

    def _operand(self, values: Values, ops: Ops) -> Value:
        found = self._values.get(values)
        if found is None:  # arguments of several blocks, or at several places
            _other_forms(ops)
        return found

    def _type(self, values: Values, op: Op | None) -> Value:
        first = values[0]
        if type(first).type is not Value.type:  # inside of a dispatch that is written by hand
            if any(v.type != first.type for v in values):
                raise refusal(op or self._bodies[0].ops[0])
            return PlainValue(first.type)
        if len({(v.dtype, len(v.shape)) for v in values}) == 1:
            dims = [self._dim(sizes) for sizes in zip(*(v.shape for v in values), strict=True)]
            known = [d for d in dims if d is not None]
            if len(known) == len(dims):
                return SymbolicValue(known, first.dtype)
        raise refusal(op or self._bodies[0].ops[0])

    def _dim(self, sizes: Sequence[int]) -> Dim | None:
        if len(set(sizes)) == 1:
            return sizes[0]
        return self._fitter.fit(sizes)

    # ---- attributes

    def _attributes(self, ops: Ops) -> Attributes:
        first = ops[0].attributes
        if any(op.attributes.keys() != first.keys() for op in ops):
            raise refusal(ops[0])
        if "callee" in first:
            names = tuple(op.attributes["callee"] for op in ops)
            return {"callee": self._general.function(names)}
        if ops[0].name == "stablehlo.constant":
            return self._constant(ops)
        if all(op.attributes == first for op in ops):
            return first
        return {key: self._attribute(ops, [op.attributes[key] for op in ops]) for key in first}

    def _attribute(self, ops: Ops, values: Sequence[Any]) -> Any:
        first = values[0]
        if all(v == first for v in values):
            return first
        if all(isinstance(v, tuple) and len(v) == len(first) for v in values):
            return tuple(self._attribute(ops, items) for items in zip(*values, strict=True))
        found = self._dim(values) if all(type(v) is int for v in values) else None
        if found is None:
            raise refusal(ops[0])
        return found

    def _constant(self, ops: Ops) -> Attributes:
        """A number, or a row of integers, that may depend on the sizes."""
        dtype = ops[0].results[0].dtype
        tables = [op.attributes["value"] for op in ops]
        if all(t == tables[0] for t in tables):
            return ops[0].attributes  # without a look at its number, which may be NaN
        if all(isinstance(t, Table) and t.values.ndim == 1 for t in tables):
            rows = [t.values.tolist() for t in tables]
            if dtype.kind in "iu" and len({len(r) for r in rows}) == 1 and len(rows[0]) <= _ROW:
                dims = [self._dim(numbers) for numbers in zip(*rows, strict=True)]
                if None not in dims:
                    return {"row": tuple(dims)}
        numbers = [op.attributes.get("number") for op in ops]
        if any(n is None for n in numbers):
            raise refusal(ops[0])
        if dtype.kind == "f":
            rounded = [float(np.asarray(n, dtype)) for n in numbers]
            found = self._fitter.fit_float(rounded, dtype)
        else:
            terms = self._fitter.fit([int(n or 0) for n in numbers]) if dtype.kind != "b" else None
            found = None if terms is None else (terms, False)
        if found is None:
            raise refusal(ops[0])
        return {"symbolic": SymbolicNumber(*found)}


def _is_used(op: Op) -> bool:
    return any(v.uses for v in op.results)


def _other_forms(ops: Sequence[Op]) -> NoReturn:
    """Refuses programs that are not built alike; the error names where they part."""
    raise SizeDependenceError(
        "the program is lowered in different ways for different symbolic dimensions, as "
        f"{place_of(ops[0])} shows: an operation takes another form for large arrays than for "
        f"small ones. {ADVICE}"
    )
