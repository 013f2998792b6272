"""Pytrees: nodes, order, printed forms, key paths, errors. The oracle is plain Python recursion."""

import copy
import dataclasses
import functools
import itertools
import operator
import pickle
import re
import subprocess
import sys
import time
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import optree
import optree.functools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpr import tree_util as tu
from xpr.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey, _treedef


class Pair:
    """A node registered without keys."""

    def __init__(self, a: Any, b: Any, tag: Any = "aux") -> None:
        self.a, self.b, self.tag = a, b, tag

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pair) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


tu.register_pytree_node(
    Pair, lambda p: ((p.a, p.b), p.tag), lambda tag, ab: Pair(ab[0], ab[1], tag)
)


@tu.register_pytree_with_keys_class
class Keyed:
    """A node registered with keys."""

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def tree_flatten_with_keys(self) -> Any:
        return ((GetAttrKey("a"), self.a), (GetAttrKey("b"), self.b)), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Any) -> "Keyed":
        return cls(*children)


@tu.register_dataclass
@dataclasses.dataclass
class Data:
    """A dataclass with one static field."""

    a: Any
    b: Any = dataclasses.field(default=3, metadata={"static": True})


@tu.register_static
class Mode(str):
    """A node without leaves."""


class Point(NamedTuple):
    """A named tuple."""

    x: Any
    y: Any


# --- The examples of the pytree tutorial --------------------------------------------------------


def test_tutorial_leaves() -> None:
    thing, array = object(), np.array([1, 2, 3])
    examples: list[tuple[Any, list[Any]]] = [
        ([1, "a", thing], [1, "a", thing]),
        ((1, (2, 3), ()), [1, 2, 3]),
        ([1, {"k1": 2, "k2": (3, 4)}, 5], [1, 2, 3, 4, 5]),
        ({"a": 2, "b": (2, 3)}, [2, 2, 3]),
        (array, [array]),
    ]
    for tree, leaves in examples:
        got = tu.tree_leaves(tree)
        assert len(got) == len(leaves)
        assert all(x is y for x, y in zip(got, leaves, strict=True))


def test_tutorial_map() -> None:
    lists = [[1, 2, 3], [1, 2], [1, 2, 3, 4]]
    assert tu.tree_map(lambda x: x * 2, lists) == [[2, 4, 6], [2, 4], [2, 4, 6, 8]]
    other = lists
    assert tu.tree_map(lambda x, y: x + y, lists, other) == [[2, 4, 6], [2, 4], [2, 4, 6, 8]]


def test_tutorial_structure() -> None:
    assert repr(tu.tree_structure(object)) == "PyTreeDef(*)"


def test_tutorial_in_axes() -> None:
    treedef = tu.tree_structure((np.ones(2), {"k1": np.ones(2), "k2": np.ones(2)}))
    assert tu.flatten_axes("vmap in_axes", treedef, (None, {"k1": None, "k2": 0})) == [
        None,
        None,
        0,
    ]
    assert tu.flatten_axes("vmap in_axes", treedef, (None, 0)) == [None, 0, 0]
    assert tu.flatten_axes("vmap in_axes", treedef, 0) == [0, 0, 0]


def test_tutorial_key_paths() -> None:
    thing, array = object(), np.array([1, 2, 3])
    trees = [[1, "a", thing], (1, (2, 3), ()), array]
    pairs, treedef = tu.tree_flatten_with_path(trees)
    assert repr(treedef) == "PyTreeDef([[*, *, *], (*, (*, *), ()), *])"
    assert pairs[:-1] == [
        ((SequenceKey(0), SequenceKey(0)), 1),
        ((SequenceKey(0), SequenceKey(1)), "a"),
        ((SequenceKey(0), SequenceKey(2)), thing),
        ((SequenceKey(1), SequenceKey(0)), 1),
        ((SequenceKey(1), SequenceKey(1), SequenceKey(0)), 2),
        ((SequenceKey(1), SequenceKey(1), SequenceKey(1)), 3),
    ]
    assert pairs[-1][0] == (SequenceKey(2),)
    assert pairs[-1][1] is array
    assert repr(pairs[1][0]) == "(SequenceKey(idx=0), SequenceKey(idx=1))"


def test_tutorial_keystr() -> None:
    ATuple = namedtuple("ATuple", ("name",))
    tree = [1, {"k1": 2, "k2": (3, 4)}, ATuple("foo")]
    flattened, _ = tu.tree_flatten_with_path(tree)
    lines = [f"Value of tree{tu.keystr(path)}: {value}" for path, value in flattened]
    assert lines == [
        "Value of tree[0]: 1",
        "Value of tree[1]['k1']: 2",
        "Value of tree[1]['k2'][0]: 3",
        "Value of tree[1]['k2'][1]: 4",
        "Value of tree[2].name: foo",
    ]


def test_tutorial_shapes_are_nodes() -> None:
    tree = [np.zeros((2, 3)), np.zeros((3, 4))]
    shapes = tu.tree_map(lambda x: x.shape, tree)
    ones = tu.tree_map(np.ones, shapes)
    assert [[x.shape for x in pair] for pair in ones] == [[(2,), (3,)], [(3,), (4,)]]


def test_tutorial_none_is_no_leaf() -> None:
    assert tu.tree_leaves([None, None, None]) == []
    assert tu.tree_leaves([None, None, None], is_leaf=lambda x: x is None) == [None, None, None]


def test_tutorial_transpose() -> None:
    steps = [{"t": 1, "obs": 3}, {"t": 2, "obs": 4}]
    mapped = tu.tree_map(lambda *xs: list(xs), *steps)
    assert mapped == {"obs": [3, 4], "t": [1, 2]}
    assert list(mapped) == ["obs", "t"]
    transposed = tu.tree_transpose(
        outer_treedef=tu.tree_structure([0 for _ in steps]),
        inner_treedef=tu.tree_structure(steps[0]),
        pytree_to_transpose=steps,
    )
    assert transposed == mapped


# --- Which objects are nodes, and how structures print ------------------------------------------

PRINTED: list[tuple[Any, list[Any], str]] = [
    (1, [1], "*"),
    (None, [], "None"),
    ((), [], "()"),
    ([], [], "[]"),
    ({}, [], "{}"),
    ((1,), [1], "(*,)"),
    ([1], [1], "[*]"),
    (((),), [], "((),)"),
    ([None], [], "[None]"),
    ({"a": {}}, [], "{'a': {}}"),
    ([1, {"k1": 2, "k2": (3, 4)}, None], [1, 2, 3, 4], "[*, {'k1': *, 'k2': (*, *)}, None]"),
    ({2: 1, 1: 2}, [2, 1], "{1: *, 2: *}"),
    ({(3, 4): 5}, [5], "{(3, 4): *}"),
    (Point(1, [2]), [1, 2], "CustomNode(namedtuple[Point], [*, [*]])"),
    (OrderedDict(z=1, a=2), [1, 2], "CustomNode(OrderedDict[('z', 'a')], [*, *])"),
    (
        defaultdict(list, b=1, a=[2]),
        [2, 1],
        "CustomNode(defaultdict[(<class 'list'>, ('a', 'b'))], [[*], *])",
    ),
    (Pair(1, [2]), [1, 2], "CustomNode(Pair[aux], [*, [*]])"),
    (Keyed(1, (2,)), [1, 2], "CustomNode(Keyed[None], [*, (*,)])"),
    (Data(1, 2), [1], "CustomNode(Data[(2,)], [*])"),
    (Mode("fast"), [], "CustomNode(Mode[fast], [])"),
    (tu.Partial(max, 1, key=2), [1, 2], f"CustomNode(Partial[{max!r}], [(*,), {{'key': *}}])"),
]


