"""What the reference says of public names that have no docstring of xpr's.

These are classes of NumPy's, which xpr passes on so that they can be compared with NumPy's own, and
aliases of types, which have no docstring at all.
"""

from __future__ import annotations


def _abstract(members: str, dtype: str, other: str) -> str:
    return f"""NumPy's class of {members}, for `issubdtype`; it has no values of its own.

    >>> import xpr.numpy as jnp
    >>> jnp.issubdtype("{dtype}", jnp.NAME), jnp.issubdtype("{other}", jnp.NAME)
    (True, False)
    """


_ABSTRACT = {
    "number": _abstract("all numbers", "complex64", "bool"),
    "integer": _abstract("integers, signed and unsigned", "uint8", "float32"),
    "signedinteger": _abstract("signed integers", "int8", "uint8"),
    "unsignedinteger": _abstract("unsigned integers", "uint8", "int8"),
    "inexact": _abstract("floating and complex numbers", "bfloat16", "int32"),
    "floating": _abstract("floating numbers, also of 8 bits", "bfloat16", "complex64"),
    "complexfloating": _abstract("complex numbers", "complex64", "float32"),
    "flexible": _abstract("strings and raw bytes, which no xpr array has", "S4", "int32"),
    "character": _abstract("strings, which no xpr array has", "U4", "int32"),
}

DESCRIBED = {
    **{f"xpr.numpy.{name}": text.replace("NAME", name) for name, text in _ABSTRACT.items()},
    "xpr.numpy.generic": """NumPy's class of all scalars, for `issubdtype` and `isinstance`.

    >>> import numpy as np
    >>> import xpr.numpy as jnp
    >>> jnp.issubdtype("bool", jnp.generic), isinstance(np.float32(1), jnp.generic)
    (True, True)
    """,
    "xpr.stages.CompilerOptions": """The type of the options of `Lowered.compile`: a dictionary.

    >>> import xpr
    >>> options: xpr.stages.CompilerOptions = {}
    >>> float(xpr.jit(lambda x: x + 1).lower(1.0).compile(options)(1.0))
    2.0
    """,
    "xpr.numpy.object_": """NumPy's class of Python objects, which no xpr array has.

    >>> import numpy as np
    >>> import xpr.numpy as jnp
    >>> np.array([None]).dtype == jnp.object_
    True
    """,
    "xpr.numpy.ComplexWarning": """NumPy's warning that a conversion loses the imaginary part.

    >>> import warnings
    >>> import xpr.numpy as jnp
    >>> with warnings.catch_warnings(record=True) as shown:
    ...     warnings.simplefilter("always")
    ...     x = jnp.array([1 + 2j]).astype("float32")
    >>> shown[0].category is jnp.ComplexWarning
    True
    """,
    "xpr.lax.DotDimensionNumbers": """The dimensions that `dot_general` takes:
    `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`.

    >>> import xpr.numpy as jnp
    >>> from xpr import lax
    >>> rows: lax.DotDimensionNumbers = (([1], [1]), ([0], [0]))
    >>> lax.dot_general(jnp.ones((5, 3)), jnp.ones((5, 3)), rows).tolist()
    [3.0, 3.0, 3.0, 3.0, 3.0]
    """,
    "xpr.lax.PrecisionLike": """What stands for the precision of products: None, a
    `lax.Precision` or its name, a pair of these for the two operands, or a `DotAlgorithmPreset`.

    >>> import xpr.numpy as jnp
    >>> from xpr import lax
    >>> highest: lax.PrecisionLike = "highest"
    >>> float(jnp.dot(jnp.ones(3), jnp.ones(3), precision=highest))
    3.0
    """,
    "xpr.tree_util.KeyPath": """The way to a leaf: a tuple of keys, as `keystr` shows it.

    >>> from xpr import tree_util
    >>> leaves, _ = tree_util.tree_flatten_with_path({"a": [1, 2]})
    >>> path: tree_util.KeyPath = leaves[1][0]
    >>> tree_util.keystr(path)
    "['a'][1]"
    """,
    "xpr.typing.DTypeLike": """What stands for a dtype: a dtype, its name, a scalar type of
    NumPy's or of `xpr.numpy`, or a Python number type.

    >>> import xpr.numpy as jnp
    >>> from xpr.typing import DTypeLike
    >>> def ones(dtype: DTypeLike):
    ...     return jnp.ones(2, dtype)
    >>> [ones(d).dtype.name for d in ("int8", jnp.float32, float)]
    ['int8', 'float32', 'float32']
    """,
}
