"""Behaviours at the edges of the transformations, with JAX 0.10.2's results as golden values."""

from __future__ import annotations

import functools
import inspect
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.core.config import override


def test_the_type_of_a_value() -> None:
    like = xpr.ShapeDtypeStruct.like
    x = jnp.zeros((2, 3))
    assert like(x) == xpr.ShapeDtypeStruct((2, 3), np.float32)
    assert like(np.ones(3)) == xpr.ShapeDtypeStruct((3,), np.float32)
    assert like(1.0) == xpr.ShapeDtypeStruct((), np.float32, weak_type=True)
    struct = xpr.ShapeDtypeStruct((2,), np.int32)
    assert like(struct) == struct
    assert not struct.is_ref
    assert repr(struct.format) == "Format(layout=None, sharding=None)"
    there = xpr.device_put(x, xpr.devices()[0])
    assert like(there).sharding == there.sharding
    assert xpr.eval_shape(lambda x: jnp.zeros_like(like(x)), x) == like(x)
    with pytest.raises(TypeError, match="not a valid"):
        like("a")


def test_generator_functions_are_no_functions() -> None:
    def numbers():
        yield 1

    for transform in (xpr.jit, xpr.grad, xpr.vmap, xpr.jacfwd, xpr.hessian):
        with pytest.raises(TypeError, match="Expected a function, got a generator function"):
            transform(numbers)
    with pytest.raises(TypeError, match="returned a value of type <class 'generator'>, which is"):
        xpr.jit(lambda: (i for i in range(3)))()


# ---- functions with rules of their own


@pytest.mark.parametrize("transform", [xpr.jit, xpr.grad, xpr.vmap])
def test_static_methods_in_a_class_body_are_refused(transform: Any) -> None:
    with pytest.raises(TypeError, match="staticmethod arguments are not supported, got <static"):
        transform(staticmethod(lambda x: x))


def test_static_methods_may_be_rules_in_a_class_body() -> None:
    class Cube:
        @xpr.custom_vjp
        def f(x: Any) -> Any:  # pyright: ignore[reportGeneralTypeIssues, reportSelfClsParameterName]
            return x**3

        @staticmethod
        def forwards(x: Any) -> tuple[Any, Any]:
            return x**3, x

        @staticmethod
        def backwards(x: Any, ct: Any) -> tuple[Any]:
            return (7 * ct * x,)

        f.defvjp(forwards, backwards)

    assert xpr.grad(Cube.f)(2.0) == 14.0
    double = staticmethod(lambda x: x * 2)
    np.testing.assert_array_equal(xpr.lax.map(double, jnp.arange(3)), [0, 2, 4])
    assert xpr.make_jaxpr(double)(1.0).jaxpr.eqns


def test_signatures_without_the_wrapped_function() -> None:
    def f(x: Any, *, y: int = 2) -> Any:
        return x * y

    for wrapped in (xpr.jit(f), xpr.jit(f, static_argnames="y")):
        assert inspect.signature(wrapped, follow_wrapped=False) == inspect.signature(f)
    inspect.signature(type(xpr.jit(f)))


def test_turns_of_a_loop_are_integers() -> None:
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        xpr.lax.scan(lambda c, x: (c, x), 0.0, jnp.arange(4.0), unroll=1.5)  # pyright: ignore[reportArgumentType]


def test_the_precision_of_products_is_checked_when_it_is_set() -> None:
    for wrong in ("bogus", "HIGHEST", "NOPE"):
        with pytest.raises(ValueError, match="new enum value must be None or in"):
            xpr.config.update("default_matmul_precision", wrong)
    with xpr.default_matmul_precision("TF32_TF32_F32"):
        assert xpr.config.default_matmul_precision == "TF32_TF32_F32"


def test_lists_as_indices_say_what_to_write() -> None:
    x = jnp.arange(12).reshape(3, 4)
    with pytest.raises(TypeError, match=r"use `arr\[array\(seq\)\]` instead"):
        x[[0, 1]]
    for index in ([slice(0, 2)], [[0, 1], [1, 0]]):
        with pytest.raises(TypeError, match=r"use `arr\[tuple\(seq\)\]` instead"):
            x[index]


def test_what_stands_for_an_array_can_be_asked() -> None:
    kinds: Any = xpr.typing.ArrayLike
    for x in (jnp.ones(2), np.ones(2), np.float32(1), 1, 2.0, True, 3j):
        assert isinstance(x, kinds)
    for x in ("a", [1], None):
        assert not isinstance(x, kinds)
    key = xpr.random.key(0).dtype
    assert xpr.dtypes.canonicalize_dtype(key, allow_extended_dtype=True) == key
    assert xpr.dtypes.canonicalize_dtype("float64", allow_extended_dtype=True) == np.float32


