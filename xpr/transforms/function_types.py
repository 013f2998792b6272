"""The type of jitted functions, for type checkers: it keeps parameters and result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    overload,
    runtime_checkable,
)

if TYPE_CHECKING:
    from xpr.runtimes.base import Device
    from xpr.transforms.ahead import Warming
    from xpr.transforms.inline import Inline
    from xpr.transforms.stages import Lowered, Traced

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")


@runtime_checkable
class Jitted(Protocol[P, R_co]):
    """What `jit` returns: a `JittedFunction` with the parameters and the result of its function.

    The methods that only trace also take types (`ShapeDtypeStruct`) in place of arrays, so their
    arguments are not checked.
    """

    @property
    def __wrapped__(self) -> Callable[P, R_co]: ...
    @property
    def __name__(self) -> str: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def trace(self, *args: Any, **kwargs: Any) -> Traced: ...
    def lower(self, *args: Any, **kwargs: Any) -> Lowered: ...
    def warm(self, *args: Any, **kwargs: Any) -> Warming: ...
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any: ...
    def save(self, path: Any, *args: Any, **kwargs: Any) -> None: ...
    def clear_cache(self) -> None: ...
    def _cache_size(self) -> int: ...
    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: Jitted[Concatenate[S, Q], R], instance: S, owner: type | None = None
    ) -> Callable[Q, R]: ...


class JitKeywords(TypedDict, total=False):
    """The options of `jit`."""

    in_shardings: Any
    out_shardings: Any
    static_argnums: int | Iterable[int] | None
    static_argnames: str | Iterable[str] | None
    donate_argnums: int | Iterable[int] | None
    donate_argnames: str | Iterable[str] | None
    keep_unused: bool
    device: Device | None
    backend: str | None
    inline: bool | Inline
    compiler_options: Mapping[str, Any] | None


class JitDecorator(Protocol):
    """What `jit(...)` without a function returns: it takes the function."""

    def __call__(self, fun: Callable[P, R], /) -> Jitted[P, R]: ...
