"""Pytree functions that tell the key path of each leaf."""

from collections.abc import Callable
from typing import Any

from ._functions import tree_structure
from ._keys import KeyPath
from ._registry import children_with_keys
from ._treedef import PyTreeDef, flatten_up_to, spec_of, state_of


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """As `tree_flatten`, each leaf in a pair ``(key_path, leaf)``.

    With ``is_leaf_takes_path``, the predicate is called as ``is_leaf(key_path, node)``.

    >>> tree_flatten_with_path([1, {"a": 2}])  # doctest: +NORMALIZE_WHITESPACE
    ([((SequenceKey(idx=0),), 1), ((SequenceKey(idx=1), DictKey(key='a')), 2)],
     PyTreeDef([*, {'a': *}]))
    """
    if is_leaf is None:
        return tree_leaves_with_path(tree), tree_structure(tree)
    # The predicate runs once a node, as in tree_flatten, so its verdicts are kept for optree,
    # which visits the nodes in the same order.
    verdicts: list[bool] = []

    def record(path: KeyPath, node: Any) -> bool:
        verdict = is_leaf(path, node) if is_leaf_takes_path else is_leaf(node)
        verdicts.append(verdict or children_with_keys(node) is None)
        return verdict

    pairs = _leaves_with_path(tree, record)
    replay = iter(verdicts)
    return pairs, tree_structure(tree, lambda _: next(replay))


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """As `tree_leaves`, each leaf in a pair ``(key_path, leaf)``.

    >>> tree_leaves_with_path({"a": (1,)})
    [((DictKey(key='a'), SequenceKey(idx=0)), 1)]
    """
    if is_leaf is None or is_leaf_takes_path:
        return _leaves_with_path(tree, is_leaf)
    return _leaves_with_path(tree, lambda _, node: is_leaf(node))


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """As `tree_map`, with calls ``f(key_path, leaf, *others)``.

    >>> from xpr.tree_util import keystr
    >>> tree_map_with_path(lambda path, x: f"{keystr(path)} is {x}", [1, {"a": 2}])
    ['[0] is 1', {'a': "[1]['a'] is 2"}]
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    spec, state = spec_of(treedef), state_of(treedef)
    columns = [flatten_up_to(spec, state, other, "tree_map_with_path") for other in rest]
    rows = zip(pairs, *columns, strict=True)
    return treedef.unflatten([f(path, leaf, *others) for (path, leaf), *others in rows])


def _leaves_with_path(
    tree: Any, is_leaf: Callable[[KeyPath, Any], bool] | None
) -> list[tuple[KeyPath, Any]]:
    pairs: list[tuple[KeyPath, Any]] = []

    def visit(path: KeyPath, node: Any) -> None:
        keyed = None
        if is_leaf is None or not is_leaf(path, node):
            keyed = children_with_keys(node)
        if keyed is None:
            pairs.append((path, node))
            return
        keys, level = keyed
        for key, child in zip(keys, level.children, strict=True):
            visit((*path, key), child)

    visit((), tree)
    return pairs
