"""Normal numbers and what is made from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.placing import takes_out_sharding
from xpr.core.trace import get_aval
from xpr.numpy._promote import as_operand, promote_dtypes_inexact
from xpr.primitives import compare as cmp
from xpr.primitives import elementary as fn
from xpr.primitives import elementwise as el
from xpr.primitives._complex import real_dtype
from xpr.primitives.convert import convert_type
from xpr.primitives.custom import stop_gradient
from xpr.primitives.power import sqrt
from xpr.primitives.random import random_split
from xpr.primitives.reduce import reduce_sum
from xpr.primitives.special import erf, erf_inv
from xpr.random._sampling import (
    DType,
    Shape,
    as_dtype,
    check_safe_casts,
    checked_shape,
    common_shape,
    draw,
    fitting_shape,
    float_dtype,
    inexact_dtype,
    spread,
)
from xpr.random.keys import single_key
from xpr.random.uniform import rademacher_body, uniform_in, unit_floats, unit_uniform


def normal_body(key: Any, *, shape: Shape, dtype: DType) -> Any:
    """Standard normal numbers: sqrt(2) erfinv of numbers uniform over (-1, 1).

    Complex ones have independent parts of variance 1/2 each.
    """
    if dtypes.is_complex(dtype):
        part = real_dtype(dtype)
        keys = random_split(key, (2,))
        re, im = (normal_body(keys[i], shape=shape, dtype=part) for i in (0, 1))
        root = part.type(np.sqrt(2))
        return el.complex(el.div(re, root), el.div(im, root))
    lowest = np.nextafter(np.array(-1, dtype), np.array(0, dtype))[()]
    # The span 1 - lowest rounds to 2, so nothing but the last sum is rounded.
    spread_out = el.add(el.mul(unit_floats(key, shape, dtype), dtype.type(2)), lowest)
    return el.mul(erf_inv(el.max(spread_out, lowest)), dtype.type(np.sqrt(2)))


@takes_out_sharding
def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Standard normal numbers of a float or complex `dtype`.

    The real and imaginary parts of complex ones have variance 1/2. Raises ValueError for another
    dtype.

    >>> import xpr
    >>> xpr.random.normal(xpr.random.key(0), (2,)).round(3)
    Array([1.623, 2.025], dtype=float32)
    """
    data = single_key("normal", key)
    found = inexact_dtype("normal", dtype)
    sizes = checked_shape("normal", shape)
    return draw(sizes, normal_body, data, shape=sizes, dtype=found)


def _truncated_body(key: Any, lower: Any, upper: Any, *, shape: Shape, dtype: DType) -> Any:
    root = dtype.type(np.sqrt(2))
    lower, upper = as_dtype(lower, dtype), as_dtype(upper, dtype)
    low, high = (erf(el.div(x, root)) for x in (lower, upper))
    found = el.mul(erf_inv(uniform_in(key, low, high, shape=shape, dtype=dtype)), root)
    inside = (
        el.nextafter(stop_gradient(lower), dtype.type(np.inf)),
        el.nextafter(stop_gradient(upper), dtype.type(-np.inf)),
    )
    first, last = (spread(x, shape) for x in inside)
    return el.min(el.max(found, first), last)


@takes_out_sharding
def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Standard normal numbers given that they lie in (lower, upper).

    Bounds are scalars or broadcast to `shape`, by default that of both. Raises ValueError for
    bounds that do not fit and for a dtype that is no float.

    >>> import xpr
    >>> x = xpr.random.truncated_normal(xpr.random.key(0), -1.0, 2.0, (100,))
    >>> bool((x > -1).all()), bool((x < 2).all())
    (True, True)
    """
    data = single_key("truncated_normal", key)
    found = float_dtype("truncated_normal", dtype)
    sizes = common_shape("truncated_normal", shape, lower, upper)
    return draw(sizes, _truncated_body, data, lower, upper, shape=sizes, dtype=found)


def _lognormal_body(key: Any, sigma: Any, *, shape: Shape, dtype: DType) -> Any:
    numbers = normal_body(key, shape=shape, dtype=dtype)
    return fn.exp(el.mul(numbers, spread(as_dtype(sigma, dtype), shape)))


@takes_out_sharding
def lognormal(
    key: Any,
    sigma: Any = 1.0,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Numbers whose logarithm is normal with mean 0 and standard deviation `sigma`.

    Raises ValueError for a `sigma` that does not fit `shape` and for another dtype than floats and
    complex ones.

    >>> import xpr
    >>> bool((xpr.random.lognormal(xpr.random.key(0), 2.0, (9,)) > 0).all())
    True
    """
    data = single_key("lognormal", key)
    found = inexact_dtype("lognormal", dtype)
    sizes = common_shape("lognormal", shape, sigma)
    check_safe_casts("lognormal", found, sigma)
    return draw(sizes, _lognormal_body, data, sigma, shape=sizes, dtype=found)