@pytest.mark.parametrize(("tree", "leaves", "text"), PRINTED, ids=[row[2] for row in PRINTED])
def test_flatten_print_unflatten(tree: Any, leaves: list[Any], text: str) -> None:
    got, treedef = tu.tree_flatten(tree)
    assert got == leaves
    assert repr(treedef) == str(treedef) == f"PyTreeDef({text})"
    assert tu.tree_structure(tree) == treedef
    assert hash(tu.tree_structure(tree)) == hash(treedef)
    for _ in range(3):  # the first time differs from the later ones inside
        rebuilt = tu.tree_unflatten(treedef, got)
        assert type(rebuilt) is type(tree)
        if isinstance(tree, tu.Partial):
            assert (rebuilt.func, rebuilt.args, rebuilt.keywords) == (max, (1,), {"key": 2})
        else:
            assert rebuilt == tree
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert copy.deepcopy(treedef) == copy.copy(treedef) == treedef
    assert tu.is_tree_node(type(tree)) == (text != "*")
    assert tu.all_leaves([tree]) == (text == "*")


class _DictChild(dict[str, int]):
    pass


LEAVES = [
    "text",
    b"bytes",
    range(3),
    {1, 2},
    frozenset({1}),
    deque([1, 2]),
    deque(),
    time.gmtime(0),
    _DictChild(a=1),
    np.ones(2),
    int,
    tu.tree_structure([1]),
]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: type(leaf).__name__)
def test_leaves(leaf: Any) -> None:
    for tree, count in ((leaf, 1), ([leaf, (leaf,)], 2), ({"a": leaf}, 1)):
        leaves, treedef = tu.tree_flatten(tree)
        assert len(leaves) == count
        assert all(x is leaf for x in leaves)
        assert [x for _, x in tu.tree_leaves_with_path(tree)] == leaves
        assert tu.tree_map(id, tree) == treedef.unflatten([id(leaf)] * count)
        assert tu.tree_map(lambda x, y: x is y, tree, tree) == treedef.unflatten([True] * count)
    with pytest.raises(ValueError, match="can't tree-flatten type"):
        tu.flatten_one_level(leaf)
    with pytest.raises(ValueError, match="can't tree-flatten type"):
        tu.flatten_one_level_with_keys(leaf)


def test_subclasses_of_registered_types_are_leaves() -> None:
    class Child(Pair):
        pass

    child = Child(1, 2)
    assert tu.tree_leaves([child]) == [child]


def test_is_leaf_beside_what_only_optree_follows() -> None:
    queue = deque([(1, 2)])
    assert tu.tree_leaves([queue, (3, 4), 5], is_leaf=lambda x: type(x) is tuple) == [
        queue,
        (3, 4),
        5,
    ]


def test_nodes_of_other_users_of_optree_are_leaves() -> None:
    # optree's own partial is registered for all its namespaces.
    foreign: Any = optree.functools.partial(max, 1)
    assert optree.tree_leaves(foreign) == [1]
    assert tu.tree_leaves([foreign, 2]) == [foreign, 2]


def test_our_nodes_are_unknown_to_other_users_of_optree() -> None:
    pairs: Any = [Pair(1, 2)]
    assert optree.tree_leaves(pairs) == pairs
    assert optree.tree_leaves(pairs, namespace="another") == pairs


# --- Dictionaries -------------------------------------------------------------------------------


def test_dictionaries_come_back_sorted() -> None:
    tree = {"b": 1, "a": {"d": 2, "c": 3}}
    leaves, treedef = tu.tree_flatten(tree)
    assert leaves == [3, 2, 1]
    results = [treedef.unflatten(leaves) for _ in range(3)]
    results += [tu.tree_map(lambda x: x, tree), tu.tree_map_with_path(lambda _, x: x, tree)]
    results += [
        treedef.unflatten(iter(leaves)),
        pickle.loads(pickle.dumps(treedef)).unflatten(leaves),
    ]
    for result in results:
        assert result == tree
        assert list(result) == ["a", "b"]
        assert list(result["a"]) == ["c", "d"]


def test_insertion_order_is_no_part_of_the_structure() -> None:
    one, two = tu.tree_structure({"a": 1, "b": 2}), tu.tree_structure({"b": 1, "a": 2})
    assert one == two
    assert hash(one) == hash(two)
    assert list(one.unflatten([1, 2])) == list(two.unflatten([1, 2])) == ["a", "b"]


def test_ordered_dict_keeps_its_order() -> None:
    one, two = OrderedDict(b=1, a=2), OrderedDict(a=2, b=1)
    assert tu.tree_leaves(one) == [1, 2]
    assert tu.tree_structure(one) != tu.tree_structure(two)
    assert list(tu.tree_map(lambda x: x, one)) == ["b", "a"]


def test_defaultdict_keeps_its_factory() -> None:
    result = tu.tree_map(lambda x: x + 1, defaultdict(list, {"b": 1, "a": 2}))
    assert result == {"a": 3, "b": 2}
    assert list(result) == ["a", "b"]
    assert result["new"] == []
    assert list(tu.tree_structure(result).unflatten([1, 2])) == ["a", "b", "new"]


def test_mapping_types_differ() -> None:
    kinds = [{"a": 1}, OrderedDict(a=1), defaultdict(list, a=1), defaultdict(int, a=1)]
    structures = set(map(tu.tree_structure, kinds))
    assert len(structures) == 4


