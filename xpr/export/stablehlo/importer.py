"""From a module's operations to xpr's primitives: the walk, and what a rule sees of an operation.

`Importer.call` runs a function of the module on traced values, which makes a jaxpr when it is
traced. `rules/` has one function for each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.compile_time_eval import ensure_compile_time_eval
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.trace import Tracer, get_aval
from xpr.export.stablehlo.errors import StableHLOError
from xpr.export.stablehlo.form import (
    Block,
    Function,
    Module,
    Operation,
    Quantized,
    Tensor,
    Token,
    Tuple,
    Value,
    walk,
)

Rule = Callable[["Site"], Any]

_MOST_CALLS = 200
"""How deeply functions of a sound module call each other."""

_MOST_OPERATIONS = 1_000_000
"""A program does not expand to more operations than so many, by calls inside calls."""

_MOST_FOLDED = 64
"""The sizes of an array are fewer than so many."""

_NOT_FOLDED = frozenset(
    f"stablehlo.{name}"
    for name in "while case if custom_call rng rng_bit_generator sort composite".split()
) | {"func.call"}


class TokenValue:
    """The value of a token: order is that of the program."""


TOKEN = TokenValue()


class Scope:
    """The values of a block, and of those around it."""

    __slots__ = ("_around", "_values")

    def __init__(self, around: Scope | None = None) -> None:
        self._values: dict[Value, Any] = {}
        self._around = around

    def set(self, value: Value, found: Any) -> None:
        """Says what a value is."""
        self._values[value] = found

    def get(self, value: Value) -> Any:
        """What a value is; StableHLOError for one that is not defined before its use."""
        scope: Scope | None = self
        while scope is not None:
            if value in scope._values:
                return scope._values[value]
            scope = scope._around
        raise StableHLOError("the module uses a value before it is defined")


class Site:
    """An operation with the values of its operands: what an import rule is given."""

    __slots__ = ("importer", "op", "operands", "scope")

    def __init__(
        self, importer: Importer, op: Operation, operands: list[Any], scope: Scope
    ) -> None:
        self.importer, self.op, self.operands, self.scope = importer, op, operands, scope

    def error(self, text: str) -> StableHLOError:
        """An error that names the operation and its line."""
        return self.op.error(text)

    def operand(self, number: int) -> Any:
        """An operand."""
        if number >= len(self.operands):
            raise self.error(f"operand {number} is missing")
        return self.operands[number]

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or `default`."""
        found = self.op.attributes.get(name)
        return default if found is None else found

    def need(self, name: str) -> Any:
        """An attribute that must be there."""
        found = self.op.attributes.get(name)
        if found is None:
            raise self.error(f"the attribute {name} is missing")
        return found

    def int(self, name: str, default: int | None = None) -> int:
        """An integer attribute."""
        found = self.need(name) if default is None else self.get(name, default)
        if not isinstance(found, int | np.integer) or isinstance(found, bool):
            raise self.error(f"the attribute {name} must be an integer, got {found!r}")
        return int(found)

    def flag(self, name: str) -> bool:
        """A boolean attribute, false where it is left out."""
        return bool(self.get(name, False))

    def ints(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """An attribute with a list of integers."""
        found = self.need(name) if default is None else self.get(name, default)
        if isinstance(found, np.ndarray):
            found = found.reshape(-1).tolist()
        if not isinstance(found, tuple | list) or not all(isinstance(x, int) for x in found):
            raise self.error(f"the attribute {name} must be a list of integers, got {found!r}")
        return tuple(map(int, found))

    def pairs(self, name: str, count: int) -> tuple[tuple[int, int], ...]:
        """An attribute with `count` pairs of integers; zeros where it is left out."""
        found = self.get(name)
        if found is None:
            return ((0, 0),) * count
        table = np.asarray(found)
        if table.shape != (count, 2) or table.dtype.kind not in "iu":
            raise self.error(f"the attribute {name} must be {count} pairs, got {found!r}")
        return tuple((int(a), int(b)) for a, b in table)

    @property
    def type(self) -> Any:
        """The type of the only result."""
        return self.result_type(0)

    @property
    def type_or_none(self) -> Any:
        """The type of the first result; None without results."""
        return self.op.results[0].type if self.op.results else None

    def result_type(self, number: int) -> Any:
        """The type of a result."""
        if number >= len(self.op.results):
            raise self.error(f"result {number} is missing")
        return self.op.results[number].type

    def tensor(self, number: int = 0) -> Tensor:
        """The type of a result, which is a tensor."""
        found = self.result_type(number)
        if not isinstance(found, Tensor):
            raise self.error(f"the result must be a tensor, got {found!r}")
        return found

    def operand_type(self, number: int) -> Any:
        """The declared type of an operand."""
        if number >= len(self.op.operands):
            raise self.error(f"operand {number} is missing")
        return self.op.operands[number].type

    def region(self, number: int) -> Callable[..., list[Any]]:
        """A region as a function of flat values to a list of them."""
        return self.importer.region(self.block(number), self.scope)

    def block(self, number: int) -> Block:
        """A region's block."""
        if number >= len(self.op.regions):
            raise self.error(f"region {number} is missing")
        return self.op.regions[number]

    def known(self, x: Any) -> tuple[int, ...]:
        """The integers of an operand that must be known when the program is read, as a size is."""
        if isinstance(x, Tracer) or isinstance(x, TokenValue):
            raise self.error(
                "a size depends on values of arrays; sizes must follow from the shapes of the "
                "arguments"
            )
        return tuple(int(n) for n in np.asarray(x).reshape(-1))


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of a value."""
    return tuple(get_aval(x).shape)


def dtype_of(x: Any) -> np.dtype[Any]:
    """The dtype of a value."""
    return get_aval(x).dtype


class Importer:
    """Runs functions of one module on traced values."""

    def __init__(self, module: Module, rules: dict[str, Rule]) -> None:
        self.module = module
        self._rules = rules
        self._jaxprs: dict[Any, ClosedJaxpr] = {}
        self._calls: list[str] = []
        self._count = 0
        self._users: dict[Value, list[Operation]] | None = None
        self.mesh: Any = None
        self.manual_axes: tuple[str, ...] = ()
        self.open = any(map(_leaves_open, module.functions.values()))
        """Whether sizes are left open in the types, or come as operands."""

    def unknown(self) -> None:
        """StableHLOError, naming all, for operations of the module that have no rule."""
        names = {}
        for function in self.module.functions.values():
            for block in function.regions:
                for op in walk(block):
                    if op.name not in self._rules and not op.name.endswith(".return"):
                        names.setdefault(op.name, op)
        if names:
            first = next(iter(names.values()))
            raise first.error(
                f"the operation is unknown to xpr (unknown in all: {', '.join(sorted(names))})"
            )

    def users(self, value: Value) -> list[Operation]:
        """The operations that read a value."""
        if self._users is None:
            self._users = {}
            for function in self.module.functions.values():
                for block in function.regions:
                    for op in walk(block):
                        for v in op.operands:
                            self._users.setdefault(v, []).append(op)
        return self._users.get(value, [])

    def call(self, function: Operation, args: Sequence[Any]) -> list[Any]:
        """The results of a function of the module, inlined."""
        block = function.regions[0]
        name = str(function.attributes.get("sym_name"))
        if name in self._calls or len(self._calls) >= _MOST_CALLS:
            raise function.error(f"the function {name} calls itself, which no program may")
        if not block.operations:
            raise function.error(f"the function {name} has no body")
        if len(args) != len(block.arguments):
            raise function.error(
                f"the function {name} takes {len(block.arguments)} arguments, got {len(args)}"
            )
        self._calls.append(name)
        try:
            return self._block(block, args, None)
        finally:
            self._calls.pop()

    def jaxpr(self, function: Operation, args: Sequence[Any], fixed: dict[int, Any]) -> ClosedJaxpr:
        """The program of a function for arguments of these types, traced once.

        Those in `fixed`, by their places, have known values and are not arguments of the program.
        """
        avals = tuple(get_aval(x).update(weak_type=False) for x in args)
        values = tuple((i, np.asarray(x).tobytes()) for i, x in fixed.items())
        key = (function, tuple((a.shape, a.dtype) for a in avals), values, self.manual_axes)
        found = self._jaxprs.get(key)
        if found is None:

            def run(*xs: Any) -> list[Any]:
                rest = iter(xs)
                every = [fixed[i] if i in fixed else next(rest) for i in range(len(args))]
                return self.call(function, every)

            found = trace_to_jaxpr(run, [a for i, a in enumerate(avals) if i not in fixed])
            self._jaxprs[key] = found
        return found

    def _is_folded(self, op: Operation, operands: Sequence[Any]) -> bool:
        """Whether an operation on known values is computed now.

        That is so for scalars, with which JAX guards divisions; and while sizes are open for few
        integers, which may be sizes. The types decide, so that it is the same for all sizes.
        """
        if not operands or not all(map(is_known, operands)):
            return False
        for value in op.results:
            kind = value.type
            if not isinstance(kind, Tensor) or None in kind.shape or kind.size > _MOST_FOLDED:
                return False
            if not isinstance(kind.element, np.dtype):
                return False
            if kind.element.kind not in "biu" if self.open else kind.shape:
                return False
        return True

    def region(self, block: Block, scope: Scope) -> Callable[..., list[Any]]:
        """A block as a function."""
        return lambda *args: self._block(block, args, scope)

    def _block(self, block: Block, args: Sequence[Any], around: Scope | None) -> list[Any]:
        if len(args) != len(block.arguments):
            raise block.terminator.error(
                f"a region takes {len(block.arguments)} arguments, got {len(args)}"
            )
        scope = Scope(around)
        for value, arg in zip(block.arguments, args, strict=True):
            scope.set(value, arg)
        last = block.terminator
        if not last.name.endswith(".return"):
            raise last.error("a region must end with a return")
        for op in block.body:
            for value, found in zip(op.results, self.evaluate(op, scope), strict=True):
                scope.set(value, found)
        return [scope.get(v) for v in last.operands]

    def evaluate(self, op: Operation, scope: Scope) -> Sequence[Any]:
        """The results of an operation."""
        rule = self._rules.get(op.name)
        if rule is None:
            raise op.error("the operation is unknown to xpr")
        self._count += 1
        if self._count > _MOST_OPERATIONS:
            raise op.error(f"the program expands to more than {_MOST_OPERATIONS} operations")
        site = Site(self, op, [scope.get(v) for v in op.operands], scope)
        try:
            if op.name not in _NOT_FOLDED and self._is_folded(op, site.operands):
                with ensure_compile_time_eval():
                    found = rule(site)
            else:
                found = rule(site)
        except StableHLOError:
            raise
        except (
            TypeError,
            ValueError,
            IndexError,
            KeyError,
            AttributeError,
            OverflowError,
        ) as error:
            raise op.error(_first_line(error)) from error
        results = list(found) if isinstance(found, list) else [found]
        if len(results) != len(op.results):
            raise op.error(f"{len(op.results)} results were expected, got {len(results)}")
        for value, result in zip(op.results, results, strict=True):
            _check(op, value.type, result)
        return results


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__


_SIZED = frozenset(
    f"stablehlo.{name}"
    for name in (
        "dynamic_broadcast_in_dim dynamic_conv dynamic_gather dynamic_iota dynamic_pad "
        "dynamic_reshape real_dynamic_slice set_dimension_size"
    ).split()
)
"""Operations that take sizes as operands."""


def _leaves_open(function: Operation) -> bool:
    if any(_is_open(v.type) for v in _values(function)):
        return True
    return any(op.name in _SIZED for block in function.regions for op in walk(block))


def _values(function: Operation) -> list[Value]:
    out: list[Value] = []
    for block in function.regions:
        out += block.arguments
        for op in walk(block):
            out += op.results
    return out


def _is_open(type_: Any) -> bool:
    if isinstance(type_, Tuple):
        return any(map(_is_open, type_.elements))
    return isinstance(type_, Tensor) and None in type_.shape


def is_known(x: Any) -> bool:
    """Whether a value is an array that is known while the module is read."""
    return not isinstance(x, Tracer | TokenValue | tuple)


def _check(op: Operation, type_: Any, found: Any) -> None:
    """StableHLOError unless a result has the type that the module declares."""
    if isinstance(type_, Tensor):
        if isinstance(found, tuple | TokenValue):
            raise op.error(f"the result must be a tensor of shape {type_.shape}")
        aval = get_aval(found)
        same = len(aval.shape) == len(type_.shape) and all(
            want is None or want == size for want, size in zip(type_.shape, aval.shape, strict=True)
        )
        if not same or aval.dtype != type_.dtype:
            raise op.error(
                f"the result is declared as {type_.dtype}{list(type_.shape)}, the operands give "
                f"{aval.dtype}{list(aval.shape)}"
            )
    elif isinstance(type_, Token):
        if not isinstance(found, TokenValue):
            raise op.error("the result must be a token")
    elif isinstance(type_, Tuple):
        if not isinstance(found, tuple) or len(found) != len(type_.elements):
            raise op.error(f"the result must be a tuple of {len(type_.elements)}")
        for inner, value in zip(type_.elements, found, strict=True):
            _check(op, inner, value)
    else:
        raise op.error(f"the result has a type without a counterpart: {type_}")


def function_type(function: Operation) -> Function:
    """The type of a function of the module."""
    found = function.attributes.get("function_type")
    if not isinstance(found, Function):
        raise function.error("the function has no type")
    return found


def element_of(type_: Any) -> Quantized | None:
    """The quantized element type of a tensor type, if it has one."""
    element = type_.element if isinstance(type_, Tensor) else None
    return element if isinstance(element, Quantized) else None
