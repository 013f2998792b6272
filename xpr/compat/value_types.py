"""Classes of values that are arrays to xpr, as the tables in which JAX keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import numpy as np

from xpr.core.trace import aval_rules, register_aval

Rule = Callable[[Any], Any]


class AvalRules(MutableMapping[type, Rule]):
    """By class, what tells the type of a value; one that is added needs `__array__`."""

    def __getitem__(self, cls: type) -> Rule:
        return aval_rules[cls]

    def __setitem__(self, cls: type, rule: Rule) -> None:
        register_aval(cls, rule)

    def __delitem__(self, cls: type) -> None:
        del aval_rules[cls]

    def __iter__(self) -> Iterator[type]:
        return iter(list(aval_rules))

    def __len__(self) -> int:
        return len(aval_rules)


class CanonicalValues(MutableMapping[type, Rule]):
    """By class, what makes a value one that programs take. xpr takes what `__array__` gives.

    Only that rule, which is that of NumPy's arrays, can be given to a class.
    """

    def __getitem__(self, cls: type) -> Rule:
        if cls not in aval_rules:
            raise KeyError(cls)
        return np.asarray

    def __setitem__(self, cls: type, rule: Rule) -> None:
        if rule is not np.asarray or not hasattr(cls, "__array__"):
            raise NotImplementedError(
                f"values of {cls.__name__} would be made arrays by {rule!r}: xpr knows only the "
                "rule of NumPy's arrays, for classes that have __array__"
            )

    def __delitem__(self, cls: type) -> None:
        self[cls]  # KeyError if there is none

    def __iter__(self) -> Iterator[type]:
        return iter(list(aval_rules))

    def __len__(self) -> int:
        return len(aval_rules)


pytype_aval_mappings = AvalRules()
canonicalize_dtype_handlers = CanonicalValues()