@pytest.mark.parametrize("keys", [(1, "a"), (1j, 2j), (("a", 1), ("a", "b")), (None, "a")])
@pytest.mark.parametrize("kind", [dict, functools.partial(defaultdict, list)])
def test_keys_without_order(keys: tuple[Any, ...], kind: Any) -> None:
    tree = [{"x": kind(dict.fromkeys(keys, 0))}]
    calls = [
        tu.tree_flatten,
        tu.tree_leaves,
        tu.tree_structure,
        tu.tree_flatten_with_path,
        tu.tree_leaves_with_path,
        functools.partial(tu.tree_map, lambda x: x),
        lambda t: tu.flatten_args((t,), {}),
        lambda t: tu.flatten_one_level(t[0]["x"]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="Comparator raised exception while sorting"):
            call(tree)


def test_mixed_keys_with_order() -> None:
    assert tu.tree_leaves({2.5: "b", 1: "a", True + 2: "c"}) == ["a", "b", "c"]


# --- PyTreeDef ----------------------------------------------------------------------------------


def test_treedef_attributes() -> None:
    treedef = tu.tree_structure([0, {"a": (0,)}, None])
    assert (treedef.num_leaves, treedef.num_nodes) == (2, 6)
    assert repr(treedef.children()) == ("[PyTreeDef(*), PyTreeDef({'a': (*,)}), PyTreeDef(None)]")
    assert tu.treedef_children(treedef) == treedef.children()
    assert tu.treedef_children(tu.tree_structure(0)) == []
    leaves = [tu.treedef_is_leaf(tu.tree_structure(x)) for x in (0, None, (), [1])]
    assert leaves == [True, True, True, False]


def test_treedef_equality() -> None:
    treedef = tu.tree_structure([1, 2])
    assert treedef == tu.tree_structure(["a", None], is_leaf=lambda x: x is None)
    assert treedef != tu.tree_structure((1, 2))
    assert treedef != tu.tree_structure([1])
    assert treedef != "PyTreeDef([*, *])"
    assert not treedef == 3
    assert tu.tree_structure(Pair(1, 2, "x")) != tu.tree_structure(Pair(1, 2, "y"))
    assert len({treedef, tu.tree_structure([3, 4]), tu.tree_structure([3])}) == 2


def test_treedef_of_unhashable_metadata() -> None:
    one, two, other = (tu.tree_structure(Pair(1, 2, tag)) for tag in ([1], [1], [2]))
    assert one == two
    assert hash(one) == hash(two)
    assert one != other


@pytest.mark.parametrize(
    ("tree", "data"),
    [
        (1, None),
        (None, (type(None), None)),
        ([1], (list, None)),
        ({"b": 1, "a": 2}, (dict, ["a", "b"])),
        (OrderedDict(b=1, a=2), (OrderedDict, ("b", "a"))),
        (defaultdict(list, b=1), (defaultdict, (list, ("b",)))),
        (Point(1, 2), (Point, None)),
        (Pair(1, 2), (Pair, "aux")),
        (Data(1, 2), (Data, (2,))),
    ],
)
def test_node_data(tree: Any, data: Any) -> None:
    assert tu.tree_structure(tree).node_data() == data


def test_treedef_tuple() -> None:
    trees = [[0, {"b": 1, "a": 2}], 0, Pair(1, Data(2))]
    combined = tu.treedef_tuple(tu.tree_structure(tree) for tree in trees)
    assert combined == tu.tree_structure(tuple(trees))
    assert hash(combined) == hash(tu.tree_structure(tuple(trees)))
    assert combined.unflatten([0, 2, 1, 0, 1, 2]) == tuple(trees)
    assert tu.treedef_tuple([]) == tu.tree_structure(())
    with pytest.raises(TypeError, match="expected a PyTreeDef, got 3"):
        tu.treedef_tuple([3])  # pyright: ignore[reportArgumentType]


def test_compose() -> None:
    outer, inner = tu.tree_structure([0, {"b": 0, "a": 0}]), tu.tree_structure(Pair(0, {"c": 1}))
    combined = outer.compose(inner)
    pair = Pair(0, {"c": 1})
    assert combined == tu.tree_structure([pair, {"a": pair, "b": pair}])
    assert list(combined.unflatten(range(6))[1]) == ["a", "b"]


def test_walk() -> None:
    treedef = tu.tree_structure([0, {"a": (0,)}])
    total = treedef.walk(lambda children, _: sum(children), lambda leaf: 10 * leaf, [1, 2])
    assert total == 30
    metadata: list[Any] = []
    treedef.walk(lambda _, data: metadata.append(data), None, [1, 2])
    assert metadata == [None, ["a"], None]


def test_structures_used_twice_are_still_equal() -> None:
    one, two = (tu.tree_structure({"b": (1, Pair(1, {"d": 1, "c": 1})), "a": 2}) for _ in range(2))
    for _ in range(3):
        one.unflatten(range(5))
    assert one == two
    assert hash(one) == hash(two)
    assert repr(one) == repr(two)
    assert one.children() == two.children()


@pytest.mark.parametrize("tree", [[1, 2], {"a": 1, "b": 2}, 0, None, Pair(1, (2, 3))])
def test_wrong_number_of_leaves(tree: Any) -> None:
    treedef = tu.tree_structure(tree)
    n = treedef.num_leaves
    for _ in range(3):
        with pytest.raises(ValueError, match=f"Too many leaves .* expected {n}, got {n + 1}"):
            treedef.unflatten(range(n + 1))
        if n:
            with pytest.raises(ValueError, match=f"Too few leaves .* expected {n}, got {n - 1}"):
                treedef.unflatten(range(n - 1))
    with pytest.raises(TypeError, match="not iterable"):
        tu.tree_unflatten(treedef, 3)  # pyright: ignore[reportArgumentType]


def test_pickled_structures_load_in_another_process() -> None:
    data = pickle.dumps(tu.tree_structure([{"b": 1, "a": (2, None)}, tu.Partial(len, 3)]))
    code = (
        f"import pickle; treedef = pickle.loads({data!r}); print(treedef);"
        "print(treedef.unflatten([1, 2, 3])[0])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines() == [
        "PyTreeDef([{'a': (*, None), 'b': *}, "
        "CustomNode(Partial[<built-in function len>], [(*,), {}])])",
        "{'a': (1, None), 'b': 2}",
    ]
    assert b"xpr.tree_util\n" in pickle.dumps(SequenceKey(0), protocol=0)


# --- Registration -------------------------------------------------------------------------------


@pytest.mark.parametrize("nodetype", [Pair, Data, Mode, list, dict, type(None), tu.Partial])
def test_duplicate_registration(nodetype: type) -> None:
    before = tu.tree_structure([Pair(1, 2), {"a": 1}])
    with pytest.raises(ValueError, match="Duplicate custom PyTreeDef type registration"):
        tu.register_pytree_node(nodetype, lambda _: ((), None), lambda _, __: None)
    with pytest.raises(ValueError, match="Duplicate custom PyTreeDef type registration"):
        tu.register_static(nodetype)
    assert tu.tree_structure([Pair(1, 2), {"a": 1}]) == before


def test_duplicate_dataclass_registration() -> None:
    with pytest.raises(ValueError, match="Duplicate custom dataclass PyTreeDef"):
        tu.register_dataclass(Data)


def test_registration_of_what_cannot_be_a_node() -> None:
    class Fresh:
        pass

    with pytest.raises(
        TypeError, match=r"flatten function of .*Fresh.* must be callable, got None"
    ):
        tu.register_pytree_node(Fresh, None, None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"unflatten function of .* must be callable, got 3"):
        tu.register_pytree_node(Fresh, lambda _: ((), None), 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="must be a class, got 3"):
        tu.register_pytree_node(3, lambda _: ((), None), lambda _, __: 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(AttributeError, match="tree_unflatten"):
        tu.register_pytree_node_class(Fresh)
    assert not tu.is_tree_node(Fresh)
    with pytest.raises(ValueError, match="built-in"):
        tu.register_pytree_node(deque, lambda q: (tuple(q), None), lambda _, xs: deque(xs))
    assert not tu.is_tree_node(deque)


def test_children_may_be_any_iterable() -> None:
    class Generous:
        def __init__(self, *items: Any) -> None:
            self.items = items

    kinds: list[type] = []

    def unflatten(_: None, children: Any) -> Generous:
        kinds.append(type(children))
        return Generous(*children)

    tu.register_pytree_node(Generous, lambda g: ((x for x in g.items), None), unflatten)
    tree = {"b": Generous(1, {"d": 2, "c": 3}), "a": 4}
    assert tu.tree_leaves(tree) == [4, 1, 3, 2]
    assert tu.tree_map(lambda x: -x, tree)["b"].items == (-1, {"c": -3, "d": -2})
    assert tu.tree_map(lambda x: -x, tree["b"]).items == (-1, {"c": -3, "d": -2})
    assert set(kinds) == {tuple}


@pytest.mark.parametrize("result", [((1, 2),), ((1, 2), None, None, None), ((1, 2), None, ("k",))])
def test_flatten_function_that_returns_no_pair(result: Any) -> None:
    class Wrong:
        pass

    tu.register_pytree_node(Wrong, lambda _: result, lambda _, __: Wrong())
    with pytest.raises(ValueError, match=r"should return a \(children, aux_data\) tuple"):
        tu.tree_flatten([Wrong()])


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("text", r"should return a \(children, aux_data\) tuple, got 'text'"),
        ((7, None), r"tuple where 'children' is iterable, got \(7, None\)"),
    ],
)
def test_flatten_function_that_breaks_its_contract(result: Any, message: str) -> None:
    class Wrong:
        pass

    tu.register_pytree_node(Wrong, lambda _: result, lambda _, __: Wrong())
    for tree in (Wrong(), [1, {"a": Wrong()}]):
        with pytest.raises(ValueError, match=message):
            tu.tree_flatten(tree)


def test_errors_of_user_functions_pass_through() -> None:
    class Failing:
        def __init__(self, error: Exception) -> None:
            self.error = error

    def fail(node: Failing) -> Any:
        raise node.error

    tu.register_pytree_node(Failing, fail, lambda _, __: Failing(ValueError()))
    for error in (RuntimeError("mine"), ValueError("mine"), KeyError("mine")):
        for call in (
            tu.tree_flatten,
            tu.tree_leaves_with_path,
            lambda x: tu.flatten_args((x,), {}),
        ):
            with pytest.raises(type(error), match="mine"):
                call(Failing(error))
        with pytest.raises(type(error), match="mine"):
            tu.flatten_args_key((Failing(error),), {})
        with pytest.raises(type(error), match="mine"):
            tu.tree_map(lambda x, y: x, [(1,)], [Failing(error)])

    class Picky:
        pass

    def refuse(_: Any, __: Any) -> Any:
        raise ValueError("will not be rebuilt")

    tu.register_pytree_node(Picky, lambda _: ((1,), None), refuse)
    for tree in (Picky(), {"a": Picky(), "b": 2}):
        for _ in range(2):
            with pytest.raises(ValueError, match="will not be rebuilt"):
                tu.tree_map(lambda x: x, tree)


