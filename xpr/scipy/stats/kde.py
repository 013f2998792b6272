"""Densities estimated from samples by kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import random, tree_util
from xpr.core import dtypes
from xpr.nn.normalization import logsumexp
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, promote_dtypes_inexact
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.linalg import inv
from xpr.primitives.linalg import cholesky, triangular_solve
from xpr.scipy.special import ndtr
from xpr.scipy.stats._common import LOG_2PI

_FIELDS = ("neff", "dataset", "weights", "covariance", "inv_cov")
_Bandwidth = str | float | Callable[[Any], Any] | None


def _log_kernels(points: Array, centres: Array, covariance: Array) -> Array:
    """The log density at each of `points` [d, m] around each of `centres` [d, n]: [m, n]."""
    factor = cholesky(covariance)

    def whiten(x: Array) -> Array:
        return triangular_solve(factor, x, left_side=True, lower=True)

    # Differences, not norms and products: those would cancel far from the origin.
    difference = whiten(points)[:, :, None] - whiten(centres)[:, None, :]
    constant = points.shape[0] * LOG_2PI / 2 + jnp.sum(jnp.log(jnp.diagonal(factor)))
    return -0.5 * jnp.sum(jnp.square(difference), axis=0) - constant


def _log_mixture(points: Array, centres: Array, weights: Array, covariance: Array) -> Array:
    """The log density at each of `points` of a mixture of normal distributions: [m]."""
    return logsumexp(_log_kernels(points, centres, covariance), axis=1, b=weights[None])


def _bandwidth(method: _Bandwidth, kde: gaussian_kde) -> Any:
    """The factor of the samples' standard deviations, by a rule or by the user."""
    d = kde.d
    if method is None or method == "scott":
        return jnp.power(kde.neff, -1.0 / (d + 4))
    if method == "silverman":
        return jnp.power(kde.neff * (d + 2) / 4.0, -1.0 / (d + 4))
    if callable(method):
        return method(kde)
    if np.isscalar(method) and not isinstance(method, str):
        return method
    raise ValueError("`bw_method` should be 'scott', 'silverman', a scalar, or a callable.")


def _normalised_weights(weights: Any, n: int, dataset: Array) -> tuple[Array, Array]:
    """The samples, and weights of sum 1, in one dtype."""
    if weights is None:
        return dataset, jnp.full(n, 1.0 / n, dataset.dtype)
    data, w = promote_dtypes_inexact(dataset, as_array(as_operand("gaussian_kde", weights)))
    if w.ndim != 1:
        raise ValueError("`weights` input should be one-dimensional.")
    if w.shape[0] != n:
        raise ValueError("`weights` input should be of length n")
    return data, w / jnp.sum(w)


