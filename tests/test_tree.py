"""`xpr.tree` has the functions of `xpr.tree_util` under short names."""

import dataclasses

from xpr import tree, tree_util


def test_short_names() -> None:
    short = set(tree.__all__)
    assert short == {
        "all",
        "broadcast",
        "flatten",
        "flatten_with_path",
        "leaves",
        "leaves_with_path",
        "map",
        "map_with_path",
        "reduce",
        "reduce_associative",
        "static",
        "structure",
        "transpose",
        "unflatten",
    }
    for name in short - {"static"}:
        assert getattr(tree, name).__code__ is getattr(tree_util, f"tree_{name}").__code__


def test_calls() -> None:
    params = {"w": 2, "b": [3, None]}
    leaves, treedef = tree.flatten(params)
    assert leaves == tree.leaves(params) == [3, 2]
    assert treedef == tree.structure(params)
    assert tree.unflatten(treedef, leaves) == params
    assert tree.map(lambda x, y: x * y, params, params) == {"w": 4, "b": [9, None]}
    assert tree.reduce(lambda x, y: x + y, params) == 5
    assert tree.all(params)


def test_static() -> None:
    @tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        weight: float
        activation: str = tree.static(default="relu")

    assert tree.leaves(Layer(0.5)) == [0.5]
    assert Layer(0.5).activation == "relu"