def test_stop_iteration_is_an_error_too() -> None:
    with pytest.raises(StopIteration):
        tu.tree_map(lambda x: next(iter(())), [1, 2])


def test_is_leaf_must_say_yes_or_no() -> None:
    with pytest.raises(ValueError, match=r"is_leaf predicate must return a bool, got .*'str'"):
        tu.tree_flatten([1], is_leaf=lambda x: "yes")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ZeroDivisionError):
        tu.tree_flatten([1], is_leaf=lambda x: 1 / 0 > 0)


def test_registered_named_tuple() -> None:
    class Half(NamedTuple):
        x: Any
        y: Any

    tu.register_pytree_node(Half, lambda h: ((h.x,), h.y), lambda y, xs: Half(xs[0], y))
    assert repr(tu.tree_flatten(Half(1, 2))) == "([1], PyTreeDef(CustomNode(Half[2], [*])))"
    assert tu.tree_map(lambda x: -x, {"b": Half(1, 2), "a": 0}) == {"a": 0, "b": Half(-1, 2)}


def test_register_with_keys_and_a_fast_flatten() -> None:
    calls: list[str] = []

    @tu.register_pytree_with_keys_class
    class Both:
        def tree_flatten(self) -> Any:
            calls.append("flatten")
            return (1, 2), None

        def tree_flatten_with_keys(self) -> Any:
            calls.append("with keys")
            return ((DictKey("one"), 1), (DictKey("two"), 2)), None

        @classmethod
        def tree_unflatten(cls, aux_data: None, children: Any) -> "Both":
            return cls()

    assert tu.tree_leaves(Both()) == [1, 2]
    assert calls == ["flatten"]
    pairs = tu.tree_leaves_with_path([Both()])
    assert [tu.keystr(path) for path, _ in pairs] == ["[0]['one']", "[0]['two']"]
    assert calls == ["flatten", "with keys"]


def test_static_nodes() -> None:
    @tu.register_static
    @dataclasses.dataclass(frozen=True)
    class Config:
        depth: int

    leaves, treedef = tu.tree_flatten((1, Config(3)))
    assert leaves == [1]
    assert treedef == tu.tree_structure((2, Config(3)))
    assert treedef != tu.tree_structure((2, Config(4)))
    assert treedef.unflatten([5]) == (5, Config(3))


# --- Dataclasses --------------------------------------------------------------------------------


def _fresh() -> Any:
    @dataclasses.dataclass
    class Fresh:
        a: Any
        b: Any = 2
        c: Any = dataclasses.field(default=1, metadata={"static": True})

    return Fresh


def test_dataclass_inferred() -> None:
    Fresh = tu.register_dataclass(_fresh())
    leaves, treedef = tu.tree_flatten(Fresh(5, [6], "meta"))
    assert leaves == [5, 6]
    assert repr(treedef) == "PyTreeDef(CustomNode(Fresh[('meta',)], [*, [*]]))"
    assert treedef.unflatten([7, 8]) == Fresh(7, [8], "meta")
    assert [tu.keystr(path) for path, _ in tu.tree_leaves_with_path(Fresh(5, [6]))] == [
        ".a",
        ".b[0]",
    ]


def test_dataclass_explicit_and_decorator() -> None:
    @functools.partial(tu.register_dataclass, data_fields=["b"], meta_fields=("a",))
    @dataclasses.dataclass
    class Fresh:
        a: Any
        b: Any

    assert tu.tree_flatten(Fresh("meta", 3))[0] == [3]
    assert tu.tree_map(lambda x: -x, Fresh("meta", 3)) == Fresh("meta", -3)


def test_dataclass_drop_fields() -> None:
    Fresh = tu.register_dataclass(_fresh(), ["a"], ["c"], drop_fields=["b"])
    assert tu.tree_map(lambda x: -x, Fresh(5, "dropped", 7)) == Fresh(-5, 2, 7)
    Inferred = tu.register_dataclass(_fresh(), drop_fields=["b"])
    assert tu.tree_map(lambda x: -x, Inferred(5, "dropped", 7)) == Inferred(-5, 2, 7)


def test_dataclass_static_helper() -> None:
    from xpr import tree  # noqa: PLC0415 - the one name that only xpr.tree has

    @tu.register_dataclass
    @dataclasses.dataclass
    class Op:
        x: Any
        op: str = tree.static(default="add", metadata={"note": 1})

    assert repr(tu.tree_structure(Op(1))) == "PyTreeDef(CustomNode(Op[('add',)], [*]))"
    assert dict(dataclasses.fields(Op)[1].metadata) == {"static": True, "note": 1}


def test_class_that_is_no_dataclass() -> None:
    class Plain:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    with pytest.raises(TypeError, match="required when nodetype is not a dataclass"):
        tu.register_dataclass(Plain)
    tu.register_dataclass(Plain, ["b"], ["a"])
    result = tu.tree_map(lambda x: -x, Plain("meta", 3))
    assert (result.a, result.b) == ("meta", -3)


def test_dataclass_errors() -> None:
    with pytest.raises(ValueError, match=r"Missing fields: \{'b'\}\. .*drop_fields"):
        tu.register_dataclass(_fresh(), ["a"], ["c"])
    with pytest.raises(ValueError, match=r"Unexpected fields: \{'q'\}\.$"):
        tu.register_dataclass(_fresh(), ["a", "b", "q"], ["c"])
    with pytest.raises(ValueError, match=r"must not overlap. Overlapping fields: \{'c'\}"):
        tu.register_dataclass(_fresh(), ["a", "b", "c"], ["c"])
    with pytest.raises(TypeError, match=r"must both be specified .*meta_fields=None"):
        tu.register_dataclass(_fresh(), ["a", "b"])
    with pytest.raises(TypeError, match=r"must both be specified .*data_fields=None"):
        tu.register_dataclass(_fresh(), meta_fields=["a", "b"])
    with pytest.raises(TypeError, match="requires a class, got 3"):
        tu.register_dataclass(3)  # pyright: ignore[reportArgumentType]

    @dataclasses.dataclass
    class Derived:
        a: Any
        d: Any = dataclasses.field(init=False, default=9)

    with pytest.raises(ValueError, match=r"Unexpected fields: \{'d'\}\. .*init=False.*drop_fields"):
        tu.register_dataclass(Derived)
    tu.register_dataclass(Derived, drop_fields=["d"])
    assert tu.tree_leaves(Derived(1)) == [1]


# --- Partial ------------------------------------------------------------------------------------


def test_partial() -> None:
    bound = tu.Partial(divmod, 17)
    assert bound(5) == (3, 2)
    assert tu.tree_leaves(bound) == [17]
    assert repr(bound) == f"Partial({divmod!r}, 17)"
    doubled = tu.tree_map(lambda x: 2 * x, bound)
    assert isinstance(doubled, tu.Partial)
    assert doubled(5) == (6, 4)
    paths = tu.tree_leaves_with_path(tu.Partial(max, 1, key=2))
    assert [tu.keystr(path) for path, _ in paths] == [
        "[<flat index 0>][0]",
        "[<flat index 1>]['key']",
    ]
    assert pickle.loads(pickle.dumps(bound))(5) == (3, 2)
    with pytest.raises(TypeError, match="callable"):
        tu.Partial(3)  # pyright: ignore[reportArgumentType]


def test_partial_of_partial() -> None:
    inner = functools.partial(max, 1)
    outer = tu.Partial(inner, 2)
    assert tu.tree_leaves(outer) == [2]
    assert outer(0) == 2
    assert tu.tree_map(lambda x: -x, outer)(0) == 1
    assert tu.tree_structure(outer) == tu.tree_structure(tu.Partial(inner, 5))
    assert tu.tree_structure(outer) != tu.tree_structure(tu.Partial(functools.partial(max, 1), 2))
    assert tu.tree_leaves(tu.Partial(tu.Partial(max, 1), 2, key=3)) == [2, 3]


# --- Key entries --------------------------------------------------------------------------------


