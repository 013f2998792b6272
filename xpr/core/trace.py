"""Traces and tracers: what happens when a primitive is bound.

One trace is current in each thread. Outside every transformation it is the eager trace, which
computes; inside `jit` or `make_jaxpr` it is a `JaxprTrace`, which records equations. A value made
by another live trace is a constant to the current one; a value of a finished trace is a leak.
"""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray, scalar_aval
from xpr.core.config import state
from xpr.core.context import Context, context
from xpr.core.effects import refuse_exact
from xpr.core.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
    shown,
)
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
from xpr.core.source_info import SourceInfo
from xpr.core.source_info import current as current_source

if TYPE_CHECKING:
    from xpr.core.primitive import Primitive


class Trace:
    """What binding a primitive means; subclasses compute, record, differentiate or batch."""

    alive: bool = True

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must say what binding a primitive does")

    def process_custom_jvp_call(
        self,
        primitive: Any,
        fun: Callable[..., Sequence[Any]],
        jvp: Callable[..., Any],
        args: Sequence[Any],
        params: dict[str, Any],
    ) -> Sequence[Any]:
        """Calls a function that has a JVP rule of its own."""
        raise NotImplementedError(f"{type(self).__name__} must say what custom_jvp calls do")

    def process_custom_vjp_call(
        self,
        primitive: Any,
        fun: Callable[..., Sequence[Any]],
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        args: Sequence[Any],
        params: dict[str, Any],
    ) -> Sequence[Any]:
        """Calls a function that has a VJP rule of its own."""
        raise NotImplementedError(f"{type(self).__name__} must say what custom_vjp calls do")


class _NoEagerTrace(Trace):
    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        raise RuntimeError("xpr is only half imported: import xpr before using its parts")


Context.trace = _NoEagerTrace()


def install_eager_trace(trace: Trace) -> None:
    """Makes `trace` the one that every thread starts with."""
    Context.trace = trace
    Context.eager = trace


class set_current_trace:
    """Makes `trace` current inside a `with` block."""

    __slots__ = ("_old", "_trace")

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __enter__(self) -> None:
        self._old = context.trace
        context.trace = self._trace

    def __exit__(self, *_: object) -> None:
        context.trace = self._old


class outside_programs:
    """Makes operations inside a `with` block compute at once, whatever is traced around it."""

    __slots__ = ("_old",)

    def __enter__(self) -> None:
        self._old = context.trace, context.source, context.axis_env, context.name_stack
        context.trace, context.source = context.eager, None
        context.axis_env, context.name_stack = (), ""

    def __exit__(self, *_: object) -> None:
        context.trace, context.source, context.axis_env, context.name_stack = self._old


def is_eager() -> bool:
    """Whether no transformation is under way in this thread."""
    return context.trace is context.eager


# ---- avals of concrete values

_aval_of: dict[type, Callable[[Any], ShapedArray]] = {}


def register_aval(type_: type, rule: Callable[[Any], ShapedArray]) -> None:
    """Says how values of `type_` are abstracted."""
    _aval_of[type_] = rule


def get_aval(x: Any) -> ShapedArray:
    """The aval of an array, a tracer, a NumPy value or a Python scalar; TypeError for others."""
    rule = _aval_of.get(type(x))
    if rule is not None:
        return rule(x)
    for base in type(x).__mro__[1:]:
        rule = _aval_of.get(base)
        if rule is not None:
            return rule(x)
    raise TypeError(
        f"Value {shown(x)} with type {type(x)} is not a valid xpr type: "
        "expected an array, a NumPy value or a Python number"
    )


def is_valid_value(x: Any) -> bool:
    """Whether `get_aval(x)` has an answer."""
    return any(base in _aval_of for base in type(x).__mro__)


def _aval_of_ndarray(x: np.ndarray[Any, Any]) -> ShapedArray:
    # NumPy loads its masked arrays, a tenth of what importing xpr takes, when they are named.
    if type(x) is not np.ndarray and isinstance(x, np.ma.MaskedArray):
        raise ValueError(
            "numpy masked arrays are not supported as direct inputs to xpr functions. Use "
            f"arr.filled() to convert the value to a standard numpy array, got {shown(x)}"
        )
    return ShapedArray(x.shape, dtypes.canonicalize(x.dtype, allow_float0=True))


