"""A jaxpr as a StableHLO module: functions, hidden arguments, guards and locations."""

from __future__ import annotations

import functools
import gc
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, last_uses
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.source_info import SourceInfo
from xpr.lowering.boundary_bytes import CARRIED_AS_BYTES, FunctionOfBytes, abi_type
from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.facts import (
    count_operations,
    has_control_flow,
    has_lasting_values,
    with_contractions,
)
from xpr.lowering.ir.graph import Block, Function, Module
from xpr.lowering.ir.printer import print_module
from xpr.lowering.ir.types import element_type, tensor_type
from xpr.lowering.ir.verifier import verify
from xpr.lowering.iree import versions
from xpr.lowering.loops.complex_passes import complex_passes
from xpr.lowering.loops.passes_over_memory import in_few_passes, one_pass_p
from xpr.lowering.loops.repeated_steps import in_rounds, rounds_p
from xpr.lowering.loops.stacked_parts import with_parts_combined
from xpr.lowering.passes import run_passes, small_integers
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints
from xpr.lowering.templates import Template, template_of
from xpr.runtimes.base import ENTRY, HostCall


@dataclass(frozen=True)
class LoweredModule:
    """A graph, its StableHLO text, and what the compiler and the runtime must know about it.

    The entry function takes the hidden arguments (`consts`) first, then the program's own.
    `donations` pairs an argument's index with the result written into its buffer. `debug_text()`
    is the text with the user's lines, which is needed only when something goes wrong.
    """

    graph: Module
    text: str
    debug_text: Callable[[], str]
    template: Callable[[], Template | None]
    name: str
    consts: tuple[Any, ...]
    in_avals: tuple[ShapedArray, ...]
    out_avals: tuple[ShapedArray, ...]
    donations: tuple[tuple[int, int], ...]
    host_calls: tuple[HostCall, ...]
    hints: ProgramHints
    elementwise: bool
    flops: float
    bytes_accessed: float
    flops_by_place: Mapping[SourceInfo, float]
    """The same for each place: its equations, and those of the programs inside them."""

    def for_all_sizes(self, graph: Module) -> LoweredModule:
        """The module of a graph with symbolic dimensions, of which this is one for some sizes."""
        return replace(
            self,
            graph=graph,
            text=module_text(graph, self.name),
            debug_text=functools.partial(module_text, graph, self.name, locations=True),
            template=_no_template,
        )


@dataclass(frozen=True)
class _Lowered:
    """A private function: its name, and the program's owner."""

    symbol: str
    closed: ClosedJaxpr


