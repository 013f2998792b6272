"""High types: types of values of any Python class, which stand for several arrays.

A high type says what its values are in terms of arrays (`lo_ty`, `lower_val`, `raise_val`), and the
primitives on such values have rules like all others. Programs keep them until they run: one pass
over the jaxpr replaces them by arrays (`xpr/interpreters/high.py`).

Values of a mutable type (`has_qdd`) change, and with them the types of the arrays that they stand
for, their *state*. In a program each variable of such a type has the state that it starts with in
its type, a `AvalQDD`; what it is at last is kept beside (`StateVar.final`). While a program is
traced the state is that of the variable in the trace.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.context import context
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Var, effects_of, sub_jaxprs
from xpr.core.source_info import SourceInfo
from xpr.core.trace import Trace, Tracer, register_aval

# What operations on arrays ask of types.
_OF_ARRAYS = frozenset({"dtype", "ndim", "shape", "size", "update"})


class HighAval:
    """What a high type has in common with the types of arrays, for those who ask."""

    is_high = True
    has_qdd = False
    sharding = None
    memory_space = "device"
    vma: frozenset[str] = frozenset()
    weak_type = False

    def __getattr__(self, name: str) -> Any:
        if name in _OF_ARRAYS:
            raise AttributeError(
                f"a value of the high type {type(self).__name__} has no {name}: only primitives on "
                "values of high types take it, not operations on arrays",
                name=name,
                obj=self,
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def strip_weak_type(self) -> Any:
        return self

    def normalize(self) -> Any:
        return self

    def str_short(self, *_: Any, **__: Any) -> str:
        """The form that jaxprs print."""
        return type(self).__name__


class AvalQDD(HighAval):
    """A mutable type, and the state of its value at one point of a program."""

    has_qdd = True

    def __init__(self, aval: Any, qdd: Any) -> None:
        self.aval = aval
        self.qdd = qdd

    def __getattr__(self, name: str) -> Any:
        # Says what the type has not, of which this is the type and a state.
        return HighAval.__getattr__(self.__dict__.get("aval", self), name)

    def lo_ty(self) -> list[Any]:
        """The types of the arrays that the value is made of."""
        return self.aval.lo_ty_qdd(self.qdd)

    def raise_val(self, *vals: Any) -> Any:
        """A new value that is made of arrays."""
        return self.aval.new_from_loval(self.qdd, *vals)

    def lower_val(self, value: Any) -> list[Any]:
        """The arrays that a value is made of."""
        return self.aval.read_loval(self.qdd, value)

    def to_tangent_aval(self) -> AvalQDD:
        """The type of tangents, and their state."""
        qdd = self.qdd
        return AvalQDD(self.aval.to_tangent_aval(), qdd and qdd.to_tangent_qdd())

    def to_ct_aval(self) -> AvalQDD:
        return self.to_tangent_aval()

    def normalize(self) -> AvalQDD:
        return AvalQDD(self.aval.normalize(), self.qdd and self.qdd.normalize())

    def str_short(self, *_: Any, **__: Any) -> str:
        return self.aval.str_short()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AvalQDD)
            and bool(self.aval == other.aval)
            and bool(self.qdd == other.qdd)
        )

    def __hash__(self) -> int:
        return hash((self.aval, self.qdd))

    def __repr__(self) -> str:
        return f"AvalQDD(aval={self.aval!r}, qdd={self.qdd!r})"


class MutableQDD:
    """The state of a mutable value at first, and now."""

    def __init__(self, initial: Any) -> None:
        self.init_val = initial
        self.cur_val = initial

    def update(self, value: Any) -> None:
        """Changes what it is now."""
        self.cur_val = value


class AvalMutableQDD(HighAval):
    """A mutable type, and the state of a value, which primitives may change."""

    has_qdd = True

    def __init__(self, aval: Any, mutable_qdd: MutableQDD) -> None:
        self.aval = aval
        self.mutable_qdd = mutable_qdd


class StateVar(Var):
    """A variable of a mutable type: `aval` says its first state, `final` its last one."""

    __slots__ = ("final",)

    def __init__(self, aval: AvalQDD) -> None:
        super().__init__(aval)  # type: ignore[arg-type]
        self.final: Any = aval.qdd


class aval_property:
    """A property that traced values of a type have."""

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        self.fget = fget


class aval_method:
    """A method that traced values of a type have."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun


# ---- values

_types: dict[type, Callable[[Any], Any]] = {}


def look_for_high() -> None:
    """Makes all traces look for values of high types, and primitives on them, from now on."""
    Trace.any_high = True