def test_keys_are_close_where_they_are_equal() -> None:
    one, two = xpr.random.split(xpr.random.key(0))
    assert jnp.allclose(one, one)
    assert not jnp.allclose(one, two)
    np.testing.assert_array_equal(jnp.isclose(jnp.stack([one, two]), one), [True, False])
    assert xpr.jit(jnp.allclose)(two, two)


def test_places_where_a_tree_is_no_prefix_make_errors() -> None:
    (error,) = xpr.tree_util.prefix_errors({"a": 1, "y": [2]}, {"a": 1, "y": 2})
    with pytest.raises(ValueError, match=r"key path\n    in_axes\['y'\]"):
        raise error("in_axes")


def test_prefixes_of_all_elements() -> None:
    x = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
    for ufunc in (jnp.add, jnp.multiply, jnp.frompyfunc(lambda a, b: a - b, 2, 1)):
        found = ufunc.accumulate(jnp.asarray(x), axis=None)
        fold = {"add": np.add, "multiply": np.multiply}.get(ufunc.__name__, np.subtract)
        np.testing.assert_array_equal(found, fold.accumulate(x.ravel()))


def test_rules_of_a_partial_keep_its_keywords() -> None:
    scaled = functools.partial(lambda x, k: x * k, k=2.0)
    f = xpr.custom_jvp(scaled)
    f.defjvp(lambda p, t: (p[0] * 2, t[0] * 5.0))
    assert (f(3.0), xpr.grad(f)(3.0)) == (6.0, 5.0)
    g = xpr.custom_vjp(scaled)
    g.defvjp(
        functools.partial(lambda x, k: (x * k, None), k=2.0),
        functools.partial(lambda r, ct, s: (ct * s,), s=7.0),
    )
    assert (g(3.0), xpr.grad(g)(3.0)) == (6.0, 7.0)
    with pytest.raises(TypeError, match="keyword arguments could not be resolved to positions: x"):
        g(x=3.0)


def test_keywords_without_a_position() -> None:
    f = xpr.custom_jvp(lambda x, *, k=2.0: x * k)
    f.defjvp(lambda p, t: (p[0] * 2, t[0] * 5.0))
    assert xpr.grad(f)(3.0) == 5.0
    with pytest.raises(TypeError, match="keyword arguments could not be resolved to positions: k"):
        f(3.0, k=4.0)


def test_keywords_of_a_function_with_a_batching_rule() -> None:
    f = xpr.custom_batching.custom_vmap(lambda x, k=1.0: x * k)
    f.def_vmap(lambda size, batched, x, k: (x * 100 * k, batched[0]))
    assert xpr.vmap(functools.partial(f, k=2.0))(jnp.arange(3.0)).tolist() == [0.0, 200.0, 400.0]


# ---- what a compiled function shows


def test_stages_show_their_program() -> None:
    lowered = xpr.jit(lambda x: x + 1).lower(1.0)
    module = lowered.compiler_ir("stablehlo")
    names = [op.operation.name for op in module.body.operations[0].regions[0].blocks[0]]
    assert "stablehlo.add" in names
    assert str(lowered.compiler_ir()) == str(module)
    with pytest.raises(ValueError, match="'hlo'"):
        lowered.compiler_ir("hlo")
    assert lowered.compile().runtime_executable() is not None


def test_options_of_jaxs_compiler_have_no_effect() -> None:
    f = lambda x: x + 1  # noqa: E731
    assert xpr.jit(f, compiler_options={})(1.0) == 2.0
    with pytest.warns(UserWarning, match="xla_for_this_test is for XLA and has no effect"):
        assert xpr.jit(compiler_options={"xla_for_this_test": True})(f)(1.0) == 2.0
    # Once is enough.
    assert xpr.jit(f).lower(1.0).compile({"xla_for_this_test": False})(1.0) == 2.0
    for options, error in (({"nonsense": 1}, RuntimeError), ([1], TypeError), ({1: 2}, TypeError)):
        with pytest.raises(error, match="option"):
            xpr.jit(f, compiler_options=options)  # pyright: ignore[reportArgumentType]
        with pytest.raises(error, match="option"):
            xpr.jit(f).lower(1.0).compile(options)


# ---- settings


def test_programs_are_written_to_a_folder(tmp_path: Path) -> None:
    def foo(x: Any) -> Any:
        return jnp.sin(x)

    with override("jax_dump_ir_to", tmp_path / "new"), override("dump_ir_modes", "stablehlo,jaxpr"):
        xpr.jit(foo)(1.0)
    text, module = sorted(os.listdir(tmp_path / "new"))
    assert re.fullmatch(r"jax_\d{6}_foo\.jaxpr\.txt", text)
    assert re.fullmatch(r"jax_ir\d{4}_jit_foo_compile\.mlir", module)
    written = (tmp_path / "new" / text).read_text()
    assert written == "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"
    assert "func.func public @main" in (tmp_path / "new" / module).read_text()
    with pytest.raises(ValueError, match="dump_ir_modes: expected one of stablehlo, jaxpr"):
        xpr.config.update("jax_dump_ir_modes", "jaxpr_html")


