"""Programs that JAX 0.10.2 exported give JAX's numbers, and are transformed as any program."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import skip_unless_usable
from tests.export.stablehlo.programs import jax_names, jax_program
from xpr.core.jaxpr import all_eqns, eval_closed
from xpr.export import from_stablehlo
from xpr.export.stablehlo.bytecode import read_bytecode
from xpr.export.stablehlo.container import read_container
from xpr.export.stablehlo.form import walk

SHARDED = {
    n: d for n, d in (("shard_map_psum", 4), ("shard_map_exchange", 8), ("sharded_product", 8))
}
COMPILED: Sequence[str] = (
    "vjp_mlp",
    "transformer",
    "scan_rnn",
    "sorting",
    "while_newton",
    "linear_svd",
)
ON_VULKAN: Sequence[str] = ("mlp_step", "scan_rnn")
if os.environ.get("XPR_LONG_TESTS") == "1":
    COMPILED = ON_VULKAN = tuple(n for n in jax_names() if n not in SHARDED)


def _agree(found: Any, expected: Any) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        x = np.asarray(a)
        if x.dtype.name in ("bfloat16", "float8_e4m3fn", "int4"):
            x = x.astype(np.float32)  # as NumPy's files hold them
        assert (x.shape, x.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(x, b, 1e-4, 1e-5)


def _x64(name: str) -> Any:
    return xpr.enable_x64(name == "wide_types")


@pytest.mark.parametrize("name", [n for n in jax_names() if n not in SHARDED])
def test_reference_results_are_those_of_jax(name: str) -> None:
    blob, ins, outs = jax_program(name)
    with _x64(name):
        exported = from_stablehlo(blob)
        program = exported.program
        sizes = program.sizes(exported.input_names(), [xpr.typeof(jnp.asarray(x)) for x in ins])
        _agree(eval_closed(program.at(sizes), ins), outs)


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_results_are_those_of_jax(name: str) -> None:
    blob, ins, outs = jax_program(name)
    with _x64(name):
        _agree(from_stablehlo(blob).call_flat(*ins), outs)


@pytest.mark.parametrize("name", ON_VULKAN)
def test_results_on_vulkan_are_those_of_jax(name: str) -> None:
    skip_unless_usable("vulkan")
    blob, ins, outs = jax_program(name)
    with _x64(name):
        device = xpr.devices("vulkan")[0]
        _agree(from_stablehlo(blob).call_flat(*xpr.device_put(ins, device)), outs)


@pytest.mark.parametrize("name", SHARDED)
def test_programs_of_several_devices(name: str) -> None:
    blob, ins, outs = jax_program(name)
    exported = from_stablehlo(blob)
    assert exported.nr_devices == SHARDED[name]
    assert exported.layout is not None
    mesh = xpr.make_mesh(exported.layout.sizes, exported.layout.names)
    with xpr.set_mesh(mesh):
        _agree(exported.call_flat(*ins), outs)


def test_a_program_of_eight_devices_is_refused_on_one() -> None:
    blob, ins, _ = jax_program("shard_map_exchange")
    with pytest.raises(
        ValueError, match="exported for 8 devices and is called in a context with 1"
    ):
        from_stablehlo(blob).call_flat(*ins)


def test_trees_are_those_of_the_function() -> None:
    blob, ins, _ = jax_program("trees")
    exported = from_stablehlo(blob)
    out = exported.call((ins[0], [ins[1], None]), named={"a": ins[2]})
    assert out.keys() == {"sum", "list", "none"}
    assert out["none"] is None
    np.testing.assert_array_equal(out["list"][0], ins[2])
    with pytest.raises(ValueError, match="same pytree structure"):
        exported.call(ins[0])


def test_derivatives_without_and_with_a_stored_one() -> None:
    """Against finite differences; the stored derivative is that which JAX exported."""
    rng = np.random.default_rng(0)
    blob, ins, _ = jax_program("vjp_mlp")
    exported = from_stablehlo(blob)
    assert exported.has_vjp()
    weights = [jnp.asarray(w) for w in ins]
    where = [rng.standard_normal(w.shape).astype(np.float32) for w in ins]

    def loss(*flat: Any) -> Any:
        return (exported.call_flat(*flat)[0] ** 2).sum()

    grads = xpr.grad(loss, tuple(range(len(ins))))(*weights)
    slope = sum(float((g * d).sum()) for g, d in zip(grads, where, strict=True))
    step = 1e-3
    ahead, behind = (
        float(loss(*(w + s * d for w, d in zip(weights, where, strict=True))))
        for s in (step, -step)
    )
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=2e-2)
    scan, (h, xs, w), _ = jax_program("scan_rnn")
    loaded = from_stablehlo(scan)

    def last(w: Any) -> Any:
        return loaded.call(h, xs, w)[0].sum()

    grad_blob, grad_ins, _ = jax_program("scan_grad")
    expected = from_stablehlo(grad_blob).call(*grad_ins)
    found = xpr.grad(last)(grad_ins[2])
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)
    assert w.shape == found.shape


def test_vmap_and_jit_of_a_loaded_program() -> None:
    blob, ins, _ = jax_program("transformer")
    exported = from_stablehlo(blob)
    *weights, x = ins
    batch = jnp.stack([x, 2 * x, x - 1])
    together = xpr.jit(xpr.vmap(lambda x: exported.call_flat(*weights, x)[0]))(batch)
    for one, each in zip(together, batch, strict=True):
        np.testing.assert_allclose(one, exported.call_flat(*weights, each)[0], 1e-4, 1e-5)


def test_symbolic_sizes_are_those_of_the_call() -> None:
    blob, (x,), _ = jax_program("symbolic_batch")
    exported = from_stablehlo(blob)
    assert str(exported.in_avals) == "(ShapedArray(float32[b,3]),)"
    for rows in (1, 4):
        flat, weights, mean, counted = exported.call(x[:rows])
        np.testing.assert_array_equal(flat, np.concatenate([x[:rows].ravel(), np.zeros(rows)]))
        scores = np.exp(x[:rows] @ x[:rows].T)
        np.testing.assert_allclose(weights, scores / scores.sum(0), 1e-4)
        np.testing.assert_allclose(mean, x[:rows].mean(0), 1e-5)
        np.testing.assert_array_equal(counted, np.arange(2 * rows))


def test_a_requirement_of_sizes_that_fails_is_said_in_words() -> None:
    blob, (x, y), _ = jax_program("symbolic_product")
    with pytest.raises(ValueError, match=r"expected float32\[2\*n,m\], got shape \[5,4\]"):
        from_stablehlo(blob).call(x[:5], y)


def test_a_loaded_program_is_stored_again(tmp_path: Path) -> None:
    blob, ins, outs = jax_program("convolutional")
    exported = from_stablehlo(blob)
    again = xpr.export.deserialize(exported.serialize())
    _agree(again.call_flat(*ins), outs)
    exported.save(tmp_path / "model.xpr")
    _agree(xpr.export.load(tmp_path / "model.xpr").call_flat(ins), outs)


def test_running_sums_are_recognised() -> None:
    """They have primitives, which are faster than windows, and derivatives."""
    closed = from_stablehlo(jax_program("cumulative")[0]).program.at(())
    names = {eqn.primitive.name for eqn in all_eqns(closed.jaxpr)}
    assert names >= {"cumsum", "cumprod", "cummax", "cumlogsumexp"}
    assert not any(name.startswith("reduce_window") for name in names)


def test_reading_is_fast() -> None:
    """A thousand operations take a fifth of a second at most."""
    blob, _, _ = jax_program("special_functions")
    data = read_container(blob).module
    functions = read_bytecode(data).functions.values()
    count = sum(1 for f in functions for block in f.regions for _ in walk(block))
    assert count > 1000
    times = []
    for _ in range(5):
        start = time.perf_counter()
        read_bytecode(data)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.2 * count / 1000


def test_the_derivative_of_a_loaded_qr() -> None:
    """JAX exports QR as reflections, which have no derivative; against finite differences."""
    blob, (x,), _ = jax_program("linear_qr")
    closed = from_stablehlo(blob).program.at(())
    weights = np.random.default_rng(3).standard_normal((3, 3)).astype(np.float32)

    def loss(x: Any) -> Any:
        sizes, product = eval_closed(closed, [x])
        return (sizes * weights).sum() + (product**2).sum()

    where = np.random.default_rng(4).standard_normal(x.shape).astype(np.float32)
    step = 1e-2
    expected = (float(loss(x + step * where)) - float(loss(x - step * where))) / (2 * step)
    np.testing.assert_allclose((xpr.grad(loss)(x) * where).sum(), expected, rtol=2e-3)