def register_high(cls: type, type_of: Callable[[Any], Any]) -> None:
    """Says of which high type the values of a class are."""
    look_for_high()

    def rule(x: Any) -> Any:
        aval = type_of(x)
        return AvalQDD(aval, cur_qdd(x)) if aval.has_qdd else aval

    _types[cls] = type_of
    register_aval(cls, rule)


def is_high(aval: Any) -> bool:
    """Whether a type is a high one."""
    return type(aval) is not ShapedArray and aval.is_high


def is_high_value(x: Any) -> bool:
    """Whether a value is of a high type, traced or not."""
    return bool(_types) and (type(x) in _types or isinstance(x, HighTracer))


def plain(aval: Any) -> Any:
    """A type without its state."""
    return aval.aval if type(aval) is AvalQDD else aval


def cur_qdd(x: Any) -> Any:
    """The state of a mutable value, at this point of the program that is being traced."""
    return context.trace.state_of(x)


def has_high(jaxpr: Jaxpr) -> bool:
    """Whether values of high types occur in a program, or in programs inside it."""
    if any(is_high(v.aval) for v in (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars)):
        return True
    return any(_has_high_eqn(eqn) for eqn in jaxpr.eqns)


def _has_high_eqn(eqn: JaxprEqn) -> bool:
    if eqn.primitive.is_high or any(is_high(v.aval) for v in eqn.outvars):
        return True
    return bool(eqn.params) and params_have_high(eqn.params)


def params_have_high(params: dict[str, Any]) -> bool:
    """Whether the programs in an operation's parameters have values of high types."""
    return any(has_high(sub) for sub in sub_jaxprs(params))


# ---- tracers

# What belongs to the tracer itself: all other names are those of its type, so that the names of a
# tracer's own slots and methods begin with an underscore.
_OWN = frozenset(
    {"aval", "_trace", "_var", "_source_info", "_primal", "_tangent", "_batched", "_batch_dim"}
    | {"_concrete", "_origin", "_leaked_from", "_committed", "_call"}
)


