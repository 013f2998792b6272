"""Why a jitted function has to be traced: the log lines of `explain_cache_misses`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core.config import trace_key_names
from xpr.core.errors import shown
from xpr.core.source_info import is_internal
from xpr.transforms.signature import name_of, source_of

_log = logging.getLogger("xpr.cache_misses")

_WEAK_TYPES = "https://docs.jax.dev/en/latest/type_promotion.html#weak-types"

_defined: set[str] = set()
"""Where functions were defined that were traced for the first time, with their names."""


def log_cache_miss(
    fun: Callable[..., Any],
    known: Iterable[tuple[Any, ...]],
    key: tuple[Any, ...],
    names: Sequence[str],
) -> None:
    """Logs how `key` differs from the most similar of the `known` keys of a jitted function.

    A key holds the configuration, the tree and the static values of the arguments, and the types
    of the others, which have `names`. Functions of this package are left out.
    """
    source = source_of(fun)
    if source and is_internal(source.rpartition(":")[0]):
        return
    where = f"{name_of(fun)} defined at {source}" if source else name_of(fun)
    differences = [_difference(old, key, names) for old in known]
    if differences:
        _, text = min(differences, key=lambda found: found[0])
        explanation = f"  for {where}\n  of the keys seen before the closest has {text}"
    else:
        explanation = f"  never seen function: {where} id={id(fun)}"
        if where in _defined:
            explanation += (
                "\n  but seen another function defined on the same line: if it is defined again "
                "for each call, define it once"
            )
        _defined.add(where)
    _log.warning("TRACING CACHE MISS:\n%s", explanation)


def _difference(
    old: tuple[Any, ...], new: tuple[Any, ...], names: Sequence[str]
) -> tuple[tuple[int, int], str]:
    """How alike two keys are (less is more alike), and what differs."""
    kinds: list[tuple[str, list[str]]] = [
        ("a different tracing context", _configurations(old[0], new[0])),
        ("a different input pytree", _trees(old[1], new[1])),
        ("different static arguments", _statics(old[2], new[2])),
    ]
    if old[1] == new[1]:
        kinds.append(("different input types", _types(old[3:], new[3:], names)))
    kinds = [(title, lines) for title, lines in kinds if lines]
    text = "; ".join("\n".join([f"{title}:", *lines]) for title, lines in kinds)
    return (len(kinds), sum(len(lines) for _, lines in kinds)), text


def _configurations(old: Any, new: Any) -> list[str]:
    if old == new:
        return []
    (was, was_bound), (now, now_bound) = old, new
    lines = [
        f"  * {name}, now {b} and before {a}"
        for name, a, b in zip(trace_key_names(), was, now, strict=True)
        if a != b
    ]
    if was_bound != now_bound:
        lines.append(f"  * the axes in scope, now {now_bound} and before {was_bound}")
    return lines


def _trees(old: tree_util.PyTreeDef, new: tree_util.PyTreeDef) -> list[str]:
    return [
        f"  * at input path {tree_util.keystr(path)}, now {there} and before {here}: {why}"
        for path, there, here, why in tree_util.treedef_equality_errors(new, old)
    ]


def _statics(old: Any, new: Any) -> list[str]:
    before = {key: value for key, _, value in (*old[0], *old[1])}
    return [
        f"  * static argument {key}, now {shown(value)} and before {shown(before.get(key))}"
        for key, _, value in (*new[0], *new[1])
        if key not in before or before[key] != value
    ]


def _types(old: Sequence[Any], new: Sequence[Any], names: Sequence[str]) -> list[str]:
    lines = []
    for name, a, b in zip(names, old, new, strict=False):
        if a == b:
            continue
        was, now = shown_types(a, b)
        hint = ""
        if a.weak_type != b.weak_type:
            was += f"{{weak_type={a.weak_type}}}"
            now += f"{{weak_type={b.weak_type}}}"
            hint = f" ({_WEAK_TYPES})"
        lines.append(f"  * at {name}, now {now} and before {was}{hint}")
    return lines


def shown_types(a: Any, b: Any) -> tuple[str, str]:
    """Two types as messages show them: with the states of mutable values if only these differ."""
    first, second = a.str_short(), b.str_short()
    if first == second and a.has_qdd and b.has_qdd:
        return f"{first} in the state {a.qdd}", f"{second} in the state {b.qdd}"
    return first, second
