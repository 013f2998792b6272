"""map_coordinates against SciPy, eager and jitted, for all modes, dtypes and edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import xpr
from tests.numpy.cases import Case, check, jnp
from xpr.scipy.ndimage import map_coordinates
from xpr.test_util import check_grads

RNG = np.random.default_rng(7)
# Under SciPy's names, where they are others.
MODES = {
    "constant": "grid-constant",
    "nearest": "nearest",
    "wrap": "grid-wrap",
    "mirror": "mirror",
    "reflect": "reflect",
}
IMAGE = RNG.normal(size=(4, 5)).astype("f4")
VECTOR = RNG.normal(size=6).astype("f4")
BOX = RNG.normal(size=(2, 3, 4)).astype("f4")


def places(shape: tuple[int, ...], count: Any) -> list[np.ndarray[Any, Any]]:
    """Places inside, at and far beyond the edges, none of them halfway."""
    return [
        (RNG.integers(-60, 80, count) / 8 + n / 64).astype("f4") for n in range(1, len(shape) + 1)
    ]


def oracle(
    x: Any, *coords: Any, order: int, mode: str = "constant", cval: float = 0.0
) -> np.ndarray[Any, Any]:
    """SciPy in double precision; integers are rounded, halves away from zero."""
    if np.iscomplexobj(x):
        parts = [oracle(p, *coords, order=order, mode=mode, cval=cval) for p in (x.real, x.imag)]
        return (parts[0] + 1j * parts[1]).astype(x.dtype)
    coords = tuple(np.asarray(c, "f8") for c in np.broadcast_arrays(*coords))
    found = scipy.ndimage.map_coordinates(
        x.astype("f8"), np.stack(coords), order=order, mode=MODES[mode], cval=cval
    )
    if x.dtype.kind in "iu":
        found = np.sign(found) * np.floor(np.abs(found) + 0.5)
    return found.astype(x.dtype)


def coordinate_case(x: Any, coords: Any, **kwargs: Any) -> Case:
    return Case(
        "map_coordinates",
        (x, *coords),
        kwargs,
        call=lambda _, a, *c, **kw: map_coordinates(a, c, **kw),
        expected=lambda a, *c: oracle(a, *c, **kwargs),
        atol=3e-6,
        rtol=2e-3 if x.dtype == np.float16 else None,
        # Three axes have programs of many corners: what is compiled is the same for two.
        eager_only=x.ndim == 3 or x.size == 1 or kwargs["order"] == 0 < x.ndim - 1,
    )


def test_against_scipy() -> None:
    cases = []
    for mode in MODES:
        for order in (0, 1):
            options = {"order": order, "mode": mode}
            cases += [
                coordinate_case(VECTOR, places((6,), 20), **options),
                coordinate_case(IMAGE, places((4, 5), (3, 4)), **options),
                coordinate_case(BOX, places((2, 3, 4), 9), **options),
                coordinate_case((IMAGE * 9).astype("i4"), places((4, 5), 12), **options),
                coordinate_case(VECTOR[:1], places((1,), 9), **options),
            ]
    a, b = places((4, 5), (1, 4))
    cases += [
        coordinate_case(IMAGE, (a.reshape(4, 1), b), order=1, cval=2.5),
        coordinate_case(IMAGE.astype("f2"), places((4, 5), 5), order=1, mode="nearest"),
        coordinate_case((IMAGE * 9).astype("u1"), places((4, 5), 5), order=1, mode="wrap"),
        coordinate_case(VECTOR, (np.arange(-2, 9, dtype="i4"),), order=1, mode="reflect"),
        coordinate_case(VECTOR, (np.arange(-2, 9, dtype="i4"),), order=0, cval=-1.0),
        coordinate_case(VECTOR, (VECTOR[:0],), order=1),
    ]
    check(cases)


def test_complex_and_boolean_inputs() -> None:
    x = VECTOR + 1j * VECTOR[::-1]
    [p] = places((6,), 7)
    expected = oracle(x, p, order=1, mode="mirror")
    np.testing.assert_allclose(map_coordinates(x, [p], 1, "mirror"), expected, rtol=1e-5, atol=1e-6)
    flags = jnp.array([True, False, True])
    found = map_coordinates(flags, [jnp.array([0.4, 1.4, 1.6, 9.0])], order=0)
    np.testing.assert_array_equal(found, [True, False, True, False])


def test_halves_and_special_places() -> None:
    found = map_coordinates(jnp.arange(5.0), [jnp.array([0.5, 1.5, 2.5])], 0)
    np.testing.assert_array_equal(found, [1, 2, 3])
    found = map_coordinates(jnp.array([0, 1, 4]), [jnp.array([0.5, 1.5])], 1)
    np.testing.assert_array_equal(found, [1, 3])
    found = map_coordinates(jnp.arange(5.0), [jnp.array([np.nan, np.inf, -np.inf])], 1)
    assert np.isnan(found[0])
    assert float(map_coordinates(jnp.arange(5.0), [2.25], 1)) == 2.25


def test_derivatives_and_vmap() -> None:
    with xpr.enable_x64(True):
        x = jnp.asarray(IMAGE, "float64")
        a, b = (jnp.array(c, "float64") + 0.03 for c in places((4, 5), 6))
        for mode in MODES:
            check_grads(lambda x, a, b, m=mode: map_coordinates(x, (a, b), 1, m), (x, a, b), 1)
        stack = jnp.stack([x, x[::-1]])
        found = xpr.vmap(lambda x, a: map_coordinates(x, (a, b), 1))(stack, jnp.stack([a, b]))
        expected = [map_coordinates(stack[i], ((a, b)[i], b), 1) for i in range(2)]
        np.testing.assert_allclose(found, np.stack(expected), rtol=1e-12)


def test_errors() -> None:
    x, c = jnp.arange(3.0), jnp.zeros(2)
    with pytest.raises(NotImplementedError, match="requires order 0 or 1, got 2"):
        map_coordinates(x, [c], 2)
    with pytest.raises(NotImplementedError, match="does not support mode 'grid-wrap'"):
        map_coordinates(x, [c], 1, "grid-wrap")
    with pytest.raises(ValueError, match="got 2 for an input of 1"):
        map_coordinates(x, [c, c], 1)
    with pytest.raises(ValueError, match=r"axes and elements, got shape \(0,\)"):
        map_coordinates(x[:0], [c], 1)
    listed: Any = [1.0]
    with pytest.raises(TypeError, match="map_coordinates requires ndarray"):
        map_coordinates(listed, [c], 1)
