"""Programs that introductions to this programming model show, as their readers type them."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import jit, lax, make_jaxpr
from xpr.errors import NonConcreteBooleanIndexError, TracerBoolConversionError


def test_numpy_code_runs_unchanged() -> None:
    x_np = np.linspace(0, 10, 1000)
    y_np = 2 * np.sin(x_np) * np.cos(x_np)
    x_jnp = jnp.linspace(0, 10, 1000)
    y_jnp = 2 * jnp.sin(x_jnp) * jnp.cos(x_jnp)
    np.testing.assert_allclose(np.asarray(y_jnp), y_np, atol=5e-6)
    assert type(x_jnp).__name__ == "ArrayImpl"


def test_arrays_are_immutable_and_at_updates_a_copy() -> None:
    x = jnp.arange(10)
    with pytest.raises(TypeError, match="JAX arrays are immutable"):
        x[0] = 10
    y = x.at[0].set(10)
    assert str(x) == "[0 1 2 3 4 5 6 7 8 9]"
    assert str(y) == "[10  1  2  3  4  5  6  7  8  9]"


def test_numpy_promotes_and_lax_does_not() -> None:
    assert repr(jnp.add(1, 1.0)) == "Array(2., dtype=float32, weak_type=True)"
    with pytest.raises(
        TypeError, match=r"lax.add requires arguments to have the same dtypes, got int32, float32"
    ):
        lax.add(1, 1.0)
    assert repr(lax.add(jnp.float32(1), 1.0)) == "Array(2., dtype=float32)"


def test_convolution_in_numpy_and_in_lax() -> None:
    x = jnp.array([1, 2, 1])
    y = jnp.ones(10)
    expected = [1.0, 3.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 3.0, 1.0]
    np.testing.assert_array_equal(np.asarray(jnp.convolve(x, y)), expected)
    result = lax.conv_general_dilated(
        x.reshape(1, 1, 3).astype(float),
        y.reshape(1, 1, 10),
        window_strides=(1,),
        padding=[(len(y) - 1, len(y) - 1)],
    )
    assert (
        repr(result[0, 0])
        == "Array([1., 3., 4., 4., 4., 4., 4., 4., 4., 4., 3., 1.], dtype=float32)"
    )


def _norm(X):
    X = X - X.mean(0)
    return X / X.std(0)


def test_normalise_columns() -> None:
    np.random.seed(1701)
    X_np = np.random.rand(10000, 10)
    X = jnp.array(X_np)
    norm_compiled = jit(_norm)
    assert np.allclose(_norm(X), norm_compiled(X), atol=1e-6)
    np.testing.assert_allclose(np.asarray(norm_compiled(X)), _norm(X_np), atol=2e-5)
    assert norm_compiled(X).block_until_ready() is not None


def test_boolean_masks_work_eagerly_and_explain_themselves_in_jit() -> None:
    def get_negatives(x):
        return x[x < 0]

    values = np.random.default_rng(0).standard_normal(10).astype("f4")
    x = jnp.array(values)
    np.testing.assert_array_equal(np.asarray(get_negatives(x)), values[values < 0])
    with pytest.raises(
        NonConcreteBooleanIndexError, match="Array boolean indices must be concrete; got"
    ):
        jit(get_negatives)(x)


def test_side_effects_run_while_tracing_only(capsys) -> None:
    @jit
    def f(x, y):
        print("Running f():")
        print(f"  x = {x}")
        result = jnp.dot(x + 1, y + 1)
        print(f"  result = {result}")
        return result

    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((3, 4)), rng.standard_normal(4)
    found = f(x, y)
    np.testing.assert_allclose(np.asarray(found), (x + 1) @ (y + 1), rtol=1e-5)
    text = capsys.readouterr().out
    assert text == "Running f():\n  x = JitTracer(float32[3,4])\n  result = JitTracer(float32[3])\n"
    x2, y2 = rng.standard_normal((3, 4)), rng.standard_normal(4)
    np.testing.assert_allclose(np.asarray(f(x2, y2)), (x2 + 1) @ (y2 + 1), rtol=1e-5)
    assert capsys.readouterr().out == ""


def test_make_jaxpr_shows_the_program() -> None:
    def f(x, y):
        return jnp.dot(x + 1, y + 1)

    text = str(make_jaxpr(f)(np.ones((3, 4)), np.ones(4)))
    assert "c:f32[3,4] = add a 1.0:f32[]" in text
    assert "preferred_element_type=float32" in text


def test_control_flow_on_values_needs_static_arguments() -> None:
    def f(x, neg):
        return -x if neg else x

    with pytest.raises(
        TracerBoolConversionError, match=r"depends on the value of the argument neg"
    ):
        jit(f)(1, True)
    g = partial(jit, static_argnums=(1,))(f)
    assert repr(g(1, True)) == "Array(-1, dtype=int32, weak_type=True)"
    assert repr(g(1, False)) == "Array(1, dtype=int32, weak_type=True)"


def test_loop_on_a_traced_value_raises() -> None:
    def g(x, n):
        i = 0
        while i < n:
            i += 1
        return x + i

    with pytest.raises(TracerBoolConversionError, match="argument n"):
        jit(g)(10, 20)
    assert int(jit(g, static_argnames=["n"])(10, 20)) == 30


def test_part_of_a_function_can_be_jitted() -> None:
    @jit
    def loop_body(prev_i):
        return prev_i + 1

    def g_inner_jitted(x, n):
        i = 0
        while i < n:
            i = loop_body(i)
        return x + i

    assert int(g_inner_jitted(10, 20)) == 30


def test_static_and_traced_operations() -> None:
    @jit
    def f(x):
        return x.reshape(jnp.array(x.shape).prod())

    x = jnp.ones((2, 3))
    with pytest.raises(
        TypeError, match="Shapes must be 1D sequences of concrete values of integer type"
    ):
        f(x)

    @jit
    def g(x):
        return x.reshape((np.prod(x.shape),))

    assert repr(g(x)) == "Array([1., 1., 1., 1., 1., 1.], dtype=float32)"


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (lambda x: x.at[1].set(9.0), [1, 9, 3, 4]),
        (lambda x: x.at[1].add(9.0), [1, 11, 3, 4]),
        (lambda x: x.at[1].subtract(9.0), [1, -7, 3, 4]),
        (lambda x: x.at[1:3].multiply(2.0), [1, 4, 6, 4]),
        (lambda x: x.at[1:3].divide(2.0), [1, 1, 1.5, 4]),
        (lambda x: x.at[1:3].power(2.0), [1, 4, 9, 4]),
        (lambda x: x.at[::2].min(2.0), [1, 2, 2, 4]),
        (lambda x: x.at[jnp.array([0, 3])].max(2.0), [2, 2, 3, 4]),
        (lambda x: x.at[0].apply(jnp.exp), [np.e, 2, 3, 4]),
        (lambda x: x.at[1:3].get(), [2, 3]),
        (lambda x: x.at[10].set(7.0), [1, 2, 3, 4]),
        (lambda x: x.at[jnp.array([0, 10])].get(mode="fill", fill_value=-1), [1, -1]),
    ],
)
def test_indexed_updates(update, expected) -> None:
    x = jnp.array([1.0, 2.0, 3.0, 4.0])
    for f in (update, jit(update)):
        np.testing.assert_allclose(np.asarray(f(x)), np.array(expected, "f4"), rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(x), [1, 2, 3, 4])


def test_at_with_slices_of_two_axes() -> None:
    jax_array = jnp.zeros((3, 3))
    updated = jax_array.at[1, :].set(1.0)
    np.testing.assert_array_equal(np.asarray(updated), [[0, 0, 0], [1, 1, 1], [0, 0, 0]])
    more = jnp.ones((5, 6)).at[::2, 3:].add(7.0)
    expected = np.ones((5, 6))
    expected[::2, 3:] += 7
    np.testing.assert_array_equal(np.asarray(more), expected)


def test_out_of_bounds_reads_clamp() -> None:
    assert int(jnp.arange(10)[11]) == 9
    assert int(jit(lambda x, i: x[i])(jnp.arange(10), 11)) == 9


def test_donation() -> None:
    def add(x, y):
        return x + y

    x = xpr.device_put(np.ones((2, 3)))
    y = xpr.device_put(np.ones((2, 3)))
    z = xpr.jit(add, donate_argnums=(1,))(x, y)
    np.testing.assert_array_equal(np.asarray(z), np.full((2, 3), 2.0))
    assert y.is_deleted()


def test_lists_are_refused() -> None:
    with pytest.raises(
        TypeError, match="sum requires ndarray or scalar arguments, got <class 'list'>"
    ):
        jnp.sum([1, 2, 3])
    assert int(jnp.sum(jnp.array([1, 2, 3]))) == 6


def test_single_precision_is_the_default() -> None:
    with pytest.warns(
        UserWarning, match="float64.*not available, and will be truncated to dtype float32"
    ):
        x = jnp.zeros(3, dtype=jnp.float64)
    assert x.dtype == jnp.float32
    env = os.environ | {"XPR_ENABLE_X64": "1"}
    code = "import xpr.numpy as jnp; print(jnp.zeros(3, jnp.float64).dtype)"
    out = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "float64"


def test_eight_cpu_devices_and_committed_placement() -> None:
    code = """
