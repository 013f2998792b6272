"""Reads and updates at indices that may be out of bounds, and how values and derivatives are noted.

Nothing here imports the library: it is given, so that JAX's results can be noted as well. As a
program, where JAX 0.10.2 is installed, it makes `out_of_bounds.json`:
`python tests/lax/out_of_bounds_cases.py` from the top of the repository.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

INDICES = np.array([0, 7, -1, -9, 2, 5, 4], np.int32)
COUNT = len(INDICES)
OPERAND = np.arange(1.0, 6.0, dtype=np.float32)

Function = Callable[[Any, Any], Any]


def cases(top: Any) -> dict[str, Function]:
    """Functions of an array of 5 elements and of the indices."""
    jnp, lax = top.numpy, top.lax
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))

    def gather(mode: str | None, **options: Any) -> Function:
        return lambda x, i: lax.gather(x, i[:, None], numbers, (1,), mode=mode, **options)

    def each(read: Callable[[Any, Any], Any]) -> Function:
        """One read for each index, by a scalar."""
        return lambda x, i: jnp.stack([read(x, i[k]) for k in range(COUNT)])

    def new(x: Any) -> Any:
        return jnp.arange(float(COUNT)) * x[:1]

    zero = {"mode": "fill", "fill_value": 0.0}
    return {
        "x[i]": lambda x, i: x[i],
        "x[scalar]": each(lambda x, k: x[k]),
        "get": lambda x, i: x.at[i].get(),
        "get clip": lambda x, i: x.at[i].get(mode="clip"),
        "get fill": lambda x, i: x.at[i].get(**zero),
        "get promise": lambda x, i: x.at[i].get(mode="promise_in_bounds"),
        "get without wrapping": lambda x, i: x.at[i].get(wrap_negative_indices=False),
        "get scalar": each(lambda x, k: x.at[k].get()),
        "get scalar clip": each(lambda x, k: x.at[k].get(mode="clip")),
        "get scalar fill": each(lambda x, k: x.at[k].get(**zero)),
        "get scalar promise": each(lambda x, k: x.at[k].get(mode="promise_in_bounds")),
        "take": lambda x, i: jnp.nan_to_num(jnp.take(x, i)),
        "take clip": lambda x, i: jnp.take(x, i, mode="clip"),
        "take wrap": lambda x, i: jnp.take(x, i, mode="wrap"),
        "take fill": lambda x, i: jnp.take(x, i, **zero),
        "take of an axis": lambda x, i: jnp.nan_to_num(jnp.take(jnp.stack([x, x]), i, axis=1)),
        "take of an axis clip": lambda x, i: jnp.take(jnp.stack([x, x]), i, axis=1, mode="clip"),
        "along": lambda x, i: jnp.nan_to_num(jnp.take_along_axis(x, i, 0)),
        "along clip": lambda x, i: jnp.take_along_axis(x, i, 0, mode="clip"),
        "along fill": lambda x, i: jnp.take_along_axis(x, i, 0, **zero),
        "along promise": lambda x, i: jnp.take_along_axis(x, i, 0, mode="promise_in_bounds"),
        "gather": gather(None),
        "gather clip": gather("clip"),
        "gather fill": gather(**zero),
        "gather promise": gather("promise_in_bounds"),
        "dynamic_slice": each(lambda x, k: lax.dynamic_slice(x, (k,), (2,))),
        "dynamic_index": each(lambda x, k: lax.dynamic_index_in_dim(x, k, keepdims=False)),
        "dynamic_slice without negative ones": each(
            lambda x, k: lax.dynamic_slice(x, (k,), (2,), allow_negative_indices=False)
        ),
        "row and column": lambda x, i: jnp.stack([x, x * 2])[i, i],
        "columns": lambda x, i: jnp.stack([x, x * 2])[:, i],
        "rows": lambda x, i: jnp.stack([x, x * 2])[i],
        "one row": lambda x, i: jnp.stack([x, x * 2])[1, i],
        "new axis": lambda x, i: jnp.stack([x, x])[:, None, i],
        "index_take": lambda x, i: lax.index_take(x, (i,), (0,)),
        "vmap": lambda x, i: top.vmap(lambda k: x[k])(i),
        "vmap fill": lambda x, i: top.vmap(lambda k: x.at[k].get(**zero))(i),
        "scan": lambda x, i: lax.scan(lambda c, k: (c, x[k]), 0.0, i)[1],
        "set": lambda x, i: x.at[i].set(new(x)),
        "add": lambda x, i: x.at[i].add(new(x)),
        "add clip": lambda x, i: x.at[i].add(new(x), mode="clip"),
        "min": lambda x, i: x.at[i].min(new(x)),
        "dynamic_update_slice": lambda x, i: lax.dynamic_update_slice(x, x[:2] * 3, (i[1],)),
        "one beyond": lambda x, i: x[jnp.asarray(7)],
        "one before": lambda x, i: x[jnp.asarray(-9)],
        "known": lambda x, i: x[np.array([7, -9, 1])],
    }


def noted(top: Any, function: Function) -> list[Any]:
    """Value, gradient of a weighted sum and tangent, of traced indices and of known ones."""
    jnp = top.numpy
    x, i = jnp.asarray(OPERAND), jnp.asarray(INDICES)

    def weighted(x: Any, i: Any) -> Any:
        out = function(x, i)
        return (out * jnp.arange(1.0, out.size + 1.0).reshape(out.shape)).sum()

    def tangent(x: Any, i: Any) -> Any:
        return top.jvp(lambda x: function(x, i), (x,), (jnp.ones_like(x),))[1]

    kinds = (function, top.grad(weighted), tangent)
    found = [f(x, i) for f in (*map(top.jit, kinds), *kinds)]
    return [np.asarray(a, float).ravel().tolist() for a in found]


def main() -> None:
    """Notes JAX's results."""
    top: Any = importlib.import_module("jax")
    importlib.import_module("jax.numpy")
    rows = {name: noted(top, function) for name, function in cases(top).items()}
    lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    path = Path(__file__).with_name("out_of_bounds.json")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    sys.exit(main())
