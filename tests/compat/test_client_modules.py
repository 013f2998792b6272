"""Small modules and names that single client libraries need."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.compat.modules import core
from xpr.compat.modules import experimental as jax_experimental
from xpr.compat.modules._src import distributed
from xpr.compat.modules.experimental import array_serialization, colocated_python, hijax
from xpr.compat.modules.experimental.array_serialization import serialization
from xpr.compat.modules.extend import backend, ifrt_programs
from xpr.compat.modules.extend.core import Effect
from xpr.compat.modules.interpreters import batching, xla
from xpr.core.trace import aval_rules
from xpr.sharding import NamedSharding, PartitionSpec


def test_effects_of_classes() -> None:
    class Written(Effect): ...

    assert Written() == Written()
    assert Written().name == "Written"
    assert not hijax.control_flow_allowed_effects.contains(Written())
    hijax.control_flow_allowed_effects.add_type(Written)
    assert hijax.control_flow_allowed_effects.contains(Written())


def test_experimental_has_the_modules_of_both() -> None:
    assert jax_experimental.hijax is hijax
    assert jax_experimental.io_callback is xpr.experimental.io_callback
    assert jax_experimental.ode is xpr.experimental.ode
    with pytest.raises(AttributeError, match=r"docs/jax_compat\.md lists what is missing"):
        _ = jax_experimental.no_such_module


def test_colocated_python_runs_here() -> None:
    @colocated_python.colocated_python
    def doubled(x: Any, by: int = 2) -> Any:
        return by * x

    x = jnp.arange(3.0)
    np.testing.assert_array_equal(doubled(x, by=3), [0, 3, 6])
    assert doubled.__name__ == "doubled"
    told = doubled.specialize(out_specs_fn=lambda s: xpr.ShapeDtypeStruct(s.shape, s.dtype))
    np.testing.assert_array_equal(told(x), [0, 2, 4])
    wrong = doubled.specialize(out_specs=xpr.ShapeDtypeStruct((2,), jnp.float32))
    with pytest.raises(ValueError, match=r"gave float32\[3\], its out_specs say float32\[2\]"):
        wrong(x)
    mesh = xpr.make_mesh((1,), ("x",))
    assert colocated_python.colocated_cpu_devices(mesh) == mesh
    sharded = xpr.device_put(x, NamedSharding(mesh, PartitionSpec("x")))
    same = colocated_python.colocated_python(lambda x: x)
    assert same(sharded).sharding == sharded.sharding

    made = []

    @colocated_python.colocated_python_class
    class Counter:
        step = 5

        def __init__(self, start: int) -> None:
            made.append(start)
            self.count = start

        def add(self, x: Any) -> Any:
            self.count += 1
            return x + self.count

    counter = Counter(10)
    assert made == []
    assert [int(counter.add(jnp.zeros(()))) for _ in range(2)] == [11, 12]
    assert made == [10]
    with pytest.raises(AttributeError, match="Counter has no public method 'step'"):
        _ = counter.step


def test_classes_of_values() -> None:
    @dataclasses.dataclass
    class Holder:
        shape: tuple[int, ...]
        dtype: Any

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.full(self.shape, 3, self.dtype)

    table = core.pytype_aval_mappings
    handlers = xla.canonicalize_dtype_handlers
    try:
        table[Holder] = table[np.ndarray]
        handlers[Holder] = handlers[np.ndarray]
        held = Holder((2,), np.dtype(np.float32))
        np.testing.assert_allclose(jnp.cos(held), np.cos([3.0, 3.0]), rtol=1e-6)
        np.testing.assert_allclose(xpr.jit(jnp.cos)(held), np.cos([3.0, 3.0]), rtol=1e-6)
        with pytest.raises(NotImplementedError, match="xpr knows only the rule of NumPy's arrays"):
            handlers[Holder] = str
        assert Holder in table
        assert len(table) == len(aval_rules)
    finally:
        del table[Holder]
    assert Holder not in aval_rules
    assert Holder not in handlers


def test_what_clients_ask_of_arrays_and_runtimes() -> None:
    assert xpr.Array.item(jnp.array(3)) == 3
    assert xpr.Array.tolist.__name__ == "tolist"
    assert not hasattr(jnp.ones(2).aval, "item")
    assert backend.get_backend("cpu") is backend.backends()["cpu"]
    assert xpr.devices()[0].client.runtime_type == "xpr"
    state = distributed.global_state
    assert (state.client, state.process_id, state.num_processes) == (None, 0, 1)
    with pytest.raises(NotImplementedError, match="makes a program for IFRT"):
        ifrt_programs.ifrt_programs.make_plugin_program("")
    assert array_serialization.__doc__
    with pytest.raises(TypeError, match="abstract"):
        serialization.GlobalAsyncCheckpointManagerBase()


def test_vmap_refuses_classes_with_rules_of_their_own() -> None:
    @xpr.tree_util.register_dataclass
    @dataclasses.dataclass
    class Rows:
        x: Any

    batching.register_vmappable(Rows, int, int, None, None, None)
    with pytest.raises(NotImplementedError, match="vmap of a Rows: it has rules of its own"):
        xpr.vmap(lambda r: r.x)(Rows(jnp.ones(2)))
    np.testing.assert_array_equal(xpr.jit(lambda r: r.x + 1)(Rows(jnp.ones(2))), [2, 2])
