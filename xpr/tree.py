"""Pytree functions under short names: ``xpr.tree.map`` is `xpr.tree_util.tree_map`, and so on."""

from xpr.tree_util import tree_all as all
from xpr.tree_util import tree_broadcast as broadcast
from xpr.tree_util import tree_flatten as flatten
from xpr.tree_util import tree_flatten_with_path as flatten_with_path
from xpr.tree_util import tree_leaves as leaves
from xpr.tree_util import tree_leaves_with_path as leaves_with_path
from xpr.tree_util import tree_map as map
from xpr.tree_util import tree_map_with_path as map_with_path
from xpr.tree_util import tree_reduce as reduce
from xpr.tree_util import tree_reduce_associative as reduce_associative
from xpr.tree_util import tree_structure as structure
from xpr.tree_util import tree_transpose as transpose
from xpr.tree_util import tree_unflatten as unflatten
from xpr.tree_util._dataclass import static

__all__ = [
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
]