def test_key_entries() -> None:
    keys = [SequenceKey(1), DictKey("a"), GetAttrKey("n"), FlattenedIndexKey(2)]
    assert list(map(str, keys)) == ["[1]", "['a']", ".n", "[<flat index 2>]"]
    assert list(map(repr, keys)) == [
        "SequenceKey(idx=1)",
        "DictKey(key='a')",
        "GetAttrKey(name='n')",
        "FlattenedIndexKey(key=2)",
    ]
    for key in keys:
        again = pickle.loads(pickle.dumps(key))
        assert again == key
        assert hash(again) == hash(key)
        with pytest.raises(AttributeError, match="cannot assign to field 'idx'"):
            setattr(key, "idx", 3)  # noqa: B010 - not an attribute of each
    assert len({SequenceKey(1), DictKey(1), FlattenedIndexKey(1)}) == 3
    assert SequenceKey(1) != 1


def test_key_entries_check_their_types() -> None:
    with pytest.raises(TypeError, match="SequenceKey requires an int, got 'a'"):
        SequenceKey("a")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="FlattenedIndexKey requires an int, got 'a'"):
        FlattenedIndexKey("a")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="GetAttrKey requires a str, got 1"):
        GetAttrKey(1)  # pyright: ignore[reportArgumentType]


def test_keystr() -> None:
    path = (SequenceKey(0), DictKey("a"), GetAttrKey("n"), FlattenedIndexKey(2), "own", 5)
    assert tu.keystr(path) == "[0]['a'].n[<flat index 2>]own5"
    assert tu.keystr(path, simple=True, separator=".") == "0.a.n.2.own.5"
    assert tu.keystr(path[:2], separator="|") == "[0]|['a']"
    assert tu.keystr(()) == ""


def test_equal_keys_of_different_types_are_kept_apart() -> None:
    for key in (1, True, 1.0, "1"):
        [(path, _)] = tu.tree_leaves_with_path({key: 0})
        assert repr(path) == f"(DictKey(key={key!r}),)"


def test_long_sequences_have_all_their_keys() -> None:
    pairs = tu.tree_leaves_with_path(list(range(200)))
    assert pairs == [((SequenceKey(i),), i) for i in range(200)]


# --- Paths --------------------------------------------------------------------------------------


def test_paths_of_every_node_type() -> None:
    tree = [
        Pair(1, 2),
        Keyed(3, 4),
        Data(5),
        Point(6, 7),
        OrderedDict(b=8),
        defaultdict(int, c=9),
        {"d": 10},
    ]
    paths = {value: tu.keystr(path) for path, value in tu.tree_leaves_with_path(tree)}
    assert paths == {
        1: "[0][<flat index 0>]",
        2: "[0][<flat index 1>]",
        3: "[1].a",
        4: "[1].b",
        5: "[2].a",
        6: "[3].x",
        7: "[3].y",
        8: "[4]['b']",
        9: "[5]['c']",
        10: "[6]['d']",
    }


def test_map_with_path() -> None:
    result = tu.tree_map_with_path(
        lambda path, *xs: (tu.keystr(path), xs), {"a": [1, 2]}, {"a": [3, (4, 5)]}
    )
    assert result == {"a": [("['a'][0]", (1, 3)), ("['a'][1]", (2, (4, 5)))]}
    with pytest.raises(ValueError, match=r"key path\n    tree_map_with_path tree\['a'\]\n"):
        tu.tree_map_with_path(lambda *xs: xs, {"a": [1, 2]}, {"a": [3]})


@pytest.mark.parametrize("takes_path", [False, True])
def test_is_leaf_with_path(takes_path: bool) -> None:
    tree = {"a": [1, 2], "b": [3, deque([4]), None, time.gmtime(0)], "c": Pair(5, [6])}
    visited: list[Any] = []

    def is_leaf(*args: Any) -> bool:
        visited.append(args[-1])
        if takes_path:
            return tu.keystr(args[0]) == "['a']" or args[-1] is None
        return args[-1] == [1, 2] or args[-1] is None

    pairs, treedef = tu.tree_flatten_with_path(tree, is_leaf, takes_path)
    assert [tu.keystr(path) for path, _ in pairs] == [
        "['a']",
        "['b'][0]",
        "['b'][1]",
        "['b'][2]",
        "['b'][3]",
        "['c'][<flat index 0>]",
        "['c'][<flat index 1>][0]",
    ]
    assert treedef.unflatten([value for _, value in pairs]) == tree
    assert len(visited) == 11  # every node once
    assert tu.tree_leaves_with_path(tree, is_leaf, takes_path) == pairs
    mapped = tu.tree_map_with_path(
        lambda path, x: len(path), tree, is_leaf=is_leaf, is_leaf_takes_path=takes_path
    )
    assert mapped == {"a": 1, "b": [2, 2, 2, 2], "c": Pair(2, [3])}


# --- Map and its errors -------------------------------------------------------------------------


def test_map_takes_deeper_trees() -> None:
    assert tu.tree_map(lambda *xs: xs, [1, (2, 3)], [[1, 2], ({}, 5)]) == [
        (1, [1, 2]),
        ((2, {}), (3, 5)),
    ]
    result = tu.tree_map(lambda *xs: xs, {"a": 1, "b": 2}, {"b": [3], "a": None})
    assert result == {"a": (1, None), "b": (2, [3])}
    assert tu.tree_map(lambda *xs: xs, None, None) is None


MISMATCHES: list[tuple[Any, Any, str, str]] = [
    ([1, 2], [1, 2, 3], "different lengths of list", ""),
    ([1, 2], (1, 2), "different types", ""),
    ([1, 2], 5, "different types", ""),
    ([1, 2], None, "different types", ""),
    (None, 1, "different types", ""),
    ([1, None], [1, 3], "different types", "[1]"),
    ({"a": 1}, {"b": 1}, "different pytree metadata", ""),
    ({"a": 1}, {"a": 1, "b": 2}, "different numbers of pytree children", ""),
    ({"a": [1, 2]}, {"a": [1]}, "different lengths of list", "['a']"),
    ({"a": {"b": [1, 2]}}, {"a": {"b": 3}}, "different types", "['a']['b']"),
    (Pair(1, 2), 3, "different types", ""),
    (Pair(1, 2), Keyed(1, 2), "different types", ""),
    (Pair(1, (2,)), Pair(1, [2]), "different types", "[<flat index 1>]"),
    (Keyed(1, (2,)), Keyed(1, [2]), "different types", ".b"),
    (Data(1, 2), Data(1, 3), "different pytree metadata", ""),
    (Point(1, 2), (1, 2), "different types", ""),
    ((1, 2), Point(1, 2), "different types", ""),
    (Point(1, [2]), Point(1, 2), "different types", ".y"),
    (OrderedDict(a=1, b=2), OrderedDict(b=1, a=2), "different pytree metadata", ""),
    (OrderedDict(a=1), {"a": 1}, "different types", ""),
    ({"a": 1}, OrderedDict(a=1), "different types", ""),
    (({},), (OrderedDict(),), "different types", "[0]"),
    (defaultdict(list, a=1), {"a": 1}, "different types", ""),
    (defaultdict(list, a=1), defaultdict(int, a=1), "different pytree metadata", ""),
    ([(1,)], [deque([1])], "different types", "[0]"),
    (([1], {"a": 1}), ([1, 2], {"a": 1}), "different lengths of list", "[0]"),
]


@pytest.mark.parametrize(("first", "second", "kind", "path"), MISMATCHES)
def test_map_mismatch(first: Any, second: Any, kind: str, path: str) -> None:
    for rest in ([second], [first, second]):
        with pytest.raises(ValueError, match="pytree structure error") as info:
            tu.tree_map(lambda *xs: xs, first, *rest)
        message = str(info.value)
        assert message.startswith(
            f"pytree structure error: {kind} at key path\n    tree_map tree{path}\n"
        )
        assert str(tu.tree_structure(first)) in message
        assert str(tu.tree_structure(second)) in message
    with pytest.raises(ValueError, match=kind):
        tu.tree_structure(first).flatten_up_to(second)
    with pytest.raises(ValueError, match=kind):
        tu.broadcast_prefix(first, second)
    [found, *_] = tu.prefix_errors(first, second)
    assert (found.kind, tu.keystr(found.path)) == (kind, path)
    [(error_path, *_), *_] = tu.equality_errors(first, second)
    assert tu.keystr(error_path) == path


