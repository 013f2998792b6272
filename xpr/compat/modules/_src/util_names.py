"""`jax._src.util`: helpers for sequences and functions."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xpr.compat.modules.api_util import safe_map as safe_map

wraps = functools.wraps
concatenate = itertools.chain.from_iterable


def safe_zip(*args: Sequence[Any]) -> list[tuple[Any, ...]]:
    """`zip` of sequences that must be equally long, as a list."""
    return list(zip(*args, strict=True))


def unzip2(pairs: Iterable[tuple[Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The first and the second parts of pairs."""
    found = list(pairs)
    return tuple(a for a, _ in found), tuple(b for _, b in found)


def unzip3(triples: Iterable[tuple[Any, Any, Any]]) -> tuple[tuple[Any, ...], ...]:
    """The first, second and third parts of triples."""
    found = list(triples)
    return tuple(tuple(t[i] for t in found) for i in range(3))


def split_list(args: Sequence[Any], ns: Sequence[int]) -> list[list[Any]]:
    """Lists of so many elements, and one of the rest."""
    rest, out = list(args), []
    for n in ns:
        out.append(rest[:n])
        rest = rest[n:]
    return [*out, rest]


def partition_list(which: Sequence[bool], values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The elements where `which` does not hold, and those where it does."""
    pairs = safe_zip(which, values)
    return [v for b, v in pairs if not b], [v for b, v in pairs if b]


def merge_lists(which: Sequence[bool], no: Sequence[Any], yes: Sequence[Any]) -> list[Any]:
    """What `partition_list` has divided, in one list again."""
    first, second = iter(no), iter(yes)
    return [next(second if b else first) for b in which]


def cache(max_size: int = 4096, **_: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that remembers results by arguments."""
    return functools.lru_cache(maxsize=max_size)


def prod(values: Iterable[Any]) -> Any:
    """The product, 1 of none."""
    return functools.reduce(operator.mul, values, 1)


def tuple_insert(t: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    """The tuple with a value more."""
    return (*t[:index], value, *t[index:])


def tuple_delete(t: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    """The tuple without an element."""
    return (*t[:index], *t[index + 1 :])


def canonicalize_axis(axis: Any, num_dims: int) -> int:
    """The axis counted from the first; ValueError for one that there is not."""
    found = operator.index(axis)
    if not -num_dims <= found < num_dims:
        raise ValueError(f"axis {found} is out of bounds for array of dimension {num_dims}")
    return found % num_dims
