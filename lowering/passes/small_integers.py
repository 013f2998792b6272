"""Integers of less than a byte, which IREE packs, and then fails on most programs that have them.

Here they are held one to a byte: their MLIR type is that of a byte (`lowering/types.py`), and each
value is within the range of its own type. What an operation may take out of that is wrapped around.
NumPy's arrays hold such an integer in the lower bits of a byte whose upper bits are zero, and so do
the arguments and results of a program.
"""

from __future__ import annotations

from collections.abc import Collection

from xpr.core import dtypes
from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Block, Module, Op, PlainValue, Value
from xpr.lowering.ir.traits import Kind
from xpr.lowering.ir.writer import Writer
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_SMALL = frozenset(dtypes.SMALL_INT_TYPES)
_SMALL_KIND = "V"
"""What NumPy says of their kind; of few others."""
_MAKE_NUMBERS = frozenset({Kind.ELEMENTWISE, Kind.CONTRACTION, Kind.REDUCTION})
# Of integers within their range these make others within it.
_IN_RANGE = frozenset(
    f"stablehlo.{name}"
    for name in "and clamp map maximum minimum or remainder select shift_right_arithmetic sign "
    "xor".split()
)
# Whose lower bits depend on the lower bits of the operands only: it is enough to wrap the last one.
_OF_LOWER_BITS = frozenset(
    f"stablehlo.{name}" for name in ("add", "subtract", "multiply", "bitcast_convert", "return")
)


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Wraps small integers around where they may leave the range of their type."""
    del target, hints
    own = {function.name for function in module.functions}
    for function in module.functions:
        block = function.body
        _run_block(block, own)
        if function.visibility == "public":
            _enter(block)
            _leave(block)


def run_plain(module: Module) -> None:
    """As `run`, for plain StableHLO: arguments and results have types of their own width."""
    own = {function.name for function in module.functions}
    for function in module.functions:
        block = function.body
        _run_block(block, own)
        if function.visibility == "public":
            _enter_exactly(block)
            _leave_exactly(block)
            function.result_types = [v.type for v in block.ops[-1].operands]


def _exact(v: Value) -> PlainValue:
    sizes = "".join(f"{n}x" for n in v.shape)
    kind = "ui" if dtypes.kind(v.dtype) == "u" else "i"
    return PlainValue(f"tensor<{sizes}{kind}{dtypes.iinfo(v.dtype).bits}>")


def _enter_exactly(block: Block) -> None:
    arguments, ops = list(block.arguments), block.ops
    block.ops = []
    for i, v in enumerate(arguments):
        if v.dtype in _SMALL:
            arguments[i] = outer = _exact(v)
            outer.owner = block
            block.append(Op("stablehlo.convert", [outer], [v]))
    block.arguments, block.ops = arguments, block.ops + ops


def _leave_exactly(block: Block) -> None:
    end = block.ops.pop()
    results = list(end.operands)
    for i, v in enumerate(results):
        if v.dtype in _SMALL:
            results[i] = _exact(v)
            block.append(Op("stablehlo.convert", [v], [results[i]]))
    end.replace_operands(results)
    block.append(end)


def _enter(block: Block) -> None:
    """Wraps the arguments of a program around: NumPy's are not sign-extended."""
    small = [v for v in block.arguments if v.dtype in _SMALL]
    if small:
        ops, block.ops = block.ops, []
        writer = Writer(block)
        for v in small:
            _wrap(writer, v)
        block.ops += ops


def _leave(block: Block) -> None:
    """Clears the upper bits of a program's results."""
    end = block.ops[-1]
    if any(v.dtype in _SMALL for v in end.operands):
        block.ops.pop()
        writer = Writer(block)
        end.replace_operands(
            [_lower_bits(writer, v) if v.dtype in _SMALL else v for v in end.operands]
        )
        block.ops.append(end)


def _run_block(block: Block, own: Collection[str]) -> None:
    found = [op for op in block.ops if _leaves_range(op, own)]
    if found:
        leaving = set(found)
        ops, block.ops = block.ops, []
        writer = Writer(block)
        for op in ops:
            block.ops.append(op)
            if op in leaving:
                writer.source = op.source
                for v in op.results:
                    if v.dtype in _SMALL:
                        _wrap(writer, v)
    for op in block.ops:
        if op.kind is not Kind.DISPATCH:
            for region in op.regions:
                if not _is_of_lower_bits(region):
                    _run_block(region, own)


def _leaves_range(op: Op, own: Collection[str]) -> bool:
    """Whether an operation gives small integers that may be outside of their range."""
    for v in op.results:
        if v.dtype.kind == _SMALL_KIND and v.dtype in _SMALL:
            break
    else:
        return False
    kind = op.kind
    if kind is Kind.CALL:
        return op.attributes["callee"] not in own  # the host's are NumPy's
    if kind is Kind.REDUCTION or op.name == "stablehlo.scatter":
        return _is_of_lower_bits(op.regions[0])
    return op.name == "stablehlo.iota" or (kind in _MAKE_NUMBERS and op.name not in _IN_RANGE)


def _is_of_lower_bits(body: Block) -> bool:
    return all(op.name in _OF_LOWER_BITS for op in body.ops)


def _wrap(writer: Writer, x: Value) -> None:
    """Has all that uses `x` use its lower bits, the upper one of them as the sign."""
    uses, x.uses = x.uses, []
    bits = _lower_bits(writer, x)
    if dtypes.kind(x.dtype) == "i":
        sign = 1 << (dtypes.iinfo(x.dtype).bits - 1)
        bits = writer.binary("subtract", writer.xor(bits, sign), sign)
    mine, x.uses = x.uses, uses
    rewrite.replace_uses(x, bits)
    x.uses = mine


def _lower_bits(writer: Writer, x: Value) -> Value:
    return writer.and_(x, (1 << dtypes.iinfo(x.dtype).bits) - 1)


GUARD = Guard(
    run=run,
    gives="whole bytes",
    needs=needs("operands of kernels"),
    hazards=(
        Hazard(
            hazard="integers of 2 and 4 bits do not compile",
            guard="one to a byte, wrapped around (`lowering/passes/small_integers.py`)",
            tests="`tests/primitives/test_small_integers.py`",
        ),
    ),
)
