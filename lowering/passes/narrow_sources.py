"""What is computed from narrower elements, and reduced, sliced, broadcast, scattered or contracted.

IREE computes it again in each dispatch that reads it. There reductions are wrong, without a word:
on processors those of parts of rows, on GPUs those of what is broadcast along other axes, of which
each invocation takes all. In a product of matrices each invocation of a shader adds the terms of
all others, or widens integers without their signs; on a processor a product takes twice as long.
The updates of a scatter would lie in the memory that a workgroup shares; so would all elements of
an array, or on a processor's stack, of which behind a reshape single ones are read. What IREE knows
not to be negative it divides as unsigned, which does not compile for SPIR-V. Here all of these are
written to memory before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.core import dtypes
from xpr.lowering.ir import rewrite
from xpr.lowering.ir.constants import splat_of
from xpr.lowering.ir.graph import Block, Function, Module, Op, Value
from xpr.lowering.ir.known_values import KnownValues
from xpr.lowering.ir.layouts import is_strided
from xpr.lowering.ir.memo import resolve
from xpr.lowering.ir.traits import ON_ELEMENTS, Kind
from xpr.lowering.ir.types import bits_of
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

# From so many uses of each element on, a product reads them from memory.
_REUSED = 16
_DIVISIONS = frozenset({"stablehlo.divide", "stablehlo.remainder"})
_SLICES = frozenset({"stablehlo.slice", "stablehlo.dynamic_slice"})
# What IREE lets a dispatch keep on a processor's stack, or in the memory that a workgroup shares.
_MOST_KEPT_BYTES = 32768
_MOVES = frozenset(f"stablehlo.{name}" for name in ("reshape", "transpose", "slice", "pad"))


class Origin(NamedTuple):
    """What a value may be computed from where it is read."""

    narrowest: int
    """The least width, in bits, of the elements that it was computed from."""
    width: int
    """That of what it was computed from place by place: what is broadcast does not count."""
    is_mixed: bool
    """Whether there are several such values."""
    is_broadcast: bool
    """Whether it runs along axes that what it was computed from does not have."""


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Writes what is computed from narrower elements to memory where it is read wrongly."""
    del hints
    walk = _Walk(module, target)
    walk.call(module.functions[-1], None)
    rewrite.bar_results(walk.written)
    rewrite.bar_operands(walk.places)


def _of_memory(x: Value) -> Origin:
    bits = bits_of(x.dtype)
    return Origin(bits, bits, False, False)


class _Origins:
    """The origins of the values of a function, found when they are asked for."""

    def __init__(self, known: KnownValues, clamps: bool) -> None:
        self._known = known
        # Whether the narrowest elements are also those that are perhaps not kept in memory.
        self._clamps = clamps
        self._found: dict[Value, Origin] = {}
        self._least: dict[Value, int] = {}

    def set(self, x: Value, origin: Origin) -> None:
        self._found[x] = origin
        self._least[x] = min(origin.narrowest, origin.width)

    def of(self, x: Value) -> Origin:
        return resolve(self._found, x, lambda v: _elements(v.op), self._computed)

    def is_plain(self, x: Value) -> bool:
        """Whether nothing that `x` was computed from has narrower elements, for a quick answer."""
        least = self._least
        pending = [x]
        while pending:
            v = pending[-1]
            if v in least:
                pending.pop()
                continue
            operands = _elements(v.op)
            if not operands:
                least[v] = bits_of(v.dtype)
                continue
            found = bits_of(v.dtype) if self._clamps else 64
            for u in operands:
                bits = least.get(u)
                if bits is None:
                    pending.append(u)
                    break
                found = min(found, bits)
            else:
                least[v] = found
        return least[x] >= (bits_of(x.dtype) if x.dtype.kind != "c" else 64)

    def widens(self, x: Value) -> bool:
        """Whether the elements are wider than some that they were computed from."""
        return not self.is_plain(x) and self.of(x).narrowest < bits_of(x.dtype)

    def is_light(self, x: Value) -> bool:
        """Whether IREE may compute it where it is reduced, and the reduction wrong."""
        if self.is_plain(x):
            return False
        origin = self.of(x)
        return origin.width < bits_of(x.dtype) and (origin.is_mixed or is_strided(x))

    def _computed(self, x: Value, operands: Sequence[Value]) -> Origin:
        if not operands:
            return _of_memory(x)
        bits = bits_of(x.dtype)
        origins = [self._found[v] for v in operands]
        varying = [o for v, o in zip(operands, origins, strict=True) if not self._known.is_known(v)]
        full = [o.width for o in varying if not o.is_broadcast]
        # Complex numbers are as wide as two of their parts.
        scale = _parts(x.dtype) / _parts(operands[-1].dtype)
        narrowest = int(scale * min(o.narrowest for o in origins))
        width = int(scale * max(full)) if full else bits
        return Origin(
            min(narrowest, bits) if self._clamps else narrowest,
            # A narrow result may be kept in memory; one of comparisons is rarely worth it.
            width if x.dtype == np.bool_ else min(bits, width),
            any(o.is_mixed for o in origins) or len(self._known.roots(x)) > 1,
            _grows(x) or (bool(varying) and not full),
        )


