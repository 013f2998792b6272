"""Which arguments of a function are static or donated, by position and by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from xpr.core.errors import shown

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class ArgumentRoles(NamedTuple):
    """Positions and names of the static and of the donated arguments.

    Positions are negative only for functions that take any number of arguments (`*args`).
    """

    static_argnums: tuple[int, ...]
    static_argnames: tuple[str, ...]
    donate_argnums: tuple[int, ...]
    donate_argnames: tuple[str, ...]


def places(argnums: Sequence[int], count: int) -> tuple[int, ...]:
    """Those of `argnums`, counted from the front, that a call with `count` arguments has."""
    found = (n + count if n < 0 else n for n in argnums)
    return tuple(n for n in found if 0 <= n < count)


def signature_of(fun: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of `fun`, or None for a callable that has none (some built-in functions)."""
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


def takes_keyword(fun: Callable[..., Any], name: str) -> bool:
    """Whether `fun` can be called with an argument of that name, as far as it tells."""
    signature = signature_of(fun)
    if signature is None:
        return False
    found = signature.parameters.get(name)
    if found is not None and found.kind is not inspect.Parameter.POSITIONAL_ONLY:
        return True
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())


def _as_ints(name: str, value: int | Iterable[int] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    items: Sequence[Any] = (value,) if isinstance(value, int) else tuple(value)
    for item in items:
        if not isinstance(item, int):
            raise TypeError(f"{name} must be an int or a sequence of ints, got {shown(value)}")
    return tuple(items)


def _as_names(name: str, value: str | Iterable[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    items: Sequence[Any] = (value,) if isinstance(value, str) else tuple(value)
    for item in items:
        if not isinstance(item, str):
            raise TypeError(f"{name} must be a string or a sequence of strings, got {shown(value)}")
    return tuple(items)


def argument_roles(
    fun: Callable[..., Any],
    static_argnums: int | Iterable[int] | None,
    static_argnames: str | Iterable[str] | None,
    donate_argnums: int | Iterable[int] | None,
    donate_argnames: str | Iterable[str] | None,
) -> ArgumentRoles:
    """Resolves and checks the options of `jit` against the signature of `fun`.

    Positions give names and names give positions, as JAX infers them. Raises ValueError for a
    position or a name that `fun` does not have and for an argument both static and donated.
    """
    signature = signature_of(fun)
    static = _resolve(fun, signature, "static", static_argnums, static_argnames)
    donated = _resolve(fun, signature, "donate", donate_argnums, donate_argnames)
    both = set(static[0]) & set(donated[0]) or set(static[1]) & set(donated[1])
    if both:
        kind = "argnames" if donate_argnums is None else "argnums"
        raise ValueError(
            f"static_{kind} and donate_{kind} cannot intersect: jit of {name_of(fun)} has "
            f"arguments {sorted(map(str, both))} both static and donated"
        )
    return ArgumentRoles(*static, *donated)


def _resolve(
    fun: Callable[..., Any],
    signature: inspect.Signature | None,
    role: str,
    argnums: int | Iterable[int] | None,
    argnames: str | Iterable[str] | None,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    nums = _as_ints(f"{role}_argnums", argnums)
    names = _as_names(f"{role}_argnames", argnames)
    if signature is None:
        return nums, names
    parameters = list(signature.parameters.values())
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    variadic = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    any_name = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    count = len(positional)
    for n in nums:
        if not variadic and not -count <= n < count:
            raise ValueError(
                f"Jitted function has {role}_argnums={nums}, but only accepts {count} positional "
                f"arguments: {name_of(fun)}"
            )
    if not variadic:  # else it takes the call to know where a negative position is
        nums = tuple(n + count if n < 0 else n for n in nums)
    known = {p.name for p in parameters}
    for name in names:
        if name not in known and not any_name:
            raise ValueError(
                f"Jitted function has invalid argnames {{{name!r}}} in {role}_argnames. Function "
                f"does not take these args: {name_of(fun)} takes {sorted(known)}"
            )
    # Given one of the two, the other follows; given both, both are taken at their word.
    if argnums is None and argnames is not None:
        nums = tuple(i for i, p in enumerate(positional) if p.name in names)
    elif argnames is None and argnums is not None:
        names = tuple(
            positional[n].name
            for n in nums
            if 0 <= n < count and positional[n].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        )
    return nums, names


def name_of(fun: Callable[..., Any]) -> str:
    """The name that messages and jaxprs show for `fun`."""
    name = getattr(fun, "__name__", None)
    if isinstance(name, str):
        return name
    inner = getattr(fun, "func", None)
    return name_of(inner) if callable(inner) else type(fun).__name__


def source_of(fun: Callable[..., Any]) -> str:
    """`file:line` where `fun` is defined, or an empty text."""
    unwrapped = inspect.unwrap(fun)
    unwrapped = getattr(unwrapped, "func", unwrapped)
    code = getattr(unwrapped, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def argument_names(
    fun: Callable[..., Any],
    paths: Sequence[tuple[Any, ...]],
    keystr: Callable[[Any], str],
    positions: Sequence[int],
) -> tuple[str, ...]:
    """Names of flattened arguments: `x`, `params['w']`, from their key paths in (args, kwargs).

    `positions` gives for each entry of the flattened `args` its position in the call.
    """
    signature = signature_of(fun)
    positional: list[str] = []
    rest = "args"
    if signature is not None:
        for p in signature.parameters.values():
            if p.kind in _POSITIONAL:
                positional.append(p.name)
            elif p.kind is inspect.Parameter.VAR_POSITIONAL:
                rest = p.name
    names = []
    for path in paths:
        group, key, tail = path[0], path[1], path[2:]
        if getattr(group, "idx", None) == 1:
            head = str(key.key)
        else:
            n = positions[key.idx]
            head = positional[n] if n < len(positional) else f"{rest}[{n - len(positional)}]"
        names.append(head + keystr(tail))
    return tuple(names)
