"""Optimizers of trees of arrays, under the name of `jax.example_libraries.optimizers`.

Each function gives an `Optimizer`: `init_fn(params)` is the first state, `update_fn(step, grads,
state)` the next one, `params_fn(state)` the parameters. Step sizes are numbers or functions of the
number of the step. They are examples: optax, which runs on xpr, has more.

>>> import xpr, xpr.numpy as jnp
>>> from xpr.example_libraries import optimizers
>>> init, update, get_params = optimizers.adam(0.1)
>>> state = init({"w": jnp.zeros(2)})
>>> @xpr.jit
... def step(i, state):
...     loss = lambda params: jnp.sum((params["w"] - jnp.array([1.0, -2.0])) ** 2)
...     return update(i, xpr.grad(loss)(get_params(state)), state)
>>> for i in range(200):
...     state = step(i, state)
>>> get_params(state)["w"].round(2)
Array([ 1., -2.], dtype=float32)
"""

from __future__ import annotations

import functools
from typing import Any

import xpr.numpy as jnp
from xpr.example_libraries.optimizer_state import JoinPoint as JoinPoint
from xpr.example_libraries.optimizer_state import Optimizer as Optimizer
from xpr.example_libraries.optimizer_state import OptimizerState as OptimizerState
from xpr.example_libraries.optimizer_state import optimizer as optimizer
from xpr.example_libraries.optimizer_state import pack_optimizer_state as pack_optimizer_state
from xpr.example_libraries.optimizer_state import unpack_optimizer_state as unpack_optimizer_state
from xpr.example_libraries.schedules import constant as constant
from xpr.example_libraries.schedules import exponential_decay as exponential_decay
from xpr.example_libraries.schedules import inverse_time_decay as inverse_time_decay
from xpr.example_libraries.schedules import make_schedule as make_schedule
from xpr.example_libraries.schedules import piecewise_constant as piecewise_constant
from xpr.example_libraries.schedules import polynomial_decay as polynomial_decay
from xpr.tree_util import tree_leaves, tree_map

_Rules = tuple[Any, Any, Any]


@optimizer
def sgd(step_size: Any) -> _Rules:
    """Gradient descent: x becomes x - step_size g.

    >>> import xpr.numpy as jnp
    >>> from xpr.example_libraries import optimizers
    >>> init, update, get_params = optimizers.sgd(0.1)
    >>> state = init(jnp.array([3.0]))
    >>> for step in range(3):
    ...     state = update(step, 2 * get_params(state), state)
    >>> bool(get_params(state)[0] < 3)
    True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, x: Any) -> Any:
        return x - size(i) * g

    return lambda x: x, update, lambda x: x


@optimizer
def momentum(step_size: Any, mass: Any) -> _Rules:
    """Gradient descent with momentum (Polyak 1964): v becomes mass v + g, x less step_size v.

    >>> import xpr.numpy as jnp
    >>> from xpr.example_libraries import optimizers
    >>> init, update, get_params = optimizers.momentum(0.1, mass=0.9)
    >>> state = init(jnp.array([3.0]))
    >>> for step in range(3):
    ...     state = update(step, 2 * get_params(state), state)
    >>> bool(get_params(state)[0] < 3)
    True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - size(i) * v, v

    return _with_zeros(1), update, _first


@optimizer
def nesterov(step_size: Any, mass: Any) -> _Rules:
    """Gradient descent with Nesterov's momentum (Sutskever et al. 2013).

    v becomes mass v + g, and x less step_size (mass v + g).

    >>> import xpr.numpy as jnp
    >>> from xpr.example_libraries import optimizers
    >>> init, update, get_params = optimizers.nesterov(0.1, mass=0.9)
    >>> state = init(jnp.array([3.0]))
    >>> for step in range(3):
    ...     state = update(step, 2 * get_params(state), state)
    >>> bool(get_params(state)[0] < 3)
    True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - size(i) * (mass * v + g), v

    return _with_zeros(1), update, _first


@optimizer
def adagrad(step_size: Any, momentum: Any = 0.9) -> _Rules:
    """Adagrad (Duchi, Hazan and Singer 2011), with momentum.

    The gradient is divided by the root of the sum of all squares up to now, where that is not 0.

    >>> import xpr.numpy as jnp
    >>> from xpr.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adagrad(0.1)
    >>> state = init(jnp.array([3.0]))
    >>> for step in range(3):
    ...     state = update(step, 2 * get_params(state), state)
    >>> bool(get_params(state)[0] < 3)
    True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, m = state
        squares = squares + g * g
        m = (1 - momentum) * _over_root(g, squares) + momentum * m
        return x - size(i) * m, squares, m

    return _with_zeros(2), update, _first


