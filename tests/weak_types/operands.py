"""The operands by kind, the names that expressions may use, and what is noted of their results.

Nothing here imports the library: it is given, so that JAX's results can be noted as well.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.weak_types import lax_calls, library_calls, more_calls, numpy_calls, pair_calls

SHORT = {
    "bool": "b",
    "int8": "i1",
    "int32": "i4",
    "int64": "i4",
    "uint8": "u1",
    "uint32": "u4",
    "bfloat16": "bf",
    "float16": "f2",
    "float32": "f4",
    "float64": "f4",
    "complex64": "c8",
    "complex128": "c8",
}
_NUMBERS = {bool: "b", int: "i4*", float: "f4*", complex: "c8*"}
# With 64-bit types, which without them no array has.
WIDE = {"int64": "i8", "uint64": "u8", "float64": "f8", "complex128": "c16"}
_WIDE_NUMBERS = {bool: "b", int: "i8*", float: "f8*", complex: "c16*"}

# The kinds of operands that the calls are made with; all of them, and fewer for slow calls.
KINDS = "bool int float complex np.float32 np.float64 np.int32 scalar wi wf wc b u1 i1 i4 bf f4 c8"
FEWER = "int float scalar wf b i4 bf f4"
PAIRED = "int float complex wi wf b i4 bf f4"
FEWER_PAIRED = "int float wf i4 bf"

Case = tuple[str, list[tuple[str, ...]]]


def groups() -> dict[str, list[Case]]:
    """The expressions by group, each with the kinds of operands that it is evaluated with."""

    def cases(expressions: list[str], kinds: str, arity: int) -> list[Case]:
        places = list(itertools.product(kinds.split(), repeat=arity))
        return [(e, places) for e in expressions]

    half = len(numpy_calls.UNARY) // 2
    third = len(pair_calls.BINARY) // 3
    found = {
        "numpy": cases(numpy_calls.UNARY[:half], KINDS, 1),
        "numpy, special calls": cases(numpy_calls.UNARY[half:], KINDS, 1),
        "methods": cases(lax_calls.METHODS, KINDS, 1),
        "lax": cases(lax_calls.LAX_UNARY, KINDS, 1),
        "nn": cases(lax_calls.NN, KINDS, 1),
        "control flow": cases(lax_calls.CONTROL, KINDS, 1),
        "scipy": cases(library_calls.SCIPY, FEWER, 1),
        "random": cases(library_calls.RANDOM, FEWER, 1),
        "operators": cases(pair_calls.BINARY[:third], PAIRED, 2),
        "two arrays": cases(pair_calls.BINARY[third : 2 * third], PAIRED, 2),
        "two operands": cases(pair_calls.BINARY[2 * third :], PAIRED, 2),
        "scipy, two operands": cases(pair_calls.LIBRARY_PAIRS, FEWER_PAIRED, 2),
        "creation": cases(pair_calls.CREATION, "", 0),
    }
    known = {e for group in found.values() for e, _ in group}
    more = list(dict.fromkeys(e for e in more_calls.MORE if e not in known))
    return found | {"more": cases(more, FEWER, 1)}


# With 64-bit types: fewer kinds, among them arrays of these types.
WIDE_KINDS = "int float complex np.float64 wi wf b i4 i8 u4 bf f4 f8 c16"
WIDE_FEWER = "int float wf i4 i8 f4 f8"
WIDE_PAIRS = (
    "int,i4 int,i8 float,i4 float,i8 float,f4 float,f8 wi,f4 wf,i8 b,i8 i4,i8 i4,f4 i8,f4 i8,f8 "
    "u4,i4 f4,f8 bf,i8 i8,i8 f8,f8 i4,i4 f4,f4 f8,wf int,int int,float"
)


def wide_groups() -> dict[str, list[Case]]:
    """As `groups`, for 64-bit types."""
    pairs = [tuple(p.split(",")) for p in WIDE_PAIRS.split()]
    chosen = {1: [(k,) for k in WIDE_KINDS.split()], 2: pairs}
    fewer = {1: [(k,) for k in WIDE_FEWER.split()], 2: pairs[:6]}
    slow = ("scipy", "random", "scipy, two operands", "more")
    return {
        group: [
            (e, (fewer if group in slow else chosen)[len(p[0])] if p[0] else p) for e, p in cases
        ]
        for group, cases in groups().items()
    }


def names(top: Any) -> dict[str, Any]:
    """What the expressions use, of the library whose package is `top`."""

    def module(name: str) -> Any:
        return importlib.import_module(f"{top.__name__}.{name}")

    for file in "linalg fft integrate signal ndimage cluster.vq stats".split():
        module(f"scipy.{file}")
    jnp, lax = module("numpy"), module("lax")
    eye = np.eye(3, dtype=bool)
    return {
        "top": top,
        "jnp": jnp,
        "lax": lax,
        "nn": module("nn"),
        "random": module("random"),
        "scipy": module("scipy"),
        "special": module("scipy.special"),
        "C": lambda x: jnp.broadcast_to(x, (3,)),
        "M": lambda x: jnp.broadcast_to(x, (3, 3)),
        "S": lambda x: jnp.broadcast_to(x, (3, 3)) * eye,
        "T": lambda x: jnp.broadcast_to(x, (1, 3, 1, 3)),
        "SCATTER": lax.ScatterDimensionNumbers((), (0,), (0,)),
        "k": module("random").key(0),
        "m": jnp.asarray(np.asarray([[3, 1, 1], [1, 3, 1], [1, 1, 3]], "f4")),
        "z": jnp.zeros((3, 3)),
        "b": jnp.asarray([True, False, True]),
        "n": jnp.asarray([0, 1, 2], jnp.int32),
        "v": jnp.asarray([0.25, 0.5, 0.75], jnp.float32),
    }


def operands(jnp: Any) -> dict[str, Any]:
    """The operands: Python's numbers, NumPy's, weakly typed arrays and arrays of several dtypes."""
    weak = {"wi": 1, "wf": 0.5, "wc": 0.5 + 0.5j}
    strong = "bool uint8 int8 int32 uint32 bfloat16 float32 complex64".split()
    wide = {k: jnp.ones(3, d) for d, k in WIDE.items()}
    return {
        "bool": True,
        "int": 1,
        "float": 0.5,
        "complex": 0.5 + 0.5j,
        "np.float32": np.float32(0.5),
        "np.float64": np.float64(0.5),
        "np.int32": np.arange(3, dtype=np.int32),
        "scalar": jnp.asarray(0.5),
        **{k: jnp.broadcast_to(jnp.asarray(v), (3,)) for k, v in weak.items()},
        **{SHORT[d]: jnp.ones(3, d) for d in strong},
        **{k: x for k, x in wide.items() if x.dtype.itemsize > 4 * (1 + (k == "c16"))},
    }


def _codes(leaf: Any, wide: bool) -> Iterator[str]:
    short, numbers = (SHORT | WIDE, _WIDE_NUMBERS) if wide else (SHORT, _NUMBERS)
    if type(leaf) in numbers:
        # JAX gives some operands back as they came.
        yield numbers[type(leaf)]
    elif isinstance(leaf, np.dtype):
        yield "dtype:" + short.get(leaf.name, leaf.name)
    elif hasattr(leaf, "dtype") and not isinstance(leaf, type):
        name = leaf.dtype.name
        yield short.get(name, name) + "*" * bool(getattr(leaf, "weak_type", False))


def code(top: Any, result: Any) -> str:
    """The dtypes of the leaves of `result`, with a star where they are weak."""
    leaves, wide = top.tree_util.tree_leaves(result), bool(top.config.jax_enable_x64)
    return "+".join(c for leaf in leaves for c in _codes(leaf, wide))


def outcomes(top: Any, case: Case, scope: dict[str, Any], values: dict[str, Any]) -> list[str]:
    """The codes of the results of an expression for all its kinds of operands.

    They are those of `values`. A call that raises has "!", with the name of a built-in exception.
    """
    expression, places = case
    compiled = compile(expression, expression, "eval")
    found = []
    for kinds in places:
        chosen = {x: values[kind] for x, kind in zip("xy", kinds, strict=False)}
        try:
            found.append(code(top, eval(compiled, scope | chosen)))
        except Exception as error:
            kind = next(c for c in type(error).__mro__ if c.__module__ == "builtins")
            found.append(f"!{kind.__name__}")
    return found


def traced(top: Any, cases: list[Case]) -> list[list[str]]:
    """The outcomes of the cases when their arrays are traced; nothing is computed."""
    scope = names(top)
    values = operands(scope["jnp"])
    arrays = {kind: x for kind, x in values.items() if isinstance(x, top.Array)}
    found: list[list[str]] = []

    def program(tracers: dict[str, Any]) -> int:
        found.extend(outcomes(top, case, scope, values | tracers) for case in cases)
        return 0

    top.eval_shape(program, arrays)
    return found


def at_once(top: Any, cases: list[Case]) -> list[list[str]]:
    """The outcomes of the cases with arrays whose values are known."""
    scope = names(top)
    values = operands(scope["jnp"])
    return [outcomes(top, case, scope, values) for case in cases]