# ---- errors and results that JAX's users know


def test_what_is_no_function_is_refused() -> None:
    wrong: tuple[Any, ...] = (None, 1, "a")
    for transform in (xpr.jit, xpr.grad, xpr.vmap, xpr.jacrev, xpr.custom_vjp):
        for value in wrong:
            with pytest.raises(TypeError, match=r"^Expected a callable value, got"):
                transform(value)
    assert xpr.jit(inline=True)(lambda x: x + 1)(1.0) == 2.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: xpr.vmap(lambda x: x)("a"),
        lambda: xpr.grad(lambda x: x)({"b": "a"}),
        lambda: xpr.jvp(lambda x: x, ("a",), ("a",)),
        lambda: xpr.checkpoint(lambda x: x)("a"),
        lambda: xpr.device_put(["a"]),
        lambda: xpr.lax.stop_gradient("a"),
        lambda: xpr.lax.scan(lambda c, x: (c, x), "a", jnp.ones(3)),
        lambda: xpr.lax.fori_loop(0, 3, lambda i, c: c, "a"),
        lambda: xpr.lax.cond(True, lambda x: x, lambda x: x, "a"),
    ],
)
def test_arguments_that_are_no_arrays_are_refused_with_one_sentence(call: Any) -> None:
    with pytest.raises(TypeError, match=r"^Argument 'a' of type <class 'str'> is not a valid JAX"):
        call()


def test_what_is_no_array_is_named_where_a_function_is_traced() -> None:
    words = r"^Error interpreting argument to f as an abstract array\. .*at path x\['b'\]\[0\]"

    def f(x: Any) -> Any:
        return x

    for call in (xpr.jit(f), xpr.make_jaxpr(f), lambda x: xpr.eval_shape(f, x), xpr.jit(f).lower):
        with pytest.raises(TypeError, match=words):
            call({"b": ["a"]})
    rule = xpr.custom_jvp(lambda x, y: x * y)
    rule.defjvps(lambda t, out, x, y: t * y, lambda t, out, x, y: t * x)
    with pytest.raises(TypeError, match=r"^Error interpreting argument to custom_jvp_call.*positi"):
        rule(1.0, "a")


def test_the_rule_of_a_batch_is_differentiated_with_it() -> None:
    f = xpr.custom_batching.custom_vmap(lambda x, y: x * y)

    @f.def_vmap
    def rule(size: int, batched: Any, x: Any, y: Any) -> Any:
        return x * y * 100.0, batched[0] or batched[1]

    x = jnp.arange(3.0)
    assert xpr.jvp(lambda v: f(v, 2.0), (3.0,), (1.0,)) == (6.0, 2.0)
    slopes = xpr.vmap(lambda v: xpr.jvp(lambda u: f(u, 2.0), (v,), (1.0,)))(x)
    assert [v.tolist() for v in slopes] == [[0.0, 200.0, 400.0], [200.0, 200.0, 200.0]]
    # Only the tangent has a batch axis.
    pushed = xpr.vmap(lambda t: xpr.jvp(lambda u: f(u, 2.0), (3.0,), (t,)))(x)
    assert [v.tolist() for v in pushed] == [[600.0] * 3, [0.0, 200.0, 400.0]]
    assert xpr.jvp(xpr.vmap(f), (x, x), (x, x))[1].tolist() == [0.0, 200.0, 800.0]
    jitted = xpr.jit(xpr.vmap(lambda v: xpr.jvp(lambda u: f(u, v), (v,), (1.0,))[1]))
    assert jitted(x).tolist() == [0.0, 100.0, 200.0]


def test_what_custom_rules_get_and_give() -> None:
    f = xpr.custom_vjp(lambda x, i: x * i)
    f.defvjp(lambda x, i: (x * i, i), lambda r, g: (g.astype(jnp.float32) * r, None))
    assert xpr.grad(f)(1.0, 2) == 2.0
    assert f.nondiff_argnums == ()
    assert repr(xpr.custom_derivatives.SymbolicZero(xpr.typeof(1.0))) == "SymbolicZero"
    with pytest.raises(TypeError, match="The input arguments to the custom_vjp-decorated function"):
        f(1.0, z=2)
    g = xpr.custom_jvp(lambda x: (x, 1))
    g.defjvp(lambda p, t: ((p[0], 1), (t[0], 1)))
    with pytest.raises(TypeError, match=r"Expected float0\[\] \(tangent type of int32\[\]\)"):
        xpr.jvp(g, (1.0,), (1.0,))