import xpr as jax
import xpr.numpy as jnp
jax.config.update('jax_num_cpu_devices', 8)
arr = jnp.arange(32.0).reshape(4, 8)
print(arr.devices(), len(jax.local_devices()), jax.device_count(), jax.default_backend())
moved = jax.device_put(1, jax.devices()[2])
doubled = jax.jit(lambda x: x * 2)(moved)
print(moved.committed, moved.devices(), (moved + 1).devices(), doubled.devices())
try:
    moved + jax.device_put(1, jax.devices()[3])
except ValueError as error:
    print("incompatible devices" in str(error), "device ids [3]" in str(error))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.stderr == ""
    assert out.stdout.splitlines() == [
        "{CpuDevice(id=0)} 8 8 cpu",
        "True {CpuDevice(id=2)} {CpuDevice(id=2)} {CpuDevice(id=2)}",
        "True True",
    ]


def test_loop_convolution() -> None:
    x = jnp.arange(5)
    w = jnp.array([2.0, 3.0, 4.0])

    def convolve(x, w):
        output = []
        for i in range(1, len(x) - 1):
            output.append(jnp.dot(x[i - 1 : i + 2], w))
        return jnp.array(output)

    for f in (convolve, jit(convolve)):
        np.testing.assert_array_equal(np.asarray(f(x, w)), [11.0, 20.0, 29.0])