class HighTracer(Tracer):
    """A traced value of a high type, which has the attributes that the type gives it."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN or (name[:2] == "__" and name != "__jax_array__"):
            return object.__getattribute__(self, name)
        found = getattr(object.__getattribute__(self, "aval"), name)
        if isinstance(found, aval_property):
            return found.fget(self)
        if isinstance(found, aval_method):
            return types.MethodType(found.fun, self)
        return found

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a traced value of type {self.aval} has no attribute {name!r}")

    def _concrete(self) -> Any:
        return None

    def __repr__(self) -> str:
        return f"JitTracer({self.aval})"

    def __setitem__(self, index: Any, value: Any) -> None:
        operator = getattr(type(self.aval), "_setitem", None)
        if operator is None:
            raise TypeError(f"values of type {self.aval} do not support item assignment")
        operator(self.aval, self, index, value)

    def __iter__(self) -> Any:
        operator = getattr(type(self.aval), "_iter", None)
        if operator is None:
            raise TypeError(f"values of type {self.aval} are not iterable")
        return iter(operator(self.aval, self))


def _binary(name: str) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: Any) -> Any:
        operator = getattr(type(self.aval), name, None)
        return NotImplemented if operator is None else operator(self.aval, self, other)

    return operate


def _unary(name: str, says: str) -> Callable[..., Any]:
    def operate(self: Any, *more: Any) -> Any:
        operator = getattr(type(self.aval), name, None)
        if operator is None:
            raise TypeError(f"values of type {self.aval} have no {says}")
        return operator(self.aval, self, *more)

    return operate


def _install_operators() -> None:
    both = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or".split()
    for name in (*both, *("r" + n for n in both), "lt", "le", "gt", "ge"):
        setattr(HighTracer, f"__{name}__", _binary(f"_{name}"))
    for name in ("eq", "ne"):  # which Python would answer by identity
        setattr(HighTracer, f"__{name}__", _unary(f"_{name}", f"__{name}__"))
    single = "neg pos abs invert complex int float index round trunc floor ceil len bool".split()
    for name in (*single, "getitem"):
        setattr(HighTracer, f"__{name}__", _unary(f"_{name}", f"__{name}__"))


_install_operators()


def _aval_of_tracer(x: Any) -> Any:
    aval = x.aval
    return AvalQDD(aval, cur_qdd(x)) if aval.has_qdd else aval


register_aval(HighTracer, _aval_of_tracer)


_classes: dict[type, type] = {}


def made_high(cls: type, *parts: Any) -> Any:
    """A tracer of class `cls` that is of a high type."""
    found = _classes.get(cls)
    if found is None:
        found = _classes[cls] = type(f"High{cls.__name__}", (HighTracer, cls), {"__slots__": ()})
    tracer = found(*parts)
    tracer.aval = plain(tracer.aval)
    return tracer


def type_of(x: Any) -> Any:
    """The type of a high value, without its state."""
    return x.aval if isinstance(x, Tracer) else _types[type(x)](x)


# ---- recording


def new_variable(aval: Any, states: dict[Var, Any]) -> Var:
    """A variable of a high type, whose state, if it has one, is kept in `states`."""
    if type(aval) is not AvalQDD:
        if aval.has_qdd:
            raise TypeError(f"the state of a value of the mutable type {aval} is not known here")
        return Var(aval)
    var = StateVar(aval)
    states[var] = MutableQDD(aval.qdd)
    return var


def record(
    primitive: Any,
    invars: list[Atom],
    params: dict[str, Any],
    source: SourceInfo,
    states: dict[Var, Any],
) -> JaxprEqn:
    """The equation of an operation on high values; the states that it changes are changed."""
    own = bool(primitive.is_high)
    avals: list[Any] = []
    for v in invars:
        state = states.get(v) if isinstance(v, Var) else None
        if state is None:
            avals.append(v.aval)
        elif own:
            avals.append(AvalMutableQDD(plain(v.aval), state))
        else:
            avals.append(AvalQDD(plain(v.aval), state.cur_val))
    if own:
        found, effects = primitive.typed(*avals, **params)
    else:
        if not any(True for _ in sub_jaxprs(params)):
            strange = next(a for a in avals if a.is_high)
            raise TypeError(
                f"Attempting to pass an unexpected type {plain(strange)} to a primitive: "
                f"{primitive.name} takes arrays"
            )
        found = primitive.abstract(*avals, **params)
        effects = effects_of(primitive, params)
        _change_states(primitive.name, invars, params, states)
    types = found if primitive.multiple_results else [found]
    outvars = [new_variable(t, states) if t.is_high else Var(t) for t in types]
    return JaxprEqn(invars, outvars, primitive, params, source, frozenset(effects))


def _change_states(
    name: str, invars: Sequence[Atom], params: dict[str, Any], states: dict[Var, Any]
) -> None:
    """Gives operands the states that the programs inside an operation leave them in."""
    first = {"cond": 1, "while": params.get("cond_nconsts", 0)}.get(name, 0)
    programs = [params["body_jaxpr"].jaxpr] if name == "while" else list(sub_jaxprs(params))
    for i, v in enumerate(invars[first:]):
        state = states.get(v) if isinstance(v, Var) else None
        if state is None:
            continue
        inner = [p.invars[i] for p in programs]
        finals = [w.final for w in inner if isinstance(w, StateVar)]
        if not finals:
            continue
        if not _agree(finals):
            raise TypeError(
                f"{name}: the branches leave a mutable value of type {plain(v.aval)} in states of "
                f"different types: {' and '.join(map(str, finals))}"
            )
        if name in ("scan", "while") and not _agree([*finals, state.cur_val]):
            raise TypeError(
                f"{name}: a mutable value of type {plain(v.aval)} has to keep the types that it "
                f"has, {state.cur_val}, but the body leaves it with {finals[0]}"
            )
        state.update(joined([*finals, state.cur_val] if name in ("scan", "while") else finals))


def _normal(state: Any) -> Any:
    return state and state.normalize()


def _agree(states: Sequence[Any]) -> bool:
    """Whether states are the same but for weak types."""
    first = states[0]
    return all(s == first or _normal(s) == _normal(first) for s in states[1:])


def joined(states: Sequence[Any]) -> Any:
    """The state of what may be in any of these, which agree: weak types give way to strong ones."""
    first = states[0]
    return first if all(s == first for s in states[1:]) else _normal(first)


def changed_states(closed: ClosedJaxpr) -> list[tuple[AvalQDD, AvalQDD]]:
    """The types of the mutable values that a program closes over and that changed since.

    Each as it was when the program was traced, and as it is now.
    """
    found: list[tuple[AvalQDD, AvalQDD]] = []
    for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        if isinstance(v, StateVar):
            was: Any = v.aval
            now = cur_qdd(c)
            if now != was.qdd:
                found.append((was, AvalQDD(was.aval, now)))
    return found


def states_agree(closed: ClosedJaxpr) -> bool:
    """Whether the mutable values that a program closes over are in the states it was traced in."""
    return not changed_states(closed)
