"""Pytree functions under short names: ``xpr.tree.map`` is `xpr.tree_util.tree_map`, and so on.

As in JAX they are functions of their own, which say their short names.
"""

import inspect
import re
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from xpr import tree_util as _util
from xpr.core.tracebacks import api_boundary
from xpr.tree_util._dataclass import static

if TYPE_CHECKING:
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
else:

    def _named(name: str) -> Callable[..., Any]:
        """A function of `tree_util` as one of another name."""
        function = inspect.unwrap(getattr(_util, f"tree_{name}"))
        found = FunctionType(
            function.__code__, function.__globals__, name, function.__defaults__,
            function.__closure__,
        )  # fmt: skip
        found.__kwdefaults__ = function.__kwdefaults__
        found.__annotations__ = function.__annotations__
        found.__doc__ = re.sub(r"\btree_(?!util)", "", function.__doc__ or "")
        found.__module__ = __name__
        found.__qualname__ = name
        return api_boundary(found)

    all = _named("all")
    broadcast = _named("broadcast")
    flatten = _named("flatten")
    flatten_with_path = _named("flatten_with_path")
    leaves = _named("leaves")
    leaves_with_path = _named("leaves_with_path")
    map = _named("map")
    map_with_path = _named("map_with_path")
    reduce = _named("reduce")
    reduce_associative = _named("reduce_associative")
    structure = _named("structure")
    transpose = _named("transpose")
    unflatten = _named("unflatten")

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
