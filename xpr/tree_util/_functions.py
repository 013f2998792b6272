"""Flatten, unflatten, map, reduce and transpose pytrees."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ._treedef import (
    IsLeaf,
    PyTreeDef,
    flatten_early,
    flatten_key,
    flatten_spec,
    flatten_up_to,
    unflatten_spec,
)

if TYPE_CHECKING:
    import optree


class _Unspecified:
    def __repr__(self) -> str:
        return "<unspecified>"


_UNSPECIFIED = _Unspecified()


def tree_flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree, from left to right, and its structure.

    Nodes are tuples, lists, dictionaries (by sorted key), named tuples, ``OrderedDict``,
    ``defaultdict``, ``None`` (a node without children) and registered types; all else is a leaf,
    and so is what ``is_leaf`` returns True for.

    Raises ValueError if the keys of a dictionary cannot be sorted.

    >>> tree_flatten({"b": [1, None], "a": (2, 3)})
    ([2, 3, 1], PyTreeDef({'a': (*, *), 'b': [*, None]}))
    >>> tree_flatten([1, None], is_leaf=lambda x: x is None)
    ([1, None], PyTreeDef([*, *]))
    """
    if is_leaf is None and (early := flatten_early(tree)) is not None:
        return early
    leaves, spec, state = flatten_spec(tree, is_leaf)
    return leaves, PyTreeDef(spec, state)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of a structure with these leaves, the inverse of `tree_flatten`.

    Raises ValueError unless there are as many leaves as the structure has.

    >>> leaves, treedef = tree_flatten({"b": [1, None], "a": (2, 3)})
    >>> tree_unflatten(treedef, [10 * leaf for leaf in leaves])
    {'a': (20, 30), 'b': [10, None]}
    """
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of a tree, from left to right.

    >>> tree_leaves((1, [2, {"a": 3}], None))
    [1, 2, 3]
    """
    if is_leaf is None and (early := flatten_early(tree)) is not None:
        return early[0]
    return flatten_spec(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """The structure of a tree.

    >>> tree_structure((1, [2, {"a": 3}], None))
    PyTreeDef((*, [*, {'a': *}], None))
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """The tree of ``f(leaf, *others)`` over the leaves of ``tree``.

    Each of ``rest`` has the structure of ``tree``, or a deeper one: then ``f`` gets the subtrees at
    the places of the leaves of ``tree``. Raises ValueError, with the key path and both structures,
    if one of them differs.

    >>> tree_map(lambda x: x + 1, {"a": 1, "b": (2, None)})
    {'a': 2, 'b': (3, None)}
    >>> tree_map(lambda x, y: (x, y), [1, 2], [3, (4, 5)])
    [(1, 3), (2, (4, 5))]
    """
    leaves, spec, state = flatten_spec(tree, is_leaf)
    if not rest:
        return unflatten_spec(spec, state, [f(leaf) for leaf in leaves])
    columns = [flatten_up_to(spec, state, other, "tree_map") for other in rest]
    return unflatten_spec(spec, state, [f(*row) for row in zip(leaves, *columns, strict=True)])


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _UNSPECIFIED,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Combine the leaves from left to right, as ``functools.reduce`` does.

    Raises TypeError for a tree without leaves if there is no ``initializer``.

    >>> tree_reduce(lambda x, y: x - y, [10, (1, 2)])
    7
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is _UNSPECIFIED:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _UNSPECIFIED,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Combine the leaves pairwise, as a balanced binary tree of ``operation``.

    The order of the leaves is kept. ``identity`` is the result for a tree without leaves, which is
    a TypeError if there is none.

    >>> tree_reduce_associative(lambda x, y: f"({x}{y})", ["a", "b", ("c", "d")])
    '((ab)(cd))'
    """
    leaves = tree_leaves(tree, is_leaf)
    if not leaves:
        if identity is _UNSPECIFIED:
            raise TypeError("tree_reduce_associative requires an identity for a tree of no leaves")
        return identity

    def reduce_range(start: int, stop: int) -> Any:
        if stop - start == 1:
            return leaves[start]
        middle = (start + stop) // 2
        return operation(reduce_range(start, middle), reduce_range(middle, stop))

    return reduce_range(0, len(leaves))


def tree_all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether all leaves are true.

    >>> tree_all({"a": True, "b": (1, [])}), tree_all([True, [0]])
    (True, False)
    """
    return all(tree_leaves(tree, is_leaf))


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Whether each item is a leaf.

    >>> all_leaves([1, "a"]), all_leaves([1, (2,)]), all_leaves([None])
    (True, False, False)
    """
    for item in iterable:
        leaves = flatten_spec(item, is_leaf)[0]
        if len(leaves) != 1 or leaves[0] is not item:
            return False
    return True


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turn an outer tree of inner trees into an inner tree of outer trees.

    ``inner_treedef=None`` takes the structure of the first inner tree. Raises TypeError if the
    number of leaves is not that of the two structures combined.

    >>> points = [{"x": 1, "y": 2}, {"x": 3, "y": 4}]
    >>> tree_transpose(tree_structure([0, 0]), tree_structure(points[0]), points)
    {'x': [1, 3], 'y': [2, 4]}
    """
    leaves, treedef = tree_flatten(pytree_to_transpose)
    if inner_treedef is None:
        first, *_ = outer_treedef.flatten_up_to(pytree_to_transpose)
        inner_treedef = tree_structure(first)
    size = inner_treedef.num_leaves
    if len(leaves) != size * outer_treedef.num_leaves:
        expected = outer_treedef.compose(inner_treedef)
        raise TypeError(f"Mismatch\n{treedef}\n != \n{expected}")
    return inner_treedef.unflatten(
        [outer_treedef.unflatten(leaves[start::size]) for start in range(size)]
    )


def flatten_args(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a call's arguments and the structure of the pair ``(args, kwargs)``.

    >>> flatten_args((1, [2]), {"b": 3, "a": 4})
    ([1, 2, 4, 3], PyTreeDef(((*, [*]), {'a': *, 'b': *})))
    """
    return tree_flatten((args, kwargs))


def flatten_args_key(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], optree.PyTreeSpec]:
    """As `flatten_args`, but faster, with a key in place of the structure: for cache hits.

    The key is hashable and comparable, and good for nothing else: calls with equal keys have equal
    structures, but the leaves may be other ones than those of `flatten_args`, which counts as
    leaves some nodes of optree's, such as deques. On a miss, start again with `flatten_args`.

    >>> leaves, key = flatten_args_key((1, [2]), {})
    >>> key == flatten_args_key((3, [4]), {})[1], key == flatten_args_key((3, (4,)), {})[1]
    (True, False)
    """
    return flatten_key((args, kwargs))
