"""`PyTreeDef`, and flattening with optree's C++ code but with JAX's rules.

Where optree's rules differ, this module makes up for it:

- optree follows deques, struct sequences and types in its global namespace; here they are leaves;
- optree orders dictionary keys that cannot be compared; here they are an error;
- optree's ``unflatten`` restores the insertion order of dictionaries; here equal structures
  rebuild equal results, so the keys come out sorted.

All three need a look at each node, which costs about 0.1 µs a node. `flatten_key` leaves it out,
for caches: see there.

optree is loaded when something is asked for that `_early` does not answer.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, NoReturn

from . import _early
from ._mismatch import prefix_error
from ._registry import (
    NAMESPACE,
    Level,
    blame_flatten_function,
    is_tree_node,
    one_level,
    registered,
    sorted_keys,
    tell_optree,
)

if TYPE_CHECKING:
    import optree

IsLeaf = Callable[[Any], bool]

# What is known of a structure, from the least work for each use of it to the most.
NO_MAPPING = 0  # no dictionary of any kind: optree's methods follow our rules
EXACT = 1  # no dictionary to sort: optree's unflatten follows our rules
_UNUSED = 2  # dictionaries to sort, or not known; nobody has unflattened yet
_USED = 3  # the same, but unflattened before: worth while to sort them inside the structure

# A structure that has been used so often is made optree's, which is faster.
_OFTEN = 16


def load_optree() -> None:
    """Loads optree and tells it of our types, if that was not done yet."""
    global _c_flatten
    # The public wrapper adds 5 to 10 % to the cost of flattening a call's arguments.
    from optree._C import flatten  # noqa: PLC0415  `_early` says why

    tell_optree()
    _c_flatten = flatten


def _load_and_flatten(*args: Any) -> tuple[list[Any], optree.PyTreeSpec]:
    load_optree()
    return _c_flatten(*args)


_c_flatten: Callable[..., tuple[list[Any], optree.PyTreeSpec]] = _load_and_flatten


def stop_before_flattening(stop: Callable[[], None]) -> None:
    """Has `stop` called before optree is entered from now on; it need not return.

    optree gives up Python's lock, in C++ code that does not bear that its thread is ended there.
    """
    global _c_flatten
    enter = _c_flatten
    if enter is _load_and_flatten:  # no thread has needed it
        return

    def stop_and_flatten(*args: Any) -> tuple[list[Any], optree.PyTreeSpec]:
        stop()
        return enter(*args)

    _c_flatten = stop_and_flatten


class PyTreeDef:
    """The structure of a pytree: all but its leaves. Hashable, comparable, picklable.

    Made by `tree_structure` and its like, never by calling the class. It can be pickled if the
    node types and their metadata can.

    >>> import xpr.tree_util as tree_util
    >>> treedef = tree_util.tree_structure([1, {"k1": 2, "k2": (3, 4)}, None])
    >>> treedef
    PyTreeDef([*, {'k1': *, 'k2': (*, *)}, None])
    >>> treedef.num_leaves, treedef.num_nodes
    (4, 8)
    >>> treedef.unflatten("abcd")
    ['a', {'k1': 'b', 'k2': ('c', 'd')}, None]
    """

    __slots__ = ("_early", "_made", "_state")

    def __init__(self, spec: optree.PyTreeSpec, state: int = _UNUSED) -> None:
        self._made: optree.PyTreeSpec | None = spec
        self._state = state
        self._early: _EarlyStructure | None = None

    @property
    def _spec(self) -> optree.PyTreeSpec:
        """optree's form of the structure."""
        if self._made is None:
            assert self._early is not None, "a structure has one of two forms"
            _, self._made, self._state = flatten_spec(self._early.build(self._early.numbers))
        return self._made

    def __hash__(self) -> int:
        return hash((self.num_leaves, self.num_nodes))  # the same for both forms

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        one, two = self._early, other._early
        if one is not None and two is not None:
            return one.level == two.level
        return self._spec == other._spec

    def __repr__(self) -> str:
        return f"PyTreeDef({self._spec.walk(['*'] * self.num_leaves, _node_text)})"

    def __reduce__(self) -> tuple[Any, ...]:
        spec = self._spec  # which may say more of the state
        return _restored, (_OptreeWithTypes(), spec, self._state)

    def __copy__(self) -> PyTreeDef:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PyTreeDef:
        return self

    @property
    def num_leaves(self) -> int:
        """How many leaves a tree of this structure has."""
        return self._spec.num_leaves if self._early is None else len(self._early.numbers)

    @property
    def num_nodes(self) -> int:
        """How many nodes there are, leaves and ``None`` included."""
        return self._spec.num_nodes if self._early is None else self._early.num_nodes

    def unflatten(self, leaves: Iterable[Any], /) -> Any:
        """The tree of this structure with these leaves; ValueError unless their number fits."""
        spec = self._made
        if spec is None:
            early = self._early
            assert early is not None, "a structure has one of two forms"
            early.uses += 1
            if early.uses < _OFTEN:
                leaves = _as_sequence(leaves)
                _check_count(len(early.numbers), leaves)
                return early.build(leaves)
            spec = self._spec
        if self._state > EXACT:
            if self._state == _UNUSED:
                self._state = _USED
                return rebuild(spec, _as_sequence(leaves))
            spec = self._made = spec.transform(_sort_node)
            self._state = EXACT
        leaves = _as_sequence(leaves)
        try:
            return spec.unflatten(leaves)
        except ValueError:
            _check_count(spec.num_leaves, leaves)
            raise

    def flatten_up_to(self, tree: Any, /) -> list[Any]:
        """The subtrees of ``tree`` at the places of this structure's leaves.

        Raises ValueError, with the key path, if this structure is not a prefix of ``tree``.
        """
        spec = self._spec
        return flatten_up_to(spec, self._state, tree, "flatten_up_to")

    def children(self) -> list[PyTreeDef]:
        """The structures of the root's children; none for a leaf."""
        children = self._spec.children()
        return [PyTreeDef(child, self._state) for child in children]

    def node_data(self) -> tuple[type, Any] | None:
        """The root's type and metadata; None for a leaf."""
        root = decode(self._spec)
        if root is None:
            return None
        kind, data, _ = root
        if kind is OrderedDict:
            data = tuple(data)
        elif kind is defaultdict:
            data = (data[0], tuple(data[1]))
        elif registered(kind) is None and data is kind:
            data = None  # optree repeats the class of a named tuple
        return kind, data

    def compose(self, inner: PyTreeDef, /) -> PyTreeDef:
        """This structure with each leaf replaced by ``inner``."""
        composed = self._spec.compose(inner._spec)
        return PyTreeDef(composed, max(self._state, inner._state))

    def walk(
        self,
        f_node: Callable[[tuple[Any, ...], Any], Any],
        f_leaf: Callable[[Any], Any] | None,
        leaves: Iterable[Any],
        /,
    ) -> Any:
        """Combine leaves from the bottom up: ``f_leaf(leaf)``, ``f_node(children, metadata)``."""
        return self._spec.walk(leaves, lambda kind, data, children: f_node(children, data), f_leaf)


