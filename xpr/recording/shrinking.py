"""A step as a small program of its own: a Python file of at most 25 lines.

The equations that the step needs are added from the last to the first, inside of the program that
it is in; what comes before enters as a number. The program is the largest that fits. Where all
operations are elementwise, arrays are reduced to the element that shows the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.jaxpr import JaxprEqn, Literal, Var
from xpr.core.naming import VariableNames
from xpr.interpreters.origins import can_hold
from xpr.interpreters.reference import interpret_equation
from xpr.interpreters.walk import Array, Step

_MOST_LINES = 25
_MOST_NUMBERS = 64


def shrunk(step: Step | None) -> str:
    """The text of a program that shows the NaN or infinity of a step.

    Raises ValueError for a step without one, and for operations that cannot be written as text.
    """
    bad = None if step is None else next((r for r in step.results or () if _is_bad(r)), None)
    if step is None or bad is None:
        raise ValueError("only a step that makes a NaN or an infinity can be shrunk")
    if not _is_plain(step.eqn):
        raise ValueError(f"{step.eqn.primitive.name} holds a program and cannot be written as text")
    place = _bad_place(bad)
    best = ""
    for count in range(1, _MOST_LINES):
        text = _program(step, _slice_of(step, count), place)
        if text is not None and len(text.splitlines()) <= _MOST_LINES:
            best = text
    if not best:
        raise ValueError(
            f"the operands of {step.eqn.primitive.name} have more than {_MOST_NUMBERS} numbers"
        )
    return best


def _is_bad(array: Array) -> bool:
    return can_hold(array) and not bool(np.isfinite(array).all())


def _bad_place(array: Array) -> tuple[int, ...]:
    nan = np.isnan(array)
    return tuple(int(i) for i in np.argwhere(nan if nan.any() else ~np.isfinite(array))[0])


def _is_plain(eqn: JaxprEqn) -> bool:
    return not eqn.primitive.interprets and all(_can_write(v) for v in eqn.params.values())


def _can_write(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_can_write, value))
    return value is None or isinstance(value, bool | int | float | str | np.dtype)


def _slice_of(step: Step, count: int) -> list[JaxprEqn]:
    """The last `count` equations that the step's results need, in order."""
    needed = {v for v in step.eqn.invars if isinstance(v, Var)}
    chosen = [step.eqn]
    eqns = step.frame.closed.eqns
    for eqn in reversed(eqns[: next(i for i, e in enumerate(eqns) if e is step.eqn)]):
        if len(chosen) >= count:
            break
        if any(v in needed for v in eqn.outvars) and _is_plain(eqn):
            chosen.append(eqn)
            needed.update(v for v in eqn.invars if isinstance(v, Var))
    return chosen[::-1]


def _program(step: Step, eqns: Sequence[JaxprEqn], place: tuple[int, ...]) -> str | None:
    env = step.frame.env
    made = {v for eqn in eqns for v in eqn.outvars}
    inputs = list(
        dict.fromkeys(v for e in eqns for v in e.invars if isinstance(v, Var) and v not in made)
    )
    values = {v: np.asarray(env[v]) for v in inputs}
    shape = np.shape((step.results or [None])[0])
    if shape and all(_is_elementwise(eqn, shape) for eqn in eqns):
        smaller = {v: x[place] if x.shape == shape else x for v, x in values.items()}
        if _shows(eqns, smaller):
            values = {v: np.asarray(x) for v, x in smaller.items()}
    if sum(x.size for x in values.values()) > _MOST_NUMBERS or not _shows(eqns, values):
        return None
    names = VariableNames()
    lines = [
        "import numpy as np",
        "import xpr",
        "from xpr.core.primitive import find_primitive",
        "",
        "def bind(name, *operands, **params):",
        "    return find_primitive(name).bind(*operands, **params)",
        "",
        "@xpr.jit",
        f"def program({', '.join(names(v) for v in inputs)}):",
    ]
    for eqn in eqns:
        operands = [_literal(a) if isinstance(a, Literal) else names(a) for a in eqn.invars]
        params = [f"{k}={_written(v)}" for k, v in eqn.params.items()]
        left = ", ".join(names(v) for v in eqn.outvars)
        comma = "," if eqn.primitive.multiple_results and len(eqn.outvars) == 1 else ""
        call = ", ".join([repr(eqn.primitive.name), *operands, *params])
        where = f"{eqn.source_info.filename}:{eqn.source_info.line}"
        lines.append(f"    {left}{comma} = bind({call})  # {where}")
    given = ", ".join(_array(values[v]) for v in inputs)
    lines += [f"    return {names(eqns[-1].outvars[0])}", "", f"print(program({given}))"]
    return "\n".join(lines) + "\n"


def _is_elementwise(eqn: JaxprEqn, shape: tuple[int, ...]) -> bool:
    shapes = [a.aval.shape for a in (*eqn.invars, *eqn.outvars)]
    return eqn.primitive.family in ("elementwise", "elementary", "special", "power") and all(
        s in (shape, ()) for s in shapes
    )


def _shows(eqns: Sequence[JaxprEqn], values: dict[Var, Any]) -> bool:
    env: dict[Any, Any] = dict(values)
    found: list[Array] = []
    for eqn in eqns:
        operands = [
            np.asarray(a.val, a.aval.dtype) if isinstance(a, Literal) else env[a]
            for a in eqn.invars
        ]
        found = interpret_equation(eqn, operands)
        env.update(zip(eqn.outvars, found, strict=True))
    return any(map(_is_bad, found))


def _literal(literal: Literal) -> str:
    return f"np.{literal.aval.dtype.name}({_number(literal.val)})"


def _number(value: Any) -> str:
    """A number, exactly."""
    if isinstance(value, list):
        return f"[{', '.join(map(_number, value))}]"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _array(array: Array) -> str:
    return f"np.array({_number(array.tolist())}, np.{array.dtype.name})"


def _written(value: Any) -> str:
    if isinstance(value, np.dtype):
        return f"np.dtype({value.name!r})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_written, value))}{',' if len(value) == 1 else ''})"
    return repr(value)