register_aval(bool, lambda x: scalar_aval("b"))
register_aval(int, lambda x: scalar_aval("i"))
register_aval(float, lambda x: scalar_aval("f"))
register_aval(complex, lambda x: scalar_aval("c"))
register_aval(np.ndarray, _aval_of_ndarray)
register_aval(
    np.generic, lambda x: ShapedArray((), dtypes.canonicalize(x.dtype, allow_float0=True))
)


def check_python_int(x: Any, dtype: np.dtype[Any]) -> None:
    """Raises OverflowError when a Python integer does not fit the dtype it stands for."""
    if type(x) is int:
        info = np.iinfo(dtype)
        if not info.min <= x <= info.max:
            raise OverflowError(f"Python int {x} too large to convert to {dtype}")


# ---- tracers


class Tracer(Array):
    """Stands for an array while a function is traced."""

    __slots__ = ("__weakref__", "_trace", "aval")

    aval: ShapedArray
    _trace: Any

    def __init__(self, trace: Trace, aval: ShapedArray) -> None:
        self._trace = trace
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.aval.dtype

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    @property
    def size(self) -> int:
        return self.aval.size

    def _origin(self) -> str:
        """Where the tracer comes from, for messages."""
        return ""

    def concrete(self) -> Any:
        """A value whose Python value may stand for this tracer's; None if there is none."""
        return None

    def __bool__(self) -> bool:
        if (value := self.concrete()) is not None:
            return bool(value)
        raise TracerBoolConversionError(
            "Attempted boolean conversion of traced array with shape "
            f"{_shape(self)}.{self._origin()}\n"
            "Use xpr.numpy.where or xpr.lax.cond, or mark the argument static with static_argnums."
        )

    def __index__(self) -> int:
        if (value := self.concrete()) is not None:
            return operator.index(value)
        raise TracerIntegerConversionError(
            "The __index__() method was called on traced array with shape "
            f"{_shape(self)}{self._origin()}"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        raise TracerArrayConversionError(
            "The numpy.ndarray conversion method __array__() was called on traced array with "
            f"shape {_shape(self)}{self._origin()}\nUse the function of xpr.numpy instead of "
            "NumPy's."
        )

    def _concretization(self, what: str) -> ConcretizationTypeError:
        return ConcretizationTypeError(
            "Abstract tracer value encountered where concrete value is expected: traced array with "
            f"shape {_shape(self)}\n{what}{self._origin()}"
        )

    def __int__(self) -> int:
        if (value := self.concrete()) is not None:
            return int(value)
        raise self._concretization(_conversion_hint("int"))

    def __float__(self) -> float:
        if (value := self.concrete()) is not None:
            return float(value)
        raise self._concretization(_conversion_hint("float"))

    def __complex__(self) -> complex:
        if (value := self.concrete()) is not None:
            return complex(value)
        raise self._concretization(_conversion_hint("complex"))

    def item(self, *args: int) -> Any:
        if (value := self.concrete()) is not None:
            return value.item(*args)
        raise self._concretization(
            "`item()` needs the value, which exists only when the program runs."
        )

    def tolist(self) -> Any:
        if (value := self.concrete()) is not None:
            return value.tolist()
        raise self._concretization(
            "`tolist()` needs the values, which exist only when the program runs."
        )

    def block_until_ready(self) -> Tracer:
        return self

    def devices(self) -> Any:
        if (value := self.concrete()) is not None:
            return value.devices()
        raise self._concretization(
            f"The devices() method was called on traced array with shape {_shape(self)}."
        )

    @property
    def committed(self) -> bool:
        if (value := self.concrete()) is not None:
            return value.committed
        raise self._concretization(
            f"The 'committed' attribute is not available on traced array with shape {_shape(self)}."
        )

    def __getattr__(self, name: str) -> Any:
        if name in _PLACE:
            raise AttributeError(
                f"The {name!r} attribute is not available on traced array with shape "
                f"{_shape(self)}: where a program runs is known when it is called{self._origin()}"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __hash__(self) -> int:
        raise TypeError(f"unhashable type: {type(self).__name__!r}")

    def __repr__(self) -> str:
        return f"JitTracer({self.aval})"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> Any:
        raise self._concretization("A traced array cannot be pickled.")

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self

    def __copy__(self) -> Tracer:
        return self


# What only concrete arrays have, and programs may ask of any array.
_PLACE = frozenset(
    {"addressable_shards", "device", "global_shards", "is_fully_addressable",
     "is_fully_replicated", "sharding"}
)  # fmt: skip


def _shape(x: Tracer) -> str:
    return str(x.aval.strip_weak_type())


def _conversion_hint(name: str) -> str:
    return (
        f"The problem arose with the `{name}` function. If trying to convert the data type of a "
        f"value, try using `x.astype({name})` or `jnp.array(x, {name})` instead."
    )


class JaxprTracer(Tracer):
    """A value of a function that is being traced to a jaxpr."""

    __slots__ = ("_var", "source_info")

    def __init__(
        self, trace: JaxprTrace, aval: ShapedArray, var: Var, source: SourceInfo | None
    ) -> None:
        self._trace = trace
        self.aval = aval
        self._var = var
        self.source_info = source

    def _origin(self) -> str:
        return self._trace.describe_value(self)


class JaxprTrace(Trace):
    """Records every primitive as an equation."""

    def __init__(self, debug_info: DebugInfo | None = None) -> None:
        self.eqns: list[JaxprEqn] = []
        self._droppable: set[int] = set()
        self.constvars: list[Var] = []
        self.consts: list[Any] = []
        self._const_ids: dict[int, Var] = {}
        self._kept_alive: list[Any] = []
        self.invars: list[Var] = []
        self.alive = True
        self.debug_info = debug_info or DebugInfo()

    def new_arg(self, aval: ShapedArray) -> JaxprTracer:
        var = Var(aval)
        self.invars.append(var)
        return JaxprTracer(self, aval, var, None)

    def atom(self, x: Any) -> Atom:
        """The variable or literal that stands for `x` in this jaxpr."""
        if isinstance(x, JaxprTracer) and x._trace is self:
            return x._var
        if isinstance(x, Tracer) and not x._trace.alive:
            raise leaked(x)
        aval = get_aval(x)
        if not isinstance(x, Array) and not aval.shape:
            return Literal(_literal_value(x, aval), aval)
        var = self._const_ids.get(id(x))
        if var is None:
            var = Var(aval)
            self._const_ids[id(x)] = var
            self.constvars.append(var)
            # Keeping x itself keeps its id from being used again. A NumPy array may be written to
            # later by its owner, so the trace keeps its present values.
            if isinstance(x, np.ndarray):
                self.consts.append(np.array(x, dtype=aval.dtype, order="C"))
                self._kept_alive.append(x)
            else:
                self.consts.append(x)
        return var

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        invars = []
        for a in args:
            if type(a) is JaxprTracer and a._trace is self:
                invars.append(a._var)
            else:
                invars.append(self.atom(a))
        found = primitive.abstract(*[v.aval for v in invars], **params)
        source = context.source or current_source(context.name_stack)
        if primitive.multiple_results:
            outvars = [Var(aval) for aval in found]
            effects = effects_of(primitive, params)
            self.eqns.append(JaxprEqn(invars, outvars, primitive, params, source, effects))
            return [JaxprTracer(self, v.aval, v, source) for v in outvars]
        var = Var(found)
        self.eqns.append(JaxprEqn(invars, [var], primitive, params, source))
        return JaxprTracer(self, found, var, source)

    def process_custom_jvp_call(
        self,
        primitive: Any,
        fun: Callable[..., Sequence[Any]],
        jvp: Callable[..., Any],
        args: Sequence[Any],
        params: dict[str, Any],
    ) -> Sequence[Any]:
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
        operands, closed, count = self._trace_call(primitive, fun, args)
        params = params | {"call_jaxpr": closed, "fwd": fwd, "bwd": bwd, "num_consts": count}
        return self.process_primitive(primitive, operands, params)

    def _trace_call(
        self, primitive: Any, fun: Callable[..., Sequence[Any]], args: Sequence[Any]
    ) -> tuple[list[Any], ClosedJaxpr, int]:
        """Operands, program and the number of operands in front that `fun` closes over."""
        closed = trace_to_jaxpr(fun, [get_aval(x) for x in args])
        refuse_exact(closed.effects, f"{primitive}, whose rules stand for its program")
        closed, outer = hoist_consts(closed)
        return [*outer, *args], closed, len(outer)

    def drop_unused(self, start: int) -> None:
        """Lets `to_jaxpr` remove the equations from the index `start` on if nothing reads them."""
        self._droppable.update(id(eqn) for eqn in self.eqns[start:])

    def to_jaxpr(self, out: Sequence[Any]) -> ClosedJaxpr:
        """The finished program with `out` as results."""
        outvars = [self.atom(x) for x in out]
        if self._droppable:
            self._remove_unused(outvars)
        effects = joined_effects(self.eqns)
        jaxpr = Jaxpr(self.constvars, self.invars, outvars, self.eqns, effects, self.debug_info)
        return ClosedJaxpr(jaxpr, self.consts)

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
        elif tracer.source_info is not None:
            eqn = next((e for e in self.eqns if tracer._var in e.outvars), None)
            text += " This value became a tracer due to operations on these lines:\n"
            text += f"  operation {eqn}\n    from line {tracer.source_info}"
        return text

    def _ancestors(self, var: Var) -> list[int]:
        needed = {var}
        for eqn in reversed(self.eqns):
            if any(v in needed for v in eqn.outvars):
                needed.update(v for v in eqn.invars if isinstance(v, Var))
        return [i for i, v in enumerate(self.invars) if v in needed]


def _literal_value(x: Any, aval: ShapedArray) -> Any:
    """`x` as a NumPy scalar of the aval's dtype; refuses integers that do not fit."""
    check_python_int(x, aval.dtype)
    return np.asarray(x).astype(aval.dtype)[()]


def check_leaks(trace: Trace) -> None:
    """UnexpectedTracerError if a tracer of `trace`, which has ended, can still be reached.

    For `check_tracer_leaks`: the whole process is searched. What called the traced function must
    have let go of its tracers.
    """
    gc.collect()
    # Objects that pretend to be of another class are not asked: `type` cannot be deceived.
    found = [x for x in gc.get_objects() if issubclass(type(x), Tracer) and x._trace is trace]
    if found:
        shown_tracers = "\n".join(f"{x!r}{x._origin()}" for x in found)
        raise UnexpectedTracerError(
            f"Leaked trace {type(trace).__name__}. Leaked tracer(s):\n\n{shown_tracers}\n"
            "They are still referred to after the function that was traced has returned."
        )


def leaked(tracer: Tracer) -> UnexpectedTracerError:
    """The error for a tracer whose trace has ended."""
    text = (
        "Encountered an unexpected tracer. A function transformed by xpr had a side effect, "
        "allowing for a reference to an intermediate value with type "
        f"{tracer.aval.strip_weak_type()} wrapped in a {type(tracer).__name__} to escape the scope "
        "of the transformation.\nTransformations require that functions explicitly return their "
        "outputs, and disallow saving intermediate values to global state."
    )
    if isinstance(tracer, JaxprTracer):
        info = tracer._trace.debug_info
        text += f"\nThe function being traced when the value leaked was {info.describe()}"
        text += f" traced for {info.traced_for}." if info.traced_for else "."
        if tracer.source_info is not None:
            text += f"\nThe leaked intermediate value was created on line {tracer.source_info}."
        elif tracer._var in tracer._trace.invars:
            index = tracer._trace.invars.index(tracer._var)
            name = info.arg_names[index] if index < len(info.arg_names) else str(index)
            text += f"\nThe leaked value is the argument {name} of that function."
    return UnexpectedTracerError(text)


register_aval(Tracer, lambda x: x.aval)


def hoist_consts(closed: ClosedJaxpr, tracers_only: bool = False) -> tuple[ClosedJaxpr, list[Any]]:
    """Makes constants inputs, in front of the others; with `tracers_only`, an outer trace's only.

    So a program inside another holds no arrays: they become constants of the outermost one, which
    takes them as hidden arguments.
    """
    if not closed.consts:
        return closed, []
    jaxpr = closed.jaxpr
    pairs = list(zip(jaxpr.constvars, closed.consts, strict=True))
    outer = [(v, c) for v, c in pairs if not tracers_only or isinstance(c, Tracer)]
    inner = [(v, c) for v, c in pairs if tracers_only and not isinstance(c, Tracer)]
    hoisted: Jaxpr = jaxpr.replace(
        constvars=[v for v, _ in inner], invars=[*(v for v, _ in outer), *jaxpr.invars]
    )
    return ClosedJaxpr(hoisted, [c for _, c in inner]), [c for _, c in outer]


def trace_to_jaxpr(
    f: Callable[..., Sequence[Any]],
    in_avals: Sequence[ShapedArray],
    debug_info: DebugInfo | None = None,
) -> ClosedJaxpr:
    """Runs `f` (flat arguments, flat results) on tracers of `in_avals` and returns its jaxpr."""
    trace = JaxprTrace(debug_info)
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
