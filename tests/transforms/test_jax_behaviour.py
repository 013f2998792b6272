"""Behaviours at the edges of the transformations, with JAX 0.10.2's results as golden values."""

from __future__ import annotations

import functools
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


def test_misses_of_the_cache_are_explained() -> None:
    f = xpr.jit(lambda x: x * 2)
    with xpr.explain_cache_misses(True):
        assert xpr.config.jax_explain_cache_misses
        f(np.ones(3, "f4"))
        with pytest.warns(UserWarning, match=r"argument x changed from f32\[3\] to f32\[4\]"):
            f(np.ones(4, "f4"))
    assert not xpr.config.explain_recompile