def test_mismatch_message_in_full() -> None:
    with pytest.raises(ValueError, match="structure") as info:
        tu.tree_map(max, {"a": [1, 2]}, {"a": [1]})
    assert str(info.value) == (
        "pytree structure error: different lengths of list at key path\n"
        "    tree_map tree['a']\n"
        "where the first tree has a list of length 2, but the other tree has a list of length 1; "
        "their lengths differ\n"
        "The first tree: PyTreeDef({'a': [*, *]})\n"
        "The other tree: PyTreeDef({'a': [*]})"
    )


def test_mismatch_message_names_the_keys() -> None:
    with pytest.raises(ValueError, match=r"only one of them has: \['c', 'b'\]"):
        tu.tree_map(max, {"a": 1, "c": 2}, {"a": 1, "b": 2})


def test_mismatch_message_of_large_trees_is_short() -> None:
    large = {f"layer{i}": {"w": 1, "b": 2} for i in range(1000)}
    with pytest.raises(ValueError, match=r"layer999'\]\['w'\]") as info:
        tu.tree_map(max, {**large, "layer999": {"w": (1,), "b": 2}}, large)
    assert len(str(info.value)) < 3000


def test_flatten_up_to() -> None:
    treedef = tu.tree_structure([0, {"b": 0, "a": 0}])
    assert treedef.flatten_up_to([(1, 2), {"a": None, "b": [3]}]) == [(1, 2), None, [3]]
    assert tu.tree_structure((0, [0])).flatten_up_to((deque([1]), [2])) == [deque([1]), 2]
    with pytest.raises(ValueError, match=r"flatten_up_to tree\[1\]\n"):
        treedef.flatten_up_to([1, {"a": 2}])