@optimizer
def rmsprop(step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8) -> _Rules:
    """RMSProp (Tieleman and Hinton 2012).

    The gradient is divided by the root of a running mean of its squares, of decay `gamma`.

    >>> import xpr.numpy as jnp
    >>> from xpr.example_libraries import optimizers
    >>> init, update, get_params = optimizers.rmsprop(0.1)
    >>> state = init(jnp.array([3.0]))
    >>> for step in range(3):
    ...     state = update(step, 2 * get_params(state), state)
    >>> bool(get_params(state)[0] < 3)
    True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean = state
        mean = gamma * mean + (1 - gamma) * g * g
        return x - size(i) * g / jnp.sqrt(mean + eps), mean

    return _with_zeros(1), update, _first


@optimizer
def rmsprop_momentum(
    step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8, momentum: Any = 0.9
) -> _Rules:
    """RMSProp whose steps have momentum.

    >>> import xpr.numpy as jnp
    >>> from xpr.example_libraries import optimizers
    >>> init, update, get_params = optimizers.rmsprop_momentum(0.1)
    >>> state = init(jnp.array([3.0]))
    >>> for step in range(3):
    ...     state = update(step, 2 * get_params(state), state)
    >>> bool(get_params(state)[0] < 3)
    True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, m = state
        mean = gamma * mean + (1 - gamma) * g * g
        m = momentum * m + size(i) * g / jnp.sqrt(mean + eps)
        return x - m, mean, m

    return _with_zeros(2), update, _first


@optimizer
def adam(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> _Rules:
    """Adam (Kingma and Ba 2014): running means of g and of its squares, without their bias.

    >>> import xpr.numpy as jnp
    >>> from xpr.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adam(0.1)
    >>> state = init(jnp.array([3.0]))
    >>> for step in range(3):
    ...     state = update(step, 2 * get_params(state), state)
    >>> bool(get_params(state)[0] < 3)
    True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, v = state
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        mean, square = m / (1 - _power(b1, i, m)), v / (1 - _power(b2, i, m))
        return x - size(i) * mean / (jnp.sqrt(square) + eps), m, v

    return _with_zeros(2), update, _first


@optimizer
def adamax(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> _Rules:
    """AdaMax (Kingma and Ba 2014): Adam with the largest |g|, of decay `b2`, for the squares.

    >>> import xpr.numpy as jnp
    >>> from xpr.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adamax(0.1)
    >>> state = init(jnp.array([3.0]))
    >>> for step in range(3):
    ...     state = update(step, 2 * get_params(state), state)
    >>> bool(get_params(state)[0] < 3)
    True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, u = state
        m, u = b1 * m + (1 - b1) * g, jnp.maximum(b2 * u, jnp.abs(g))
        return x - size(i) / (1 - _power(b1, i, m)) * m / (u + eps), m, u

    return _with_zeros(2), update, _first


@optimizer
def sm3(step_size: Any, momentum: Any = 0.9) -> _Rules:
    """SM3-II (Anil, Gupta, Koren and Singer 2019), with momentum: Adagrad in little memory.

    For each axis of an array there is one vector of bounds on the sums of squares.

    >>> import xpr.numpy as jnp
    >>> from xpr.example_libraries import optimizers
    >>> init, update, get_params = optimizers.sm3(0.1)
    >>> state = init(jnp.array([3.0]))
    >>> for step in range(3):
    ...     state = update(step, 2 * get_params(state), state)
    >>> bool(get_params(state)[0] < 3)
    True
    """
    size = make_schedule(step_size)

    def init(x: Any) -> Any:
        x = jnp.asarray(x)
        return x, jnp.zeros_like(x), [jnp.zeros(n, x.dtype) for n in x.shape or (1,)]

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, bounds = state
        row = jnp.atleast_1d(g)  # a number has one bound, as a vector of one element
        axes = range(row.ndim)
        along = [
            bound.reshape([-1 if k == axis else 1 for k in axes])
            for axis, bound in enumerate(bounds)
        ]
        squares = functools.reduce(jnp.minimum, along) + row * row
        m = (1 - momentum) * _over_root(row, squares).reshape(x.shape) + momentum * m
        bounds = [jnp.max(squares, axis=tuple(k for k in axes if k != axis)) for axis in axes]
        return x - size(i) * m, m, bounds

    return init, update, _first


def l2_norm(tree: Any) -> Any:
    """The root of the sum of the squares of all elements of a tree.

    >>> l2_norm({"b": jnp.array([3.0]), "w": jnp.array([[4.0]])})
    Array(5., dtype=float32)
    """
    return jnp.sqrt(sum(jnp.vdot(x, x).real for x in tree_leaves(tree)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """The tree, scaled down to that norm if its own is larger.

    >>> clip_grads([jnp.array([3.0, 4.0])], 1.0)
    [Array([0.6, 0.8], dtype=float32)]
    """
    norm = l2_norm(grad_tree)
    return tree_map(lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


def _with_zeros(count: int) -> Any:
    """The first state: the array, and so many arrays of zeros like it."""
    return lambda x: (x, *(jnp.zeros_like(x) for _ in range(count)))


def _first(state: Any) -> Any:
    return state[0]


def _over_root(g: Any, squares: Any) -> Any:
    positive = squares > 0
    return jnp.where(positive, g / jnp.sqrt(jnp.where(positive, squares, 1)), 0)


def _power(decay: Any, i: Any, like: Any) -> Any:
    return jnp.asarray(decay, like.dtype) ** (i + 1)
