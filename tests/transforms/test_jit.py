"""`jit`: caching, static arguments, pytrees, nesting, donation, stages and messages."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import errors, lax
from xpr.core.config import override


class Counter:
    """Counts how often a function is traced."""

    def __init__(self, fun) -> None:
        self.fun = fun
        self.count = 0

    def __call__(self, *args, **kwargs):
        self.count += 1
        return self.fun(*args, **kwargs)


def test_traces_once_per_type() -> None:
    body = Counter(lambda x: x + 1)
    f = xpr.jit(body)
    for x in (jnp.ones(3), jnp.zeros(3), np.ones(3, "f4")):
        np.testing.assert_array_equal(np.asarray(f(x)), np.asarray(x) + 1)
    assert body.count == 1
    f(jnp.ones(4))
    f(jnp.ones(3, jnp.int32))
    f(1.0)
    f(2.0)
    assert body.count == 4


def test_same_function_shares_its_traces() -> None:
    body = Counter(lambda x: x * 2)
    for _ in range(3):
        assert float(xpr.jit(body)(2.0)) == 4.0
    assert body.count == 1


def test_clear_caches_traces_again() -> None:
    body = Counter(lambda x: x * 2)
    f = xpr.jit(body)
    f(1.0)
    xpr.clear_caches()
    f(1.0)
    assert body.count == 2
    f.clear_cache()
    f(1.0)
    assert body.count == 3


def test_pytrees_in_and_out() -> None:
    f = xpr.jit(lambda p, *, scale: {"out": [p["a"] * scale, (p["b"], None)], "n": 3})
    out = f({"a": np.ones(2, "f4"), "b": 5}, scale=2.0)
    assert list(out) == ["n", "out"]
    np.testing.assert_array_equal(np.asarray(out["out"][0]), [2.0, 2.0])
    assert int(out["out"][1][0]) == 5
    assert out["out"][1][1] is None
    assert int(out["n"]) == 3


def test_many_arguments_and_results() -> None:
    f = xpr.jit(lambda *xs: tuple(x + i for i, x in enumerate(xs)))
    xs = [jnp.full((4,), float(i)) for i in range(20)]
    for _ in range(2):
        out = f(*xs)
        assert [float(o[0]) for o in out] == [2.0 * i for i in range(20)]


def test_decorator_with_partial_and_bare_options() -> None:
    @functools.partial(xpr.jit, static_argnums=(1,))
    def f(x, neg):
        return -x if neg else x

    assert repr(f(1, True)) == "Array(-1, dtype=int32, weak_type=True)"
    assert repr(f(1, False)) == "Array(1, dtype=int32, weak_type=True)"

    @xpr.jit(static_argnames="n")
    def power(x, n):
        return x**n

    assert float(power(3.0, n=2)) == 9.0
    assert float(power(3.0, 3)) == 27.0


def test_static_argument_controls_python_flow() -> None:
    def f(x):
        return 3.0 * x**2 if x < 3 else -4 * x

    assert float(xpr.jit(f, static_argnames="x")(2.0)) == 12.0


def test_static_values_of_equal_hash_but_other_type_differ() -> None:
    f = xpr.jit(lambda x, kind: x + (10 if isinstance(kind, bool) else 20), static_argnums=1)
    assert int(f(1, True)) == 11
    assert int(f(1, 1)) == 21


def test_unhashable_static_argument_is_named() -> None:
    f = xpr.jit(lambda x, sizes: x, static_argnums=1)
    with pytest.raises(ValueError, match=r"hash an object of type <class 'list'>(?s:.*)index 1"):
        f(1.0, [1, 2])
    g = xpr.jit(lambda x, sizes: x, static_argnames="sizes")
    with pytest.raises(ValueError, match=r"hash an object of type <class 'dict'>(?s:.*)'sizes'"):
        g(1.0, sizes={})


def test_bad_options() -> None:
    def f(x, y):
        return x

    with pytest.raises(ValueError, match="only accepts 2 positional arguments: f"):
        xpr.jit(f, static_argnums=5)
    with pytest.raises(ValueError, match="invalid argnames"):
        xpr.jit(f, static_argnames="z")
    with pytest.raises(TypeError, match="static_argnums must be an int"):
        xpr.jit(f, static_argnums="x")
    with pytest.raises(ValueError, match="both static and donated"):
        xpr.jit(f, static_argnums=0, donate_argnums=0)
    with pytest.raises(TypeError, match="Expected a callable value"):
        xpr.jit(3)


def test_negative_argnums() -> None:
    f = xpr.jit(lambda x, n: x * n, static_argnums=-1)
    assert float(f(2.0, 4)) == 8.0


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match=r"passed to the function at path name"):
        xpr.jit(lambda x, name: x)(1.0, "a")
    with pytest.raises(TypeError, match=r"output component \['bad'\]"):
        xpr.jit(lambda x: {"ok": x, "bad": "text"})(1.0)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        xpr.jit(lambda x, y: x)(1.0)


def test_nested_jit_and_closures() -> None:
    @xpr.jit
    def inner(x, y):
        return x * y + 1

    @xpr.jit
    def outer(x):
        scaled = x * 3
        closure = xpr.jit(lambda z: z + scaled)
        return inner(closure(x), inner(x, 2.0))

    assert float(outer(2.0)) == (2 + 6) * 5 + 1


def test_inline_leaves_no_call() -> None:
    f = xpr.jit(lambda x: jnp.sin(x) * 2, inline=True)
    names = [e.primitive.name for e in xpr.make_jaxpr(lambda x: f(x))(1.0).eqns]
    assert names == ["sin", "mul"]


def test_identity_constants_and_repeated_results() -> None:
    table = jnp.arange(3.0)
    f = xpr.jit(lambda x, y: (x, y + 1, x, table, 7, y + 1))
    x = jnp.ones(2)
    for _ in range(2):
        a, b, c, d, e, g = f(x, 1.0)
        np.testing.assert_array_equal(np.asarray(a), np.ones(2))
        np.testing.assert_array_equal(np.asarray(c), np.ones(2))
        np.testing.assert_array_equal(np.asarray(d), [0, 1, 2])
        assert (float(b), int(e), float(g)) == (2.0, 7, 2.0)
        a.delete()
        np.testing.assert_array_equal(np.asarray(c), np.ones(2))
        np.testing.assert_array_equal(np.asarray(x), np.ones(2))


def test_no_arguments() -> None:
    assert float(xpr.jit(lambda: jnp.sum(jnp.arange(4.0)))()) == 6.0


def test_results_never_share_memory_with_numpy_arguments() -> None:
    f = xpr.jit(lambda x: (x, x.reshape(2, 32), x[:32], jnp.where(True, x, x + 1)))
    source = np.arange(64, dtype="f4")
    for _ in range(2):
        out = f(source)
        expected = [np.array(o) for o in out]
        source[:] = -1
        for found, want in zip(out, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(found), want)
        source[:] = np.arange(64)


def test_arguments_are_never_overwritten() -> None:
    # Updates of an argument that has no later use tempt the compiler to work in place.
    f = xpr.jit(lambda x: (x.at[0].set(100.0), jnp.sort(x), x.at[jnp.array([1, 2])].add(5.0)))
    g = xpr.jit(lambda x: x.at[3].set(-1.0))
    x = jnp.arange(16.0)[::-1] + 0
    before = np.array(x)
    for _ in range(2):
        f(x)
        g(x)
        np.testing.assert_array_equal(np.asarray(x), before)


def test_keep_unused() -> None:
    f = xpr.jit(lambda x, unused: x + 1, keep_unused=True)
    assert float(f(1.0, 2.0)) == 2.0
    assert f.lower(1.0, 2.0).as_text("iree").count("%arg1") >= 1


def test_methods() -> None:
    class Model:
        scale = 3.0

        @functools.partial(xpr.jit, static_argnums=0)
        def apply(self, x):
            return x * self.scale

    assert float(Model().apply(2.0)) == 6.0


def test_disable_jit_runs_python() -> None:
    seen = []
    f = xpr.jit(lambda x: seen.append(float(x)) or x + 1)
    with override("disable_jit", True):
        assert float(f(2.0)) == 3.0
    assert seen == [2.0]


# ---- donation


def test_donated_array_raises_and_result_takes_its_memory() -> None:
    f = xpr.jit(lambda x, y: x + y, donate_argnums=(1,))
    x = xpr.device_put(np.ones((64, 64), "f4"))
    y = xpr.jit(lambda v: v * 1)(x)  # memory of IREE's own; NumPy's would be copied once
    address = y.unsafe_buffer_pointer()
    z = f(x, y)
    assert z.unsafe_buffer_pointer() == address
    np.testing.assert_array_equal(np.asarray(z), np.full((64, 64), 2.0))
    assert y.is_deleted()
    assert not x.is_deleted()
    with pytest.raises(RuntimeError, match=r"Array has been deleted"):
        np.asarray(y)
    with pytest.raises(RuntimeError, match=r"Array has been deleted"):
        y + 1
    with pytest.raises(RuntimeError, match=r"Array has been deleted"):
        f(x, y)
    assert "deleted" in repr(y)


def test_donation_spares_what_others_can_see() -> None:
    f = xpr.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.arange(1024.0) + 0
    view = np.asarray(x)
    part = x.reshape(32, 32)
    f(x)
    np.testing.assert_array_equal(view, np.arange(1024.0))
    np.testing.assert_array_equal(np.asarray(part).ravel(), np.arange(1024.0))


def test_donation_by_name_and_in_trees() -> None:
    @functools.partial(xpr.jit, donate_argnames="state")
    def step(state, grad):
        return {k: v - grad for k, v in state.items()}

    state = {"a": jnp.ones(100), "b": jnp.zeros(50)}
    old = list(state.values())
    for _ in range(3):
        state = step(state, 0.5)
    assert [float(state["a"][0]), float(state["b"][0])] == [-0.5, -1.5]
    assert all(v.is_deleted() for v in old)


def test_useless_donation_warns() -> None:
    f = xpr.jit(lambda x: jnp.sum(x), donate_argnums=0)
    x = jnp.ones((3, 5))
    with pytest.warns(UserWarning, match=r"donated buffers were not usable: f32\[3,5\]"):
        f(x)


# ---- stages


def test_stages() -> None:
    f = xpr.jit(lambda x, n: {"y": x * n}, static_argnums=1)
    traced = f.trace(xpr.ShapeDtypeStruct((4,), "float32"), 3)
    assert str(traced.jaxpr) == "{ lambda ; a:f32[4]. let b:f32[4] = mul a 3.0:f32[] in (b,) }"
    lowered = traced.lower()
    assert "stablehlo.multiply" in lowered.as_text("iree")
    assert "test_jit.py" in lowered.as_text(debug_info=True)
    assert lowered.out_info == {"y": xpr.ShapeDtypeStruct((4,), "float32")}
    assert lowered.cost_analysis()["flops"] >= 4
    compiled = lowered.compile()
    np.testing.assert_array_equal(np.asarray(compiled(np.ones(4, "f4"))["y"]), np.full(4, 3.0))
    assert compiled.memory_analysis()["argument_size_in_bytes"] == 16
    with pytest.raises(
        TypeError, match=r"'x' compiled with float32\[4\] and called with float32\[5\]"
    ):
        compiled(np.ones(5, "f4"))


def test_a_compiled_program_takes_no_static_arguments() -> None:
    after = xpr.jit(lambda x, n: x + n, static_argnums=1).lower(jnp.ones(2), 3).compile()
    before = xpr.jit(lambda n, x: x + n, static_argnums=0).lower(3, jnp.ones(2)).compile()
    for program in (after, before):
        np.testing.assert_array_equal(program(jnp.zeros(2)), [3.0, 3.0])
    # Another value would be ignored in silence.
    for call in (
        lambda: after(jnp.zeros(2), 4),
        lambda: after(jnp.zeros(2), n=4),
        lambda: before(4, jnp.zeros(2)),
    ):
        with pytest.raises(TypeError, match="static arguments left out"):
            call()


def test_a_compiled_program_cannot_be_traced() -> None:
    program = xpr.jit(lambda x: x + 1).lower(jnp.ones(2)).compile()
    with pytest.raises(
        TypeError, match="Cannot apply JAX transformations to a function lowered and compiled"
    ):
        xpr.jit(lambda x: program(x))(jnp.ones(2))


def test_lowered_text_is_deterministic_and_free_of_locations() -> None:
    def make():
        return xpr.jit(lambda x: jnp.sin(x) @ x + 1).lower(np.ones((3, 3), "f4")).as_text("iree")

    assert make() == make()
    assert "loc(" not in make()


def test_save_writes_a_module_with_constants(tmp_path) -> None:
    table = jnp.arange(4.0)
    path = tmp_path / "f.vmfb"
    xpr.jit(lambda x: x + table).save(path, np.ones(4, "f4"))
    run = subprocess.run(
        [
            str(__import__("pathlib").Path(sys.executable).with_name("iree-run-module")),
            f"--module={path}",
            "--function=main",
            "--device=local-sync",
            "--input=4xf32=1 1 1 1",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "4xf32=1 2 3 4" in run.stdout


def test_eval_shape_of_functions_that_return_structs() -> None:
    struct = xpr.ShapeDtypeStruct((2, 3), jnp.int32)
    out = xpr.eval_shape(lambda x: (struct, {"a": x + 1, "b": struct}), jnp.ones(4))
    assert out[0] is struct
    assert out[1]["b"] is struct
    assert (out[1]["a"].shape, out[1]["a"].dtype) == ((4,), np.float32)
    with pytest.raises(TypeError, match="not a valid JAX type"):
        xpr.jit(lambda: struct)()


def test_eval_shape_and_make_jaxpr_return_shape() -> None:
    out = xpr.eval_shape(lambda x: {"a": x @ x.T}, xpr.ShapeDtypeStruct((2, 3), jnp.float32))
    assert out == {"a": xpr.ShapeDtypeStruct((2, 2), jnp.float32)}
    closed, shape = xpr.make_jaxpr(lambda x: x + 1, return_shape=True)(np.ones(3))
    assert shape == xpr.ShapeDtypeStruct((3,), jnp.float32)
    assert len(closed.eqns) == 1


# ---- explanations, threads


def test_threads_share_a_jitted_function() -> None:
    f = xpr.jit(lambda x: jnp.sin(x) * 2)
    results: dict[int, float] = {}

    def work(i: int) -> None:
        for _ in range(50):
            results[i] = float(f(jnp.float32(i)))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(16):
        assert results[i] == pytest.approx(2 * np.sin(i), abs=1e-5)


def test_user_errors_pass_through_and_leave_no_trace() -> None:
    def broken(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        xpr.jit(broken)(1.0)
    assert float(xpr.jit(lambda x: x + 1)(1.0)) == 2.0
    assert float(jnp.sin(0.0)) == 0.0


def test_debug_nans() -> None:
    with override("debug_nans", True):
        with pytest.raises(FloatingPointError, match="nan"):
            jnp.log(jnp.float32(-1.0))
        with pytest.raises(FloatingPointError, match="nan"):
            xpr.jit(jnp.log)(jnp.float32(-1.0))
    assert np.isnan(float(jnp.log(jnp.float32(-1.0))))


def test_compile_error_is_an_xpr_error() -> None:
    assert issubclass(errors.CompileError, RuntimeError)


def test_negative_static_argnums_count_from_the_end_of_the_call() -> None:
    f = xpr.jit(lambda *a: a[0] * (2 if a[-1] == "double" else 1), static_argnums=-1)
    assert float(f(3.0, "double")) == 6.0
    assert float(f(3.0, 4.0, "single")) == 3.0
    g = xpr.jit(lambda x, *a: x * len(a[-1]), static_argnums=-1)
    assert float(g(2.0, 1.0, (1, 2, 3))) == 6.0


def test_an_operand_passed_twice_names_one_input() -> None:
    text = str(xpr.make_jaxpr(lambda x: xpr.jit(lambda y, z: y + z)(x, x))(1))
    assert "lambda ; a:i32[] c:i32[]. let b:i32[] = add a c" in text


def test_masked_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match="masked arrays are not supported"):
        jnp.sin(np.ma.array([1.0, 2.0], mask=[False, True]))
    with pytest.raises(ValueError, match="masked arrays are not supported"):
        xpr.jit(jnp.sin)(np.ma.array([1.0, 2.0], mask=[False, True]))


def test_a_traced_axis_is_named_as_such() -> None:
    with pytest.raises(xpr.errors.TracerIntegerConversionError, match="argument a"):
        xpr.jit(lambda a: jnp.moveaxis(jnp.ones((2, 3)), a, 1))(0)


def test_arrays_of_inner_functions_are_hidden_arguments_of_the_program() -> None:
    table = np.arange(5000, dtype=np.float32)
    inner = xpr.jit(lambda x: jnp.sum(x * table))
    for f in (
        lambda x: inner(x) + 1,
        lambda x: xpr.checkpoint(inner)(x),
        xpr.grad(lambda x: inner(x) ** 2),
        xpr.vmap(inner, in_axes=None, out_axes=None, axis_size=2),
    ):
        text = xpr.jit(f).lower(np.ones(5000, np.float32)).as_text("iree")
        assert len(text) < 20_000
    np.testing.assert_allclose(
        np.asarray(xpr.jit(xpr.grad(inner))(np.ones(5000, np.float32))), table
    )


@pytest.mark.parametrize(
    ("name", "of", "argument"),
    [
        ("log", lambda x: jnp.log(x) * 2, -1.0),
        ("sqrt", lambda x: xpr.jit(lambda y: jnp.sqrt(y) + 1)(x - 3), 1.0),
        ("div", lambda x: xpr.vmap(lambda y: y / y)(x * jnp.ones(2)), 0.0),
        ("log", lambda x: xpr.grad(lambda y: jnp.log(y) * y)(x), -1.0),
        ("log", lambda x: lax.scan(lambda c, _: (jnp.log(c), None), x, length=3)[0], 0.5),
    ],
)
def test_debug_nans_names_the_operation_and_the_line(name: str, of: Any, argument: float) -> None:
    for function in (of, xpr.jit(of)):
        with override("debug_nans", True), pytest.raises(FloatingPointError) as caught:
            function(jnp.float32(argument))
        assert str(caught.value) == f"invalid value (nan) encountered in {name}"
        assert any(f"in {name}, called from {__file__}" in n for n in caught.value.__notes__)


def test_debug_infs_names_the_operation() -> None:
    with (
        override("debug_infs", True),
        pytest.raises(FloatingPointError, match=r"\(inf\) encountered in exp"),
    ):
        xpr.jit(lambda x: jnp.exp(x) + 1)(jnp.float32(1000.0))


def test_debug_nans_with_donated_arguments_names_the_program() -> None:
    donated = xpr.jit(lambda x: jnp.log(x), donate_argnums=0)
    x = jnp.full(100_000, -1.0)
    with override("debug_nans", True), pytest.raises(FloatingPointError, match=r"<lambda>|log"):
        donated(x)


@pytest.mark.parametrize(
    ("function", "argument", "where"),
    [
        (lambda x: lax.cond(x == 1, lambda: np.nan, lambda: 2.0), 1.0, "cond"),
        (lambda x: x * 3, np.nan, "an argument: the de-optimized function did not .* in an input"),
        (lambda x: (jnp.nan, x + 2), 3.0, "a result: the de-optimized function did not .* literal"),
    ],
)
def test_debug_nans_finds_values_that_no_operation_made(
    function: Any, argument: float, where: str
) -> None:
    jitted = xpr.jit(function)
    with override("debug_nans", True), pytest.raises(FloatingPointError, match=where):
        jitted(argument)


def test_debug_nans_of_sharded_programs() -> None:
    mapped = xpr.pmap(lambda x: jnp.log(x))
    found = r"Invalid value \(nan\) encountered in sharded computation of <lambda>"
    with override("debug_nans", True), pytest.raises(FloatingPointError, match=found):
        mapped(-jnp.ones((2, 2)))


def test_where_calls_are_inlined() -> None:
    def primitives(inline: Any) -> list[str]:
        f = xpr.jit(lambda x: x + 1.0, inline=inline)
        assert float(f(2.0)) == 3.0
        return [eqn.primitive.name for eqn in xpr.make_jaxpr(f)(2.0).eqns]

    for inline in (True, xpr.Inline.JAX_EARLY):
        assert primitives(inline) == ["add"]
    for inline in (False, *(set(xpr.Inline) - {xpr.Inline.JAX_EARLY})):
        assert primitives(inline) == primitives(False) != ["add"]