class ModuleBuilder:
    """Collects the functions of one module."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._reduction_length = 1
        self.flops = 0.0
        self.bytes_accessed = 0.0
        self.flops_by_place: dict[SourceInfo, float] = {}
        self.module = Module(target.module_attributes)
        self._host_calls: dict[str, HostCall] = {}
        self._symbols: set[str] = set()
        self._lowered: dict[int, _Lowered] = {}
        self._inlined: dict[Any, ClosedJaxpr] = {}

    def symbol(self, wish: str) -> str:
        """A function name like `wish` that is still free."""
        base = re.sub(r"[^A-Za-z0-9_]", "_", wish) or "f"
        name, n = base, 1
        while name in self._symbols:
            name, n = f"{base}_{n}", n + 1
        self._symbols.add(name)
        return name

    def note_reduction(self, length: int) -> None:
        """Records how many values a reduction combines into one result."""
        self._reduction_length = max(self._reduction_length, length)

    @property
    def hints(self) -> ProgramHints:
        """What passes go by, and the choice of compiler flags."""
        hints = ProgramHints(reduction_length=self._reduction_length)
        return hints if self.target.plain else with_contractions(hints, self.module)

    def host_call(
        self,
        ctx: LoweringContext,
        wish: str,
        function: Callable[..., Any],
        operands: Sequence[Value],
        results: Sequence[tuple[Shape, np.dtype[Any]]],
        *,
        in_place: bool = False,
        out: bool = False,
    ) -> list[Value]:
        """A call of a NumPy function of this process from the compiled program.

        Only for targets with `host_calls`; `function` gets read-only arrays and returns arrays
        (a tuple for several results) of the promised shapes and dtypes. If `in_place`, it gets one
        writable array and writes the result into it, which saves a copy; with `out` it gets a list
        `out` of arrays to write the results to, which saves one for each of them.
        """
        if not self.target.host_calls:
            raise AssertionError(f"target {self.target.name} has no host calls")
        dtypes = [v.dtype for v in operands], [d for _, d in results]
        if not CARRIED_AS_BYTES.isdisjoint((*dtypes[0], *dtypes[1])):
            as_bytes = [ctx.bitcast(x, abi_type(x.dtype)) for x in operands]
            found = self.host_call(
                ctx,
                wish,
                FunctionOfBytes(function, *map(tuple, dtypes)),
                as_bytes,
                [(shape, abi_type(d)) for shape, d in results],
                in_place=in_place,
                out=out,
            )
            return [ctx.bitcast(x, d) for x, d in zip(found, dtypes[1], strict=True)]
        inputs = tuple((v.shape, v.dtype) for v in operands)
        short = self.symbol(wish)
        call = HostCall(short, function, inputs, tuple(results), in_place, out)
        self._host_calls[short] = call
        symbol = f"xpr.{short}"
        ins, outs = ([tensor_type(*t) for t in types] for types in (inputs, results))
        self.module.declarations[symbol] = ins, outs
        return ctx.call(symbol, operands, results)

    # ---- functions

    def add_main(
        self, closed: ClosedJaxpr, donate: Sequence[int], *, embed_consts: bool = False
    ) -> tuple[tuple[int, int], ...]:
        """Lowers the entry function; returns which argument each donated result overwrites.

        The constants are its first arguments, or parts of the program with `embed_consts`.
        """
        jaxpr = closed.jaxpr
        self._symbols.add(ENTRY)
        offset = 0 if embed_consts else len(jaxpr.constvars)
        donations = _pair_donations(jaxpr, donate, offset)
        targets = dict(donations)
        variables = jaxpr.invars if embed_consts else [*jaxpr.constvars, *jaxpr.invars]
        for v in (*variables, *jaxpr.outvars):
            element_type(v.aval.dtype)  # raises for types that no program has
        abi = _same_type if self.target.plain else abi_type
        outer = [Value(v.aval.shape, abi(v.aval.dtype)) for v in variables]
        ctx = LoweringContext(self, Block(outer))
        consts = [ctx.dense(np.asarray(c)) for c in closed.consts] if embed_consts else []
        in_place = _is_one_elementwise_loop(jaxpr) and not self.target.plain
        attributes = [
            f" {{iree.abi.output = {targets[i]} : index}}" if in_place and i in targets else ""
            for i in range(len(outer))
        ]
        inner = [ctx.bitcast(o, v.aval.dtype) for o, v in zip(outer, variables, strict=True)]
        consts = consts if embed_consts else inner[:offset]
        results = self.lower_jaxpr(ctx, jaxpr, consts, inner[offset:], is_whole=True)
        results = [ctx.bitcast(r, abi(r.dtype)) for r in results]
        self._finish(ctx, ENTRY, results, attributes, targets)
        return donations

    def call(
        self,
        ctx: LoweringContext,
        closed: ClosedJaxpr,
        name: str,
        operands: Sequence[Value],
    ) -> list[Value]:
        """A call of a private function that computes `closed`, lowered once per module.

        Its arguments are the constants of `closed`, then its inputs.
        """
        operands = [*(ctx.dense(np.asarray(c)) for c in closed.consts), *operands]
        callee = self._lowered.get(id(closed))
        if callee is None:
            callee = self._lowered[id(closed)] = self._function(closed, name)
        return ctx.call(callee.symbol, operands, [(a.shape, a.dtype) for a in closed.out_avals])

    def _function(self, closed: ClosedJaxpr, name: str) -> _Lowered:
        jaxpr = closed.jaxpr
        symbol = self.symbol(name)
        values = [Value(v.aval.shape, v.aval.dtype) for v in (*jaxpr.constvars, *jaxpr.invars)]
        ctx = LoweringContext(self, Block(values))
        n = len(jaxpr.constvars)
        results = self.lower_jaxpr(ctx, jaxpr, values[:n], values[n:])
        self._finish(ctx, symbol, results)
        return _Lowered(symbol, closed)

    def _finish(
        self,
        ctx: LoweringContext,
        name: str,
        results: Sequence[Value],
        argument_attributes: Sequence[str] = (),
        donated: Collection[int] = (),
    ) -> None:
        private = name != ENTRY
        ctx.append("func.return", results)
        visibility = "private" if private else "public"
        types = [v.type for v in results]
        function = Function(name, visibility, ctx.block, types, argument_attributes, donated)
        self.module.functions.append(function)

    # ---- equations

    def lower_jaxpr(
        self,
        ctx: LoweringContext,
        jaxpr: Jaxpr,
        consts: Sequence[Value],
        args: Sequence[Value],
        source: SourceInfo | None = None,
        *,
        as_they_are: bool = False,
        is_whole: bool = False,
    ) -> list[Value]:
        """Emits the equations of `jaxpr` into `ctx` and returns its results.

        With `source` all of them are told to come from that place. With `as_they_are` none of them
        are put together. `is_whole` says that they are the whole program.
        """
        env: dict[Var, Value] = {}
        env.update(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(atom: Atom) -> Value:
            if isinstance(atom, Literal):
                return ctx.literal(atom.val, atom.aval.dtype, atom.aval.shape)
            return env[atom]

        apart = as_they_are or source is not None or ctx.in_region
        if ctx.target.single_dispatch_loops and not apart:
            jaxpr = complex_passes(with_parts_combined(jaxpr))
            jaxpr = in_rounds(in_few_passes(jaxpr, is_whole=is_whole))
        dead = last_uses(jaxpr)
        outer = ctx.source, ctx.in_avals, ctx.out_avals
        for index, eqn in enumerate(jaxpr.eqns):
            ctx.source = eqn.source_info if source is None else source
            operands = [read(a) for a in eqn.invars]
            ctx.in_avals = [a.aval for a in eqn.invars]
            ctx.out_avals = [v.aval for v in eqn.outvars]
            out_avals = ctx.out_avals
            before = self.flops
            rule = ctx.rule_for(eqn.primitive)
            found = rule(ctx, *operands, **eqn.params)
            results = (found,) if isinstance(found, Value) else found
            for var, value, aval in zip(eqn.outvars, results, out_avals, strict=True):
                if value.shape != aval.shape or (
                    value.dtype is not aval.dtype and value.dtype != aval.dtype
                ):
                    raise AssertionError(
                        f"the lowering of {eqn.primitive.name} gives {value.type}, "
                        f"its abstract rule {aval.str_short()}"
                    )
                env[var] = value
            if eqn.primitive not in (one_pass_p, rounds_p):
                self.note_work(eqn)
                if source is None:
                    known = self.flops_by_place.get(eqn.source_info, 0.0)
                    self.flops_by_place[eqn.source_info] = known + self.flops - before
            for var in dead.get(index, ()):
                env.pop(var, None)
        ctx.source, ctx.in_avals, ctx.out_avals = outer
        return [read(v) for v in jaxpr.outvars]

    def note_work(self, eqn: JaxprEqn) -> None:
        """Counts what an equation reads, and an operation for each element that it makes."""
        for atom in eqn.invars:
            self.bytes_accessed += atom.aval.nbytes
        for v in eqn.outvars:
            self.flops += v.aval.size

    def note_pass(self, jaxpr: Jaxpr) -> None:
        """Counts the equations that became one pass, each at its place."""
        for eqn in jaxpr.eqns:
            before = self.flops
            self.note_work(eqn)
            known = self.flops_by_place.get(eqn.source_info, 0.0)
            self.flops_by_place[eqn.source_info] = known + self.flops - before

    def inline(
        self,
        ctx: LoweringContext,
        function: Callable[..., Any],
        operands: Sequence[Value],
        params: dict[str, Any],
    ) -> Any:
        single: list[bool] = []

        def flat(*args: Any) -> Sequence[Any]:
            out = function(*args, **params)
            single.append(not isinstance(out, (tuple, list)))
            return [out] if single[-1] else out

        closed = trace_to_jaxpr(flat, [v.aval for v in operands])
        consts = [ctx.dense(np.asarray(c)) for c in closed.consts]
        # What is traced here is traced under whatever line asked for the program.
        results = self.lower_jaxpr(ctx, closed.jaxpr, consts, list(operands), ctx.source)
        return results[0] if single[-1] else results

    @property
    def host_calls(self) -> tuple[HostCall, ...]:
        return tuple(self._host_calls.values())


def _same_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype


def _pair_donations(
    jaxpr: Jaxpr, donate: Sequence[int], offset: int
) -> tuple[tuple[int, int], ...]:
    """Pairs each donated argument with the first free result of its type."""
    free = {
        i: v for i, v in enumerate(jaxpr.outvars) if isinstance(v, Var) and v not in jaxpr.invars
    }
    taken: set[Var] = set()
    pairs = []
    for index in donate:
        aval = jaxpr.invars[index].aval
        for i, v in free.items():
            if v not in taken and v.aval.shape == aval.shape and v.aval.dtype == aval.dtype:
                pairs.append((offset + index, i))
                taken.add(v)
                del free[i]
                break
    return tuple(pairs)


_MAX_FUSED = 16


def _is_one_elementwise_loop(jaxpr: Jaxpr) -> bool:
    """Whether every element of the one result depends on the same element of the operands only.

    Only then a result may be told to lie in an argument's memory (`iree.abi.output`): IREE does
    not check that nothing reads the argument after the first write to it. In other programs a
    donated argument merely lacks the barrier below, so that IREE, which does check there, updates
    it in place where it can.
    """
    if len(jaxpr.outvars) != 1 or len(jaxpr.eqns) > _MAX_FUSED:
        return False
    shape = jaxpr.outvars[0].aval.shape
    return all(
        e.primitive.family == "elementwise"
        and all(a.aval.shape in (shape, ()) for a in (*e.invars, *e.outvars))
        for e in jaxpr.eqns
    )


_ELEMENTWISE = frozenset(("compare", "convert", "elementary", "elementwise", "integer", "power"))


def _is_elementwise(jaxpr: Jaxpr) -> bool:
    """Whether each element that it computes depends on numbers and the same element of operands."""
    shape = max((v.aval.shape for v in jaxpr.outvars), key=len, default=())
    for eqn in jaxpr.eqns:
        atoms = (*eqn.invars, *eqn.outvars)
        if not all(a.aval.shape in (shape, ()) for a in atoms):
            return False
        inner = eqn.params.get("jaxpr") if eqn.primitive.name == "jit" else None
        if inner is not None:
            if not _is_elementwise(inner.jaxpr):
                return False
        elif eqn.primitive.family not in _ELEMENTWISE:
            is_splat = eqn.primitive.name == "broadcast_in_dim" and not eqn.invars[0].aval.shape
            if not is_splat or len(eqn.invars) != 1:
                return False
    return True


def module_text(module: Module, name: str, *, locations: bool = False) -> str:
    """The text of a module; `locations` adds the user's line to each operation."""
    return print_module(module, module_name(name), locations=locations)


