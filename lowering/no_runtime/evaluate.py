"""A module's byte code as a program: everything that does not depend on data is evaluated here.

The state at the beginning of each block is found by iteration to a fixed point. A register that
differs between the ways to a block becomes a parameter of the block. Objects (devices, executables,
lists of commands) must be the same on all ways, and are gone from the program that results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xpr.lowering.no_runtime import arithmetic
from xpr.lowering.no_runtime.code import (
    MOVE,
    NUMBER,
    REFERENCE,
    Edge,
    Function,
    Instruction,
    decode,
)
from xpr.lowering.no_runtime.hal import FUNCTIONS
from xpr.lowering.no_runtime.module_file import ModuleFile
from xpr.lowering.no_runtime.program import (
    Allocate,
    Base,
    Block,
    Branch,
    Compute,
    Copy,
    Jump,
    Name,
    Place,
    Program,
    Range,
    Site,
    Statement,
    Stop,
    Switch,
    Value,
)
from xpr.lowering.no_runtime.refusal import RefusedError, require
from xpr.lowering.no_runtime.values import (
    Buffer,
    Bytes,
    Frame,
    Half,
    MarkerOrNull,
    Null,
    Parameters,
    State,
    View,
)

_IMPORTED = 0x80000000
_DEEPEST = 32
_MOST_BLOCKS = 20_000

Key = tuple[tuple[int, int], ...]
"""A block: the function and the instruction of each frame."""


@dataclass(frozen=True)
class ArrayType:
    """An argument or a result: bytes of an element, and shape."""

    item_size: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        size = self.item_size
        for extent in self.shape:
            size *= extent
        return size


class _Restart(Exception):
    """More is known of allocations now."""


@dataclass
class _Way:
    """A jump out of a block, and the state there."""

    key: Key
    state: State


class _Evaluation:
    """The evaluation of a module's `main`."""

    def __init__(
        self,
        module: ModuleFile,
        inputs: Sequence[ArrayType],
        outputs: Sequence[ArrayType],
        kernels: Callable[[bytes], Sequence[str]],
    ) -> None:
        self.module = module
        self.functions: list[Function] = [decode(f) for f in module.functions]
        self.inputs, self.outputs = inputs, outputs
        self._names_of = kernels
        self._kernels: dict[int, Sequence[str]] = {}
        self.shared: dict[tuple[object, ...], int] = {}
        """The sites that are allocated while earlier arrays of theirs are in use: most of these."""
        self.sites: dict[tuple[object, ...], int] = {}
        self.sizes: list[int] = []

    def constant(self, number: int) -> bytes:
        return self.module.constants[number]

    def kernels(self, constant: int) -> Sequence[str]:
        if constant not in self._kernels:
            self._kernels[constant] = self._names_of(self.constant(constant))
        return self._kernels[constant]

    def run(self) -> Program:
        while True:
            try:
                return self._to_fixed_point()
            except _Restart:
                pass

    def _to_fixed_point(self) -> Program:
        self.sites, self.sizes = {}, []
        entry = self._entry()
        begin = _key(entry)
        states: dict[Key, State] = {begin: entry}
        parameters: dict[Key, Parameters] = {begin: Parameters(begin)}
        todo = [begin]
        ways: dict[Key, tuple[_BlockRun, list[_Way]]] = {}
        while todo:
            key = todo.pop()
            run = _BlockRun(self, key, states[key].copy())
            run.run()
            ways[key] = (run, run.ways)
            require(len(states) < _MOST_BLOCKS, "it has too many branches")
            for way in run.ways:
                known = states.get(way.key)
                if known is None:
                    states[way.key] = way.state
                    parameters[way.key] = Parameters(way.key)
                else:
                    merged = parameters[way.key].merge(known, way.state)
                    if merged == known:
                        continue
                    states[way.key] = merged
                if way.key not in todo:
                    todo.append(way.key)
        return self._program(begin, ways, parameters)

    def _entry(self) -> State:
        init = self.module.exports.get("__init")
        frame = Frame(init, {}) if init is not None else self.main_frame()
        return State([frame], began=init is None)

    def main_frame(self) -> Frame:
        main = self.module.exports.get("main")
        require(main is not None, "the module has no function main")
        assert main is not None
        function = self.functions[main]
        require(
            function.operand_types == "r" * len(self.inputs)
            and function.result_types == "r" * len(self.outputs),
            "main takes or returns another number of arrays",
        )
        views = [
            View(Buffer(Base("argument", i), 0, t.size), 8 * t.item_size, t.shape)
            for i, t in enumerate(self.inputs)
        ]
        return Frame(main, dict(zip(function.parameters, views, strict=True)))

    def _program(
        self,
        begin: Key,
        ways: dict[Key, tuple[_BlockRun, list[_Way]]],
        parameters: dict[Key, Parameters],
    ) -> Program:
        order = _reverse_postorder(
            begin, {k: [w.key for w in found] for k, (_, found) in ways.items()}
        )
        numbers = {key: i for i, key in enumerate(order)}
        blocks = []
        for key in order:
            run, found = ways[key]
            jumps = [
                Jump(numbers[w.key], tuple(_passed(parameters[w.key], w.state))) for w in found
            ]
            names = tuple(parameters[key].names.values())
            blocks.append(Block(names, run.statements, run.ending(jumps)))
        sites = [Site(size) for size in self.sizes]
        for place, number in self.sites.items():
            sites[number].slots = self.shared.get(place, 0) + 1
        executables = sorted(self._kernels)
        sizes = tuple(t.size for t in self.inputs), tuple(t.size for t in self.outputs)
        return Program(blocks, sites, tuple(executables), *sizes)


