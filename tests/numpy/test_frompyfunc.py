"""`frompyfunc`: functions of scalars on arrays, as NumPy's, also where indices are traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp


def _join(x: Any, y: Any) -> Any:
    assert np.shape(x) == np.shape(y) == ()
    return 10 * x + y


UFUNC = jnp.frompyfunc(_join, 2, 1)
NUMPY = np.frompyfunc(_join, 2, 1)
X = np.random.default_rng(0).integers(0, 5, (4, 3)).astype("f4")


def _same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, np.asarray(expected, "f4"), rtol=1e-5)


def test_the_function_gets_scalars() -> None:
    with xpr.numpy_rank_promotion("allow"):
        _same(UFUNC(X, X[0]), NUMPY(X, X[0]))
    for axis in (0, 1):
        _same(UFUNC.reduce(X, axis), NUMPY.reduce(X, axis))
        _same(UFUNC.accumulate(X, axis), NUMPY.accumulate(X, axis))
    _same(UFUNC.outer(X[0], X[1]), NUMPY.outer(X[0], X[1]))
    first, second = jnp.frompyfunc(lambda x: (x, x + 1), 1, 2)(X)
    _same(second, np.asarray(first) + 1)


@pytest.mark.parametrize("ufunc", [UFUNC, jnp.add])
def test_slices_at_traced_indices(ufunc: Any) -> None:
    reference = NUMPY if ufunc is UFUNC else np.add
    run = xpr.jit(lambda i: [ufunc.reduceat(X, i, axis) for axis in (0, 1)])
    with xpr.numpy_rank_promotion("raise"):
        for indices in ([0, 2], [2, 0, 1], [1, 1, 2], [2, 1, 0]):
            found = run(np.array(indices))
            for axis in (0, 1):
                _same(found[axis], reference.reduceat(X, np.array(indices), axis))
                _same(ufunc.reduceat(X, np.array(indices), axis), found[axis])


def test_updates_at_traced_indices() -> None:
    run = xpr.jit(lambda i, b: UFUNC.at(X, i, b, inplace=False))
    for indices, values in (([1, 1, -1], X[:3]), ([0, 3, 2], X[1:])):
        expected = X.astype(object)
        NUMPY.at(expected, np.array(indices), values)
        _same(run(np.array(indices), values), expected)
    _same(run(np.array([1, 9, -9]), np.zeros((3, 3), "f4"))[::2], X[::2])  # nothing is there
    assert float(UFUNC.at(jnp.asarray(2.0)[None], 0, 1.5, inplace=False)[0]) == 21.5


def test_properties_cannot_be_set() -> None:
    for ufunc in (UFUNC, jnp.add):
        assert (ufunc.nin, ufunc.nout, ufunc.nargs) == (2, 1, 2)
        for name in ("nin", "nout", "nargs", "identity"):
            with pytest.raises(AttributeError, match="has no setter"):
                setattr(ufunc, name, None)
    assert jnp.frompyfunc(_join, 2, 1) == UFUNC != jnp.frompyfunc(_join, 2, 1, identity=0)