def module_name(name: str) -> str:
    """A name for a module that MLIR can read."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name) or "module"


def _no_template() -> None:
    """Numbers may depend on the sizes."""


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Has Python look for garbage later: all operations of a program are in use to its end.

    Thousands of new objects make it look again and again, among all objects of the process.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def lower_jaxpr_to_module(
    closed: ClosedJaxpr,
    target: Target,
    *,
    name: str,
    donate: Sequence[int] = (),
    embed_consts: bool = False,
) -> LoweredModule:
    """Lowers a closed jaxpr for `target`; `donate` lists inputs that may be overwritten."""
    builder = ModuleBuilder(target)
    with _garbage_kept():
        donations = builder.add_main(closed, donate, embed_consts=embed_consts)
        hints = builder.hints
        if not target.plain:
            compiler = versions.of_installed()
            known = compiler.number if compiler.is_known else None
            run_passes(builder.module, target, hints, known)
        else:
            small_integers.run_plain(builder.module)
        if state.enable_checks:
            verify(builder.module)
        text = module_text(builder.module, name)
    operations, barriers = count_operations(builder.module)
    hints = replace(
        hints,
        num_equations=len(closed.eqns),
        num_operations=operations,
        has_control_flow=has_control_flow(builder.module),
        has_barriers=barriers > 0,
        has_lasting_values=has_lasting_values(builder.module),
    )
    jaxpr = closed.jaxpr
    return LoweredModule(
        graph=builder.module,
        text=text,
        debug_text=functools.partial(module_text, builder.module, name, locations=True),
        template=functools.partial(template_of, builder.module, module_name(name)),
        name=name,
        consts=() if embed_consts else tuple(closed.consts),
        in_avals=tuple(v.aval for v in (*(() if embed_consts else jaxpr.constvars), *jaxpr.invars)),
        out_avals=tuple(v.aval for v in jaxpr.outvars),
        donations=donations,
        host_calls=builder.host_calls,
        hints=hints,
        elementwise=_is_elementwise(jaxpr),
        flops=builder.flops,
        bytes_accessed=builder.bytes_accessed,
        flops_by_place=builder.flops_by_place,
    )
