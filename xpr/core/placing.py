"""The `out_sharding` argument of operations: what the user gave, as a sharding.

What partition specs mean is known in `xpr/sharding`, which the core must not import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from xpr.core.config import loose_types
from xpr.core.context import context
from xpr.core.primitive import Primitive, get_primitive
from xpr.core.trace import is_eager
from xpr.core.wrapping import wraps

_F = TypeVar("_F", bound=Callable[..., Any])

_resolve: Callable[[str, Any], Any] | None = None


def install_given_sharding(rule: Callable[[str, Any], Any]) -> None:
    """Sets what makes shardings of the arguments that users give."""
    global _resolve
    _resolve = rule


def given_sharding(name: str, sharding: Any) -> Any:
    """The `NamedSharding` that the argument `out_sharding` of the function `name` means; or None.

    Raises TypeError for what is neither a sharding nor a partition spec, ValueError for a spec
    without a mesh in use and for mesh axes that are not Explicit.
    """
    if sharding is None:
        return None
    if _resolve is None:
        raise RuntimeError("xpr is only half imported: import xpr before using its parts")
    return _resolve(name, sharding)


def places_now(sharding: Any) -> bool:
    """Whether a result must be put where `sharding` says after it was computed: outside traces.

    What is unreduced afterwards is computed there: see `bound_there`.
    """
    return sharding is not None and is_eager() and not _unreduced(sharding)


def _unreduced(sharding: Any) -> bool:
    return bool(getattr(getattr(sharding, "spec", sharding), "unreduced", None))


def bound_there(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """The result of a primitive with a parameter `sharding` or `out_sharding`.

    Outside traces it is computed by the devices that the sharding means: each of them keeps its
    part of a sum.
    """
    sharding = params.get("out_sharding") or params.get("sharding")
    if sharding is not None and is_eager() and _unreduced(sharding):
        return context.trace.process_on_several(primitive, args, params)
    return primitive.bind(*args, **params)


def resharded(name: str, sharding: Any, compute: Callable[[], Any]) -> Any:
    """What `compute` gives, an array, sharded as the argument `out_sharding` of `name` says.

    How values on the way are sharded is left to the partitioner.
    """
    given = given_sharding(name, sharding)
    if given is None:
        return compute()
    with loose_types():
        out = compute()
    return get_primitive("reshard").bind(out, sharding=given)


def takes_out_sharding(fun: _F) -> _F:
    """`fun`, a function of arrays to one array, with the keyword argument `out_sharding`."""

    name = getattr(fun, "__name__", "function")

    @wraps(fun)
    def call(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        if out_sharding is None:
            return fun(*args, **kwargs)
        return resharded(name, out_sharding, lambda: fun(*args, **kwargs))

    return cast(_F, call)