class _OptreeWithTypes:
    """In a pickle: optree is told of our types, before it makes a structure of them."""

    def __reduce__(self) -> tuple[Any, ...]:
        return load_optree, ()


def _restored(_: None, spec: optree.PyTreeSpec, state: int) -> PyTreeDef:
    return PyTreeDef(spec, state)


class _EarlyStructure:
    """A structure that was found before optree was loaded."""

    __slots__ = ("level", "num_nodes", "numbers", "uses")

    def __init__(self, level: Level | None, num_leaves: int, num_nodes: int) -> None:
        self.level = level
        self.numbers = range(num_leaves)
        self.num_nodes = num_nodes
        self.uses = 0

    def build(self, leaves: Sequence[Any]) -> Any:
        return _early.put_together(self.level, iter(leaves))


def flatten_early(tree: Any) -> tuple[list[Any], PyTreeDef] | None:
    """Leaves and structure while optree is not loaded; None where it is, or is needed."""
    if _c_flatten is not _load_and_flatten:
        return None
    found = _early.take_apart(tree)
    if found is None:
        return None
    leaves, level, num_nodes = found
    treedef = PyTreeDef.__new__(PyTreeDef)
    treedef._made, treedef._state = None, _UNUSED
    treedef._early = _EarlyStructure(level, len(leaves), num_nodes)
    return leaves, treedef


def spec_of(treedef: PyTreeDef) -> optree.PyTreeSpec:
    """optree's form of a structure; TypeError for anything but a `PyTreeDef`."""
    if not isinstance(treedef, PyTreeDef):
        raise TypeError(f"expected a PyTreeDef, got {treedef!r} of {type(treedef)}")
    return treedef._spec


