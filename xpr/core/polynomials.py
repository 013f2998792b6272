"""Polynomials with integer coefficients in named sizes: what the extents of symbolic shapes are.

Terms map monomials to coefficients; a monomial is the sorted tuple of its names, each as often as
its power says: ``{("a", "b", "b"): 2, (): 1}`` is ``2*a*b^2 + 1``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

Monomial = tuple[str, ...]


def evaluate(terms: Mapping[Monomial, int], sizes: Mapping[str, int]) -> int:
    """The value of a polynomial.

    >>> evaluate({("a", "b"): 2, (): 1}, {"a": 3, "b": 4})
    25
    """
    return sum(c * math.prod(sizes[name] for name in m) for m, c in terms.items())