@pytest.mark.parametrize(
    ("prefix", "tree", "message"),
    [
        ([1], [7, 8], "List arity mismatch: 2 != 1; list: [7, 8]."),
        (([1, 2],), ([7],), "List arity mismatch: 1 != 2; list: [7]."),
        ((1, 2), (7,), "Tuple arity mismatch: 1 != 2; tuple: (7,)."),
        ({"a": 1}, {"b": 7}, "Dict key mismatch; expected keys: ['a']; present keys: ['b']."),
        ([(1,)], [7], "Expected tuple, got 7."),
        (((1,),), ([7],), "Expected tuple, got [7]."),
        ([1], {"a": 7}, "Expected list, got {'a': 7}."),
        ({"a": {}}, {"a": OrderedDict()}, "Expected dict, got OrderedDict()."),
        (None, [2], "Expected None, got [2]."),
        (Point(1, 2), (1, 2), "Expected named tuple, got (1, 2)."),
        (Data(1, 2), [1], "Custom node type mismatch: expected type: <class"),
        (OrderedDict(a=1), {"a": 1}, "Custom node type mismatch: expected type: <class"),
        (OrderedDict(a=1), OrderedDict(b=1), "Mismatch custom node data: ('a',) != ('b',);"),
        (
            defaultdict(int, a=1),
            defaultdict(list, a=1),
            "Mismatch custom node data: (<class 'int'>",
        ),
    ],
)
def test_flatten_up_to_begins_with_the_mismatch_in_short(
    prefix: Any, tree: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as info:
        tu.tree_structure(prefix).flatten_up_to(tree)
    assert str(info.value).startswith(message)


def test_keys_of_different_kinds_have_different_hashes() -> None:
    keys = (tu.SequenceKey(1), tu.FlattenedIndexKey(1), tu.DictKey(1))
    assert len({hash(key) for key in keys}) == len(set(keys)) == 3


# --- Reductions and the rest --------------------------------------------------------------------


def test_reduce() -> None:
    assert tu.tree_reduce(lambda x, y: x - y, [10, (1, {"a": 2})]) == 7
    assert tu.tree_reduce(lambda x, y: (x, y), [1, 2], None) == ((None, 1), 2)
    assert tu.tree_reduce(lambda x, y: x + y, [], 3) == 3
    lengths = tu.tree_reduce(
        lambda n, x: n + len(x), [[1], [2, 3]], 0, lambda x: x in ([1], [2, 3])
    )
    assert lengths == 3
    with pytest.raises(TypeError, match="no initial value"):
        tu.tree_reduce(max, [])


@pytest.mark.parametrize(
    ("letters", "text"),
    [
        ("a", "a"),
        ("ab", "(ab)"),
        ("abcde", "((ab)(c(de)))"),
        ("abcdefg", "((a(bc))((de)(fg)))"),
    ],
)
def test_reduce_associative(letters: str, text: str) -> None:
    assert tu.tree_reduce_associative(lambda x, y: f"({x}{y})", list(letters)) == text
    with_identity = tu.tree_reduce_associative(
        lambda x, y: f"({x}{y})", list(letters), identity="unused"
    )
    assert with_identity == text


def test_reduce_associative_of_nothing() -> None:
    assert tu.tree_reduce_associative(max, [None, ()], identity=3) == 3
    with pytest.raises(TypeError, match="requires an identity"):
        tu.tree_reduce_associative(max, [None, ()])


def test_all() -> None:
    assert tu.tree_all([True, {"a": 1}, None])
    assert not tu.tree_all([True, {"a": 0}])
    assert tu.tree_all([[0]], is_leaf=lambda x: x == [0])
    assert tu.tree_all([])


def test_all_leaves() -> None:
    assert tu.all_leaves([1, "a"])
    assert not tu.all_leaves([1, [2]])
    assert not tu.all_leaves([1, [[]]])
    assert not tu.all_leaves([1, None])
    assert tu.all_leaves([])
    assert tu.all_leaves([(1,), deque()], is_leaf=lambda x: isinstance(x, tuple))


def test_transpose() -> None:
    structure = tu.tree_structure
    trees = [{"a": 1}, {"a": 2}]
    assert tu.tree_transpose(structure([0, 0]), structure({"a": 0}), trees) == {"a": [1, 2]}
    assert tu.tree_transpose(structure([0, 0]), None, trees) == {"a": [1, 2]}
    assert tu.tree_transpose(structure([0, 0]), structure({}), [{}, {}]) == {}
    assert tu.tree_transpose(structure([]), structure({"a": 0}), []) == {"a": []}
    points = (Point(1, [2, 3]), Point(4, [5, 6]))
    assert tu.tree_transpose(structure((0, 0)), None, points) == Point((1, 4), [(2, 5), (3, 6)])
    with pytest.raises(TypeError, match=r"Mismatch\nPyTreeDef\(\[\{'a': \(\*, \*\)\}, "):
        tu.tree_transpose(structure([0, 0]), structure({"a": 0}), [{"a": (1, 2)}, {"a": 2}])


def test_one_level() -> None:
    trees: list[tuple[Any, Any, Any]] = [
        ([1, [2]], [1, [2]], None),
        ({"b": 1, "a": [2]}, ([2], 1), ("a", "b")),
        (OrderedDict(b=1, a=2), [1, 2], ("b", "a")),
        (defaultdict(list, b=1, a=2), [2, 1], (list, ("a", "b"))),
        (None, (), None),
        (Point(1, 2), [1, 2], Point),
        (Pair(1, 2), (1, 2), "aux"),
        (Data(1, 2), (1,), (2,)),
    ]
    for tree, children, data in trees:
        assert tu.flatten_one_level(tree) == (children, data)
        pairs, data_with_keys = tu.flatten_one_level_with_keys(tree)
        assert tuple(child for _, child in pairs) == tuple(children)
        assert data_with_keys == data
    pairs, _ = tu.flatten_one_level_with_keys(Point(1, 2))
    assert pairs == ((GetAttrKey("x"), 1), (GetAttrKey("y"), 2))


# --- Prefixes -----------------------------------------------------------------------------------


def test_broadcast() -> None:
    full = {"a": [1, 2], "b": (3, None)}
    assert tu.tree_broadcast({"a": 1, "b": 2}, full) == {"a": [1, 1], "b": (2, None)}
    assert tu.tree_broadcast(7, full) == {"a": [7, 7], "b": (7, None)}
    assert tu.broadcast_prefix((1, 2), (3, [4, 5])) == [1, 2, 2]
    assert tu.broadcast_prefix((1, None), (3, [4, 5]), is_leaf=lambda x: x is None) == [
        1,
        None,
        None,
    ]
    # is_leaf is about the prefix alone
    assert tu.broadcast_prefix((1, (7, 8)), (3, (4, (5, 6))), lambda x: x == (5, 6)) == [1, 7, 8, 8]
    with pytest.raises(ValueError, match=r"different types .*\n    broadcast_prefix tree\['b'\]\n"):
        tu.tree_broadcast({"a": 1, "b": [2]}, full)
    with pytest.raises(ValueError, match="the prefix tree has <class 'NoneType'>"):
        tu.broadcast_prefix((1, None), (3, [4]))


def test_prefix_errors_are_all_found() -> None:
    assert tu.prefix_errors((1, {"a": 2}), (1, {"a": (2, 3)})) == []
    found = tu.prefix_errors((1, [2], {"a": (3,)}), (1, (2,), {"a": (3, 4)}))
    assert [tu.keystr(mismatch.path) for mismatch in found] == ["[1]", "[2]['a']"]


def test_flatten_axes() -> None:
    treedef = tu.tree_structure(((1, 2), {"a": 3}))
    assert tu.flatten_axes("in_axes", treedef, ((0, 1), {"a": None})) == [0, 1, None]
    assert tu.flatten_axes("in_axes", treedef, None) == [None] * 3
    assert tu.flatten_axes("in_axes", treedef, ("x", None)) == ["x", "x", None]
    assert tu.flatten_axes("in_axes", tu.tree_structure((None, 1)), (None, 0)) == [0]
    assert tu.flatten_axes("in_axes", tu.tree_structure((None, 1)), (0, 0)) == [0]
    pair = tu.tree_structure(Pair(1, (2, 3)))
    assert tu.flatten_axes("in_axes", pair, Pair(0, 1)) == [0, 1, 1]


@pytest.mark.parametrize(
    ("axes", "path", "detail"),
    [
        ((0, None, 1), "", "a tuple of length 3"),
        ([0, 1], "", "<class 'list'>"),
        (((0, 1), {"b": None}), "[1]", "only one of them has: ['b', 'a']"),
        (((0, [1]), 0), "[0][1]", "the value has a pytree leaf"),
    ],
)
def test_flatten_axes_errors(axes: Any, path: str, detail: str) -> None:
    treedef = tu.tree_structure(((1, 2), {"a": 3}))
    with pytest.raises(ValueError, match="must be a tree prefix of the corresponding") as info:
        tu.flatten_axes("vmap in_axes", treedef, axes)
    message = str(info.value)
    assert message.startswith(
        "vmap in_axes specification must be a tree prefix of the corresponding value; "
        f"got specification {axes!r} for value tree {treedef}."
    )
    assert f"at key path\n    vmap in_axes{path}\n" in message
    assert detail in message
    # The pair of positional and keyword arguments is no part of what the user wrote.
    both = tu.treedef_tuple([treedef, tu.tree_structure({})])
    with pytest.raises(ValueError, match="must be a tree prefix of the corresponding") as info:
        tu.flatten_axes("vmap in_axes", both, (axes, 0), kws=True)
    assert str(info.value) == message


def test_flatten_axes_hint() -> None:
    treedef = tu.tree_structure(([1, 2],))
    with pytest.raises(ValueError, match=r"must be a tuple too.*\(\[0, 1\],\) for a single"):
        tu.flatten_axes("vmap in_axes", treedef, [0, 1], tupled_args=True)
    with pytest.raises(ValueError, match="tree prefix") as info:
        tu.flatten_axes("vmap in_axes", treedef, (0, 1), tupled_args=True)
    assert "must be a tuple too" not in str(info.value)


def test_equality_errors() -> None:
    errors = tu.equality_errors
    assert list(errors([1, {"a": (2,)}], ["x", {"a": (None.__class__,)}])) == []
    assert list(errors([1, (2,)], [[1], 2])) == [
        ((SequenceKey(0),), "<class 'int'>", "<class 'list'>", "their Python types differ"),
        ((SequenceKey(1),), "<class 'tuple'>", "<class 'int'>", "their Python types differ"),
    ]
    assert list(errors([None], [1], is_leaf=lambda x: x is None)) == []
    one, two = tu.tree_structure([Data(1, 2), (1,)]), tu.tree_structure([Data((1,), 2), (1, 2)])
    assert [
        (tu.keystr(path), first, second)
        for path, first, second, _ in tu.treedef_equality_errors(one, two)
    ] == [
        ("[0].a", "a pytree leaf", "<class 'tuple'>"),
        ("[1]", "a tuple of length 1", "a tuple of length 2"),
    ]
    assert list(tu.treedef_equality_errors(one, one)) == []


def test_flatten_args() -> None:
    args, kwargs = (1, [2, None]), {"b": {"d": 3, "c": 4}, "a": 5}
    leaves, treedef = tu.flatten_args(args, kwargs)
    assert (leaves, treedef) == tu.tree_flatten((args, kwargs))
    key_leaves, key = tu.flatten_args_key(args, kwargs)
    assert key_leaves == leaves
    again = tu.flatten_args_key((7, [8, None]), {"a": 5, "b": {"c": 4, "d": 3}})[1]
    assert again == key
    assert hash(again) == hash(key)
    others = [
        ((1, (2, None)), kwargs),
        ((1, [2, 3]), kwargs),
        (args, {}),
        ((1, deque([2])), kwargs),
    ]
    for other in others:
        assert tu.flatten_args_key(*other)[1] != key


# --- Random trees against plain recursion -------------------------------------------------------


def _reference_leaves(tree: Any) -> list[Any]:
    """Leaves by plain recursion, from the rules in the documentation."""
    match tree:
        case None:
            return []
        case Pair() | Keyed():
            return _reference_leaves(tree.a) + _reference_leaves(tree.b)
        case Data():
            return _reference_leaves(tree.a)
        case OrderedDict():
            children = list(tree.values())
        case dict():
            children = [tree[key] for key in sorted(tree)]
        case list() | tuple():
            children = list(tree)
        case _:
            return [tree]
    return [leaf for child in children for leaf in _reference_leaves(child)]


_keys = st.one_of(
    st.lists(st.text(max_size=3), max_size=4, unique=True),
    st.lists(st.integers(), max_size=4, unique=True),
)


def _containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    values = st.lists(children, min_size=4, max_size=4)
    pairs = st.builds(lambda keys, items: list(zip(keys, items, strict=False)), _keys, values)
    return st.one_of(
        st.lists(children, max_size=4),
        st.lists(children, max_size=4).map(tuple),
        pairs.map(dict),
        pairs.map(OrderedDict),
        pairs.map(lambda items: defaultdict(list, items)),
        st.builds(Pair, children, children, st.sampled_from(["x", "y"])),
        st.builds(Keyed, children, children),
        st.builds(Data, children, st.integers(0, 2)),
        st.builds(Point, children, children),
    )


_leaves = st.one_of(st.none(), st.integers(), st.text(max_size=2), st.just(np.float32(1)))
_trees = st.recursive(_leaves, _containers, max_leaves=12)


@given(_trees)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_random_trees(tree: Any) -> None:
    leaves, treedef = tu.tree_flatten(tree)
    assert leaves == _reference_leaves(tree)
    assert treedef.num_leaves == len(leaves)
    rebuilt = None
    for _ in range(3):
        rebuilt = treedef.unflatten(leaves)
        assert rebuilt == tree
        assert tu.tree_structure(rebuilt) == treedef
    assert tu.tree_map(lambda x: x, tree) == tree
    pairs, with_path = tu.tree_flatten_with_path(tree)
    assert with_path == treedef
    assert [value for _, value in pairs] == leaves
    assert len({path for path, _ in pairs}) == len(leaves)
    assert treedef.flatten_up_to(tree) == leaves
    assert tu.broadcast_prefix(tree, tree) == leaves
    assert tu.tree_broadcast(0, tree) == treedef.unflatten([0] * len(leaves))
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert list(tu.equality_errors(tree, rebuilt)) == []
    assert tu.flatten_axes("axes", treedef, tu.tree_map(lambda _: 0, tree)) == [0] * len(leaves)


@given(_trees, _trees)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_random_pairs_of_trees(one: Any, two: Any) -> None:
    first, second = tu.tree_structure(one), tu.tree_structure(two)
    equal = first == second
    assert equal == (repr(first) == repr(second))
    assert equal == (list(tu.equality_errors(one, two)) == [])
    assert equal == (list(tu.treedef_equality_errors(first, second)) == [])
    assert equal == (tu.flatten_args_key((one,), {})[1] == tu.flatten_args_key((two,), {})[1])
    is_prefix = tu.prefix_errors(one, two) == []
    if is_prefix:
        assert len(first.flatten_up_to(two)) == first.num_leaves
        assert len(tu.broadcast_prefix(one, two)) == second.num_leaves
    else:
        with pytest.raises(ValueError, match="pytree structure error"):
            first.flatten_up_to(two)

    axes = tu.tree_map(lambda _: "axis", one)
    if not tu.prefix_errors(axes, two, is_leaf=lambda x: x is None):
        assert len(tu.flatten_axes("axes", second, axes)) == second.num_leaves
    else:
        with pytest.raises(ValueError, match="must be a tree prefix"):
            tu.flatten_axes("axes", second, axes)


def test_a_deep_tree_is_an_error_and_no_crash() -> None:
    code = (
        "import xpr.tree_util as tu\n"
        "tree = 0\n"
        "for _ in range(100_000): tree = [tree]\n"
        "for call in (tu.tree_flatten, tu.tree_leaves_with_path, tu.tree_structure):\n"
        "    try: call(tree)\n"
        "    except RecursionError: print('caught')\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["caught"] * 3


def test_namedtuples_may_have_a_length_of_their_own() -> None:
    class Rows(NamedTuple):
        matrix: Any

        def __len__(self) -> int:
            return self.matrix.shape[0]  # leaves need have no shape

    found = tu.tree_map_with_path(lambda path, x: (tu.keystr(path), x), Rows(7))
    assert found == Rows((".matrix", 7))


def test_surface() -> None:
    names = """DictKey FlattenedIndexKey GetAttrKey KeyEntry KeyPath Partial PyTreeDef SequenceKey
        all_leaves flatten_one_level flatten_one_level_with_keys is_tree_node keystr
        register_dataclass register_pytree_node register_pytree_node_class
        register_pytree_with_keys register_pytree_with_keys_class register_static tree_all
        tree_broadcast tree_flatten tree_flatten_with_path tree_leaves tree_leaves_with_path
        tree_map tree_map_with_path tree_reduce tree_reduce_associative tree_structure
        tree_transpose tree_unflatten treedef_children treedef_is_leaf treedef_tuple"""
    missing = [name for name in names.split() if not hasattr(tu, name)]
    assert missing == []


# ---- before optree is loaded


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], tuple[list[Any], tu.PyTreeDef]]:
    """Takes a tree apart as if optree had not been loaded yet."""

    def flatten(tree: Any) -> tuple[list[Any], tu.PyTreeDef]:
        with monkeypatch.context() as patch:
            patch.setattr(_treedef, "_c_flatten", _treedef._load_and_flatten)
            found = tu.tree_flatten(tree)
            assert _treedef._c_flatten is _treedef._load_and_flatten, "optree was asked"
        return found

    return flatten