# ---- lengths


def maxwell_body(key: Any, *, shape: Shape, dtype: DType) -> Any:
    """The length of three normal numbers."""
    numbers = normal_body(key, shape=(*shape, 3), dtype=dtype)
    return sqrt(reduce_sum(el.mul(numbers, numbers), (len(shape),)))


@takes_out_sharding
def maxwell(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers with density sqrt(2/pi) x**2 exp(-x**2/2) for x >= 0.

    Raises ValueError for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.maxwell(xpr.random.key(0), (3,)).shape
    (3,)
    """
    data = single_key("maxwell", key)
    found = float_dtype("maxwell", dtype)
    sizes = checked_shape("maxwell", shape)
    return draw((*sizes, 3), maxwell_body, data, shape=sizes, dtype=found)


def _double_sided_maxwell_body(
    key: Any, loc: Any, scale: Any, *, shape: Shape, dtype: DType
) -> Any:
    keys = random_split(key, (2,))
    lengths = maxwell_body(keys[0], shape=shape, dtype=dtype)
    signs = rademacher_body(keys[1], shape=shape, dtype=dtype)
    return signs * lengths * scale + loc


def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None
) -> Array:
    """Numbers loc + scale x whose size |x| is as `maxwell` gives, with a random sign.

    The result has shape `shape + broadcast(loc, scale)`; without `shape`, the parameters' shape
    twice, as in JAX. Raises ValueError for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.double_sided_maxwell(xpr.random.key(0), 1.0, 2.0, (3,)).shape
    (3,)
    """
    data = single_key("double_sided_maxwell", key)
    found = float_dtype("double_sided_maxwell", dtype)
    common = common_shape("double_sided_maxwell", None, loc, scale)
    sizes = (*(checked_shape("double_sided_maxwell", shape) or common), *common)
    body = _double_sided_maxwell_body
    return draw((*sizes, 3), body, data, loc, scale, shape=sizes, dtype=found)


def _rayleigh_body(key: Any, scale: Any, *, shape: Shape, dtype: DType) -> Any:
    numbers = fn.log(unit_floats(key, shape, dtype))
    return el.mul(spread(as_dtype(scale, dtype), shape), sqrt(el.mul(numbers, dtype.type(-2))))


@takes_out_sharding
def rayleigh(
    key: Any, scale: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Numbers with density x/scale**2 exp(-x**2/(2 scale**2)) for x > 0.

    Raises ValueError for a `scale` that does not fit `shape` and for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.rayleigh(xpr.random.key(0), xpr.numpy.ones(3)).shape
    (3,)
    """
    data = single_key("rayleigh", key)
    found = float_dtype("rayleigh", dtype)
    sizes = common_shape("rayleigh", shape, scale)
    check_safe_casts("rayleigh", found, scale)
    return draw(sizes, _rayleigh_body, data, scale, shape=sizes, dtype=found)


def _wald_body(key: Any, mean: Any, *, shape: Shape, dtype: DType) -> Any:
    """Inverse Gaussian numbers by the method of J. Michael, W. Schucany and R. Haas (1976)."""
    keys = random_split(key, (2,))
    mean = jnp.broadcast_to(as_dtype(mean, dtype), shape)
    y = jnp.square(normal_body(keys[0], shape=shape, dtype=dtype))
    chance = unit_uniform(keys[1], shape=shape, dtype=dtype)
    square = mean * mean
    smaller = mean + square * y / 2 - mean / 2 * jnp.sqrt(4 * mean * y + square * (y * y))
    return cmp.select(cmp.le(chance, mean / (mean + smaller)), smaller, square / smaller)


@takes_out_sharding
def wald(
    key: Any, mean: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Wald (inverse Gaussian) numbers of that mean and scale 1.

    Raises ValueError for a `mean` that does not fit `shape` and for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.wald(xpr.random.key(0), 2.0, (3,)).shape
    (3,)
    """
    data = single_key("wald", key)
    found = float_dtype("wald", dtype)
    sizes = common_shape("wald", shape, mean)
    check_safe_casts("wald", found, mean)
    return draw(sizes, _wald_body, data, mean, shape=sizes, dtype=found)


# ---- vectors and matrices


@takes_out_sharding
def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Array:
    """Normal vectors of mean `mean` [..., n] and covariance `cov` [..., n, n].

    The result has shape `shape + (n,)`; `shape` is by default that of the batches together.
    `method` is the factorisation of `cov`: "cholesky", "eigh" or "svd". Raises ValueError for
    another one, for shapes that do not fit and for a dtype that is no float. A matrix that is not
    positive definite gives NaN.

    >>> import xpr
    >>> xpr.random.multivariate_normal(xpr.random.key(0), np.zeros(2), np.eye(2), (3,)).shape
    (3, 2)
    """
    data = single_key("multivariate_normal", key)
    mean, cov = promote_dtypes_inexact(
        as_operand("multivariate_normal", mean), as_operand("multivariate_normal", cov, 1)
    )
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError(
            "method must be one of {'svd', 'eigh', 'cholesky'}, got "
            f"{method!r} (multivariate_normal)"
        )
    found = float_dtype("multivariate_normal", get_aval(mean).dtype if dtype is None else dtype)
    mean, cov = jnp.asarray(mean), jnp.asarray(cov)
    if mean.ndim < 1:
        raise ValueError(f"multivariate_normal requires mean.ndim >= 1, got {mean.ndim}")
    if cov.ndim < 2:
        raise ValueError(f"multivariate_normal requires cov.ndim >= 2, got {cov.ndim}")
    n = mean.shape[-1]
    if cov.shape[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal requires cov.shape == (..., n, n) for n={n}, the size of mean, "
            f"but got cov.shape == {cov.shape}"
        )
    batches = mean.shape[:-1], cov.shape[:-2]
    if shape is None:
        sizes = jnp.broadcast_shapes(*batches)
    else:
        wanted = checked_shape("multivariate_normal", shape)
        sizes = fitting_shape("multivariate_normal", wanted, *batches)
    if method == "cholesky":
        factor = jnp.linalg.cholesky(cov)
    elif method == "eigh":
        values, vectors = jnp.linalg.eigh(cov)
        factor = vectors * jnp.sqrt(values[..., None, :])
    else:
        left, values, _ = jnp.linalg.svd(cov)
        factor = left * jnp.sqrt(values[..., None, :])
    numbers = draw((*sizes, n), normal_body, data, shape=(*sizes, n), dtype=found)
    moved = jnp.einsum("...ij,...j->...i", factor, numbers)
    return jnp.broadcast_to(mean, moved.shape) + moved


@takes_out_sharding
def orthogonal(
    key: Any,
    n: int,
    shape: Any = (),
    dtype: Any = None,
    m: int | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Matrices [*shape, n, m] with orthonormal rows or columns, uniform (by Haar's measure).

    `m` is by default `n`. They are factors Q of normal matrices, with signs that make the
    diagonal of R positive (F. Mezzadri, "How to generate random matrices from the classical
    compact groups", 2007).

    >>> import xpr
    >>> xpr.random.orthogonal(xpr.random.key(0), 3, m=2).shape
    (3, 2)
    """
    data = single_key("orthogonal", key)
    found = inexact_dtype("orthogonal", dtype)
    columns = n if m is None else m
    sizes = checked_shape("orthogonal", shape)
    checked_shape("orthogonal", (n, columns))
    sizes = (*sizes, max(n, columns), min(n, columns))
    q, r = jnp.linalg.qr(draw(sizes, normal_body, data, shape=sizes, dtype=found))
    diagonal = jnp.diagonal(r, axis1=-2, axis2=-1)
    signed = convert_type(q, found) * jnp.expand_dims(jnp.sign(diagonal), -2)
    return jnp.swapaxes(signed, -1, -2) if n < columns else signed