def test_a_static_argument_may_choose_the_branch() -> None:
    def f(x):
        if x < 3:
            return 3.0 * x**2
        return -4 * x

    g = jit(f, static_argnames="x")
    assert float(g(2.0)) == 12.0
    assert float(g(5.0)) == -20.0


def test_leaves_of_trees() -> None:
    thing = object()
    trees = [
        ([1, "a", thing], [1, "a", thing]),
        ((1, (2, 3), ()), [1, 2, 3]),
        ([1, {"k1": 2, "k2": (3, 4)}, 5], [1, 2, 3, 4, 5]),
        ({"a": 2, "b": (2, 3)}, [2, 2, 3]),
    ]
    for tree, leaves in trees:
        assert xpr.tree.leaves(tree) == leaves
    assert repr(xpr.tree.leaves(jnp.array([1, 2, 3]))) == "[Array([1, 2, 3], dtype=int32)]"
    assert xpr.tree.leaves([None, None, None]) == []
    assert xpr.tree.leaves([None, None, None], is_leaf=lambda x: x is None) == [None] * 3
    assert str(xpr.tree_util.tree_structure(thing)) == "PyTreeDef(*)"


def test_maps_over_trees() -> None:
    lists = [[1, 2, 3], [1, 2], [1, 2, 3, 4]]
    doubled = [[2, 4, 6], [2, 4], [2, 4, 6, 8]]
    assert xpr.tree.map(lambda x: x * 2, lists) == doubled
    assert xpr.tree.map(lambda x, y: x + y, lists, lists) == doubled


