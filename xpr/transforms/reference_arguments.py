"""Checks of references among arguments: two names of one place would be two values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xpr import tree_util
from xpr.core.references import Ref
from xpr.transforms.signature import argument_names, name_of, source_of


def has_references(leaves: Iterable[Any]) -> bool:
    """Whether there are references among the leaves, as there hardly ever are."""
    return any(type(x) is Ref for x in leaves)


def check_references(
    what: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    consts: Iterable[Any] = (),
) -> None:
    """ValueError for a reference that is given twice, or that is among what `fun` closes over."""
    pairs = tree_util.tree_flatten_with_path((tuple(args), dict(kwargs or {})))[0]
    paths = [path for path, _ in pairs]
    names = argument_names(fun, paths, tree_util.keystr, range(len(args)))
    held = {id(c) for c in consts}
    seen: dict[int, str] = {}
    for (_, x), name in zip(pairs, names, strict=True):
        if type(x) is not Ref:
            continue
        traced = f"when tracing {name_of(fun)} at {source_of(fun)} for {what}"
        if id(x) in seen:
            raise ValueError(
                "only one reference to a mutable array may be passed as an argument to a "
                f"function, but {traced} the mutable array reference of type {x.aval} appeared at "
                f"both {seen[id(x)]} and {name}."
            )
        if id(x) in held:
            raise ValueError(
                f"{traced}, a mutable array reference of type {x.aval} was both closed over and "
                f"passed as the argument {name}"
            )
        seen[id(x)] = name


def check_returned(
    what: str, out: Any, allowed: Iterable[Any] = (), place: str = "", *, anywhere: bool = True
) -> None:
    """ValueError for a reference in the tree `out` of what a function returned.

    Those of `allowed`, its arguments, may be there if `anywhere` is false of the place.
    """
    ids = set() if anywhere else {id(x) for x in allowed}
    for path, x in tree_util.tree_leaves_with_path(out):
        if type(x) is Ref and id(x) not in ids:
            end = (
                ", but mutable array references cannot be returned there"
                if anywhere
                else " that was not an argument"
            )
            raise ValueError(
                f"{what} returned a mutable array reference of type {x.aval} at output tree path "
                f"{place}{tree_util.keystr(path)}{end}."
            )