def _passed(parameters: Parameters, state: State) -> list[Value | Place]:
    made: list[Value | Place] = []
    for path, name in parameters.names.items():
        value = parameters.value(path, state)
        if value is None:
            value = Place(Base("argument", 0), 0) if name.kind == "ptr" else 0
        made.append(value)
    return made


def _key(state: State) -> Key:
    """The block at which a state's functions begin."""
    return tuple((f.function, 0) for f in state.frames)


def _reverse_postorder(begin: Key, following: dict[Key, list[Key]]) -> list[Key]:
    order: list[Key] = []
    seen = {begin}
    stack = [(begin, iter(following[begin]))]
    while stack:
        key, rest = stack[-1]
        for other in rest:
            if other not in seen:
                seen.add(other)
                stack.append((other, iter(following[other])))
                break
        else:
            order.append(key)
            stack.pop()
    return order[::-1]


class _BlockRun:
    """The evaluation of one block, from its state to the ways out of it."""

    def __init__(self, whole: _Evaluation, key: Key, state: State) -> None:
        self.whole, self._key, self.state = whole, key, state
        self.statements: list[Statement] = []
        self.ways: list[_Way] = []
        self._condition: Value = 0
        self._kind = "jump"
        self._at = key[-1][1]
        self._made = 0

    # ---- what `hal.py` asks for

    def emit(self, statement: Statement) -> None:
        self.statements.append(statement)

    def key(self) -> tuple[object, ...]:
        self._made += 1
        return (self._key, self._at, len(self.state.frames), self._made)

    def name(self, kind: str) -> Name:
        return Name(self.key(), kind)

    def constant(self, number: int) -> bytes:
        return self.whole.constant(number)

    def kernels(self, constant: int) -> Sequence[str]:
        return self.whole.kernels(constant)

    def compute(self, op: str, *operands: Value) -> Value:
        folded = arithmetic.folded(op, operands)
        if folded is not None:
            return folded
        target = self.name(arithmetic.result_kind(op))
        self.emit(Compute(target, op, operands))
        return target

    def allocate(self, size: Value) -> Buffer:
        if not isinstance(size, int):
            raise RefusedError("the size of an array depends on data or on a symbolic dimension")
        whole = self.whole
        place = (*self._key, self._at)
        site = whole.sites.setdefault(place, len(whole.sizes))
        if site == len(whole.sizes):
            whole.sizes.append(size)
        require(whole.sizes[site] == size, "an allocation has several sizes")
        occupied = self._holders(site)
        if len(occupied) > whole.shared.get(place, 0):
            whole.shared[place] = len(occupied)
            raise _Restart
        sites = frozenset({site})
        if place not in whole.shared:
            return Buffer(Base("site", site), 0, size, sites)
        target = self.name("ptr")
        self.emit(Allocate(target, site, tuple(occupied)))
        return Buffer(target, 0, size, sites)

    def _holders(self, site: int) -> list[Place]:
        """The addresses that live registers and variables may have in a site."""
        found: dict[Place, None] = {}
        values: list[object] = list(self.state.references.values())
        for depth, frame in enumerate(self.state.frames):
            function = self.whole.functions[frame.function]
            top = depth + 1 == len(self.state.frames)
            live = function.live[self._at + 1 if top else self.state.frames[depth + 1].back_to]
            values += [v for r, v in frame.registers.items() if r in live]
        for value in values:
            for buffer in self.state.buffers_of(value):
                if site in buffer.sites:
                    found[Place(buffer.base, 0)] = None
        return list(found)

    # ---- registers

    @property
    def frame(self) -> Frame:
        return self.state.frames[-1]

    def _take(self, register: int) -> Any:
        slot = register & (NUMBER | REFERENCE) if register & REFERENCE else register
        found = self.frame.registers.get(slot)
        require(found is not None, "it reads a register that differs between the ways to a block")
        if register & REFERENCE and register & MOVE:
            del self.frame.registers[slot]
        return found

    def _read(self, register: int, kind: str) -> Any:
        if kind == "r":
            return self._take(register)
        if kind == "I":
            low, high = self._take(register), self._take(register + 1)
            if isinstance(low, Half) and isinstance(high, Half) and low.whole == high.whole:
                return low.whole
            if not isinstance(low, int) or not isinstance(high, int):
                raise RefusedError("it reads halves of different numbers")
            return low | high << 32
        found = self._take(register)
        if isinstance(found, Half):
            op = "HighI64" if found.upper else "TruncI64I32"
            return self.compute(op, found.whole)
        return found

    def _write(self, register: int, kind: str, value: Any) -> None:
        if kind == "r":
            self.frame.registers[register & (NUMBER | REFERENCE)] = value
        elif kind == "I":
            self.frame.registers[register] = Half(value, False)
            self.frame.registers[register + 1] = Half(value, True)
        else:
            self.frame.registers[register] = value

    # ---- instructions

    def run(self) -> None:
        for _ in range(1_000_000):
            function = self.whole.functions[self.frame.function]
            i = function.instructions[self._at]
            # The initializer is followed as it runs, and comes to an instruction several times.
            if self.state.began:
                self._made = 0
            if self._step(function, i):
                return
        raise RefusedError("it takes too long")

    def ending(self, jumps: list[Jump]) -> Any:
        """The block's terminator."""
        if self._kind == "jump":
            return jumps[0]
        if self._kind == "branch":
            return Branch(self._condition, *jumps)
        if self._kind == "switch":
            return Switch(self._condition, jumps[0], tuple(jumps[1:]))
        return Stop(failed=self._kind == "fail")

    def _step(self, function: Function, i: Instruction) -> bool:
        """Evaluates an instruction; whether the block ends with it."""
        op = i.op
        if op in ("Branch", "CondBranch", "BranchTable"):
            return self._branch(i)
        if i.is_call:
            return self._call(i)
        if op == "Return":
            return self._return(function, i)
        if op == "Fail":
            code = self._read(i.registers[0], "i")
            if isinstance(code, int):
                self._kind = "fail"
                return True
            self._condition, self._kind = code, "fail"
            return True
        if op != "Block" and op != "DiscardRefs":
            self._compute(i)
        self._at += 1
        return False

    def _compute(self, i: Instruction) -> None:
        op, state = i.op, self.state
        kinds = i.kinds
        if op.startswith("GlobalStore"):
            value = self._read(i.registers[0], kinds[0])
            require(not state.began, "it keeps values from one call to the next")
            if kinds == "r":
                state.references[i.value] = value
            else:
                state.numbers[i.value] = value
            return
        operands = [self._read(r, k) for r, k in zip(i.registers[:-1], kinds[:-1], strict=True)]
        target, kind = i.registers[-1], kinds[-1]
        value: Any
        if op == "GlobalLoadRef":
            value = state.references.get(i.value, Null())
        elif op.startswith("GlobalLoad"):
            value = state.numbers.get(i.value, 0)
        elif op in ("ConstI32", "ConstI64"):
            value = i.value
        elif op in ("ConstI32Zero", "ConstI64Zero"):
            value = 0
        elif op == "ConstRefZero":
            value = Null()
        elif op == "ConstRefRodata":
            value = Bytes(i.value)
        elif op == "AssignRef":
            (value,) = operands
        elif op == "SelectRef":
            require(isinstance(operands[0], int), "it chooses between objects by data")
            value = operands[1] if operands[0] else operands[2]
        elif op in ("CmpEqRef", "CmpNeRef"):
            unknown = any(isinstance(x, MarkerOrNull | Buffer | View) for x in operands)
            require(not unknown, "it compares objects that depend on data")
            value = int((operands[0] == operands[1]) == (op == "CmpEqRef"))
        elif op == "CmpNzRef":
            require(not isinstance(operands[0], MarkerOrNull), "it asks whether there is a fence")
            value = int(not isinstance(operands[0], Null))
        else:
            value = self.compute(op, *operands)
        self._write(target, kind, value)

    def _branch(self, i: Instruction) -> bool:
        edges = i.edges
        if i.op != "Branch":
            condition = self._read(i.registers[0], "i")
            if not isinstance(condition, int):
                self._condition = condition
                self._kind = "branch" if i.op == "CondBranch" else "switch"
                self.ways = [self._way(e) for e in edges]
                return True
            if i.op == "CondBranch":
                edges = [edges[0 if condition else 1]]
            else:
                edges = [edges[1 + condition] if condition < len(edges) - 1 else edges[0]]
        way = self._way(edges[0])
        if not self.state.began:
            self.state, self._at = way.state, edges[0].target
            return False
        self.ways = [way]
        return True

    def _way(self, edge: Edge) -> _Way:
        state = self.state.copy()
        registers = state.frames[-1].registers
        for source, target in edge.moves:
            slot = source & (NUMBER | REFERENCE) if source & REFERENCE else source
            value = registers.get(slot)
            if source & REFERENCE and source & MOVE:
                registers.pop(slot, None)
            place = target & (NUMBER | REFERENCE) if target & REFERENCE else target
            if value is None:
                registers.pop(place, None)
            else:
                registers[place] = value
        return self._leave(state, edge.target)

    def _leave(self, state: State, target: int) -> _Way:
        """A way to an instruction of the current function, with the registers that it needs."""
        for depth, frame in enumerate(state.frames):
            function = self.whole.functions[frame.function]
            top = depth + 1 == len(state.frames)
            live = function.live[target if top else state.frames[depth + 1].back_to]
            frame.registers = {r: v for r, v in frame.registers.items() if r in live}
        backs = [f.back_to for f in state.frames[1:]] + [target]
        key = tuple((f.function, at) for f, at in zip(state.frames, backs, strict=True))
        return _Way(key, state)

    def _call(self, i: Instruction) -> bool:
        after = i.edges[0].target if i.edges else self._at + 1
        if i.value & _IMPORTED:
            self._import(i)
            if i.edges and self.state.began:
                self.ways = [self._leave(self.state, after)]
                return True
            self._at = after
            return False
        callee = self.whole.functions[i.value]
        require(len(self.state.frames) < _DEEPEST, "its functions call each other too deep")
        values = [self._read(r, k) for r, k in zip(i.operands, callee.operand_types, strict=True)]
        self.state.frames.append(Frame(i.value, {}, after, i.results))
        for r, kind, value in zip(callee.parameters, callee.operand_types, values, strict=True):
            self._write(r, kind, value)
        if not self.state.began:
            self._at = 0
            return False
        self.ways = [self._leave(self.state, 0)]
        return True

    def _import(self, i: Instruction) -> None:
        source = self.whole.module.imports[i.value & ~_IMPORTED]
        function = FUNCTIONS.get((source.name.removeprefix("hal."), source.calling))
        if function is None or not source.name.startswith("hal."):
            raise RefusedError(f"it calls {source.name}, which needs a runtime")
        types, _, results = source.calling[1:].partition("_")
        types, results = types.replace("v", ""), results.replace("v", "")
        arguments: list[Any] = []
        registers, counts = iter(i.operands), iter(i.counts)
        at = 0
        while at < len(types):
            count = next(counts, 1)
            if types[at] != "C":
                arguments.append(self._read(next(registers), types[at]))
                at += 1
                continue
            end = types.index("D", at)
            arguments.append(count)
            for _ in range(count):
                arguments += [self._read(next(registers), kind) for kind in types[at + 1 : end]]
            at = end + 1
        values = function(self, arguments)
        for r, kind, value in zip(i.results, results, values, strict=True):
            self._write(r, kind, value)

    def _return(self, function: Function, i: Instruction) -> bool:
        values = [self._read(r, k) for r, k in zip(i.operands, function.result_types, strict=True)]
        frame = self.state.frames.pop()
        if self.state.frames:
            for r, kind, value in zip(frame.results, function.result_types, values, strict=True):
                self._write(r, kind, value)
            if not self.state.began:
                self._at = frame.back_to
                return False
            self.ways = [self._leave(self.state, frame.back_to)]
            return True
        if not self.state.began:
            self.state.began = True
            self.state.frames = [self.whole.main_frame()]
            self.ways = [self._leave(self.state, 0)]
            return True
        for k, (view, kind) in enumerate(zip(values, self.whole.outputs, strict=True)):
            require(isinstance(view, View), "it returns something that is not an array")
            require(view.shape == kind.shape, "a result has another type than it is said to have")
            target = Range(Place(Base("result", k), 0), kind.size)
            if kind.size:
                self.emit(Copy(Range(view.buffer.place, kind.size), target))
        self._kind = "stop"
        return True


def evaluate(
    module: ModuleFile,
    inputs: Sequence[ArrayType],
    outputs: Sequence[ArrayType],
    kernels: Callable[[bytes], Sequence[str]],
) -> Program:
    """The program of a module's function `main`. `kernels` gives the names of those in an object.

    Raises `RefusedError` for what needs a runtime.
    """
    return _Evaluation(module, inputs, outputs, kernels).run()