def test_shapes_are_trees_themselves() -> None:
    shapes = xpr.tree.map(lambda x: x.shape, [jnp.zeros((2, 3)), jnp.zeros((3, 4))])
    assert repr(xpr.tree.map(jnp.ones, shapes)) == (
        "[(Array([1., 1.], dtype=float32), Array([1., 1., 1.], dtype=float32)), "
        "(Array([1., 1., 1.], dtype=float32), Array([1., 1., 1., 1.], dtype=float32))]"
    )


def test_paths_of_leaves() -> None:
    flat, tree = xpr.tree_util.tree_flatten_with_path([[1, "a"], (1, (2, 3), ()), 7])
    assert repr(flat[0]) == "((SequenceKey(idx=0), SequenceKey(idx=0)), 1)"
    assert repr(flat[4]) == "((SequenceKey(idx=1), SequenceKey(idx=1), SequenceKey(idx=1)), 3)"
    assert str(tree) == "PyTreeDef([[*, *], (*, (*, *), ()), *])"
    pair = collections.namedtuple("pair", ("name",))
    flat, _ = xpr.tree_util.tree_flatten_with_path([1, {"k1": 2, "k2": (3, 4)}, pair("foo")])
    assert [f"tree{xpr.tree_util.keystr(path)}: {value}" for path, value in flat] == [
        "tree[0]: 1",
        "tree[1]['k1']: 2",
        "tree[1]['k2'][0]: 3",
        "tree[1]['k2'][1]: 4",
        "tree[2].name: foo",
    ]


def test_trees_transposed_in_both_ways() -> None:
    steps = [{"t": 1, "obs": 3}, {"t": 2, "obs": 4}]
    turned = {"t": [1, 2], "obs": [3, 4]}
    assert xpr.tree.map(lambda *xs: list(xs), *steps) == turned
    outer, inner = xpr.tree.structure([0 for _ in steps]), xpr.tree.structure(steps[0])
    assert (
        xpr.tree.transpose(outer_treedef=outer, inner_treedef=inner, pytree_to_transpose=steps)
        == turned
    )


def test_state_becomes_an_argument() -> None:
    @jit
    def count(n):
        return n, n + 1

    state = 0
    for i in range(3):
        value, state = count(state)
        assert int(value) == i


def test_structured_control_flow_is_pythons() -> None:
    """Each function beside the Python that it stands for."""

    def python_while(cond_fun, body_fun, init_val):
        val = init_val
        while cond_fun(val):
            val = body_fun(val)
        return val

    def python_for(start, stop, body_fun, init_val):
        val = init_val
        for i in range(start, stop):
            val = body_fun(i, val)
        return val

    def below_ten(x):
        return x < 10

    def add_one(x):
        return x + 1

    def add(i, x):
        return i + x

    operand = jnp.array([0.0])
    for wrap in (lambda f: f, jit):
        choose = wrap(lambda p: lax.cond(p, lambda x: x + 1, lambda x: x - 1, operand))
        assert repr(choose(True)) == "Array([1.], dtype=float32)"
        assert repr(choose(False)) == "Array([-1.], dtype=float32)"
        found = wrap(lambda x: lax.while_loop(below_ten, add_one, x))(0)
        assert int(found) == python_while(below_ten, add_one, 0) == 10
        assert repr(found) == "Array(10, dtype=int32, weak_type=True)"
        found = wrap(lambda x: lax.fori_loop(0, 10, add, x))(0)
        assert int(found) == python_for(0, 10, add, 0) == 45