SMALL_TREES = [
    1,
    None,
    (),
    [],
    {},
    (1,),
    [1, 2],
    {"b": 1, "a": (2, 3)},
    {"only": [None, {}]},
    ((1.5, {"y": [2, None], "x": ()}), {}),
    [[[(1, [2, (3,)])]]],
    (np.zeros(2), "text", {1, 2}, frozenset(), type("Mapping", (dict,), {})(a=1)),
    (deque([1, 2]), 3),
]


@pytest.mark.parametrize("tree", SMALL_TREES, ids=str)
def test_small_trees_without_optree(tree: Any, early: Any) -> None:
    """All that a structure answers is what it answers where optree was there first."""
    expected_leaves, expected = tu.tree_flatten(tree)
    leaves, treedef = early(tree)
    assert len(leaves) == len(expected_leaves)
    assert all(map(operator.is_, leaves, expected_leaves))
    assert hash(treedef) == hash(expected)
    assert (treedef.num_leaves, treedef.num_nodes) == (expected.num_leaves, expected.num_nodes)
    assert early(tree)[1] == treedef
    numbers = list(range(treedef.num_leaves))
    for _ in range(20):  # it is made optree's on the way
        made, wanted = treedef.unflatten(numbers), expected.unflatten(numbers)
        assert made == wanted
        assert repr(made) == repr(wanted)  # keys in the same order
    for used in (treedef, early(tree)[1]):
        assert used == expected
        assert expected == used
        assert repr(used) == repr(expected)
    assert early(tree)[1].children() == expected.children()
    assert early(tree)[1].node_data() == expected.node_data()
    assert pickle.loads(pickle.dumps(early(tree)[1])) == expected
    assert early(tree)[1].flatten_up_to(tree) == expected.flatten_up_to(tree)
    inner = tu.tree_structure([0, 0])
    assert early(tree)[1].compose(inner) == expected.compose(inner)
    assert inner.compose(early(tree)[1]) == inner.compose(expected)


@pytest.mark.parametrize(("one", "two"), [*itertools.combinations(range(len(SMALL_TREES)), 2)])
def test_early_structures_differ_where_structures_do(one: int, two: int, early: Any) -> None:
    trees = SMALL_TREES[one], SMALL_TREES[two]
    same = tu.tree_structure(trees[0]) == tu.tree_structure(trees[1])
    assert (early(trees[0])[1] == early(trees[1])[1]) is same
    assert (early(trees[0])[1] == tu.tree_structure(trees[1])) is same


@pytest.mark.parametrize("count", [1, 3])
def test_wrong_numbers_of_leaves_without_optree(count: int, early: Any) -> None:
    _, treedef = early((1, [2]))
    with pytest.raises(ValueError, match=f"Too (few|many) leaves.*expected 2, got {count}"):
        treedef.unflatten([0] * count)


def test_a_structure_with_others_is_optrees(monkeypatch: pytest.MonkeyPatch) -> None:
    point = namedtuple("point", "x y")
    others = [OrderedDict(a=1), defaultdict(int, a=1), {1: 2}, point(1, 2), tu.Partial(max, 1)]
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    for tree in (*others, deep, [0] * 100):
        monkeypatch.setattr(_treedef, "_c_flatten", _treedef._load_and_flatten)
        leaves, treedef = tu.tree_flatten([tree])
        assert _treedef._c_flatten is not _treedef._load_and_flatten
        assert (leaves, treedef) == tu.tree_flatten([tree])


def test_keys_without_order_without_optree(early: Any) -> None:
    with pytest.raises(ValueError, match="Comparator raised exception"):
        tu.tree_flatten({1: 2, "a": 3})
    assert early({"b": 1, "a": 2})[0] == [2, 1]


PICKLED = """
import pickle, sys
import xpr.tree_util as tu
assert "optree" not in sys.modules
treedef = pickle.loads(bytes.fromhex(sys.argv[1]))
print(treedef, treedef == tu.tree_structure(tu.Partial(max, 1, 2)))
"""


def test_a_pickled_structure_finds_our_types_known() -> None:
    pickled = pickle.dumps(tu.tree_structure(tu.Partial(max, 1, 2))).hex()
    command = [sys.executable, "-c", PICKLED, pickled]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "True"
