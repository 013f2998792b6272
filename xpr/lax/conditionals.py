"""Branches that are part of a program: `cond`, `switch`, `platform_dependent`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.config import state
from xpr.core.errors import shown
from xpr.core.jaxpr import eval_jaxpr
from xpr.core.trace import Tracer, get_aval, is_valid_value
from xpr.core.tracebacks import api_boundary
from xpr.dispatch.default_device import default_device
from xpr.lax._flat import (
    Program,
    as_arrays,
    cast_hint,
    difference,
    short,
    trace_program,
    with_consts,
)
from xpr.primitives import _ops as ops
from xpr.primitives.cond import cond_p
from xpr.transforms.reference_arguments import check_references, has_references
from xpr.transforms.signature import name_of, source_of
from xpr.transforms.tracing import check_callable

_NOT_GIVEN = object()


@api_boundary
def cond(pred: Any, *args: Any, **kwargs: Any) -> Any:
    """`true_fun(*operands)` where the boolean scalar `pred` holds, else `false_fun(*operands)`.

    Called as `cond(pred, true_fun, false_fun, *operands)`, or in the older form
    `cond(pred, true_operand, true_fun, false_operand, false_fun)`. Operands are pytrees; both
    functions give results of one structure and type. Only one of them runs, unless `vmap` maps over
    `pred`: then both are computed and the results selected.

    Raises TypeError for a `pred` that is no scalar and for results that differ in type.

    >>> import xpr
    >>> xpr.lax.cond(True, lambda x: x + 1, lambda x: x - 1, 3)
    Array(4, dtype=int32, weak_type=True)
    """
    if len(args) == 4 and callable(args[1]) and callable(args[3]) and not callable(args[0]):
        true_operand, true_fun, false_operand, false_fun = args
        return _cond(
            pred,
            lambda pair: true_fun(pair[0]),
            lambda pair: false_fun(pair[1]),
            ((true_operand, false_operand),),
            (true_fun, false_fun),
        )
    return _cond_by_name(pred, *args, **kwargs)


def _cond_by_name(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _NOT_GIVEN,
) -> Any:
    if operand is not _NOT_GIVEN:
        if operands:
            raise TypeError(
                "if 'operand' keyword is passed then no positional operands can be passed, got "
                f"operand={shown(operand)} and positional operands {shown(operands)}"
            )
        operands = (operand,)
    return _cond(pred, true_fun, false_fun, operands, (true_fun, false_fun))


def _cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    operands: Sequence[Any],
    users: tuple[Any, Any],
) -> Any:
    for fun in users:
        if not callable(fun):
            raise TypeError("lax.cond: true_fun and false_fun arguments should be callable.")
    if not is_valid_value(pred):
        raise TypeError(f"Pred must be a scalar, got {shown(pred)} of type {type(pred)}")
    aval = get_aval(pred)
    if aval.shape:
        raise TypeError(f"Pred must be a scalar, got {shown(pred)} of shape {aval.shape}.")
    if dtypes.kind(aval.dtype) not in "biuf":
        raise TypeError(f"Pred type must be either boolean or number, got {aval.dtype.name}.")
    if state.disable_jit and not isinstance(pred, Tracer):
        return (true_fun if pred else false_fun)(*operands)
    if dtypes.kind(aval.dtype) != "b":
        pred = ops.bind("ne", pred, aval.dtype.type(0))
    index = ops.convert(pred, np.int32)
    return _branches(index, [false_fun, true_fun], operands, [users[1], users[0]], "cond")


@api_boundary
def switch(
    index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _NOT_GIVEN
) -> Any:
    """`branches[index](*operands)`, for an integer scalar `index`, clamped to the branches.

    All branches give results of one structure and type.

    Raises ValueError for no branches, TypeError for an index that is no integer scalar and for
    results that differ in type.

    >>> import xpr
    >>> xpr.lax.switch(7, [lambda x: x, lambda x: -x], 3)
    Array(-3, dtype=int32, weak_type=True)
    """
    if operand is not _NOT_GIVEN:
        operands = (operand,)
    if not all(callable(branch) for branch in branches):
        raise TypeError("lax.switch: branches argument should be a sequence of callables.")
    if not is_valid_value(index):
        raise TypeError(f"Index type must be an integer, got {shown(index)} of type {type(index)}")
    if type(index) is int and -(1 << 63) <= index < 1 << 63:
        index = np.int64(index).astype(np.int32)  # As arrays of wider types are: modulo 2**32.
    aval = get_aval(index)
    if aval.shape:
        raise TypeError(f"Branch index must be scalar, got {shown(index)} of shape {aval.shape}.")
    if not dtypes.is_integer(aval.dtype):
        raise TypeError(f"Index type must be an integer, got {shown(index)} as {aval.dtype.name}")
    if not branches:
        raise ValueError("Empty branch sequence")
    if len(branches) == 1:
        return branches[0](*operands)
    if state.disable_jit and not isinstance(index, Tracer):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    place = ops.convert(index, np.int32)
    place = ops.bind("clamp", np.int32(0), place, np.int32(len(branches) - 1))
    return _branches(place, branches, operands, branches, "switch")


def _branches(
    index: Any,
    functions: Sequence[Callable[..., Any]],
    operands: Sequence[Any],
    users: Sequence[Callable[..., Any]],
    what: str,
) -> Any:
    leaves, tree = tree_util.tree_flatten(tuple(operands))
    avals = [get_aval(x) for x in as_arrays(leaves, what)]
    referring = has_references(leaves)
    if referring:
        check_references(what, users[0], operands)
    programs = [trace_program(f, tree, avals, what) for f in functions]
    if referring:
        consts = [c for program in programs for c in program.consts]
        check_references(what, users[0], operands, consts=consts)
    for i, (program, user) in enumerate(zip(programs, users, strict=True)):
        if i:
            pair = [("branch 0", programs[0], users[0]), (f"branch{i}", program, user)]
            if what == "cond":
                pair = [("true_fun", program, user), ("false_fun", programs[0], users[0])]
            _check_same_results(what, *pair)
    weak = [a.weak_type for a in programs[0].out_avals]
    programs = [_with_weak_types(p, weak) for p in programs]
    closed, consts = with_consts(programs)
    out = cond_p.bind(index, *consts, *leaves, branches=tuple(closed))
    return tree_util.tree_unflatten(programs[0].out_tree, out)


def _with_weak_types(program: Program, weak: Sequence[bool]) -> Program:
    """The program with results weakly typed where those of the first branch are, as in JAX."""
    if [a.weak_type for a in program.out_avals] == list(weak):
        return program
    inner = program.closed
    tree = tree_util.tree_structure(tuple(inner.in_avals))

    def converted(*xs: Any) -> list[Any]:
        out = eval_jaxpr(inner.jaxpr, inner.consts, *xs)
        return [
            x if get_aval(x).weak_type == wanted else ops.convert(x, get_aval(x).dtype, wanted)
            for x, wanted in zip(out, weak, strict=True)
        ]

    changed = trace_program(converted, tree, inner.in_avals, "cond")
    return Program(changed.closed, program.consts, program.out_tree)


def _check_same_results(
    what: str,
    one: tuple[str, Program, Callable[..., Any]],
    other: tuple[str, Program, Callable[..., Any]],
) -> None:
    """TypeError, naming the leaf and both types, unless two branches give the same types."""
    names = one[0], other[0]
    first, second = one[1], other[1]
    places = "\n".join(f"{n} is {name_of(f)} at {source_of(f)}" for n, _, f in (one, other))
    if first.out_tree != second.out_tree:
        lines = [
            f"{names[0]} output{tree_util.keystr(path)} is {_with_article(x)} but {names[1]} "
            f"output{tree_util.keystr(path)} is {_with_article(y)}, so {why}."
            for path, x, y, why in tree_util.treedef_equality_errors(
                first.out_tree, second.out_tree
            )
        ]
        raise TypeError(
            f"{what} branch outputs must have the same pytree structure, but they differ:\n\n"
            f"{places}\n\n" + "\n".join(lines) + f"\n\nRevise {names[0]} and/or {names[1]} so that "
            "they have the same pytree structure."
        )
    whole = tree_util.tree_unflatten(first.out_tree, first.out_avals)
    lines = []
    for (path, a), b in zip(
        tree_util.tree_flatten_with_path(whole)[0], second.out_avals, strict=True
    ):
        why = difference(a, b)
        if why is not None:
            where = tree_util.keystr(path)
            lines.append(
                f"The output of {names[0]}{' at path ' + where if where else ''} has type "
                f"{short(a)} but the corresponding output of {names[1]} has type {short(b)}, {why}."
            )
            for one_type, other_type, name in ((a, b, names[0]), (b, a, names[1])):
                hint = cast_hint(one_type, other_type, f"the output of {name}")
                if hint:
                    lines.append("\n" + hint)
    if lines:
        raise TypeError(
            f"{what} branches must have equal output types but they differ.\n\n{places}\n\n"
            + "\n".join(lines)
            + f"\n\nRevise {names[0]} and/or {names[1]} so that all output types match."
        )


def _with_article(text: str) -> str:
    return text if text.startswith("a ") else f"a {text}"


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """The function given for the platform that the program is made for, applied to `args`.

    The platform is that of the default device when the function is traced: `cpu`, `cuda`, ...
    Raises NotImplementedError if there is neither a function for it nor a `default`.

    >>> import xpr
    >>> xpr.lax.platform_dependent(2, cpu=lambda x: x + 1, default=lambda x: x)
    3
    """
    for name, fun in per_platform.items():
        check_callable(fun, f"platform_dependent: {name}")
    platform = default_device().platform
    chosen = per_platform.get(platform, default)
    if chosen is None:
        raise NotImplementedError(
            f"platform_dependent has no function for {platform!r} and no default; it has "
            f"{sorted(per_platform)}"
        )
    return chosen(*args)
