"""`Partial`: a function with some arguments bound, as a pytree."""

import functools
from collections.abc import Callable
from typing import Any

from ._registry import NodeType, register_without_optree


class _Opaque:
    """A callable kept whole: ``functools.partial`` would merge nested partials otherwise."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __hash__(self) -> int:
        return hash(self.function)

    def __eq__(self, other: object) -> bool:
        return self.function == (other.function if isinstance(other, _Opaque) else other)

    def __repr__(self) -> str:
        return repr(self.function)


class Partial(functools.partial[Any]):
    """``functools.partial`` as a pytree: the bound arguments are children, the function is not.

    So a ``Partial`` can be an argument or a result of a transformed function. A
    ``functools.partial`` in place of the function is a function as any other: its arguments are no
    children.

    >>> import xpr.tree_util as tree_util
    >>> bound = Partial(divmod, 17)
    >>> bound(5)
    (3, 2)
    >>> tree_util.tree_leaves(bound)
    [17]
    >>> tree_util.tree_map(lambda x: x + 1, bound)(5)
    (3, 3)
    """

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Partial":
        if isinstance(func, functools.partial):
            func = _Opaque(func)
        return super().__new__(cls, func, *args, **kwargs)


register_without_optree(
    Partial,
    NodeType(
        lambda partial: ((partial.args, partial.keywords), partial.func),
        lambda func, bound: Partial(func, *bound[0], **bound[1]),
        None,
        None,
    ),
)