def test_the_words_of_pullbacks_and_batches() -> None:
    _, pull = xpr.vjp(lambda x: {"a": x, "b": x}, jnp.ones(3))
    with pytest.raises(TypeError, match="was called with 2 arguments, but functions returned by"):
        pull(1.0, 2.0)
    with pytest.raises(ValueError, match=r"to VJP function: got float32\[\], but expected"):
        pull({"a": 1.0, "b": 1.0})
    with pytest.raises(ValueError, match=r"at vmap out_axes\['b'\], got axis spec None but output"):
        xpr.vmap(lambda x: {"a": 1.0, "b": x}, out_axes=None)(jnp.ones(3))
    for name in (None, 1):
        with pytest.raises(TypeError, match="named_scope name argument must be a string"):
            xpr.named_scope(name)  # pyright: ignore[reportArgumentType]


def test_names_of_transformations_and_scopes() -> None:
    """As JAX writes them, but for values that are dead here."""

    def f(x: Any) -> Any:
        with xpr.named_scope("here"):
            return jnp.sin(x)

    def g(x: Any) -> Any:
        with xpr.named_scope("a"), xpr.named_scope("b"):
            return f(x) * 2.0

    def outer(h: Any) -> Any:
        def inside(x: Any) -> Any:
            with xpr.named_scope("out"):
                return h(x)

        return inside

    def names(h: Any, x: Any) -> dict[str, str]:
        return {e.primitive.name: e.source_info.name_stack for e in xpr.make_jaxpr(h)(x).jaxpr.eqns}

    x = jnp.ones(3)
    backward = "out/transpose(jvp(here))"
    assert names(g, x) == {"sin": "a/b/here", "mul": "a/b"}
    assert names(outer(xpr.vmap(f)), x) == {"sin": "out/vmap(here)"}
    assert names(outer(xpr.grad(f)), 1.0) == {"cos": "out/jvp(here)", "mul": backward}
    assert names(xpr.vmap(xpr.grad(f)), x)["mul"] == "vmap(transpose(jvp(here)))"
    assert names(xpr.grad(lambda x: xpr.vmap(g)(x).sum()), x) == {
        "cos": "jvp(vmap(a))/b/here",
        "broadcast_in_dim": "transpose(jvp())",
        "mul": "transpose(jvp(vmap(a)))/b/here",
    }
    assert names(lambda x: xpr.jvp(g, (x,), (x,))[1], x)["cos"] == "jvp(a)/b/here"
    assert names(xpr.vmap(outer(xpr.jit(f))), x) == {"jit": "vmap(out)"}
    inner = xpr.make_jaxpr(outer(xpr.jit(f)))(x).jaxpr.eqns[0].params["jaxpr"]
    assert inner.jaxpr.eqns[0].source_info.name_stack == "here"


def test_stages_tell_of_donated_arguments_and_memory() -> None:
    x = jnp.ones((4, 2))
    lowered = xpr.jit(lambda x, y: x + y.sum(), donate_argnums=0).lower(x, x)
    (first, second), _ = lowered.args_info
    assert (first.donated, second.donated, first.shape, first.dtype) == (
        True, False, (4, 2), np.float32,
    )  # fmt: skip
    assert lowered.out_avals == xpr.typeof(x)
    compiled = lowered.compile()
    analysis = compiled.memory_analysis()
    assert analysis.argument_size_in_bytes == analysis["argument_size_in_bytes"] == 64
    assert analysis.output_size_in_bytes == 32
    with pytest.raises(AttributeError, match="and not temp_size_in_bytes"):
        _ = analysis.temp_size_in_bytes
    assert compiled.output_formats.layout.major_to_minor == (0, 1)
    assert compiled.input_formats[0][1].sharding == compiled.input_shardings[0][1]
    with pytest.raises(TypeError, match="Function compiled with input pytree does not match"):
        compiled(x)
    with pytest.raises(TypeError, match="Cannot apply JAX transformations to a function lowered"):
        xpr.vmap(compiled)(x[None], x[None])


def test_top_k_gives_a_list() -> None:
    x = jnp.array([3.0, 1.0, 2.0])

    def f(x: Any) -> Any:
        return xpr.lax.top_k(x, 2)

    for found in (f(x), xpr.jit(f)(x), xpr.vmap(f)(x[None]), xpr.eval_shape(f, x)):
        assert isinstance(found, list)
    assert isinstance(xpr.jvp(f, (x,), (x,))[0], list)
    assert isinstance(xpr.lax.approx_max_k(x, 2), list)
    assert isinstance(xpr.lax.approx_min_k(x, 2), list)
    np.testing.assert_array_equal(f(x)[0], [3, 2])
    np.testing.assert_array_equal(f(x)[1], [0, 2])
