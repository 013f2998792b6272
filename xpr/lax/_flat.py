"""What the loops and conditionals share: functions of trees traced to programs, and messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.aval import ShapedArray, same_sharding
from xpr.core.jaxpr import ClosedJaxpr, DebugInfo, Var
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.primitive import invalid_argument
from xpr.core.trace import get_aval, is_valid_value
from xpr.primitives import _ops as ops
from xpr.transforms.signature import name_of, signature_of, source_of


class Program:
    """A function of trees traced at certain types.

    `closed` has no constants: `consts` are the values that the function closes over, which are
    inputs in front of the others.
    """

    def __init__(self, closed: ClosedJaxpr, consts: list[Any], out_tree: Any) -> None:
        self.closed = closed
        self.consts = consts
        self.out_tree = out_tree

    @property
    def out_avals(self) -> list[ShapedArray]:
        return self.closed.out_avals


def trace_program(
    fun: Callable[..., Any], in_tree: Any, avals: Sequence[ShapedArray], what: str
) -> Program:
    """`fun(*args)` as a program, where `in_tree` is the tree of `args`."""
    trees: list[Any] = []

    def flat(*leaves: Any) -> Sequence[Any]:
        out = fun(*tree_util.tree_unflatten(in_tree, leaves))
        found, tree = tree_util.tree_flatten(out)
        for x in found:
            if not is_valid_value(x):
                raise TypeError(
                    f"{what}: {name_of(fun)} at {source_of(fun)} returned a value of type "
                    f"{type(x)}, which is not a valid JAX type"
                )
        trees.append(tree)
        return found

    info = DebugInfo(name_of(fun), source_of(fun), what, ())
    closed = trace_to_jaxpr(flat, avals, info)
    jaxpr = closed.jaxpr
    hoisted = jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])
    return Program(ClosedJaxpr(hoisted, []), list(closed.consts), trees[-1])


def with_consts(programs: Sequence[Program]) -> tuple[list[ClosedJaxpr], list[Any]]:
    """The programs made to take the constants of all of them, and those constants, each once."""
    consts: list[Any] = []
    places: dict[int, int] = {}
    for program in programs:
        for c in program.consts:
            if id(c) not in places:
                places[id(c)] = len(consts)
                consts.append(c)
    closed = []
    for program in programs:
        count = len(program.consts)
        own = [places[id(c)] for c in program.consts]
        avals = [get_aval(c) for c in consts]
        jaxpr = program.closed.jaxpr
        if len(own) == len(consts) and own == list(range(len(consts))):
            closed.append(program.closed)
            continue
        fresh = [_variable(a) for a in avals]
        for k, place in enumerate(own):
            fresh[place] = jaxpr.invars[k]
        closed.append(ClosedJaxpr(jaxpr.replace(invars=[*fresh, *jaxpr.invars[count:]]), []))
    return closed, consts


def _variable(aval: Any) -> Var:
    if aval.is_high:
        from xpr.core.high import new_variable  # noqa: PLC0415  only for high types

        return new_variable(aval, {})
    return Var(aval)


def short(aval: ShapedArray) -> str:
    """A type as messages show it."""
    return str(aval.strip_weak_type())


def argument_name(fun: Callable[..., Any], position: int, default: str) -> str:
    """The name that `fun` gives to an argument."""
    signature = signature_of(fun)
    names = list(signature.parameters) if signature is not None else []
    return names[position] if position < len(names) else default


def difference(found: ShapedArray, wanted: ShapedArray) -> str | None:
    """What two types disagree about; None if nothing but weak types."""
    if found.is_high or wanted.is_high:
        return None if found == wanted else "so the types do not match"
    if found.dtype != wanted.dtype and found.shape != wanted.shape:
        return "so the shapes and dtypes do not match"
    if found.dtype != wanted.dtype:
        return "so the dtypes do not match"
    if found.shape != wanted.shape:
        return "so the shapes do not match"
    if found.vma != wanted.vma:
        return "so the manual axis types do not match"
    if found.memory_space != wanted.memory_space:
        return "so the memory spaces do not match"
    if not same_sharding(found, wanted):
        return "so the shardings do not match"
    return None


def cast_hint(wanted: ShapedArray, found: ShapedArray, place: str) -> str:
    """How a value at `place` could be made to vary as `found` does; empty if that is no matter."""
    axes = tuple(sorted(found.vma - wanted.vma))
    if not axes:
        return ""
    return f"This might be fixed by applying `xpr.lax.pcast(..., {axes}, to='varying')` to {place}."


def check_carry(
    what: str, name: str, in_tree: Any, in_avals: Sequence[Any], out_tree: Any, out_avals: Any
) -> None:
    """TypeError, naming the leaf and both types, unless what is carried keeps its type."""
    if in_tree != out_tree:
        first = tree_util.tree_unflatten(in_tree, list(in_avals))
        second = tree_util.tree_unflatten(out_tree, list(out_avals))
        lines = [
            f"  * the input carry {name}{tree_util.keystr(path)} is a {one} but the corresponding "
            f"component of the carry output is a {other}, so {why}"
            for path, one, other, why in tree_util.equality_errors(first, second)
        ]
        raise TypeError(
            f"{what} function carry input and carry output must have the same pytree structure, "
            "but they differ:\n\n" + "\n".join(lines) + "\n\nRevise the function so that the "
            "carry output has the same pytree structure as the carry input."
        )
    whole = tree_util.tree_unflatten(in_tree, in_avals)
    paths = [p for p, _ in tree_util.tree_flatten_with_path(whole)[0]]
    lines = []
    for path, a, b in zip(paths, in_avals, out_avals, strict=True):
        why = difference(b, a)
        if why is not None:
            where = f"component {name}{tree_util.keystr(path)}" if path else name
            lines.append(
                f"The input carry {where} has type {short(a)} but the corresponding output carry "
                f"component has type {short(b)}, {why}."
            )
            hint = cast_hint(
                a, b, f"the initial carry value corresponding to the input carry {where}"
            )
            if hint:
                lines.append("\n" + hint)
    if lines:
        raise TypeError(
            f"{what} function carry input and carry output must have equal types, but they "
            "differ:\n\n" + "\n".join(lines) + "\n\nRevise the function so that all output types "
            "match the corresponding input types."
        )


def promote_weak(values: Sequence[Any], wanted: Sequence[ShapedArray]) -> list[Any] | None:
    """The values converted where they are weakly typed and a step gives another dtype.

    What is converted is weakly typed no more, as in JAX. None if nothing is to be converted.
    """
    changed = False
    out = []
    for x, want in zip(values, wanted, strict=True):
        aval = get_aval(x)
        if aval.weak_type and aval.shape == want.shape and aval.dtype != want.dtype:
            joined, _ = dtypes.promote_avals((aval.dtype, True), (want.dtype, want.weak_type))
            x = ops.convert(x, joined)
            changed = True
        out.append(x)
    return out if changed else None


def as_arrays(leaves: Sequence[Any], what: str) -> list[Any]:
    """The leaves, checked to be arrays or numbers."""
    for x in leaves:
        if not is_valid_value(x):
            raise invalid_argument(x, what)
    return list(leaves)
