"""Outside of programs, too, work is done on the mesh of `set_mesh`: JAX 0.10.2's placements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.sharding import AxisType, Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

DEVICES = np.array(xpr.devices("cpu")[:4]).reshape(2, 2)
AUTO = Mesh(DEVICES, ("x", "y"))
EXPLICIT = Mesh(DEVICES, ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
BEFORE = jnp.arange(8.0)

MADE: dict[str, tuple[Callable[[], Any], Any]] = {
    "zeros": (lambda: jnp.zeros((8, 2)), np.zeros((8, 2))),
    "ones": (lambda: jnp.ones(3), np.ones(3)),
    "arange": (lambda: jnp.arange(8), np.arange(8)),
    "eye": (lambda: jnp.eye(3), np.eye(3)),
    "linspace": (lambda: jnp.linspace(0, 1, 5), np.linspace(0, 1, 5)),
    "sum of NumPy arrays": (lambda: jnp.add(np.ones(8), 1), np.full(8, 2)),
    "old + 1": (lambda: BEFORE + 1, np.arange(1, 9)),
    "old.at": (lambda: BEFORE.at[0].set(3), [3, *range(1, 8)]),
    "vmap": (lambda: xpr.vmap(lambda v: v * 2)(BEFORE), np.arange(8) * 2),
    "grad": (lambda: xpr.grad(lambda v: (v * v).sum())(BEFORE), np.arange(8) * 2),
    "loop": (lambda: lax.fori_loop(0, 3, lambda _, v: v + 1, BEFORE), np.arange(3, 11)),
    "jit": (lambda: xpr.jit(lambda: jnp.ones(2))(), np.ones(2)),
    "nonzero": (lambda: jnp.nonzero(BEFORE > 5)[0], [6, 7]),
    "PRNGKey": (lambda: xpr.random.PRNGKey(7), [0, 7]),
}
PLAIN: dict[str, tuple[Callable[[], Any], Any]] = {
    "array": (lambda: jnp.array([1, 2, 3]), [1, 2, 3]),
    "asarray": (lambda: jnp.asarray(np.ones(8)), np.ones(8)),
    "float32": (lambda: jnp.float32(1), 1),
    "old[0]": (lambda: BEFORE[3], 3),
}


@pytest.mark.parametrize("name", [*MADE, *PLAIN])
@pytest.mark.parametrize("mesh", [AUTO, EXPLICIT], ids=["auto", "explicit"])
def test_results_are_everywhere(mesh: Mesh, name: str) -> None:
    make, values = (MADE | PLAIN)[name]
    with xpr.set_mesh(mesh):
        found = make()
    axes = (None,) * found.ndim if name in MADE and mesh is EXPLICIT else ()
    assert found.sharding == NamedSharding(mesh, P(*axes))
    assert found.committed
    assert xpr.typeof(found).str_short() == xpr.typeof(jnp.asarray(values, found.dtype)).str_short()
    np.testing.assert_allclose(found, values, rtol=1e-6)
    after = make()
    assert not after.committed
    assert after.devices() == {xpr.devices()[0]}


def test_random_numbers_are_those_of_one_device() -> None:
    alone = xpr.random.normal(xpr.random.key(3), (5, 4))
    with xpr.set_mesh(AUTO):
        found = xpr.random.normal(xpr.random.key(3), (5, 4))
    assert found.sharding == NamedSharding(AUTO, P())
    np.testing.assert_array_equal(found, alone)


def test_what_is_put_somewhere_stays_there() -> None:
    device = xpr.devices("cpu")[3]
    with xpr.set_mesh(AUTO):
        assert not xpr.device_put(np.ones(2)).committed
        assert xpr.device_put(np.ones(2), device).devices() == {device}
        assert jnp.zeros(2, device=device).devices() == {device}
        assert jnp.asarray(BEFORE) is BEFORE
        assert float(BEFORE[2]) == 2.0


def test_arrays_on_other_devices_than_the_mesh() -> None:
    one = xpr.device_put(np.ones(8, "f"), xpr.devices("cpu")[5])
    two = xpr.device_put(np.ones(8, "f"), NamedSharding(Mesh(DEVICES[0], ("z",)), P("z")))
    for x, ids in ((one, r"\[5\]"), (two, r"\[0, 1\]")):
        with xpr.set_mesh(AUTO):
            for function, name in (
                (lambda v: v + 1, "add"),
                (xpr.jit(lambda v: v + 1), "<lambda>"),
            ):
                with pytest.raises(
                    ValueError,
                    match=rf"incompatible devices for jitted computation. Got argument \w of .*"
                    rf"with device ids {ids} on platform CPU and the mesh of set_mesh around "
                    rf".*{name} and with device ids \[0, 1, 2, 3\]",
                ):
                    function(x)
        np.testing.assert_array_equal(x + 1, np.full(8, 2))


def test_functions_that_programs_call_are_those_of_one_device() -> None:
    seen: list[Any] = []

    def ask(v: Any) -> Any:
        made = jnp.ones(3) + v
        seen.append((made.committed, len(made.devices())))
        return made

    kind = xpr.ShapeDtypeStruct((3,), np.float32)
    with xpr.set_mesh(AUTO):
        found = xpr.jit(lambda v: xpr.pure_callback(ask, kind, v))(BEFORE[:3])
        assert jnp.ones(2).committed
    np.testing.assert_array_equal(found, np.arange(3) + 1)
    assert seen == [(False, 1)]


def test_a_mesh_of_one_device() -> None:
    with xpr.set_mesh(Mesh(DEVICES[:1, 0], ("o",))):
        found = jnp.ones(3) + BEFORE[0]
        np.testing.assert_array_equal(found, np.ones(3))
        assert found.sharding == NamedSharding(Mesh(DEVICES[:1, 0], ("o",)), P())
