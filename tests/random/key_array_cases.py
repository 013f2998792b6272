"""What arrays of keys do, as functions of JAX's modules or of those of xpr under the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Case = Callable[[Any], Any]


def _keys(m: Any) -> Any:
    return m.random.split(m.random.key(0), 3)


def _table(m: Any) -> Any:
    return m.random.split(m.random.key(1), (2, 3))


def _one(m: Any) -> Any:
    return m.random.key(0)


def _rows(m: Any, impl: str) -> list[Any]:
    """A key of a generator, and what is made from it."""
    key = m.random.key(7, impl=impl)
    return [
        key,
        m.random.key_data(key),
        m.random.key_impl(key),
        m.random.PRNGKey(7, impl=impl),
        m.random.split(key),
        m.random.split(key, (2, 3)),
        m.random.fold_in(key, 5),
        m.random.bits(key, (9,)),
        m.random.bits(key, (5,), "uint8"),
        m.random.bits(key, (5,), "uint16"),
        m.random.uniform(key, (3,)),
        m.random.randint(key, (4,), 0, 100),
    ]


CASES: dict[str, Case] = {
    # moving elements
    "index": lambda m: _table(m)[1, ::2],
    "index by array": lambda m: _keys(m)[m.numpy.array([2, 0])],
    "index by mask": lambda m: _keys(m)[np.array([True, False, True])],
    "new axis": lambda m: _one(m)[None],
    "dynamic_slice": lambda m: m.lax.dynamic_slice(_keys(m), (1,), (2,)),
    "dynamic_index": lambda m: m.lax.dynamic_index_in_dim(_keys(m), 1, keepdims=False),
    "dynamic_update_slice": lambda m: m.lax.dynamic_update_slice(_keys(m), _keys(m)[:1], (2,)),
    "at set": lambda m: _keys(m).at[0].set(_one(m)),
    "at get": lambda m: _keys(m).at[1].get(),
    "reshape": lambda m: _table(m).reshape(3, 2),
    "ravel": lambda m: _table(m).ravel(),
    "transpose": lambda m: _table(m).T,
    "swapaxes": lambda m: _table(m).swapaxes(0, 1),
    "moveaxis": lambda m: m.numpy.moveaxis(_table(m), 0, 1),
    "squeeze": lambda m: _table(m)[:1].squeeze(),
    "expand_dims": lambda m: m.numpy.expand_dims(_table(m), 0),
    "broadcast_to": lambda m: m.numpy.broadcast_to(_one(m), (2, 2)),
    "repeat": lambda m: m.numpy.repeat(_keys(m), 2),
    "tile": lambda m: m.numpy.tile(_keys(m), 2),
    "take": lambda m: m.numpy.take(_keys(m), m.numpy.array([0, 2])),
    "roll": lambda m: m.numpy.roll(_keys(m), 1),
    "flip": lambda m: m.numpy.flip(_keys(m)),
    "stack": lambda m: m.numpy.stack([_one(m), _keys(m)[1]]),
    "concatenate": lambda m: m.numpy.concatenate([_keys(m), _keys(m)[:1]]),
    "array of keys": lambda m: m.numpy.array([_one(m), _keys(m)[2]]),
    "split": lambda m: m.numpy.split(_table(m), 2),
    "where": lambda m: m.numpy.where(m.numpy.array([True, False, True]), _keys(m), _keys(m)[::-1]),
    "select": lambda m: m.lax.select(True, _one(m), _keys(m)[0]),
    "optimization_barrier": lambda m: m.lax.optimization_barrier(_one(m)),
    "iteration": lambda m: list(_keys(m)),
    # comparing
    "equal": lambda m: _keys(m) == _keys(m)[1],
    "not equal": lambda m: _keys(m) != _keys(m)[1],
    "array_equal": lambda m: m.numpy.array_equal(_keys(m), _keys(m)),
    # filled
    "zeros": lambda m: m.numpy.zeros(3, _one(m).dtype),
    "zeros_like": lambda m: m.numpy.zeros_like(_keys(m)),
    "ones_like": lambda m: m.numpy.ones_like(_keys(m)),
    "full": lambda m: m.numpy.full((2,), _keys(m)[0]),
    "full_like": lambda m: m.numpy.full_like(_keys(m), _keys(m)[0]),
    # types
    "typeof": lambda m: str(m.typeof(_keys(m))),
    "dtype": lambda m: (str(_one(m).dtype), repr(_one(m).dtype), _one(m).dtype.itemsize),
    "issubdtype": lambda m: [
        bool(m.numpy.issubdtype(_one(m).dtype, kind))
        for kind in (m.dtypes.prng_key, m.dtypes.extended, np.generic, np.integer)
    ],
    "sizes": lambda m: (_keys(m).nbytes, _keys(m).itemsize, _keys(m).size, _keys(m).ndim),
    "eval_shape": lambda m: repr(m.eval_shape(lambda k: m.random.split(k), _one(m))),
    "result_type": lambda m: str(m.numpy.result_type(_one(m))),
    "isinstance": lambda m: isinstance(_one(m), m.Array),
    "leaves": lambda m: str(m.tree.structure({"a": _one(m)})),
    "repr": lambda m: repr(_table(m)),
    "jaxpr": lambda m: str(
        m.make_jaxpr(lambda k: m.random.key_data(m.random.fold_in(k[0], 3)))(_keys(m))
    ),
    "jaxpr of a seed": lambda m: str(m.make_jaxpr(lambda s: m.random.key(s))(0)),
    "jaxpr of equality": lambda m: str(m.make_jaxpr(lambda k: k == k)(_keys(m))),
    # transformations
    "jit": lambda m: m.jit(lambda k: m.random.split(k)[1])(_one(m)),
    "jit, closed over": lambda m: m.jit(lambda i: m.random.fold_in(_keys(m)[i], i))(2),
    "vmap": lambda m: m.vmap(lambda k: m.random.bits(k, (2,)))(_keys(m)),
    "vmap of axis 1": lambda m: m.vmap(lambda k: m.random.fold_in(k[0], 1), in_axes=1)(_table(m)),
    "vmap from the end": lambda m: m.vmap(lambda k: k, in_axes=-1, out_axes=-1)(_table(m)),
    "vmap of jit": lambda m: m.vmap(m.jit(lambda k, i: m.random.fold_in(k, i)))(
        _keys(m), np.arange(3)
    ),
    "scan": lambda m: m.lax.scan(
        lambda c, x: (m.random.split(c)[0], m.random.bits(x)), _one(m), _keys(m)
    ),
    "scan that gives keys": lambda m: m.lax.scan(
        lambda c, i: (c + 1, m.random.key(i)), 0, np.arange(3)
    ),
    "while_loop": lambda m: m.lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, m.random.fold_in(s[1], s[0])), (0, _one(m))
    ),
    "cond": lambda m: m.jit(
        lambda p, k: m.lax.cond(p, lambda k: m.random.split(k)[0], lambda k: k, k)
    )(True, _one(m)),
    "checkpoint": lambda m: m.jit(m.checkpoint(lambda k: m.random.bits(k)))(_one(m)),
    "vjp": lambda m: m.vjp(lambda k, x: m.random.uniform(k) * x, _one(m), 2.0)[1](1.0)[1],
    "grad type": lambda m: str(
        m.grad(lambda k, x: m.random.uniform(k) * x, allow_int=True)(_one(m), 1.0).dtype.itemsize
    ),
    "callback": lambda m: m.pure_callback(
        lambda k: np.float32(k.ndim + 1), m.ShapeDtypeStruct((), np.float32), _keys(m)
    ),
    # other generators
    "rbg": lambda m: _rows(m, "rbg"),
    "rbg mapped": lambda m: m.vmap(lambda k: m.random.bits(k, (2,)))(
        m.random.split(m.random.key(7, impl="rbg"), 3)
    ),
    "rbg jitted": lambda m: m.jit(lambda k: m.random.bits(m.random.split(k)[1], (5,)))(
        m.random.key(7, impl="rbg")
    ),
    "unsafe_rbg": lambda m: _rows(m, "unsafe_rbg"),
    "unsafe_rbg mapped": lambda m: m.vmap(lambda k: m.random.bits(k, (2,)))(
        m.random.split(m.random.key(7, impl="unsafe_rbg"), 3)
    ),
    "unsafe_rbg jitted": lambda m: m.jit(lambda k: m.random.bits(m.random.split(k)[1], (5,)))(
        m.random.key(7, impl="unsafe_rbg")
    ),
    "rbg mapped split": lambda m: m.vmap(lambda k: m.random.split(k, 2))(
        m.random.split(m.random.key(7, impl="rbg"), 3)
    ),
    # errors
    "add": lambda m: _one(m) + 1,
    "add from the right": lambda m: 1 + _one(m),
    "add keys": lambda m: m.lax.add(_one(m), _one(m)),
    "negative": lambda m: -_one(m),
    "less": lambda m: _keys(m) < _keys(m),
    "equal to a number": lambda m: _keys(m) == 1,
    "where with a number": lambda m: m.numpy.where(True, _one(m), 0),
    "convert": lambda m: m.lax.convert_element_type(_one(m), np.float32),
    "NumPy": lambda m: np.asarray(_one(m)),
    "bool": lambda m: bool(_one(m)),
    "len": lambda m: len(_one(m)),
    "iter": lambda m: list(_one(m)),
    "grad": lambda m: m.grad(lambda k: m.random.uniform(k))(_one(m)),
    "two generators": lambda m: _one(m) == m.random.key(0, impl="rbg"),
    "key of a key": lambda m: m.random.key(_one(m)),
    "batch": lambda m: m.random.uniform(_keys(m)),
}


def shown(m: Any, case: Case) -> Any:
    """The result of a case as JSON: values, or the kind of error and its first words."""
    try:
        return _shown(m, case(m))
    except Exception as error:
        return {"error": type(error).__name__, "words": str(error).split(".")[0][:60]}


def _shown(m: Any, x: Any) -> Any:
    if isinstance(x, m.Array) and m.dtypes.issubdtype(x.dtype, m.dtypes.prng_key):
        return {str(x.dtype): list(x.shape), "data": np.asarray(m.random.key_data(x)).tolist()}
    if isinstance(x, m.Array):
        return {str(x.dtype): np.asarray(x).tolist()}
    if isinstance(x, (tuple, list)):
        return [_shown(m, v) for v in x]
    return x
