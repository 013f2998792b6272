"""Prefix trees: trees whose leaves stand for whole subtrees, as in ``in_axes``."""

from collections.abc import Iterator
from typing import Any

from ._functions import tree_structure
from ._keys import KeyPath
from ._mismatch import OBJECTS, STRUCTURE, Mismatch, mismatches, shortened
from ._registry import Level
from ._treedef import IsLeaf, PyTreeDef, decode, flatten_spec, flatten_up_to, spec_of


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """The tree of ``full_tree``'s structure in which the leaves of ``prefix_tree`` are repeated.

    ``is_leaf`` is about ``prefix_tree``. Raises ValueError, with the key path, if that is not a
    prefix of ``full_tree``.

    >>> tree_broadcast({"a": 1, "b": 2}, {"a": [0, 0], "b": (0, None)})
    {'a': [1, 1], 'b': (2, None)}
    """
    leaves = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return tree_structure(full_tree).unflatten(leaves)


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """For each leaf of ``full_tree`` the leaf of ``prefix_tree`` that stands at it or above it.

    ``is_leaf`` is about ``prefix_tree``. Raises ValueError, with the key path, if that is not a
    prefix of ``full_tree``.

    >>> broadcast_prefix((1, 2), (0, [0, 0]))
    [1, 2, 2]
    """
    leaves, spec, state = flatten_spec(prefix_tree, is_leaf)
    subtrees = flatten_up_to(spec, state, full_tree, "broadcast_prefix")
    result: list[Any] = []
    for leaf, subtree in zip(leaves, subtrees, strict=True):
        result += [leaf] * len(flatten_spec(subtree)[0])
    return result


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None
) -> list[Mismatch]:
    """The places where ``prefix_tree`` is not a prefix of ``full_tree``; none if it is one.

    >>> [found] = prefix_errors([1, (2,)], [1, (2, 3)])
    >>> found.path, found.kind
    ((SequenceKey(idx=1),), 'different lengths of tuple')
    """
    prefix = decode(flatten_spec(prefix_tree, is_leaf)[1])
    return list(mismatches(prefix, full_tree, STRUCTURE, OBJECTS, prefix=True))


def flatten_axes(
    name: str,
    treedef: PyTreeDef,
    axis_tree: Any,
    *,
    kws: bool = False,
    tupled_args: bool = False,
) -> list[Any]:
    """For each leaf of ``treedef`` the axis that the prefix ``axis_tree`` gives it.

    Axes are whatever is a leaf in ``axis_tree``, and None. ``name`` ("vmap in_axes") is for the
    error message. ``kws`` says that the structure is that of ``(args, kwargs)``, of which users
    only specify the first; ``tupled_args`` that it is that of a tuple of arguments.

    Raises ValueError, with the key path, if ``axis_tree`` is not a prefix of the structure.

    >>> from xpr.tree_util import tree_structure
    >>> flatten_axes("vmap in_axes", tree_structure((1, {"k1": 2, "k2": 3})), (None, 0))
    [None, 0, 0]
    """
    if axis_tree is None or type(axis_tree) is int:
        return [axis_tree] * treedef.num_leaves
    leaves, spec, _ = flatten_spec(axis_tree, _is_none)
    prefix, full = decode(spec), decode(spec_of(treedef))
    counts: list[int] = []
    if _count_leaves_under(prefix, full, counts):
        return [axis for axis, n in zip(leaves, counts, strict=True) for _ in range(n)]
    if kws:
        # The caller paired the user's axes with those of the keyword arguments.
        assert prefix is not None, "kws=True requires axes for (args, kwargs)"
        assert full is not None, "kws=True requires the structure of (args, kwargs)"
        axis_tree, treedef = axis_tree[0], treedef.children()[0]
        prefix, full = prefix.children[0], full.children[0]
    message = (
        f"{name} specification must be a tree prefix of the corresponding value; "
        f"got specification {shortened(repr(axis_tree))} for value tree {shortened(repr(treedef))}."
    )
    if tupled_args and not isinstance(axis_tree, tuple):
        message += (
            f" The value is the tuple of the arguments, so {name} must be a tuple too, unless it"
            f" is one axis for all of them: ({axis_tree!r},) for a single argument."
        )
    found = list(mismatches(prefix, full, STRUCTURE, STRUCTURE, prefix=True))
    details = [mismatch.text(name, "the specification", "the value") for mismatch in found]
    heading = f"Mismatch details ({len(found)} found):"
    raise ValueError("\n".join([message, heading, *details]))


def equality_errors(
    tree1: Any, tree2: Any, is_leaf: IsLeaf | None = None
) -> Iterator[tuple[KeyPath, str, str, str]]:
    """The places where two trees differ in structure: ``(key_path, there, here, explanation)``.

    >>> from xpr.tree_util import keystr
    >>> for path, first, second, why in equality_errors({"a": [1, 2]}, {"a": [1]}):
    ...     print(keystr(path), first, "|", second, "|", why)
    ['a'] a list of length 2 | a list of length 1 | their lengths differ
    """
    view = OBJECTS
    if is_leaf is not None:
        view = OBJECTS._replace(expand=lambda node: None if is_leaf(node) else OBJECTS.expand(node))
    return _as_tuples(mismatches(tree1, tree2, view, view))


def treedef_equality_errors(
    treedef1: PyTreeDef, treedef2: PyTreeDef
) -> Iterator[tuple[KeyPath, str, str, str]]:
    """As `equality_errors`, for two structures of trees that are not at hand.

    >>> from xpr.tree_util import tree_structure
    >>> list(treedef_equality_errors(tree_structure((1, 2)), tree_structure((1, [2]))))
    [((SequenceKey(idx=1),), 'a pytree leaf', "<class 'list'>", 'their Python types differ')]
    """
    one, two = decode(spec_of(treedef1)), decode(spec_of(treedef2))
    return _as_tuples(mismatches(one, two, STRUCTURE, STRUCTURE))


def _as_tuples(found: Iterator[Mismatch]) -> Iterator[tuple[KeyPath, str, str, str]]:
    return ((m.path, m.first, m.second, m.explanation) for m in found)


def _is_none(node: Any) -> bool:
    return node is None


def _count_leaves_under(prefix: Level | None, full: Level | None, counts: list[int]) -> bool:
    """Append how many leaves ``full`` has below each leaf of ``prefix``; False if they clash."""
    if prefix is None:
        counts.append(_num_leaves(full))
        return True
    return (
        full is not None
        and prefix.type is full.type
        and len(prefix.children) == len(full.children)
        and bool(prefix.data == full.data)
        and all(
            _count_leaves_under(child, other, counts)
            for child, other in zip(prefix.children, full.children, strict=True)
        )
    )


def _num_leaves(level: Level | None) -> int:
    return 1 if level is None else sum(map(_num_leaves, level.children))
