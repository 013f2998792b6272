"""Jaxprs: a first-order, typed program as a list of equations.

A `Jaxpr` has constant variables, input variables, equations in order and outputs; a
`ClosedJaxpr` pairs it with the values of its constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.context import context
from xpr.core.effects import NONE, Effects
from xpr.core.source_info import UNKNOWN, SourceInfo

if TYPE_CHECKING:
    from xpr.core.primitive import Primitive


_print_jaxpr: Callable[..., str]
_print_eqn: Callable[[JaxprEqn], str]
_write_html: Callable[[Jaxpr], str]


def install_printer(
    print_jaxpr: Callable[..., str],
    print_eqn: Callable[[JaxprEqn], str],
    write_html: Callable[[Jaxpr], str],
) -> None:
    """Sets the functions that write jaxprs and single equations as text, and jaxprs as HTML."""
    global _print_jaxpr, _print_eqn, _write_html
    _print_jaxpr, _print_eqn, _write_html = print_jaxpr, print_eqn, write_html


class Var:
    """A variable; two are the same only when they are one object."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"


class DropVar(Var):
    """An output that nothing reads; printed as `_`."""

    __slots__ = ()


class Literal:
    """A scalar constant written in the equation itself."""

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: ShapedArray) -> None:
        self.val = val
        self.aval = aval

    def __repr__(self) -> str:
        return f"{self.val}:{self.aval.str_short()}"


Atom = Var | Literal


class JaxprEqn:
    """One equation: `outvars = primitive[params] invars`, and the user's line."""

    __slots__ = ("effects", "invars", "outvars", "params", "primitive", "source_info")

    def __init__(
        self,
        invars: list[Atom],
        outvars: list[Var],
        primitive: Primitive,
        params: dict[str, Any],
        source_info: SourceInfo = UNKNOWN,
        effects: Effects = NONE,
    ) -> None:
        self.invars = invars
        self.outvars = outvars
        self.primitive = primitive
        self.params = params
        self.source_info = source_info
        self.effects = effects

    def replace(self, **changes: Any) -> JaxprEqn:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return JaxprEqn(**(fields | changes))

    def __repr__(self) -> str:
        return _print_eqn(self)


class DebugInfo(NamedTuple):
    """What messages say of a traced function: its name and place, its arguments' names."""

    func_name: str = "<unnamed>"
    func_src: str = ""
    traced_for: str = ""
    arg_names: tuple[str, ...] = ()

    def describe(self) -> str:
        place = f" at {self.func_src}" if self.func_src else ""
        return f"{self.func_name}{place}"


class Jaxpr:
    """An open jaxpr: `{ lambda constvars ; invars . let eqns in outvars }`."""

    def __init__(
        self,
        constvars: list[Var],
        invars: list[Var],
        outvars: list[Atom],
        eqns: list[JaxprEqn],
        effects: Effects = NONE,
        debug_info: DebugInfo = DebugInfo(),  # noqa: B008  it cannot be changed
    ) -> None:
        self.constvars = constvars
        self.invars = invars
        self.outvars = outvars
        self.eqns = eqns
        self.effects = effects
        self.debug_info = debug_info

    @property
    def in_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.outvars]

    def replace(self, **changes: Any) -> Jaxpr:
        return Jaxpr(**(vars(self) | changes))

    def __str__(self) -> str:
        return self.pretty_print()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What notebooks show: a table of the equations, in which inner programs are folded."""
        return _write_html(self)

    def pretty_print(
        self,
        *,
        source_info: bool = False,
        print_shapes: bool = True,
        custom_pp_eqn_rules: bool = True,
        name_stack: bool = False,
        width: int = 80,
        use_color: bool = False,
    ) -> str:
        """The text in lines of at most `width` columns where possible.

        `source_info` and `name_stack` add the user's line and the named scopes to each equation,
        `print_shapes=False` leaves types out, `custom_pp_eqn_rules=False` shows all parameters,
        `use_color` is for terminals.
        """
        return _print_jaxpr(
            self,
            source_info=source_info,
            print_shapes=print_shapes,
            custom_pp_eqn_rules=custom_pp_eqn_rules,
            name_stack=name_stack,
            width=width,
            use_color=use_color,
        )


class ClosedJaxpr:
    """A jaxpr together with the values of its constant variables."""

    __slots__ = ("__weakref__", "consts", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any]) -> None:
        if len(consts) != len(jaxpr.constvars):
            raise ValueError(
                f"a closed jaxpr needs a value for each constant: got {len(consts)} values "
                f"for {len(jaxpr.constvars)} constant variables"
            )
        self.jaxpr = jaxpr
        self.consts = list(consts)

    @property
    def in_avals(self) -> list[ShapedArray]:
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> list[ShapedArray]:
        return self.jaxpr.out_avals

    @property
    def eqns(self) -> list[JaxprEqn]:
        return self.jaxpr.eqns

    @property
    def effects(self) -> Effects:
        return self.jaxpr.effects

    @property
    def literals(self) -> list[Any]:
        return self.consts

    def map_jaxpr(self, f: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        return ClosedJaxpr(f(self.jaxpr), self.consts)

    def replace(
        self, *, jaxpr: Jaxpr | None = None, consts: Sequence[Any] | None = None
    ) -> ClosedJaxpr:
        return ClosedJaxpr(
            self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts
        )

    def pretty_print(self, **options: Any) -> str:
        return self.jaxpr.pretty_print(**options)

    def __str__(self) -> str:
        return str(self.jaxpr)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What notebooks show, as of `Jaxpr`."""
        return _write_html(self.jaxpr)


