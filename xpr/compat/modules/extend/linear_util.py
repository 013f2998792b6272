"""`jax.extend.linear_util`: functions with transformations wrapped around them.

A transformation takes the function and its arguments and gives results; one "with aux" gives a pair
whose second part is stored, to be asked for after the call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = [
    "StoreException",
    "WrappedFun",
    "cache",
    "merge_linear_aux",
    "transformation",
    "transformation2",
    "transformation_with_aux",
    "transformation_with_aux2",
    "wrap_init",
]


class StoreException(Exception):
    """A value is asked for before the call that stores it, or is stored twice."""


class _Store:
    """The second part of a result, kept by the call that finds it."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def put(self, value: Any) -> None:
        if self._values:
            raise StoreException("Store occupied")
        self._values.append(value)

    def get(self) -> Any:
        if not self._values:
            raise StoreException("Store empty")
        return self._values[0]

    @property
    def is_full(self) -> bool:
        return bool(self._values)


class WrappedFun:
    """A function, the transformations around it, and parameters that it is called with."""

    def __init__(
        self,
        f: Callable[..., Any],
        params: dict[str, Any],
        debug_info: Any = None,
        layers: tuple[Callable[..., Any], ...] = (),
    ) -> None:
        self.f = f
        self.params = params
        self.debug_info = debug_info
        self._layers = layers

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed wrapped function>")

    def wrap(self, layer: Callable[..., Any]) -> WrappedFun:
        """The function with one more transformation, which is called as `layer(f, *args)`."""
        return WrappedFun(self.f, self.params, self.debug_info, (*self._layers, layer))

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the whole on `args`."""
        f: Callable[..., Any] = functools.partial(self.f, **self.params) if self.params else self.f
        for layer in self._layers:
            f = functools.partial(layer, f)
        return f(*args, **kwargs)

    def __repr__(self) -> str:
        return f"WrappedFun({self.__name__})"


def wrap_init(
    f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: Any = None
) -> WrappedFun:
    """A function without transformations."""
    return WrappedFun(f, params or {}, debug_info)


def transformation2(gen: Callable[..., Any]) -> Callable[..., WrappedFun]:
    """Makes `gen(f, *extra, *args)` a transformation of wrapped functions."""

    @functools.wraps(gen)
    def apply(fun: WrappedFun, *extra: Any) -> WrappedFun:
        return fun.wrap(lambda f, *args, **kwargs: gen(f, *extra, *args, **kwargs))

    return apply


def transformation_with_aux2(
    gen: Callable[..., Any],
) -> Callable[..., tuple[WrappedFun, Callable[[], Any]]]:
    """As `transformation2`, for `gen(f, store, *extra, *args)`, which stores a value aside."""

    @functools.wraps(gen)
    def apply(fun: WrappedFun, *extra: Any) -> tuple[WrappedFun, Callable[[], Any]]:
        store = _Store()
        wrapped = fun.wrap(lambda f, *args, **kwargs: gen(f, store, *extra, *args, **kwargs))
        thunk = store.get
        return wrapped, thunk

    return apply


def transformation(gen: Callable[..., Any]) -> Callable[..., WrappedFun]:
    """A transformation written as a generator.

    `gen(*extra, *args)` yields the arguments and keyword arguments for the function, is sent its
    results, and yields results.
    """

    def run(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        running = gen(*args, **kwargs)
        inner_args, inner_kwargs = next(running)
        return running.send(f(*inner_args, **inner_kwargs))

    return transformation2(run)


def transformation_with_aux(
    gen: Callable[..., Any],
) -> Callable[..., tuple[WrappedFun, Callable[[], Any]]]:
    """As `transformation`, for generators that yield a pair of results and a value to store."""

    def run(f: Callable[..., Any], store: Any, *args: Any, **kwargs: Any) -> Any:
        running = gen(*args, **kwargs)
        inner_args, inner_kwargs = next(running)
        results, aux = running.send(f(*inner_args, **inner_kwargs))
        store.put(aux)
        return results

    return transformation_with_aux2(run)


def merge_linear_aux(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[bool, Any]:
    """The value that one of two calls has stored, and whether it is the first one."""
    try:
        return True, first()
    except StoreException:
        return False, second()


def cache(call: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    """Keeps results by the function and the arguments, which must be hashable."""
    return functools.lru_cache(maxsize=None)(call)
