"""The trace that records equations: how a Python function becomes a jaxpr."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core.array import Array
from xpr.core.aval import ShapedArray, without_replication
from xpr.core.config import state
from xpr.core.context import context, current_stack
from xpr.core.effects import refuse_exact
from xpr.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    DebugInfo,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    effects_of,
    joined_effects,
)
from xpr.core.manual import result_types, varying_alike, varying_cast
from xpr.core.memory_spaces import in_same_memory
from xpr.core.primitive import get_primitive
from xpr.core.references import AbstractRef, Ref, belongs_to_trace, not_an_array
from xpr.core.source_info import SourceInfo
from xpr.core.source_info import current as current_source
from xpr.core.trace import (
    Trace,
    Tracer,
    check_leaks,
    check_python_int,
    get_aval,
    leaked,
    set_current_trace,
)

if TYPE_CHECKING:
    from xpr.core.primitive import Primitive


class JaxprTracer(Tracer):
    """A value of a function that is being traced to a jaxpr."""

    __slots__ = ("_source_info", "_var")

    def __init__(
        self, trace: JaxprTrace, aval: ShapedArray, var: Var, source: SourceInfo | None
    ) -> None:
        self._trace = trace
        self.aval = aval
        self._var = var
        self._source_info = source

    def _origin(self) -> str:
        return self._trace.describe_value(self)

    def _static_advice(self) -> str:
        if self._trace.debug_info.traced_for != "jit":
            return ""
        return ", or mark the argument static with static_argnums"

    def _leaked_from(self) -> str:
        return self._trace.describe_leak(self)


class JaxprTrace(Trace):
    """Records every primitive as an equation."""

    def __init__(self, debug_info: DebugInfo | None = None, deferred: bool = False) -> None:
        self.keeps_refs = True
        self.deferred = deferred
        # Whether types of constants that lie whole on all devices leave open how they are sharded.
        self.open_consts = False
        self.eqns: list[JaxprEqn] = []
        self._droppable: set[int] = set()
        self.constvars: list[Var] = []
        self.consts: list[Any] = []
        self._const_ids: dict[int, Var] = {}
        self._kept_alive: list[Any] = []
        self.invars: list[Var] = []
        self.alive = True
        self.debug_info = debug_info or DebugInfo()
        # The trace around, and the states of variables of mutable high types.
        self.outer = context.trace
        self.states: dict[Var, Any] = {}
        # How many of the current names are those of what is around the program.
        self.outer_names = 0

    def runs_eagerly(self) -> bool:
        return self.deferred and self.outer.runs_eagerly()

    def new_arg(self, aval: ShapedArray) -> Any:
        if aval.is_high:
            var = self._high_var(aval)
            self.invars.append(var)
            return self._high_tracer(var, None)
        var = Var(aval)
        self.invars.append(var)
        found = JaxprTracer(self, aval, var, None)
        return Ref(aval, self, tracer=found) if isinstance(aval, AbstractRef) else found

    def atom(self, x: Any) -> Atom:
        """The variable or literal that stands for `x` in this jaxpr."""
        if isinstance(x, JaxprTracer) and x._trace is self:
            return x._var
        if isinstance(x, Ref) and x.tracer is not None:
            if x.home is self:
                return x.tracer._var
            if not x.home.alive:
                raise leaked(x.tracer)
        if isinstance(x, Tracer) and not x._trace.alive:
            raise leaked(x)
        aval = get_aval(x)
        if not isinstance(x, (Array, Ref)) and not aval.is_high and not aval.shape:
            return Literal(_literal_value(x, aval), aval)
        var = self._const_ids.get(id(x))
        if var is None:
            if self.open_consts and aval.sharding is not None:
                aval = without_replication(aval)
            var = self._high_var(aval) if aval.is_high else Var(aval)
            self._const_ids[id(x)] = var
            self.constvars.append(var)
            # Keeping x itself keeps its id from being used again. A NumPy array may be written to
            # later by its owner, so the trace keeps its present values.
            if isinstance(x, np.ndarray):
                self.consts.append(np.array(x, dtype=aval.dtype, order="C"))
                self._kept_alive.append(x)
            elif state.mutable_arrays and not isinstance(x, (Ref, Tracer)):
                self.consts.append(copy.copy(x))
                self._kept_alive.append(x)
            else:
                self.consts.append(x)
        return var

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        manual = context.manual_axes
        if manual:
            args = varying_alike(primitive, args, self._vary)
        invars = []
        for a in args:
            if isinstance(a, JaxprTracer) and a._trace is self:
                invars.append(a._var)
            else:
                if isinstance(a, Ref) and not primitive.takes_references:
                    raise not_an_array(a, primitive.name)
                invars.append(self.atom(a))
        avals = [v.aval for v in invars]
        if Trace.any_high:
            if primitive.is_high:
                return self._process_high(primitive, invars, params)
            for a in avals:
                if a.is_high:
                    return self._process_high(primitive, invars, params)
        found = primitive.abstract(*avals, **params)
        for a in avals:
            if a.sharding is not None:
                found = _with_shardings(primitive, avals, params, found)
                break
        else:
            if params and (params.get("out_sharding") or params.get("sharding")):
                found = _with_shardings(primitive, avals, params, found)
        for a in avals:
            if a.memory_space != "device":
                found = _in_memory(primitive, invars, params, found)
                break
        if manual:
            found = result_types(primitive, avals, found, params)
        source = context.source or current_source(context.name_stack)
        if self.outer_names:
            source = source.at(source.stack[self.outer_names :])
        if primitive.multiple_results:
            outvars = [Var(aval) for aval in found]
            effects = effects_of(primitive, params)
            self.eqns.append(JaxprEqn(invars, outvars, primitive, params, source, effects))
            if Trace.any_high:
                return [self._tracer(v, source) for v in outvars]
            return [JaxprTracer(self, v.aval, v, source) for v in outvars]
        var = Var(found)
        self.eqns.append(JaxprEqn(invars, [var], primitive, params, source))
        return JaxprTracer(self, found, var, source)

    # ---- high types

    def _high_var(self, aval: Any) -> Var:
        from xpr.core.high import new_variable  # noqa: PLC0415  only for high types

        return new_variable(aval, self.states)

    def _high_tracer(self, var: Var, source: SourceInfo | None) -> Any:
        from xpr.core.high import made_high  # noqa: PLC0415  only for high types

        return made_high(JaxprTracer, self, var.aval, var, source)

    def _tracer(self, var: Var, source: SourceInfo) -> Any:
        if var.aval.is_high:
            return self._high_tracer(var, source)
        return JaxprTracer(self, var.aval, var, source)

    def _process_high(
        self, primitive: Primitive, invars: list[Atom], params: dict[str, Any]
    ) -> Any:
        from xpr.core.high import record  # noqa: PLC0415  only for high types

        source = context.source or current_source(context.name_stack)
        if self.outer_names:
            source = source.at(source.stack[self.outer_names :])
        eqn = record(primitive, invars, params, source, self.states)
        self.eqns.append(eqn)
        found = [self._tracer(v, source) for v in eqn.outvars]
        return found if primitive.multiple_results else found[0]

    def state_of(self, x: Any) -> Any:
        """The state of a value in this program, or where it was made if the program has it not."""
        if self.lowers:
            return x.cur_qdd()
        if isinstance(x, JaxprTracer) and x._trace is self:
            return self.states[x._var].cur_val
        var = self._const_ids.get(id(x))
        if var is not None:
            return self.states[var].cur_val
        return self.outer.state_of(x)

    def _vary(self, x: Any, axes: tuple[str, ...]) -> Any:
        cast = get_primitive(varying_cast(get_aval(x), axes))
        return self.process_primitive(cast, [x], {"axes": axes})

    def process_custom_jvp_call(
        self,
        primitive: Any,
        fun: Callable[..., Sequence[Any]],
        jvp: Callable[..., Any],
        args: Sequence[Any],
        params: dict[str, Any],
    ) -> Sequence[Any]:
        if self.lowers:
            return fun(*args)
        operands, closed, count = self._trace_call(primitive, fun, args)
        params = params | {"call_jaxpr": closed, "jvp": jvp, "num_consts": count}
        return self.process_primitive(primitive, operands, params)

    def process_custom_vjp_call(
        self,
        primitive: Any,
        fun: Callable[..., Sequence[Any]],
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        args: Sequence[Any],
        params: dict[str, Any],
    ) -> Sequence[Any]:
        if self.lowers or not (self.keeps_refs or all(type(x) is not Ref for x in args)):
            return fun(*args)
        operands, closed, count = self._trace_call(primitive, fun, args)
        params = params | {"call_jaxpr": closed, "fwd": fwd, "bwd": bwd, "num_consts": count}
        return self.process_primitive(primitive, operands, params)

    def _trace_call(
        self, primitive: Any, fun: Callable[..., Sequence[Any]], args: Sequence[Any]
    ) -> tuple[list[Any], ClosedJaxpr, int]:
        """Operands, program and the number of operands in front that `fun` closes over."""
        closed = trace_to_jaxpr(fun, [get_aval(x) for x in args], deferred=True)
        refuse_exact(closed.effects, f"{primitive}, whose rules stand for its program")
        closed, outer = hoist_consts(closed)
        if not primitive.takes_references and any(type(x) is Ref for x in (*outer, *args)):
            raise NotImplementedError(
                f"{primitive}: a function with a rule for forward mode cannot take references, "
                "or close over them, while it is traced"
            )
        return [*outer, *args], closed, len(outer)

    def drop_unused(self, start: int) -> None:
        """Lets `to_jaxpr` remove the equations from the index `start` on if nothing reads them."""
        self._droppable.update(id(eqn) for eqn in self.eqns[start:])

    def to_jaxpr(self, out: Sequence[Any]) -> ClosedJaxpr:
        """The finished program with `out` as results."""
        outvars = [self.atom(x) for x in out]
        for v in outvars:
            if isinstance(v.aval, AbstractRef):
                raise self._returned(v)
        if self._droppable:
            self._remove_unused(outvars)
        for v, changing in self.states.items():
            v.final = changing.cur_val  # type: ignore[attr-defined]
        effects = joined_effects(self.eqns)
        jaxpr = Jaxpr(self.constvars, self.invars, outvars, self.eqns, effects, self.debug_info)
        return ClosedJaxpr(jaxpr, self.consts)

    def _returned(self, v: Atom) -> ValueError:
        info = self.debug_info
        text = (
            f"function {info.describe()} traced for {info.traced_for or 'a transformation'} "
            f"returned a mutable array reference of type {v.aval}, but mutable array references "
            "cannot be returned."
        )
        if v in self.invars:
            i = self.invars.index(v)
            if i < len(info.arg_names):
                text += (
                    "\n\nThe returned mutable array was passed in as the argument "
                    f"{info.arg_names[i]}."
                )
        return ValueError(text)

    def _remove_unused(self, outvars: Sequence[Atom]) -> None:
        """Removes the equations that may go and whose results nobody reads."""
        read = {v for v in outvars if isinstance(v, Var)}
        kept: list[JaxprEqn] = []
        for eqn in reversed(self.eqns):
            if id(eqn) in self._droppable and not eqn.effects:
                used = [v in read for v in eqn.outvars]
                if not any(used):
                    continue
                shrink = eqn.primitive.dce_rule
                if shrink is not None and not all(used):
                    eqn = shrink(used, eqn)
            kept.append(eqn)
            read.update(v for v in eqn.invars if isinstance(v, Var))
        kept.reverse()
        self.eqns = kept
        pairs = [(v, c) for v, c in zip(self.constvars, self.consts, strict=True) if v in read]
        self.constvars, self.consts = [v for v, _ in pairs], [c for _, c in pairs]

    def finish(self) -> None:
        """Ends the trace: its tracers are leaks from now on."""
        self.alive = False
        self._const_ids = {}
        self._kept_alive = []
        del self.outer

    def describe_value(self, tracer: JaxprTracer) -> str:
        """Where `tracer` comes from: the arguments it depends on, or the line that made it."""
        info = self.debug_info
        text = f"\nThe error occurred while tracing the function {info.describe()}"
        text += f" for {info.traced_for}." if info.traced_for else "."
        names = [
            info.arg_names[i] if i < len(info.arg_names) else f"argument {i}"
            for i in self._ancestors(tracer._var)
        ]
        if names:
            plural = "arguments" if len(names) > 1 else "argument"
            text += (
                " This concrete value was not available in Python because it depends on the "
                f"value{'s' if len(names) > 1 else ''} of the {plural} {', '.join(names)}."
            )
        elif tracer._source_info is not None:
            eqn = next((e for e in self.eqns if tracer._var in e.outvars), None)
            text += " This value became a tracer due to operations on these lines:\n"
            text += f"  operation {eqn}\n    from line {tracer._source_info}"
        return text

    def describe_leak(self, tracer: JaxprTracer) -> str:
        """Which function's value `tracer` was, for one that outlived this trace."""
        info = self.debug_info
        text = f"\nThe function being traced when the value leaked was {info.describe()}"
        text += f" traced for {info.traced_for}." if info.traced_for else "."
        if tracer._source_info is not None:
            text += f"\nThe leaked intermediate value was created on line {tracer._source_info}."
        elif tracer._var in self.invars:
            index = self.invars.index(tracer._var)
            name = info.arg_names[index] if index < len(info.arg_names) else str(index)
            text += f"\nThe leaked value is the argument {name} of that function."
        return text

    def _ancestors(self, var: Var) -> list[int]:
        needed = {var}
        for eqn in reversed(self.eqns):
            if not needed.isdisjoint(eqn.outvars):
                needed.update(v for v in eqn.invars if isinstance(v, Var))
        return [i for i, v in enumerate(self.invars) if v in needed]