def _parts(dtype: np.dtype[Any]) -> int:
    return 2 if dtype.kind == "c" else 1


def _elements(op: Op | None) -> Sequence[Value]:
    """The operands that the elements of a result are computed from, where it is read."""
    if op is None or len(op.results) != 1 or op.kind not in ON_ELEMENTS:
        return ()
    return op.operands[:1] if op.name == "stablehlo.dynamic_slice" else op.operands


def _grows(x: Value) -> bool:
    """Whether it is a broadcast of fewer elements, but not of a constant."""
    op = x.op
    if op is None or op.name != "stablehlo.broadcast_in_dim":
        return False
    source = op.operands[0]
    return splat_of(source) is None and math.prod(x.shape) > math.prod(source.shape)


class _Walk:
    """What is to be written; functions are gone through as they are called."""

    def __init__(self, module: Module, target: Target) -> None:
        self.written: dict[Op, None] = {}
        self.places: dict[Op, list[int]] = {}
        self._target = target
        self._functions: Mapping[str, Function] = {f.name: f for f in module.functions}
        self._known = KnownValues()
        self._called: dict[tuple[str, tuple[Origin, ...]], list[Origin]] = {}
        self._reshaped: dict[Value, bool] = {}

    def call(self, function: Function, origins: Sequence[Origin] | None) -> list[Origin]:
        """What the results come from, if the arguments come from these."""
        arguments = function.body.arguments
        given = tuple(map(_of_memory, arguments) if origins is None else origins)
        key = function.name, given
        if key not in self._called:
            found = _Origins(self._known, self._target.repeats_conversions)
            for v, origin in zip(arguments, given, strict=True):
                found.set(v, origin)
            self._block(function.body, found)
            # Nobody asks for those of the program itself.
            results = () if origins is None else function.body.ops[-1].operands
            self._called[key] = [_handed_on(v, found) for v in results]
        return self._called[key]

    def _block(self, block: Block, origins: _Origins) -> None:
        target = self._target
        for op in block.ops:
            traits = op.traits
            if traits.forms_dispatches:
                for region in op.regions:
                    self._block(region, origins)
            elif op.name == "stablehlo.reduce":
                for i, v in enumerate(op.operands[: len(op.operands) // 2]):
                    self._reduced(op, i, v, origins)
            elif traits.kind is Kind.CONTRACTION:
                self._contraction(op, origins)
            elif traits.kind is Kind.CALL:
                self._inlined(op, origins)
            elif op.name in _SLICES:
                self._sliced(op, origins)
            elif target.repeats_conversions:
                self._computed_by_invocations(op, origins)

    def _inlined(self, op: Op, origins: _Origins) -> None:
        function = self._functions.get(op.attributes["callee"])
        if function is None:
            return  # a call of the host
        given = [_handed_on(v, origins) for v in op.operands]
        if not self._target.repeats_conversions:
            given = [
                o._replace(narrowest=bits_of(v.dtype))
                for o, v in zip(given, op.operands, strict=True)
            ]
        for v, origin in zip(op.results, self.call(function, given), strict=True):
            origins.set(v, origin)

    def _reduced(self, op: Op, place: int, x: Value, origins: _Origins) -> None:
        for part in _real_values(x):
            if origins.is_light(part):
                source = _behind_blocks(part) if origins.of(part).is_mixed else part
                self._write(op, place, source, origins)

    def _sliced(self, op: Op, origins: _Origins) -> None:
        """Of a range IREE computes what is read, of elements that lie apart or alone all."""
        x, result = op.operands[0], op.result
        is_apart = op.name == "stablehlo.dynamic_slice" or is_strided(result)
        if not (is_apart or math.prod(result.shape) == 1):
            return
        if math.prod(x.shape) * bits_of(x.dtype) // 8 <= _MOST_KEPT_BYTES:
            return
        if origins.widens(x) and self._is_reshaped(x):
            self._write(op, 0, x, origins)

    def _is_reshaped(self, x: Value) -> bool:
        """Whether a reshape is among what the elements are computed by."""
        found = self._reshaped
        return resolve(
            found,
            x,
            lambda v: _elements(v.op),
            lambda v, of: _is_reshape(v) or any(found[u] for u in of),
        )

    def _contraction(self, op: Op, origins: _Origins) -> None:
        uses = _uses(op)
        is_reused = uses >= _REUSED
        target = self._target
        is_needed = target.repeats_conversions or (is_reused and target.host_memory)
        for i, v in enumerate(op.operands):
            x, place = _behind_moves(v), v
            if x.op is not None and x.op.name == "stablehlo.convert":
                source = x.op.operands[0]
                if dtypes.kind(source.dtype) == dtypes.kind(x.dtype) == "i":
                    if target.repeats_conversions:
                        # Shaders load four elements at once, and widen them without their signs.
                        if bits_of(source.dtype) < bits_of(x.dtype):
                            self._write(op, i, x, origins)
                        continue
                    # The product takes the conversion in, and is one of the narrow type.
                    x, place = _behind_moves(source), source
                elif dtypes.kind(source.dtype) == "f" and source.dtype.itemsize == 2:
                    # So it does here, too, and takes twice to three times as long on processors.
                    if uses >= target.forms.widened_from_uses or _is_depthwise(op):
                        self._write(op, i, _behind_blocks(v), origins)
                        continue
                    x, place = _behind_moves(source), source
            if is_needed and origins.widens(x):
                self._write(op, i, _behind_blocks(place), origins)

    def _computed_by_invocations(self, op: Op, origins: _Origins) -> None:
        """What else SPIR-V gets wrong, or does not get through with."""
        if op.name == "stablehlo.broadcast_in_dim":
            if _grows(op.result) and origins.widens(op.operands[0]):
                self._write(op, 0, op.operands[0], origins)
        elif op.name == "stablehlo.scatter":
            for part in _real_values(_behind_moves(op.operands[2])):
                if origins.widens(part):
                    self._write(op, 2, _behind_moves(part), origins)
        elif op.name in _DIVISIONS and dtypes.kind(op.result.dtype) == "i":
            x = op.operands[0]
            if x.shape and origins.widens(x):
                self._write(op, 0, x, origins)

    def _write(self, op: Op, place: int, x: Value, origins: _Origins) -> None:
        """Has `x`, from which `op` takes an operand, written to memory."""
        if x.op is None:
            self.places.setdefault(op, []).append(place)
        else:
            self.written[x.op] = None
            origins.set(x, _of_memory(x))


def _is_depthwise(op: Op) -> bool:
    """Whether it is a convolution of single features: of two types it does not compile."""
    if op.name != "stablehlo.convolution":
        return False
    return op.attributes["feature_group_count"] > 1 and op.operands[1].shape[-2] == 1


def _handed_on(x: Value, origins: _Origins) -> Origin:
    if origins.is_plain(x):
        return _of_memory(x)
    origin = origins.of(x)
    return origin._replace(is_mixed=origins.is_light(x))


# How often each element of a convolution's operands is used, more or less.
_OFTEN = 1 << 30


def _uses(op: Op) -> int:
    """How often each element is used: the lesser one of the numbers of rows and columns."""
    if op.name == "stablehlo.convolution":
        return _OFTEN
    sides = (
        math.prod(n for i, n in enumerate(v.shape) if i not in (*contracted, *batch))
        for v, contracted, batch in zip(
            op.operands, op.attributes["contracting"], op.attributes["batching"], strict=True
        )
    )
    return min(sides)


def _real_values(x: Value) -> Sequence[Value]:
    """The parts that complex numbers are made of; else the value alone."""
    return x.op.operands if x.op is not None and x.op.name == "stablehlo.complex" else (x,)


def _behind_moves(x: Value) -> Value:
    """The value whose elements these are, in other places."""
    while (op := x.op) is not None and (op.name in _MOVES or _is_plain_bitcast(op)):
        x = op.operands[0]
    return x


def _behind_blocks(x: Value) -> Value:
    """The value that is reduced in blocks, of which this is one."""
    while (op := x.op) is not None:
        if op.name == "stablehlo.slice":
            if sum(use.name == op.name for use in op.operands[0].uses) < 2:
                break
        elif op.name != "stablehlo.reshape" and not _is_plain_bitcast(op):
            break
        x = op.operands[0]
    return x


def _is_reshape(x: Value) -> bool:
    return x.op is not None and x.op.name == "stablehlo.reshape"


def _is_plain_bitcast(op: Op) -> bool:
    return op.name == "stablehlo.bitcast_convert" and op.operands[0].shape == op.result.shape


GUARD = Guard(
    run=run,
    gives="wide sources",
    needs=needs("plain conversions"),
    hazards=(
        Hazard(
            hazard=(
                "GPUs: a convolution of single features, one to a group, of float16 or bfloat16 "
                'summed in float32 does not compile ("expected collapsed type")'
            ),
            guard=(
                "its operands are converted to float32 and written to memory before "
                "(`lowering/rules/conv.py`, `lowering/passes/narrow_sources.py`)"
            ),
            tests=(
                "`test_convolutions_of_single_features_compile` in "
                "`tests/lowering/test_gpu_code.py`"
            ),
        ),
        Hazard(
            hazard=(
                "SPIR-V: signed division of what IREE knows not to be negative, as it was "
                "converted from unsigned bytes, becomes unsigned division, which does not compile"
            ),
            guard="it is written to memory first (`lowering/passes/narrow_sources.py`)",
            tests=("`test_narrow_elements_in_*` in `tests/lowering/test_narrow_sources.py`"),
        ),
        Hazard(
            hazard=(
                "what is computed from narrower elements is computed again in each dispatch that "
                "reads it, and reductions of it are wrong there, without a word: on CPUs those of "
                'rows that are reduced in parts (`softmax(x.astype("float32"))` of 100 '
                "columns), on Vulkan those of what is broadcast along other axes (`(x[:, :, None] "
                "* x[:, None]).sum(2)` of converted bytes)"
            ),
            guard=(
                "it is written to memory before it is reduced, on Vulkan before it is broadcast "
                "(`lowering/passes/narrow_sources.py`)"
            ),
            tests="`tests/lowering/test_narrow_sources.py`",
        ),
        Hazard(
            hazard=(
                "Vulkan: in a product of what was computed from narrower elements each invocation "
                "adds the terms of all others: results are 4 or 8 times too large"
            ),
            guard=("the operand is written to memory before (`lowering/passes/narrow_sources.py`)"),
            tests=(
                "`test_a_product_of_what_was_widened_*` in "
                "`tests/lowering/test_converted_products.py`"
            ),
        ),
        Hazard(
            hazard=(
                "Vulkan: a product of signed integers that were converted from narrower ones is "
                "one of the narrow type, whose elements a shader loads four at once and widens "
                'without their signs: `x.astype("int32") @ y.astype("int32")` of bytes counts '
                "-1 as 255"
            ),
            guard=(
                "the converted operand is written to memory before "
                "(`lowering/passes/narrow_sources.py`)"
            ),
            tests=(
                "`test_without_the_pass_products_lose_signs_on_vulkan`, "
                "`test_products_of_narrow_integers_in_wider_ones` in "
                "`tests/lowering/test_narrow_sources.py`"
            ),
        ),
        Hazard(
            hazard=(
                "of single or strided elements, behind a reshape, of what was converted from a "
                'narrower type (`(x.astype("float32") * a).reshape(-1)[::7] * b` of bytes) all '
                'elements are computed, on the stack ("exceeded stack allocation limit") or in '
                'a workgroup\'s memory ("exceeded the limit")'
            ),
            guard=("they are written to memory before (`lowering/passes/narrow_sources.py`)"),
            tests=(
                "`test_all_is_computed_for_single_elements_*`, "
                "`test_single_elements_behind_a_reshape` in "
                "`tests/lowering/test_narrow_sources.py`"
            ),
        ),
    ),
)
