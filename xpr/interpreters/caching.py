"""Results of transforming a jaxpr, kept as long as the jaxpr lives."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from xpr.core.config import state
from xpr.core.jaxpr import ClosedJaxpr


def weak_jaxpr_cache(transform: Callable[..., Any]) -> Callable[..., Any]:
    """Remembers what `transform(closed, *hashable)` gave, by the identity of the closed jaxpr.

    Transforming the same jaxpr twice then gives the same object, so that what is compiled for it
    is found again.
    """
    kept: weakref.WeakKeyDictionary[ClosedJaxpr, dict[Any, Any]] = weakref.WeakKeyDictionary()

    @functools.wraps(transform)
    def cached(closed: ClosedJaxpr, *args: Any) -> Any:
        results = kept.get(closed)
        if results is None:
            results = kept[closed] = {}
        key = (args, state.trace_key)
        found = results.get(key)
        if found is None:
            found = results[key] = transform(closed, *args)
        return found

    return cached