def test_batches_of_convolutions() -> None:
    def convolve(x, w):
        return jnp.array([jnp.dot(x[i - 1 : i + 2], w) for i in range(1, len(x) - 1)])

    x, w = jnp.arange(5), jnp.array([2.0, 3.0, 4.0])
    xs, ws = jnp.stack([x, x]), jnp.stack([w, w])
    one = [11.0, 20.0, 29.0]
    for wrap in (lambda f: f, jit):
        assert wrap(xpr.vmap(convolve))(xs, ws).tolist() == [one, one]
        columns = wrap(xpr.vmap(convolve, in_axes=1, out_axes=1))(xs.T, ws.T)
        assert columns.T.tolist() == [one, one]
        assert wrap(xpr.vmap(convolve, in_axes=[0, None]))(xs, w).tolist() == [one, one]


def test_axes_of_trees() -> None:
    def f(a, d):
        return a + d["k1"] * d["k2"]

    a, k1, k2 = jnp.float32(1), jnp.float32(2), jnp.arange(3.0)
    expected = [1.0, 3.0, 5.0]
    found = xpr.vmap(f, in_axes=(None, {"k1": None, "k2": 0}))(a, {"k1": k1, "k2": k2})
    assert found.tolist() == expected
    many = {"k1": jnp.full(3, k1), "k2": k2}
    assert xpr.vmap(f, in_axes=(None, 0))(a, many).tolist() == expected
    assert xpr.vmap(f, in_axes=0)(jnp.full(3, a), many).tolist() == expected


def test_maps_with_the_paths_of_leaves() -> None:
    tree = {"a": 1, "b": [2, (3,)]}
    named = xpr.tree_util.tree_map_with_path(
        lambda path, x: f"{xpr.tree_util.keystr(path)}={x}", tree
    )
    assert named == {"a": "['a']=1", "b": ["['b'][0]=2", ("['b'][1][0]=3",)]}


def test_a_counter_that_hides_its_state_counts_while_traced_only() -> None:
    class Counter:
        def __init__(self):
            self.n = 0

        def count(self):
            self.n += 1
            return self.n

    counter = Counter()
    assert [counter.count() for _ in range(3)] == [1, 2, 3]
    counter = Counter()
    fast = jit(counter.count)
    assert [int(fast()) for _ in range(3)] == [1, 1, 1]

    class Explicit:
        def count(self, n):
            return n + 1, n + 1

    state, seen = 0, []
    fast = jit(Explicit().count)
    for _ in range(3):
        value, state = fast(state)
        seen.append(int(value))
    assert seen == [1, 2, 3]


def test_state_in_a_scan() -> None:
    """A line fitted by gradient descent: parameters in, parameters out."""
    xs = jnp.linspace(-1.0, 1.0, 32)
    ys = 3.0 * xs - 1.0

    def loss(params):
        return jnp.mean((params["weight"] * xs + params["bias"] - ys) ** 2)

    @jit
    def update(params):
        grads = xpr.grad(loss)(params)
        return xpr.tree.map(lambda p, g: p - 0.3 * g, params, grads)

    start = {"weight": jnp.float32(0), "bias": jnp.float32(0)}
    params = start
    for _ in range(60):
        params = update(params)
    again, losses = jit(lambda p: lax.scan(lambda p, _: (update(p), loss(p)), p, None, length=60))(
        start
    )
    for found in (params, again):
        np.testing.assert_allclose(float(found["weight"]), 3.0, atol=1e-4)
        np.testing.assert_allclose(float(found["bias"]), -1.0, atol=1e-4)
    assert losses.shape == (60,)
    assert bool((losses[1:] <= losses[:-1] + 1e-9).all())