def state_of(treedef: PyTreeDef) -> int:
    """What is known of a structure, for `flatten_up_to`, beside what `spec_of` gives."""
    return treedef._state


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple, from those of its items.

    >>> import xpr.tree_util as tree_util
    >>> treedef_tuple([tree_util.tree_structure(1), tree_util.tree_structure([2])])
    PyTreeDef((*, [*]))
    """
    import optree  # noqa: PLC0415  `_early` says why

    children = list(treedefs)
    spec = optree.treespec_tuple(map(spec_of, children), namespace=NAMESPACE)
    return PyTreeDef(spec, max(map(state_of, children), default=NO_MAPPING))


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the root's children; none for a leaf.

    >>> import xpr.tree_util as tree_util
    >>> treedef_children(tree_util.tree_structure((1, [2])))
    [PyTreeDef(*), PyTreeDef([*])]
    """
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is a single node: a leaf, or a node without children.

    >>> import xpr.tree_util as tree_util
    >>> treedef_is_leaf(tree_util.tree_structure(1)), treedef_is_leaf(tree_util.tree_structure([1]))
    (True, False)
    """
    return treedef.num_nodes == 1


def flatten_spec(
    tree: Any, is_leaf: IsLeaf | None = None
) -> tuple[list[Any], optree.PyTreeSpec, int]:
    """Leaves, structure, and what is known of the structure."""
    try:  # as flatten_key, without the cost of a call
        leaves, spec = _c_flatten(tree, is_leaf, False, NAMESPACE)
    except (RuntimeError, TypeError) as error:
        _raise_as_value_error(error, tree)
    if len(leaves) == 1 and leaves[0] is tree:
        return leaves, spec, NO_MAPPING
    seen: list[Any] = []

    def note_node(kind: type, data: Any, _: Any) -> None:
        if kind is dict:
            seen.append(data)  # a list of keys
        elif kind is not tuple and kind is not list:
            seen.append((kind, data))

    spec.walk(leaves, note_node, None)
    if not seen:
        return leaves, spec, NO_MAPPING
    state = NO_MAPPING
    for item in seen:
        if item.__class__ is list:
            keys = item
        else:
            kind, data = item
            if kind is defaultdict:
                keys = data[1]
            elif kind is OrderedDict:
                keys = ()  # never sorted
            elif is_tree_node(kind):
                continue
            else:
                leaves, spec = flatten_key(
                    tree, lambda x: not is_tree_node(type(x)) or _says_leaf(is_leaf, x)
                )
                return leaves, spec, _UNUSED
        if len(keys) > 1:
            state = _UNUSED
            _require_order(keys)
        elif state == NO_MAPPING:
            state = EXACT
    return leaves, spec, state


def flatten_key(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], optree.PyTreeSpec]:
    """Leaves and structure by optree's rules alone, as fast as can be.

    The structure is good as a key of a cache and for nothing else: trees with equal keys have
    equal structures under our rules too, but it may count as nodes what we count as leaves, so
    what is stored under the key must come from `flatten_spec`.
    """
    try:
        return _c_flatten(tree, is_leaf, False, NAMESPACE)
    except (RuntimeError, TypeError) as error:
        _raise_as_value_error(error, tree)


def unflatten_spec(spec: optree.PyTreeSpec, state: int, leaves: Sequence[Any]) -> Any:
    """The tree of a structure that is used once, from the right number of leaves."""
    return spec.unflatten(leaves) if state <= EXACT else rebuild(spec, leaves)


def flatten_up_to(spec: optree.PyTreeSpec, state: int, tree: Any, name: str) -> list[Any]:
    """The subtrees of ``tree`` at the leaves of ``spec``; ``name`` tells whose error it is."""
    if state == NO_MAPPING:
        try:
            return spec.flatten_up_to(tree)
        except ValueError:
            pass  # told better below, unless it came from the user's code, which runs again
    else:
        # optree would match a dictionary with an OrderedDict, so compare the structures.
        leaves, other = flatten_key(tree)
        if other == spec:
            return leaves
    subtrees: list[Any] = []
    levels = decode(spec)
    if not _collect(levels, tree, subtrees):
        structures = [repr(PyTreeDef(spec)), repr(PyTreeDef(flatten_spec(tree)[1]))]
        raise prefix_error(name, levels, tree, structures)
    return subtrees


def decode(spec: optree.PyTreeSpec) -> Level | None:
    """A structure as nested `Level`s, with None for a leaf."""
    return spec.walk([None] * spec.num_leaves, Level, None)


def rebuild(spec: optree.PyTreeSpec, leaves: Sequence[Any]) -> Any:
    """The tree of a structure, dictionaries with sorted keys."""
    _check_count(spec.num_leaves, leaves)
    return spec.walk(leaves, _make_node, None)


def _collect(node: Level | None, tree: Any, subtrees: list[Any]) -> bool:
    """Append the subtrees at the leaves below ``node``; False if ``tree`` does not match it."""
    if node is None:
        subtrees.append(tree)
        return True
    level = one_level(tree)
    return (
        level is not None
        and level.type is node.type
        and len(level.children) == len(node.children)
        and bool(level.data == node.data)
        and all(map(_collect, node.children, level.children, [subtrees] * len(node.children)))
    )


def _make_node(kind: type, data: Any, children: tuple[Any, ...]) -> Any:
    if kind is dict:
        return dict(zip(data, children))  # noqa: B905 - as many by construction; in a hurry
    if kind is tuple:
        return children
    if kind is list:
        return list(children)
    if kind is NoneType:
        return None
    if (entry := registered(kind)) is not None:
        return entry.unflatten(data, children)
    if kind is OrderedDict:
        return OrderedDict(zip(data, children, strict=True))
    if kind is defaultdict:
        return defaultdict(data[0], zip(data[1], children, strict=True))
    return kind(*children)  # a named tuple


def _sort_node(spec: optree.PyTreeSpec) -> optree.PyTreeSpec:
    """A structure of one level, its dictionary made to keep the order of the leaves."""
    if spec.type is not dict and spec.type is not defaultdict:
        return spec
    import optree  # noqa: PLC0415  `_early` says why

    items = zip(spec.entries(), spec.children(), strict=True)
    if spec.type is dict:
        return optree.treespec_dict(items, namespace=NAMESPACE)
    level = decode(spec)
    assert level is not None, "a defaultdict is no leaf"
    return optree.treespec_defaultdict(level.data[0], items, namespace=NAMESPACE)


def _node_text(kind: type, data: Any, children: tuple[str, ...]) -> str:
    inside = ", ".join(children)
    if kind is tuple:
        return f"({inside},)" if len(children) == 1 else f"({inside})"
    if kind is list:
        return f"[{inside}]"
    if kind is dict:
        pairs = zip(data, children, strict=True)
        return "{" + ", ".join(f"{key!r}: {child}" for key, child in pairs) + "}"
    if kind is NoneType:
        return "None"
    if registered(kind) is None and data is kind:
        return f"CustomNode(namedtuple[{kind.__name__}], [{inside}])"
    if kind is OrderedDict:
        data = tuple(data)
    elif kind is defaultdict:
        data = (data[0], tuple(data[1]))
    return f"CustomNode({kind.__name__}[{data}], [{inside}])"


def _require_order(keys: list[Any]) -> None:
    """ValueError unless the keys can be sorted."""
    try:
        "".join(keys)  # the fastest way to see that all are strings, as they nearly always are
    except TypeError:
        sorted_keys(keys)


def _says_leaf(is_leaf: IsLeaf | None, node: Any) -> bool:
    return is_leaf is not None and is_leaf(node)


def _as_sequence(leaves: Iterable[Any]) -> Sequence[Any]:
    return leaves if leaves.__class__ is list or leaves.__class__ is tuple else list(leaves)  # pyright: ignore[reportReturnType]


def _check_count(expected: int, leaves: Sequence[Any]) -> None:
    got = len(leaves)
    if got != expected:
        amount = "few" if got < expected else "many"
        raise ValueError(f"Too {amount} leaves for PyTreeDef; expected {expected}, got {got}")


_BAD_VERDICT = "Unable to cast Python instance of type "


_BAD_FLATTEN = ("PyTree custom flatten function", "Object of type ")


def _raise_as_value_error(error: RuntimeError | TypeError, tree: Any) -> NoReturn:
    """Give optree's complaints about user functions the exception type JAX gives them."""
    text = str(error)
    if text.startswith(_BAD_FLATTEN):
        found = blame_flatten_function(tree)
        raise error if found is None else found from error
    if text.startswith(_BAD_VERDICT):
        # The rest of the text speaks of C++.
        kind = text.removeprefix(_BAD_VERDICT).partition(" to C++")[0]
        raise ValueError(
            f"is_leaf predicate must return a bool, got an instance of {kind}"
        ) from error
    raise error
