"""Pytrees: trees of Python containers with arrays, or anything else, at the leaves.

The functions with ``tree_`` in their names are in `xpr.tree` under shorter ones. See
`tree_flatten` for what is a node and what is a leaf.
"""

from ._dataclass import register_dataclass as register_dataclass
from ._functions import all_leaves as all_leaves
from ._functions import flatten_args as flatten_args
from ._functions import flatten_args_key as flatten_args_key
from ._functions import tree_all as tree_all
from ._functions import tree_flatten as tree_flatten
from ._functions import tree_leaves as tree_leaves
from ._functions import tree_map as tree_map
from ._functions import tree_reduce as tree_reduce
from ._functions import tree_reduce_associative as tree_reduce_associative
from ._functions import tree_structure as tree_structure
from ._functions import tree_transpose as tree_transpose
from ._functions import tree_unflatten as tree_unflatten
from ._keys import DictKey as DictKey
from ._keys import FlattenedIndexKey as FlattenedIndexKey
from ._keys import GetAttrKey as GetAttrKey
from ._keys import KeyEntry as KeyEntry
from ._keys import KeyPath as KeyPath
from ._keys import SequenceKey as SequenceKey
from ._keys import keystr as keystr
from ._partial import Partial as Partial
from ._paths import tree_flatten_with_path as tree_flatten_with_path
from ._paths import tree_leaves_with_path as tree_leaves_with_path
from ._paths import tree_map_with_path as tree_map_with_path
from ._prefix import broadcast_prefix as broadcast_prefix
from ._prefix import equality_errors as equality_errors
from ._prefix import flatten_axes as flatten_axes
from ._prefix import prefix_errors as prefix_errors
from ._prefix import tree_broadcast as tree_broadcast
from ._prefix import treedef_equality_errors as treedef_equality_errors
from ._registry import flatten_one_level as flatten_one_level
from ._registry import flatten_one_level_with_keys as flatten_one_level_with_keys
from ._registry import is_tree_node as is_tree_node
from ._registry import register_pytree_node as register_pytree_node
from ._registry import register_pytree_node_class as register_pytree_node_class
from ._registry import register_pytree_with_keys as register_pytree_with_keys
from ._registry import register_pytree_with_keys_class as register_pytree_with_keys_class
from ._registry import register_static as register_static
from ._treedef import PyTreeDef as PyTreeDef
from ._treedef import treedef_children as treedef_children
from ._treedef import treedef_is_leaf as treedef_is_leaf
from ._treedef import treedef_tuple as treedef_tuple

# Pickles and messages name the public module.
for _public in (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    Partial,
    PyTreeDef,
    SequenceKey,
):
    _public.__module__ = __name__
del _public