_typed_results: Callable[..., list[ShapedArray]] | None = None


def install_typed_results(rule: Callable[..., list[ShapedArray]]) -> None:
    """Sets what gives the types of results their shardings: see `xpr/sharding/types.py`."""
    global _typed_results
    _typed_results = rule


def _with_shardings(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any], found: Any
) -> Any:
    """The types `found` of a primitive's results, with the shardings that follow."""
    if _typed_results is None:
        raise RuntimeError("xpr is only half imported: import xpr before using its parts")
    if primitive.multiple_results:
        return _typed_results(primitive, avals, params, found)
    return _typed_results(primitive, avals, params, [found])[0]


def _in_memory(
    primitive: Primitive, operands: Sequence[Atom], params: dict[str, Any], found: Any
) -> Any:
    """The types `found` of a primitive's results, in the memory of its operands."""
    avals = [v.aval for v in operands if isinstance(v, Var)]
    if primitive.multiple_results:
        return in_same_memory(primitive, avals, params, found)
    return in_same_memory(primitive, avals, params, [found])[0]


def _literal_value(x: Any, aval: ShapedArray) -> Any:
    """`x` as a NumPy scalar of the aval's dtype; refuses integers that do not fit."""
    check_python_int(x, aval.dtype)
    return np.asarray(x).astype(aval.dtype)[()]