def sub_jaxprs(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The jaxprs inside an equation's parameters, closed or open, alone or in tuples."""
    for value in params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, Jaxpr):
                yield item


def all_eqns(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """The equations of a jaxpr and of all inside it, those of each jaxpr once.

    A program that calls another many times is as long as it is written, not as it would be with
    all calls expanded.
    """
    seen = {jaxpr}
    rest = [jaxpr]
    while rest:
        for eqn in rest.pop().eqns:
            yield eqn
            for sub in sub_jaxprs(eqn.params) if eqn.params else ():
                if sub not in seen:
                    seen.add(sub)
                    rest.append(sub)


def count_eqns(jaxpr: Jaxpr) -> int:
    """The number of equations, those of sub-jaxprs included."""
    return sum(1 + sum(count_eqns(sub) for sub in sub_jaxprs(e.params)) for e in jaxpr.eqns)


def effects_of(primitive: Primitive, params: dict[str, Any]) -> Effects:
    """What an operation does beside computing: its own effects, or those of programs inside it."""
    if primitive.effects is not None:
        return primitive.effects(params)
    if not primitive.multiple_results:
        return NONE
    return NONE.union(*(sub.effects for sub in sub_jaxprs(params)))


def joined_effects(eqns: Sequence[JaxprEqn]) -> Effects:
    """The effects of a program of those equations."""
    return NONE.union(*(eqn.effects for eqn in eqns if eqn.effects))


def dce_jaxpr(
    jaxpr: Jaxpr,
    used_outputs: Sequence[bool] | None = None,
    instantiate: bool | Sequence[bool] = False,
) -> tuple[Jaxpr, list[bool]]:
    """Removes equations whose results are not needed.

    Returns the smaller jaxpr and, for each input, whether it is still used; inputs are dropped
    unless `instantiate` (one flag, or one for each input) keeps them. Equations with effects stay.
    A primitive may give a `dce_rule` to shrink the jaxprs inside it.
    """
    if used_outputs is None:
        used_outputs = [True] * len(jaxpr.outvars)
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(jaxpr.invars)
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    live: set[Var] = {v for v in outvars if isinstance(v, Var)}
    kept: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        used = [v in live for v in eqn.outvars]
        if not any(used) and not eqn.effects:
            continue
        rule = eqn.primitive.dce_rule
        new_eqn = rule(used, eqn) if rule is not None and not all(used) else eqn
        if new_eqn is None:
            continue
        kept.append(new_eqn)
        live.update(v for v in new_eqn.invars if isinstance(v, Var))
    kept.reverse()
    used_inputs = [v in live or keep for v, keep in zip(jaxpr.invars, instantiate, strict=True)]
    invars = [v for v, used in zip(jaxpr.invars, used_inputs, strict=True) if used]
    smaller = jaxpr.replace(invars=invars, outvars=outvars, eqns=kept, effects=joined_effects(kept))
    return smaller, used_inputs


def bind_equation(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of an equation on operands, under whatever trace is current."""
    found = eqn.primitive.bind(*operands, **eqn.params)
    return found if eqn.primitive.multiple_results else [found]


def eval_jaxpr(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    *args: Any,
    bind: Callable[[JaxprEqn, Sequence[Any]], Sequence[Any]] = bind_equation,
) -> list[Any]:
    """Binds each equation in turn on `args`: the program under whatever trace is current.

    An interpreter that goes into the programs of equations, or replaces some, gives a `bind` of its
    own.
    """
    env: dict[Var, Any] = {}
    env.update(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    last_use = last_uses(jaxpr)
    outer_source = context.source
    try:
        for index, eqn in enumerate(jaxpr.eqns):
            operands = [env[v] if isinstance(v, Var) else literal_operand(v) for v in eqn.invars]
            # What comes of an equation belongs to the same line of the user's program.
            context.source = eqn.source_info
            env.update(zip(eqn.outvars, bind(eqn, operands), strict=True))
            for v in last_use.get(index, ()):
                del env[v]
    finally:
        context.source = outer_source
    return [env[v] if isinstance(v, Var) else v.val for v in jaxpr.outvars]


def eval_closed(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """The results of a closed program on `args`, under whatever trace is current."""
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)


def as_function(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """A closed program as a function of its flat inputs."""
    return lambda *args: eval_closed(closed, args)


def literal_operand(literal: Literal) -> Any:
    """The value of a literal, weakly typed if the literal is."""
    if literal.aval.weak_type and isinstance(literal.val, np.generic):
        return literal.val.item()
    return literal.val


def last_uses(jaxpr: Jaxpr) -> dict[int, list[Var]]:
    """For each equation's index the variables that nothing reads after it (outputs never die)."""
    seen: set[Var] = {v for v in jaxpr.outvars if isinstance(v, Var)}
    dead: dict[int, list[Var]] = {}
    for index in range(len(jaxpr.eqns) - 1, -1, -1):
        eqn = jaxpr.eqns[index]
        ends: list[Var] = []
        for v in (*eqn.invars, *eqn.outvars):
            if isinstance(v, Var) and v not in seen:
                seen.add(v)
                ends.append(v)
        if ends:
            dead[index] = ends
    return dead
