"""Programs on several devices: calls, collectives, training steps, and the time of partitioning.

Each case runs in a process of its own for each library, which has as many CPU devices and cores as
the case says.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.cases import ActionCase, Call, Case
from benchmarks.implementations import Implementation
from benchmarks.sharded_programs import Devices, mlp_arrays, mlp_loss, on_mesh

_EIGHT = 8
_MEGABYTE = 1 << 18  # float32


def _line(im: Implementation, count: int) -> Devices:
    return on_mesh(im.root, im.np, im.lax, {"d": count})


def _per_device(quick: bool, elements: int) -> numpy.ndarray:
    return numpy.ones((_EIGHT, min(elements, 1024) if quick else elements), numpy.float32)


def _elementwise(im: Implementation, quick: bool) -> Call:
    d = _line(im, _EIGHT)
    x = d.put(_per_device(quick, 256), "d")
    return functools.partial(im.jit(lambda x: x * 2 + 1), x)


def _tree(im: Implementation, quick: bool) -> Call:
    d = _line(im, _EIGHT)
    tree = {str(i): d.put(_per_device(quick, 256), "d") for i in range(20)}
    return functools.partial(im.jit(lambda t: {k: x * 2 + 1 for k, x in t.items()}), tree)


def _eager(im: Implementation, quick: bool) -> Call:
    x = _line(im, _EIGHT).put(_per_device(quick, 256), "d")
    return lambda: x + x


def _spread(im: Implementation, quick: bool) -> Call:
    d = _line(im, _EIGHT)
    x = _per_device(quick, _MEGABYTE)
    return lambda: d.put(x, "d")


def _collective(
    im: Implementation,
    quick: bool,
    do: Callable[[Any, Any], Any],
    elements: int,
    *,
    whole: bool,
) -> Call:
    d = _line(im, _EIGHT)
    spec = im.root.sharding.PartitionSpec
    mapped = im.root.shard_map(
        functools.partial(do, im.lax),
        mesh=d.mesh,
        in_specs=spec("d"),
        out_specs=spec() if whole else spec("d"),
        check_vma=False,
    )
    return functools.partial(im.jit(mapped), d.put(_per_device(quick, elements), "d"))


def _psum(lax: Any, x: Any) -> Any:
    return lax.psum(x, "d")


def _all_gather(lax: Any, x: Any) -> Any:
    return lax.all_gather(x, "d", axis=0, tiled=True)


def _all_to_all(lax: Any, x: Any) -> Any:
    return lax.all_to_all(x, "d", 1, 0, tiled=True)


def _training(im: Implementation, quick: bool, count: int) -> Call:
    """A step of gradient descent of a network of three layers, the batch shared out."""
    d = _line(im, count)
    params, x, labels = mlp_arrays(64, 64) if quick else mlp_arrays(512, 512)
    params = d.put_all(params, {})
    loss = mlp_loss(d)

    def step(params: Any, x: Any, labels: Any) -> Any:
        value, gradient = im.root.value_and_grad(loss)(params, x, labels)
        return {name: p - 0.1 * gradient[name] for name, p in params.items()}, value

    return functools.partial(im.jit(step), params, d.put(x, "d"), d.put(labels, "d"))


def unrolled(np: Any, equations: int) -> Callable[..., Any]:
    """A function of so many equations: products, elementwise operations and reductions."""

    def run(x: Any, w: Any, b: Any) -> Any:
        # Ten and a few more: means and biases are made as wide as what they meet.
        for _ in range(equations // 13):
            h = np.tanh(x @ w) + b
            h = h * 0.5
            x = x + h - np.sum(h, axis=1, keepdims=True) * 0.1
            b = b + np.sum(x, axis=0) * 0.01
        return x, b

    return run


def _partition(im: Implementation, quick: bool, equations: int) -> Call:
    """Partitioning alone: tracing before and lowering after it are not timed."""
    # By name, for the interpreter that has JAX may lack xpr.
    engine = importlib.import_module("xpr.sharding.partition")
    importlib.import_module("xpr.sharding.rules").load_all()
    x, w, b = (numpy.ones(s, numpy.float32) for s in ((64, 32), (32, 32), (32,)))
    program = unrolled(im.np, equations // 10 if quick else equations)
    closed = im.root.make_jaxpr(program)(x, w, b)
    rows, columns = (("d",), ()), ((), ("m",))
    inputs = [rows, columns, ((),)]
    return lambda: engine.partition(closed, {"d": 4, "m": 2}, [], inputs, [None, None])


def _case(name: str, action: Callable[..., Call], devices: int = _EIGHT, **fields: Any) -> Case:
    fields.setdefault("modes", ("xpr jit", "jax jit"))
    return ActionCase(name=name, group="sharding", action=action, devices=devices, **fields)


DEVICES: tuple[Case, ...] = (
    _case("jit(x * 2 + 1), 8 shards of 1 kB", _elementwise),
    _case("jit, a dictionary of 20 arrays of 8 shards of 1 kB", _tree),
    _case("x + x outside jit, 8 shards of 1 kB", _eager, modes=("xpr eager", "jax eager")),
    _case("device_put of 8 MB to 8 devices", _spread),
    *(
        _case(
            f"{name} of {size}, 8 devices",
            functools.partial(_collective, do=do, elements=elements, whole=whole),
        )
        for (name, do, whole), (size, elements) in itertools.product(
            (
                ("psum", _psum, True),
                ("all_gather", _all_gather, True),
                ("all_to_all", _all_to_all, False),
            ),
            (("64 B", 16), ("1 MB", _MEGABYTE)),
        )
    ),
    _case("training step, 1 device on 1 core", functools.partial(_training, count=1), 1, cores=1),
    _case("training step, 2 devices", functools.partial(_training, count=2), 2),
    *(
        _case(
            f"partition {n} equations",
            functools.partial(_partition, equations=n),
            modes=("xpr jit",),
        )
        for n in (250, 500, 1000, 2000)
    ),
)