def hoist_consts(closed: ClosedJaxpr, tracers_only: bool = False) -> tuple[ClosedJaxpr, list[Any]]:
    """Makes constants inputs, in front of the others; with `tracers_only`, an outer trace's only.

    So a program inside another holds no arrays: they become constants of the outermost one, which
    takes them as hidden arguments.
    """
    if not closed.consts:
        return closed, []
    jaxpr = closed.jaxpr
    pairs = list(zip(jaxpr.constvars, closed.consts, strict=True))
    outer = [(v, c) for v, c in pairs if not tracers_only or belongs_to_trace(c)]
    inner = [(v, c) for v, c in pairs if tracers_only and not belongs_to_trace(c)]
    hoisted: Jaxpr = jaxpr.replace(
        constvars=[v for v, _ in inner], invars=[*(v for v, _ in outer), *jaxpr.invars]
    )
    return ClosedJaxpr(hoisted, [c for _, c in inner]), [c for _, c in outer]


def trace_to_jaxpr(
    f: Callable[..., Sequence[Any]],
    in_avals: Sequence[ShapedArray],
    debug_info: DebugInfo | None = None,
    deferred: bool = False,
) -> ClosedJaxpr:
    """Runs `f` (flat arguments, flat results) on tracers of `in_avals` and returns its jaxpr.

    `deferred` says that the jaxpr is evaluated equation by equation by the trace around.
    """
    trace = JaxprTrace(debug_info, deferred)
    trace.outer_names = len(current_stack())
    try:
        args = [trace.new_arg(aval) for aval in in_avals]
        with set_current_trace(trace):
            out = f(*args)
        closed = trace.to_jaxpr(out)
    finally:
        trace.finish()
    if state.check_tracer_leaks:
        del args, out
        check_leaks(trace)
    if state.enable_checks:
        from xpr.core.check import check_jaxpr  # noqa: PLC0415  only with enable_checks

        check_jaxpr(closed)
    return closed