@tree_util.register_pytree_node_class
class gaussian_kde:
    """The density of which `dataset` is a sample: the mean of a normal density around each point.

    `dataset` is n numbers, or n vectors [d, n], with `weights` [n]. Each kernel has the covariance
    of the samples times the square of a factor: n^(-1/(d+4)) ("scott", also for None), (n (d+2) /
    4)^(-1/(d+4)) ("silverman"), a number, or what a function of this object returns; n is the
    effective number of samples `neff`, 1 / sum(weights²). D. Scott, "Multivariate Density
    Estimation", 1992. A pytree, whose leaves are its attributes. Raises ValueError for fewer than
    two elements, other shapes and other methods, NotImplementedError for complex samples.

    >>> from xpr.scipy import stats
    >>> import xpr.numpy as jnp
    >>> kde = stats.gaussian_kde(jnp.array([0.0, 1.0, 3.0]))
    >>> kde(jnp.array([1.0]))
    Array([0.2149], dtype=float32)
    """

    neff: Array
    dataset: Array
    weights: Array
    covariance: Array
    inv_cov: Array

    def __init__(
        self, dataset: ArrayLike, bw_method: _Bandwidth = None, weights: ArrayLike | None = None
    ) -> None:
        samples = as_array(as_operand("gaussian_kde", dataset))
        if dtypes.is_complex(samples.dtype):
            raise NotImplementedError("gaussian_kde does not support complex data")
        if samples.size <= 1:
            raise ValueError("`dataset` input should have multiple elements.")
        if samples.ndim > 2:
            raise ValueError(f"`dataset` should be [n] or [d, n], got shape {samples.shape}")
        samples = jnp.atleast_2d(promote_dtypes_inexact(samples)[0])
        n = samples.shape[1]
        self.dataset, self.weights = _normalised_weights(weights, n, samples)
        self.neff = 1 / jnp.sum(jnp.square(self.weights))
        factor = jnp.square(jnp.asarray(_bandwidth(bw_method, self), self.dataset.dtype))
        # Equal weights change nothing.
        given = None if weights is None else self.weights
        covariance = jnp.atleast_2d(jnp.cov(self.dataset, aweights=given))
        self.covariance, self.inv_cov = covariance * factor, inv(covariance) / factor

    def __repr__(self) -> str:
        return f"gaussian_kde({', '.join(f'{f}={getattr(self, f)!r}' for f in _FIELDS)})"

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The attributes that are arrays."""
        return tuple(getattr(self, f) for f in _FIELDS), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Any) -> gaussian_kde:
        """The object of these attributes."""
        del aux_data
        kde = object.__new__(cls)
        for field, child in zip(_FIELDS, children, strict=True):
            setattr(kde, field, child)
        return kde

    @property
    def d(self) -> int:
        """The length of a sample."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.dataset.shape[1]

    def evaluate(self, points: ArrayLike) -> Array:
        """The density, [m], at `points`, [d, m], or [m] where d is 1, or one vector [d].

        Raises ValueError for other shapes.
        """
        return jnp.exp(self.logpdf(points))

    def __call__(self, points: ArrayLike) -> Array:
        """As `evaluate`."""
        return self.evaluate(points)

    def pdf(self, x: ArrayLike) -> Array:
        """As `evaluate`."""
        return self.evaluate(x)

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density at the points `x`, finite far from all samples too."""
        points = self._points(x)
        return _log_mixture(points, *self._mixture(points.dtype))

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the density times that of the normal distribution of `mean` and `cov`.

        `mean` is [d] and `cov` [d, d], or both are numbers where d is 1. Raises ValueError for
        other shapes.
        """
        centre = jnp.atleast_1d(jnp.squeeze(as_array(as_operand("integrate_gaussian", mean))))
        matrix = jnp.atleast_2d(as_array(as_operand("integrate_gaussian", cov, 1)))
        if centre.shape != (self.d,):
            raise ValueError(f"mean does not have dimension {self.d}")
        if matrix.shape != (self.d, self.d):
            raise ValueError(f"covariance does not have dimension {self.d}")
        centre, matrix, _ = promote_dtypes_inexact(centre, matrix, self.dataset)
        samples, weights, covariance = self._mixture(centre.dtype)
        return jnp.exp(_log_mixture(centre[:, None], samples, weights, covariance + matrix))[0]

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The probability of a number between `low` and `high`, where d is 1.

        Raises ValueError for another d and for bounds that are not scalars.
        """
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        if np.ndim(low) != 0 or np.ndim(high) != 0:
            raise ValueError("the limits of integration in integrate_box_1d must be scalars")
        deviation = jnp.sqrt(self.covariance[0, 0])
        below = [ndtr((jnp.asarray(x) - self.dataset[0]) / deviation) for x in (low, high)]
        return jnp.sum(self.weights * (below[1] - below[0]))

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product of this density and another one.

        Raises ValueError where they are of vectors of different lengths.
        """
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        points, _ = promote_dtypes_inexact(self.dataset, other.dataset)
        samples, weights, covariance = other._mixture(points.dtype)
        both = covariance + self.covariance
        at_samples = jnp.exp(_log_mixture(points, samples, weights, both))
        return jnp.sum(self.weights * at_samples)

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Array:
        """Vectors drawn from the density: [d, *shape].

        A sample is chosen by its weight, and normal noise of the kernels' covariance added.
        """
        chosen, noise = random.split(key)
        index = random.choice(chosen, self.n, shape, p=self.weights)
        zeros = jnp.zeros(self.d, self.dataset.dtype)
        moved = random.multivariate_normal(
            noise, zeros, self.covariance, shape, dtype=self.dataset.dtype
        )
        return jnp.take(self.dataset, index, axis=1) + jnp.moveaxis(moved, -1, 0)

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Array:
        """Not offered: raises NotImplementedError."""
        raise NotImplementedError("only 1D box integrations are supported; use `integrate_box_1d`")

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Not offered, since arrays and pytrees are immutable: raises NotImplementedError."""
        raise NotImplementedError("dynamically changing the bandwidth method is not supported")

    def _mixture(self, dtype: Any) -> tuple[Array, Array, Array]:
        """Samples, weights and covariance in `dtype`."""
        return (
            self.dataset.astype(dtype),
            self.weights.astype(dtype),
            self.covariance.astype(dtype),
        )

    def _points(self, x: Any) -> Array:
        """The points to evaluate at: [d, m], in the dtype common to them and the samples."""
        points = jnp.atleast_2d(as_array(as_operand("gaussian_kde", x)))
        if points.ndim > 2:
            raise ValueError(f"points should be [m] or [d, m], got shape {points.shape}")
        if points.shape[0] != self.d:
            if points.shape != (1, self.d):
                raise ValueError(
                    f"points have dimension {points.shape[0]}, dataset has dimension {self.d}"
                )
            points = points.reshape(self.d, 1)
        if dtypes.is_complex(points.dtype):
            raise NotImplementedError("gaussian_kde does not support complex coordinates")
        return promote_dtypes_inexact(points, self.dataset)[0]
