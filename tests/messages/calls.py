"""Calls with wrong arguments of every public function: the same for xpr and for JAX.

Every function is called under `eval_shape`, with NumPy's arrays: so nothing is compiled, and what
is raised is what the function says when it is traced.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

KEYWORDS: dict[str, list[Any]] = {
    "UPLO": ["x"], "argnums": ["a", 9], "axes": [9, "a"], "axis": [9, "a", 1.5], "bins": ["a"],
    "ddof": ["a"], "device": ["nonsense"], "dimension": [9], "dimensions": [(9,)],
    "donate_argnums": ["a", 9], "dtype": ["nonsense"], "fill_value": ["a"], "impl": ["nonsense"],
    "in_axes": ["a", 9], "indexing": ["nonsense"], "initial": ["a"], "k": ["a", 1.5],
    "kind": ["nonsense"], "length": [-1], "method": ["nonsense"], "mode": ["nonsense"], "n": [-1],
    "new_sizes": [(7,)], "norm": ["nonsense"], "nperseg": [-1], "num": [-1],
    "num_classes": ["a"], "offset": ["a"], "ord": ["nonsense"], "order": ["nonsense"], "out": [1],
    "padding": ["nonsense"], "permutation": [(5, 6)], "precision": ["nonsense"],
    "rcond": ["a"], "repeats": [-1], "s": [-1], "shape": [-1, "a", 1.5], "sharding": ["a"],
    "side": ["nonsense"], "size": [-1], "static_argnums": ["a", 9], "strides": [(0,)],
    "trans": [9], "type": [9], "unroll": ["a", -1], "weights": ["a"], "where": ["a", 1.0],
    "window": ["nonsense"],
}  # fmt: skip
"""Arguments by name, with values that no function, or hardly any, takes."""

LEFT_OUT = re.compile(
    r"numpy\.(load|save|savez|fromfile|from_dlpack|set_printoptions|printoptions|get_printoptions)$"
    r"|(clear_caches|print_environment_info|live_arrays|effects_barrier|set_mesh|no_tracing|ds|P)$"
    r"|(check_tracer_leaks|checking_leaks|debug\.breakpoint|make_mesh|remat)$|lax\.(psend|precv)$"
    r"|tree_util\.register|(distributed|profiler|ffi|dlpack|test_util|errors|export|config)\."
    r"|(debug_|enable_|default_|disable_jit|log_comp|transfer_|numpy_|threefry|array_garb|ensure)"
    r"|(sharding\.|process|local_dev|device_count|devices|dtypes\.prng)"
)
"""Functions that change what a process does, write files, or take no arguments."""

TYPES = ("custom_jvp", "custom_vjp", "ShapeDtypeStruct", "tree_util.Partial")
"""The classes that are called, too; others are not."""

WITHOUT_KEY = ("random.PRNGKey", "random.key", "random.wrap_key_data")


class Thing:
    """A value that is nothing to any function."""

    def __repr__(self) -> str:
        return "<thing>"


def ones(*shape: int, dtype: str = "float32") -> Any:
    return np.ones(shape, dtype)


_SHAPES = [(2, 3), (4,), (5, 5), (6,), (7,)]
_DTYPES = ["float32", "int32", "complex64", "bool"]


def arguments(name: str, count: int, key: Any) -> Iterator[tuple[str, list[Any]]]:
    """Names of wrong arguments, and these: `count` of them, after a key for `random`."""
    keyed = name.startswith("random.") and name not in WITHOUT_KEY

    def fill(make: Callable[[int], Any]) -> list[Any]:
        found = [make(i) for i in range(count)]
        if keyed and count:
            found[0] = key
        return found

    thing = Thing()
    yield "none", fill(lambda i: None)
    yield "str", fill(lambda i: "a")
    yield "object", fill(lambda i: thing)
    yield "list", fill(lambda i: [1.0, 2.0])
    yield "scalar", fill(lambda i: 1.0)
    yield "bool", fill(lambda i: ones(2, 3, dtype="bool"))
    yield "int", fill(lambda i: ones(2, 3, dtype="int32"))
    yield "float", fill(lambda i: ones(2, 3))
    yield "complex", fill(lambda i: ones(2, 3, dtype="complex64"))
    yield "square", fill(lambda i: np.eye(3, dtype="float32") + 0.5)
    yield "vector", fill(lambda i: ones(3))
    yield "cube", fill(lambda i: ones(2, 3, 3))
    yield "shapes", fill(lambda i: ones(*_SHAPES[i % 5]))
    yield "dtypes", fill(lambda i: ones(2, 3, dtype=_DTYPES[i % 4]))
    yield "key", fill(lambda i: key)
    yield "extra", fill(lambda i: ones(2, 3)) + [ones(2, 3)] * 12
    if count:
        yield "few", fill(lambda i: ones(2, 3))[:-1]


def parameters(name: str, function: Any) -> tuple[int, dict[str, int]]:
    """How many arguments a function needs, and the names of `KEYWORDS` that it takes.

    Each of these with the number of arguments before it that a call needs.
    """
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return getattr(function, "nin", 1), {}
    found = found[1:] if name.startswith("Array.") else found
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p.name for p in found if p.kind in positional and p.default is p.empty]
    count = len(needed)
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in found):
        count = max(count, 2)
    count = getattr(function, "nin", count)
    named: dict[str, int] = {}
    for p in found:
        if p.name not in KEYWORDS or p.kind is inspect.Parameter.POSITIONAL_ONLY:
            continue
        if p.name not in needed:
            named[p.name] = count
        elif p.name == needed[-1]:
            named[p.name] = count - 1
    return count, named


def find(module: Any, name: str) -> Any:
    """The function of that name, such as `numpy.sin`, or of the method, such as `Array.sum`."""
    if name.startswith("Array."):
        if name[6:] not in dir(module.Array):
            raise AttributeError(name)
        return lambda *args, **kwargs: getattr(module.numpy.ones((2, 3)), name[6:])(*args, **kwargs)
    found, parts = module, name.split(".")
    for i, part in enumerate(parts):
        if not hasattr(found, part):
            importlib.import_module(".".join([module.__name__, *parts[: i + 1]]))
        found = getattr(found, part)
    return found


def calls(
    name: str, count: int, named: dict[str, int], key: Any
) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """All calls of a function: a name for each, the arguments and the keyword arguments."""
    for label, args in arguments(name, count, key):
        yield label, args, {}
    good = next(args for label, args in arguments(name, count, key) if label == "float")
    for keyword, before in named.items():
        for value in KEYWORDS[keyword]:
            yield f"{keyword}={value}".replace(" ", ""), good[:before], {keyword: value}


def raised(module: Any, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What a call raises: the names of the exception's classes and the message; None for none."""

    def call() -> int:
        function(*args, **kwargs)
        return 0

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            module.eval_shape(call)
        except Exception as error:  # whatever it is, it is compared
            return [c.__name__ for c in type(error).__mro__], str(error)
    return None


def stem(name: str, message: str) -> str:
    """The first words of a message up to what depends on values, `{}` for the function's name."""
    line = message.strip().split("\n")[0][:90]
    line = re.sub(rf"\b{re.escape(name.split('.')[-1])}\b", "{}", line)
    return re.split(r"[\d\[(<'\"=]|{(?!})", line)[0].rstrip(" :.`,")
