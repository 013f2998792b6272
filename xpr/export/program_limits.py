"""Operations and sizes that programs as data may have: the same when they are written and read.

Data may come from anybody. An operation that reaches into the process (a callback, a foreign
function, a kernel, a reference) is refused in both directions. A program can name others, and
each of a few hundred that calls the one before twice makes more operations than any machine can
compile, so that there is a limit to what all calls together expand to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xpr.core.effects import Effects
from xpr.core.primitive import Primitive, find_primitive

Json = Any

MOST_OPERATIONS = 1_000_000
"""Operations of a program with all programs that it calls, each counted at every call."""

MOST_DEPTH = 64
"""Programs inside programs."""

_OF_THE_PROCESS = {
    "callback": "a Python function of this process",
    "check": "a check that may raise in this process",
    "ffi": "a foreign function of this process",
    "kernel": "a kernel of this process",
    "ref": "a reference of this process",
}

CALL = "jit"
"""The primitive that all calls are written as: rules of the user's stay behind."""


def check_operation(primitive: Primitive, name: str, effects: Effects) -> None:
    """Raises NotImplementedError for an operation that programs as data cannot have.

    `name` is how the message names it: of a foreign function its own name.
    """
    _check_family(primitive, name)
    if effects:
        raise NotImplementedError(
            f"{name} has an effect on this process, which an exported program cannot have"
        )


def _check_family(primitive: Primitive, name: str) -> None:
    kind = _OF_THE_PROCESS.get(primitive.family)
    if kind is not None:
        raise NotImplementedError(f"{name} is {kind}, which an exported program cannot call")


def operation_to_read(name: Any, params: dict[str, Any]) -> Primitive:
    """The primitive of an equation of a program as data, whose parameters have been read.

    Raises ValueError for one that is not known, or that no program can be written with.
    """
    found = find_primitive(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(f"the program uses {name!r}, an operation that this version does not know")
    try:
        _check_family(found, name)
        effects = found.effects(params) if found.effects is not None else frozenset()
        check_operation(found, name, effects)
    except NotImplementedError as error:
        raise ValueError(f"the program is unsound: {error}") from None
    if found.calls is not None:
        is_plain = name == CALL and params.keys() == call_params(None, "", 0).keys()
        if not is_plain or any(params["donated_invars"]):
            raise ValueError(f"the program is unsound: it has a call {name!r} of another form")
    return found


def call_params(program: Json, name: str, operands: int) -> dict[str, Json]:
    """The parameters of a call, as data."""
    return {
        "jaxpr": program,
        "name": name,
        "donated_invars": {"tuple": [False] * operands},
        "inline": False,
        "keep_unused": False,
    }


def check_budget(programs: Sequence[Json]) -> None:
    """Raises ValueError for programs as data that expand to too many operations, or too deep.

    >>> leaf = {"eqns": [["neg", [0], [], {}]]}
    >>> double = lambda n: {"eqns": [["jit", [0], [], {"jaxpr": {"closed": n}}]] * 2}
    >>> check_budget([leaf, double(0), double(1)])
    >>> check_budget([leaf, *map(double, range(40))])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: a program of 1572862 operations, of which some programs are called many times: ...
    """
    totals: list[int] = []
    depths: list[int] = []
    for program in programs:
        total, depth = 0, 0
        for _, _, _, params in program["eqns"]:
            total += 1
            for number in _called(params):
                if type(number) is not int or not 0 <= number < len(totals):
                    raise ValueError(f"a program calls number {number!r} of {len(totals)}")
                total += totals[number]
                depth = max(depth, depths[number] + 1)
        if total > MOST_OPERATIONS:
            raise ValueError(
                f"a program of {total} operations, of which some programs are called many times: "
                f"an exported program may have {MOST_OPERATIONS}"
            )
        if depth > MOST_DEPTH:
            raise ValueError(
                f"a program with programs inside each other {depth} deep: an exported program may "
                f"have {MOST_DEPTH}"
            )
        totals.append(total)
        depths.append(depth)


def _called(params: dict[str, Json]) -> Iterator[Json]:
    """The numbers of the programs among an equation's parameters."""
    rest = list(params.values())
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            for kind, content in value.items():
                if kind in ("closed", "jaxpr"):
                    yield content
                else:
                    rest.append(content)
        elif isinstance(value, list):
            rest.extend(value)
