"""Functions with two names say the one that they were called by."""

from __future__ import annotations

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.numpy import aliases

TWINS = {
    "acos": "arccos", "acosh": "arccosh", "amax": "max", "amin": "min", "asin": "arcsin",
    "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh",
    "bitwise_invert": "bitwise_not", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "conj": "conjugate", "deg2rad": "radians",
    "invert": "bitwise_not", "rad2deg": "degrees",
}  # fmt: skip
# JAX names the first of the two in errors.
FIRST_IN_ERRORS = {"amax", "amin", "bitwise_right_shift", "conj"}


@pytest.mark.parametrize("name", TWINS)
def test_an_alias_has_its_own_name(name: str) -> None:
    function, twin = getattr(jnp, name), getattr(jnp, TWINS[name])
    assert function is getattr(aliases, name)
    assert function.__name__ == function.__qualname__ == name
    said = TWINS[name] if name in FIRST_IN_ERRORS else name
    count = 2 if name in ("atan2", "bitwise_left_shift", "bitwise_right_shift") else 1
    with pytest.raises(TypeError, match=rf"^{said} requires ndarray or scalar arguments"):
        function(*[[1, 2]] * count)
    with pytest.raises(TypeError, match=rf"^{name}\(\) missing"):
        function()
    whole = np.array([1, 3, 5])
    args = [whole] * count if "shift" in name or "inv" in name else [whole / 8] * count
    np.testing.assert_array_equal(function(*args), twin(*args))


def test_options_of_reductions() -> None:
    x = np.array([[1.0, 5.0], [3.0, 4.0]])
    np.testing.assert_array_equal(jnp.amax(x, 1, keepdims=True), [[5], [4]])
    np.testing.assert_array_equal(jnp.amin(x, axis=0, initial=2.0, where=x > 1), [2, 2])


def test_functions_of_trees_and_transformations() -> None:
    for name in xpr.tree.__all__:
        assert getattr(xpr.tree, name).__name__ == name
    with pytest.raises(TypeError, match=r"^map\(\) missing 2 required positional arguments"):
        xpr.tree.map()  # type: ignore[call-arg]
    assert xpr.tree.map(lambda x, y: x + y, {"a": 1}, {"a": 2}) == {"a": 3}
    assert xpr.tree.leaves([1, None], is_leaf=lambda x: x is None) == [1, None]
    assert xpr.tree_util.tree_map.__name__ == "tree_map"
    assert xpr.jacobian.__name__ == "jacobian"
    assert xpr.remat.__name__ == "remat"
    np.testing.assert_array_equal(
        xpr.jacobian(lambda x: x**2)(jnp.array([1.0, 2.0])), [[2, 0], [0, 4]]
    )
    assert float(xpr.grad(xpr.remat(jnp.exp))(0.0)) == 1
    assert float(xpr.grad(xpr.remat(static_argnums=1)(lambda x, n: x**n))(3.0, 2)) == 6
