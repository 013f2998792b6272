"""`jax.api_util`: flat functions of functions of trees."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable
from typing import Any

from xpr.compat.modules.extend.linear_util import WrappedFun, transformation_with_aux2
from xpr.core.jaxpr import DebugInfo
from xpr.core.trace import get_aval
from xpr.tree_util import flatten_axes as flatten_axes
from xpr.tree_util import tree_flatten, tree_leaves, tree_unflatten

__all__ = [
    "infer_argnums_and_argnames",
    "argnums_partial",
    "debug_info",
    "donation_vector",
    "flatten_axes",
    "flatten_fun",
    "flatten_fun_nokwargs",
    "rebase_donate_argnums",
    "safe_map",
    "shaped_abstractify",
]


def _flat(f: Callable[..., Any], store: Any, in_tree: Any, *leaves: Any) -> list[Any]:
    args, kwargs = tree_unflatten(in_tree, leaves)
    found, tree = tree_flatten(f(*args, **kwargs))
    store.put(tree)
    return found


def _flat_without_keywords(
    f: Callable[..., Any], store: Any, in_tree: Any, *leaves: Any
) -> list[Any]:
    found, tree = tree_flatten(f(*tree_unflatten(in_tree, leaves)))
    store.put(tree)
    return found


def flatten_fun(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Callable[[], Any]]:
    """The function on the leaves of `(args, kwargs)`, and what tells the results' structure."""
    return transformation_with_aux2(_flat)(fun, in_tree)


def flatten_fun_nokwargs(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Callable[[], Any]]:
    """The function on the leaves of `args`, and what tells the results' structure."""
    return transformation_with_aux2(_flat_without_keywords)(fun, in_tree)


def argnums_partial(
    fun: WrappedFun, argnums: int | tuple[int, ...], args: tuple[Any, ...]
) -> tuple[WrappedFun, tuple[Any, ...]]:
    """The function of some of its arguments, with the others fixed, and these arguments."""
    picked = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    picked = tuple(i % len(args) for i in picked)

    def partial(f: Callable[..., Any], *given: Any) -> Any:
        full = list(args)
        for i, value in zip(picked, given, strict=True):
            full[i] = value
        return f(*full)

    return fun.wrap(partial), tuple(args[i] for i in picked)


def debug_info(traced_for: str, fun: Callable[..., Any], *_: Any, **__: Any) -> DebugInfo:
    """Of which function a jaxpr is, for messages."""
    return DebugInfo(getattr(fun, "__name__", str(fun)), traced_for=traced_for)


def infer_argnums_and_argnames(
    sig: inspect.Signature,
    argnums: int | Iterable[int] | None,
    argnames: str | Iterable[str] | None,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The numbers and the names of parameters of which one or the other is given.

    >>> infer_argnums_and_argnames(inspect.signature(lambda x, y, *, z: 0), None, ("y", "z"))
    ((1,), ('y', 'z'))
    >>> infer_argnums_and_argnames(inspect.signature(lambda x, y: 0), 0, None)
    ((0,), ('x',))
    """
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    names = (argnames,) if isinstance(argnames, str) else argnames
    if numbers is None and names is None:
        return (), ()
    both = inspect.Parameter.POSITIONAL_OR_KEYWORD
    known = [(i, k) for i, (k, p) in enumerate(sig.parameters.items()) if p.kind is both]
    if names is None:
        assert numbers is not None
        numbers = tuple(map(operator.index, numbers))
        return numbers, tuple(k for i, k in known if i in numbers)
    names = tuple(names)
    if numbers is None:
        return tuple(i for i, k in known if k in names), names
    return tuple(map(operator.index, numbers)), names


def donation_vector(
    donate_argnums: tuple[int, ...],
    donate_argnames: tuple[str, ...],
    in_tree: Any,
    kws: bool = True,
) -> tuple[bool, ...]:
    """For each leaf of the arguments whether it is donated; `in_tree` is of (args, kwargs).

    Without `kws` it is the structure of the positional arguments.
    """
    whole = tree_unflatten(in_tree, [0] * in_tree.num_leaves)
    args, kwargs = whole if kws else (whole, {})
    marks = [[i in donate_argnums] * len(tree_leaves(x)) for i, x in enumerate(args)]
    marks += [[k in donate_argnames] * len(tree_leaves(kwargs[k])) for k in sorted(kwargs)]
    return tuple(m for part in marks for m in part)


def rebase_donate_argnums(
    donate_argnums: tuple[int, ...], static_argnums: tuple[int, ...]
) -> tuple[int, ...]:
    """Positions of donated arguments when the static ones are left out.

    Raises ValueError for an argument that is both.

    >>> rebase_donate_argnums((3, 4), (0, 1))
    (1, 2)
    """
    both = set(donate_argnums) & set(static_argnums)
    if both:
        raise ValueError(
            f"static_argnums and donate_argnums cannot intersect, got {static_argnums} and "
            f"{donate_argnums}"
        )
    return tuple(sorted({d - sum(s < d for s in static_argnums) for d in donate_argnums}))


def safe_map(f: Callable[..., Any], *args: Any) -> list[Any]:
    """`map` of sequences that must be equally long."""
    columns = [list(a) for a in args]
    if len({len(c) for c in columns}) > 1:
        raise ValueError(f"length mismatch: {[len(c) for c in columns]}")
    return [f(*row) for row in zip(*columns, strict=True)]


def shaped_abstractify(x: Any) -> Any:
    """The type of a value."""
    return get_aval(x)
