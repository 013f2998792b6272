"""A long run of one process: `python -m tests.reliability.soak SECONDS [OUTPUT]`.

It trains, changes shapes, raises in traced functions, closes over large arrays and calls back for
so many seconds, and prints some lines of JSON meanwhile: resident memory, open files and threads.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import xpr
import xpr.numpy as jnp


def resident_bytes() -> int:
    """The memory of this process that is in the machine's."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def figures() -> dict[str, float]:
    """Resident megabytes, open files, threads, and the objects that Python's collector knows."""
    gc.collect()
    return {
        "megabytes": round(resident_bytes() / 1e6, 1),
        "files": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "python_threads": threading.active_count(),
        "objects": len(gc.get_objects()),
    }


def _loss(params: Any, x: Any, y: Any) -> Any:
    h = jnp.tanh(x @ params["a"])
    return jnp.mean((h @ params["b"] - y) ** 2)


@xpr.jit
def _step(params: Any, x: Any, y: Any) -> Any:
    loss, grads = xpr.value_and_grad(_loss)(params, x, y)
    return xpr.tree.map(lambda p, g: p - 0.01 * g, params, grads), loss


def train(rng: np.random.Generator, params: Any) -> Any:
    """A few steps on batches of one of a few sizes; the last loss is read."""
    n = int(rng.choice([16, 32, 64]))
    loss: Any = 0.0
    for _ in range(20):
        x = rng.normal(size=(n, 64)).astype(np.float32)
        params, loss = _step(params, x, x[:, :8] * 2)
    assert np.isfinite(float(loss))
    return params


def changing_shapes(rng: np.random.Generator, params: Any) -> Any:
    """A function that lives on and meets a new shape each time, of a few hundred."""
    n = int(rng.integers(1, 200))
    found = _growing(jnp.arange(float(n)))
    assert found.shape == (n,)
    return params


_growing = xpr.jit(lambda x: jnp.cumsum(x) * 2 + x.sum())


def raising(rng: np.random.Generator, params: Any) -> Any:
    """Exceptions in traced functions, at each depth of transformations, that somebody keeps."""
    big = jnp.ones((512, 512)) * float(rng.random())

    def fails(x: Any) -> Any:
        held = x @ big
        raise KeyError(f"{held.shape}")

    for wrapped in (xpr.jit(fails), xpr.grad(fails), xpr.vmap(fails), xpr.jit(xpr.jacfwd(fails))):
        try:
            wrapped(jnp.ones((4, 512)))
        except KeyError as error:
            assert "(4, 512)" in str(error) or "(512,)" in str(error)  # noqa: PT017  a loop of it
        else:
            raise AssertionError("a function that fails did not")
    try:
        xpr.jit(lambda x: x @ jnp.ones((3, 3)))(jnp.ones((2, 5)))
    except TypeError:
        pass
    return params


def closing_over(rng: np.random.Generator, params: Any) -> Any:
    """A new function over a new array of 4 MB each time."""
    big = jnp.asarray(rng.normal(size=(1024, 1024)).astype(np.float32))
    f = xpr.jit(lambda x: (big[0] * x).sum())
    assert np.isfinite(float(f(jnp.ones(1024))))
    return params


def donating(rng: np.random.Generator, params: Any) -> Any:
    """A large carried array that is donated in each call."""
    x = jnp.zeros((1024, 1024))
    for _ in range(5):
        x = _donated(x, float(rng.random()))
    assert x.shape == (1024, 1024)
    return params


_donated = xpr.jit(lambda x, y: x + y, donate_argnums=0)


def eager(rng: np.random.Generator, params: Any) -> Any:
    """Operations outside of jit, on shapes of all sorts, with gradients and batches."""
    n = 50 * int(rng.integers(1, 60))
    x = jnp.asarray(rng.normal(size=n).astype(np.float32))
    total = xpr.vmap(lambda v: jnp.sin(v) * v)(x).sum() + xpr.grad(lambda v: (v**2).sum())(x)[0]
    assert np.isfinite(float(jnp.sort(x)[0] + total))
    return params


def callbacks(rng: np.random.Generator, params: Any) -> Any:
    """Functions of Python called from compiled programs."""
    shape = xpr.ShapeDtypeStruct((8,), np.float32)
    f = xpr.jit(lambda x: xpr.pure_callback(np.sin, shape, x).sum())
    assert np.isfinite(float(f(jnp.full(8, float(rng.random())))))
    return params


TASKS: tuple[Callable[[np.random.Generator, Any], Any], ...] = (
    *(train, changing_shapes, raising, closing_over, donating, eager, callbacks),
)


def soak(seconds: float, tell: Callable[[dict[str, float]], None], samples: int = 10) -> None:
    """Runs the tasks in turn for so long, and tells the figures `samples` times."""
    rng = np.random.default_rng(0)
    params: Any = {"a": jnp.ones((64, 32)) / 64, "b": jnp.ones((32, 8)) / 32}
    start, rounds, told = time.monotonic(), 0, 0
    while True:
        for task in TASKS:
            params = task(rng, params)
        rounds += 1
        passed = time.monotonic() - start
        if passed >= seconds * (told + 1) / samples:
            told += 1
            tell({"seconds": round(passed, 1), "rounds": rounds, **figures()})
        if passed >= seconds:
            return


if __name__ == "__main__":
    file = open(sys.argv[2], "w", encoding="utf-8") if len(sys.argv) > 2 else sys.stdout
    soak(
        float(sys.argv[1]),
        lambda line: print(json.dumps(line), file=file, flush=True),
        int(sys.argv[3]) if len(sys.argv) > 3 else 10,
    )
