"""Gamma numbers and the distributions made from them."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

from xpr import numpy as jnp
from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.placing import takes_out_sharding
from xpr.core.trace import get_aval
from xpr.lax.loops import while_loop
from xpr.numpy._promote import as_operand
from xpr.numpy._static import concrete
from xpr.primitives import compare as cmp
from xpr.primitives import elementary as fn
from xpr.primitives import elementwise as el
from xpr.primitives._collective_sums import vary_together
from xpr.primitives.custom import stop_gradient
from xpr.primitives.power import pow, sqrt
from xpr.primitives.random import random_split
from xpr.primitives.special import random_gamma_grad
from xpr.random._sampling import (
    DType,
    Shape,
    as_dtype,
    check_safe_casts,
    checked_shape,
    common_shape,
    draw_compiled,
    fitting_shape,
    float_dtype,
    spread,
)
from xpr.random.keys import single_key
from xpr.random.normal import normal_body
from xpr.random.transformed import exponential_body
from xpr.random.uniform import rademacher_body, unit_floats
from xpr.transforms.custom_jvp import custom_jvp
from xpr.transforms.vmap import vmap


def _sample(key: Any, alpha: Any, log_space: bool) -> Any:
    """One gamma number, or its logarithm.

    Rejection from a cubed normal number (G. Marsaglia and W. Tsang, "A simple method for
    generating gamma variables", 2000); below 1 the parameter is raised by 1, and the sample
    multiplied by u**(1/alpha) of a uniform u.
    """
    dtype = get_aval(alpha).dtype
    one, zero = dtype.type(1), dtype.type(0)
    large = cmp.ge(alpha, one)
    d = el.sub(cmp.select(large, alpha, el.add(alpha, one)), dtype.type(1 / 3))
    c = el.div(dtype.type(1 / 3), sqrt(d))

    def propose(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        keys = random_split(state[0], (2,))
        x = normal_body(keys[1], shape=(), dtype=dtype)
        return keys[0], x, el.add(el.mul(x, c), one)

    def attempt(state: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        keys = random_split(state[0], (3,))
        start = (keys[1], jnp.asarray(zero), jnp.asarray(-one))
        start = vary_together(start, alpha)
        _, x, v = while_loop(lambda s: cmp.le(s[2], zero), propose, start)
        square, cube = el.mul(x, x), el.mul(el.mul(v, v), v)
        return keys[0], square, cube, unit_floats(keys[2], (), dtype)

    def rejected(state: tuple[Any, Any, Any, Any]) -> Any:
        _, square, cube, u = state
        squeeze = el.sub(one, el.mul(el.mul(square, square), dtype.type(0.0331)))
        rest = el.add(el.sub(one, cube), fn.log(cube))
        bound = el.add(el.mul(square, dtype.type(0.5)), el.mul(d, rest))
        return (u >= squeeze) & (fn.log(u) >= bound)

    keys = random_split(key, (2,))
    start = (keys[0], jnp.asarray(zero), jnp.asarray(one), jnp.asarray(dtype.type(2)))
    cube = while_loop(rejected, attempt, vary_together(start, alpha))[2]
    power = el.div(one, alpha)
    if log_space:
        log_u = el.neg(exponential_body(keys[1], shape=(), dtype=dtype))
        boost = jnp.where(large | (log_u == 0), zero, log_u * power)
        return el.add(el.add(fn.log(d), fn.log(cube)), boost)
    u = el.sub(one, unit_floats(keys[1], (), dtype))
    return el.mul(el.mul(d, cube), jnp.where(large, one, pow(u, power)))


@functools.partial(custom_jvp, nondiff_argnums=(2,))
def _samples(key: Any, a: Any, log_space: bool) -> Any:
    """A gamma number for each element of `a`, each from a key of its own."""
    shape = get_aval(a).shape
    count = math.prod(shape)
    if not count:
        return jnp.zeros(shape, get_aval(a).dtype)
    keys = random_split(key, (count,))
    one = functools.partial(_sample, log_space=log_space)
    return vmap(one)(keys, jnp.reshape(a, (count,))).reshape(shape)


@_samples.defjvp
def _samples_jvp(
    log_space: bool, primals: tuple[Any, Any], tangents: tuple[Any, Any]
) -> tuple[Any, Any]:
    """The derivative by the parameter at a fixed value of the distribution function.

    M. Figurnov, S. Mohamed and A. Mnih, "Implicit reparameterization gradients", 2018.
    """
    key, a = primals
    found = _samples(key, a, log_space)
    if not log_space:
        return found, tangents[1] * random_gamma_grad(a, found)
    sample = fn.exp(found)
    tiny = sample.dtype.type(dtypes.finfo(sample.dtype).tiny)
    sample = jnp.where(sample == 0, tiny, sample)
    return found, tangents[1] * (random_gamma_grad(a, sample) / sample)


def gamma_body(key: Any, a: Any, *, shape: Shape, dtype: DType, log_space: bool = False) -> Any:
    """Gamma numbers of scale 1, or their logarithms."""
    return _samples(key, jnp.broadcast_to(as_dtype(a, dtype), shape), log_space)


def _gamma(name: str, key: Any, a: Any, shape: Any, dtype: Any, log_space: bool) -> Array:
    data = single_key(name, key)
    found = float_dtype(name, dtype)
    sizes = common_shape(name, shape, a)
    return draw_compiled(gamma_body, data, a, shape=sizes, dtype=found, log_space=log_space)


@takes_out_sharding
def gamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Numbers with density x**(a - 1) exp(-x) / Γ(a) for x > 0.

    `a` is a scalar or broadcasts to `shape`; the result can be differentiated by it. Raises
    ValueError for an `a` that does not fit and for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.gamma(xpr.random.key(0), 2.5, (3,)).shape
    (3,)
    """
    return _gamma("gamma", key, a, shape, dtype, False)


@takes_out_sharding
def loggamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Logarithms of gamma numbers, accurate where those would underflow (a far below 1).

    Arguments and errors as for `gamma`.

    >>> import xpr
    >>> xpr.random.loggamma(xpr.random.key(0), 0.01, (3,)).shape
    (3,)
    """
    return _gamma("loggamma", key, a, shape, dtype, True)


# ---- what is made from gamma numbers


def _with_params(name: str, body: Any, key: Any, shape: Any, dtype: Any, *params: Any) -> Array:
    """A draw with parameters that broadcast to its shape."""
    data = single_key(name, key)
    found = float_dtype(name, dtype)
    sizes = common_shape(name, shape, *params)
    check_safe_casts(name, found, *params)
    return draw_compiled(body, data, *params, shape=sizes, dtype=found)


def _beta_body(key: Any, a: Any, b: Any, *, shape: Shape, dtype: DType) -> Any:
    keys = random_split(key, (2,))
    options: Any = {"shape": shape, "dtype": dtype, "log_space": True}
    log_a, log_b = gamma_body(keys[0], a, **options), gamma_body(keys[1], b, **options)
    greatest = el.max(log_a, log_b)
    first, second = fn.exp(el.sub(log_a, greatest)), fn.exp(el.sub(log_b, greatest))
    return el.div(first, el.add(first, second))


@takes_out_sharding
def beta(
    key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Numbers with density proportional to x**(a - 1) (1 - x)**(b - 1) for 0 <= x <= 1.

    Raises ValueError for parameters that do not fit `shape` and for a dtype that is no float,
    TypePromotionError for parameters that the dtype cannot hold.

    >>> import xpr
    >>> xpr.random.beta(xpr.random.key(0), 2.0, 3.0, (3,)).shape
    (3,)
    """
    return _with_params("beta", _beta_body, key, shape, dtype, a, b)


def _dirichlet_body(key: Any, alpha: Any, *, shape: Shape, dtype: DType) -> Any:
    logs = gamma_body(key, alpha, shape=shape, dtype=dtype, log_space=True)
    weights = fn.exp(logs - stop_gradient(jnp.max(logs, axis=-1, keepdims=True)))
    return weights / jnp.sum(weights, axis=-1, keepdims=True)


@takes_out_sharding
def dirichlet(
    key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Vectors of positive numbers whose sum is 1, with parameters `alpha` [..., n].

    The result has shape `shape + (n,)`; `shape` is by default that of the batch. Raises ValueError
    for an `alpha` that is a scalar or does not fit, and for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.dirichlet(xpr.random.key(0), xpr.numpy.ones(3), (2,)).sum(-1).round(5)
    Array([1., 1.], dtype=float32)
    """
    data = single_key("dirichlet", key)
    found = float_dtype("dirichlet", dtype)
    alpha = as_operand("dirichlet", alpha)
    found_shape = get_aval(alpha).shape
    if not found_shape:
        raise ValueError("dirichlet requires alpha.ndim >= 1, got alpha.ndim == 0")
    batch = found_shape[:-1]
    if shape is not None:
        batch = fitting_shape("dirichlet", checked_shape("dirichlet", shape), batch)
    sizes = (*batch, found_shape[-1])
    return draw_compiled(_dirichlet_body, data, alpha, shape=sizes, dtype=found)


def _chisquare_body(key: Any, df: Any, *, shape: Shape, dtype: DType) -> Any:
    half = el.div(as_dtype(df, dtype), dtype.type(2))
    logs = gamma_body(key, half, shape=shape, dtype=dtype, log_space=True)
    return el.mul(fn.exp(logs), dtype.type(2))


@takes_out_sharding
def chisquare(
    key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Numbers with the chi-square distribution of `df` degrees of freedom.

    Raises ValueError for a `df` that does not fit `shape` and for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.chisquare(xpr.random.key(0), 4.0, (3,)).shape
    (3,)
    """
    return _with_params("chisquare", _chisquare_body, key, shape, dtype, df)


def _f_body(key: Any, dfnum: Any, dfden: Any, *, shape: Shape, dtype: DType) -> Any:
    keys = random_split(key, (2,))
    above, below = (
        el.div(_chisquare_body(k, df, shape=shape, dtype=dtype), spread(as_dtype(df, dtype), shape))
        for k, df in ((keys[1], dfnum), (keys[0], dfden))
    )
    return el.div(above, below)


@takes_out_sharding
def f(
    key: Any,
    dfnum: Any,
    dfden: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Numbers with the F distribution of `dfnum` and `dfden` degrees of freedom.

    Raises ValueError for parameters that do not fit `shape` and for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.f(xpr.random.key(0), 4.0, 6.0, (3,)).shape
    (3,)
    """
    return _with_params("f", _f_body, key, shape, dtype, dfnum, dfden)


def _t_body(key: Any, df: Any, *, shape: Shape, dtype: DType) -> Any:
    keys = random_split(key, (2,))
    half = el.div(as_dtype(df, dtype), dtype.type(2))
    numbers = normal_body(keys[0], shape=shape, dtype=dtype)
    lengths = gamma_body(keys[1], half, shape=shape, dtype=dtype)
    return el.mul(numbers, sqrt(el.div(spread(half, shape), lengths)))


@takes_out_sharding
def t(
    key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Numbers with Student's t distribution of `df` degrees of freedom.

    Raises ValueError for a `df` that does not fit `shape` and for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.t(xpr.random.key(0), 4.0, (3,)).shape
    (3,)
    """
    return _with_params("t", _t_body, key, shape, dtype, df)


def _generalized_normal_body(key: Any, p: Any, *, shape: Shape, dtype: DType) -> Any:
    keys = random_split(key, (2,))
    sizes = gamma_body(keys[0], 1 / p, shape=shape, dtype=dtype)
    return rademacher_body(keys[1], shape=shape, dtype=dtype) * jnp.power(sizes, 1 / p)


@takes_out_sharding
def generalized_normal(
    key: Any, p: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Numbers with density proportional to exp(-|x|**p), for a scalar p > 0.

    Raises ValueError for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.generalized_normal(xpr.random.key(0), 3.0, (3,)).shape
    (3,)
    """
    data = single_key("generalized_normal", key)
    found = float_dtype("generalized_normal", dtype)
    sizes = checked_shape("generalized_normal", shape)
    p = as_operand("generalized_normal", p)
    return draw_compiled(_generalized_normal_body, data, p, shape=sizes, dtype=found)


def _ball_body(key: Any, p: Any, *, shape: Shape, dtype: DType) -> Any:
    """Barthe, Guédon, Mendelson and Naor, "A probabilistic approach to the geometry of the
    l_p^n-ball", 2005."""
    keys = random_split(key, (2,))
    numbers = _generalized_normal_body(keys[0], p, shape=shape, dtype=dtype)
    extra = exponential_body(keys[1], shape=shape[:-1], dtype=dtype)
    norm = jnp.power(jnp.sum(jnp.power(jnp.abs(numbers), p), -1) + extra, 1 / p)
    return numbers / norm[..., None]


@takes_out_sharding
def ball(
    key: Any,
    d: int,
    p: Any = 2,
    shape: Any = (),
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Points uniform over the unit ball of the p-norm in `d` dimensions: `[*shape, d]`.

    Raises ValueError for a dtype that is no float, TypeError for a `d` that is no integer.

    >>> import xpr
    >>> points = xpr.random.ball(xpr.random.key(0), 3, shape=(5,))
    >>> bool(((points**2).sum(-1) <= 1).all())
    True
    """
    data = single_key("ball", key)
    found = float_dtype("ball", dtype)
    count = operator.index(concrete(d, "argument d of xpr.random.ball()")[()])
    sizes = (*checked_shape("ball", shape), *checked_shape("ball", (count,)))
    p = float(p) if type(p) is int else as_operand("ball", p)
    return draw_compiled(_ball_body, data, p, shape=sizes, dtype=found)
