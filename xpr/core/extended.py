"""Extended dtypes: dtypes of arrays that hold no numbers, such as keys of random numbers.

Each element of such an array stands for a small array of numbers, its *physical element*. Programs
are traced, differentiated and vectorised with the extended dtype; before they are lowered a pass
over the jaxpr replaces it (`xpr/interpreters/physical.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np


class extended(np.generic):
    """The category of dtypes whose arrays hold no numbers.

    >>> import xpr
    >>> from xpr import dtypes
    >>> dtypes.issubdtype(xpr.random.key(0).dtype, dtypes.extended)
    True
    """


class prng_key(extended):
    """The category of dtypes of arrays of random keys.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import dtypes
    >>> dtypes.issubdtype(xpr.random.key(0).dtype, dtypes.prng_key)
    True
    >>> dtypes.issubdtype(jnp.float32, dtypes.prng_key)
    False
    """


class ExtendedDType:
    """The base class of extended dtypes.

    `type` is the category, `name` what is printed. What the dtype means is said by the static
    methods of the class `_rules`: `physical_element_aval(dtype)` gives the type of an element's
    numbers; `tangent_dtype(dtype)`, `convert_from(dtype, other)` and `convert_to(other, dtype)`
    are left out by dtypes without derivatives and conversions. A subclass can be hashed.
    """

    type: Any = extended
    _rules: Any = None

    @property
    def name(self) -> str:
        raise NotImplementedError(f"{type(self).__name__} must have a name")

    @property
    def itemsize(self) -> int:
        element = self._rules.physical_element_aval(self)
        return element.size * element.dtype.itemsize

    @property
    def kind(self) -> str:
        return "V"

    def __str__(self) -> str:
        return self.name


def is_extended(dtype: Any) -> bool:
    """Whether `dtype` is an extended dtype, or a category of such."""
    if isinstance(dtype, ExtendedDType):
        return True
    return isinstance(dtype, type) and issubclass(dtype, extended)
