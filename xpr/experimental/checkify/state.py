"""The error state of a program: a code, zero for no error, and what the message tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr import lax
from xpr import numpy as jnp
from xpr.core.trace import get_aval
from xpr.experimental.checkify.errors import (
    CATEGORIES,
    BatchedError,
    Categories,
    ErrorCategory,
    JaxException,
    JaxRuntimeError,
    Report,
    Types,
    code_of,
    number_of,
    report_of,
    user_place,
)
from xpr.primitives.check import check_p, last_failure
from xpr.tree_util import register_pytree_node_class, tree_flatten


@dataclass(frozen=True)
class Slot:
    """Where the payloads of one category and of these types are kept."""

    category: ErrorCategory
    types: Types

    def sort_key(self) -> tuple[int, str]:
        return number_of(self.category), str(self.types)

    def empty(self) -> list[Any]:
        return [np.zeros(shape, dtype) for shape, dtype in self.types]


@register_pytree_node_class
@dataclass(frozen=True)
class Error:
    """Whether a program has failed, and how: what a function gives that `checkify` has made.

    A pytree of arrays, which may be returned by `jit` and mapped by `vmap`. In a batch each example
    has its own error.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import checkify
    >>> def f(x):
    ...     checkify.check(x > 0, "{x} is not positive", x=x)
    ...     return jnp.log(x)
    >>> error, _ = checkify.checkify(f)(jnp.float32(-1))
    >>> error.get()
    '-1.0 is not positive (`check` failed)'
    """

    _code: Any
    _payloads: dict[Slot, list[Any]]

    def get(self) -> str | None:
        """The message of the first error, None if there is none."""
        error = self.get_exception()
        return None if error is None else str(error)

    def get_exception(self) -> JaxException | None:
        """The first error as an exception of its category, None if there is none."""
        codes = np.asarray(self._code)
        if not codes.shape:
            return self._exception(int(codes), ())
        found = {
            place: error
            for place in np.ndindex(*codes.shape)
            if (error := self._exception(int(codes[place]), place)) is not None
        }
        return BatchedError(found) if found else None

    def throw(self) -> None:
        """Raises JaxRuntimeError with the message, if there is an error; as `check_error` does."""
        emit(self, debug=False)

    def raise_now(self) -> None:
        """Raises JaxRuntimeError if there is an error; the values must be known."""
        error = self.get_exception()
        if error is not None:
            failure = JaxRuntimeError(str(error))
            for note in error.__notes__:
                failure.add_note(note)
            raise failure from error

    def _exception(self, code: int, place: tuple[int, ...]) -> JaxException | None:
        if code == 0:
            return None
        report = report_of(code)
        payload = self._payloads[Slot(report.category, report.types)]
        return report.exception([x[place] if place else x for x in payload])

    def __str__(self) -> str:
        return f"Error({self.get()})"

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Slot, ...]]:
        slots = tuple(sorted(self._payloads, key=Slot.sort_key))
        return (self._code, *(x for s in slots for x in self._payloads[s])), slots

    @classmethod
    def tree_unflatten(cls, slots: tuple[Slot, ...], leaves: Sequence[Any]) -> Error:
        code, *rest = leaves
        given = iter(rest)
        return cls(code, {s: [next(given) for _ in s.types] for s in slots})


init_error = Error(np.int32(0), {})
"""No error."""


def is_silent(error: Error) -> bool:
    """Whether it is known while tracing that there is no error."""
    return error is init_error or (isinstance(error._code, np.generic) and error._code == 0)


def emit(error: Error, *, debug: bool) -> None:
    """A check equation on an error; of a batch of errors the last one counts."""
    leaves, tree = tree_flatten(error)
    check_p.bind(*last_failure(leaves), err_tree=tree, debug=debug)


def failure(
    category: ErrorCategory, text: str, failed: Any, args: Any = (), kwargs: Any = None
) -> Error:
    """An error where the scalar `failed` holds; `text` is a format of `args` and `kwargs`."""
    leaves, tree = tree_flatten((tuple(args), dict(kwargs or {})))
    avals = [get_aval(x) for x in leaves]
    payload = [
        lax.convert_element_type(x, a.dtype) if a.weak_type else x
        for x, a in zip(leaves, avals, strict=True)
    ]
    types = tuple((tuple(a.shape), a.dtype) for a in avals)
    code = code_of(Report(category, text, tree, types, user_place()))
    found = lax.select(jnp.asarray(failed), np.int32(code), np.int32(0))
    return Error(found, {Slot(category, types): payload})


def merged(first: Error, second: Error) -> Error:
    """The first error if there is one, else the second."""
    if is_silent(first):
        return second
    if is_silent(second):
        return first
    failed = jnp.not_equal(first._code, 0)
    payloads = dict(first._payloads)
    for slot, found in second._payloads.items():
        old = payloads.get(slot)
        payloads[slot] = (
            found
            if old is None
            else [lax.select(failed, a, b) for a, b in zip(old, found, strict=True)]
        )
    return Error(lax.select(failed, first._code, second._code), payloads)


def filled(error: Error, slots: Sequence[Slot]) -> Error:
    """The same error with places for the payloads of `slots`, for states of one structure."""
    empty = {s: s.empty() for s in slots if s not in error._payloads}
    return Error(error._code, error._payloads | empty)


def enabled_part(error: Error, enabled: Categories) -> Error:
    """The error if its category is one of `enabled`, else none."""
    payloads = {s: held for s, held in error._payloads.items() if s.category in enabled}
    if len(payloads) == len(error._payloads):
        return error
    if not payloads:
        return init_error
    category = jnp.remainder(error._code, len(CATEGORIES))
    wanted = jnp.isin(category, np.array([number_of(s.category) for s in payloads], np.int32))
    return Error(lax.select(wanted, error._code, np.int32(0)), payloads)
