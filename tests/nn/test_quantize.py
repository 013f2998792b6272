"""Arrays in low precision: formats, what functions make of them, and derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.nn.block_layouts import SIZES, decoded, random_blocks, rounded
from xpr import export, lax
from xpr.nn.quantize import Affine, Gguf, QuantizedArray, dequantize, from_blocks, quantize

RNG = np.random.default_rng(11)
LAYOUTS = tuple(SIZES)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


# The greatest error of a number, as a part of the greatest in its block.
ERRORS = {"q8_0": 1 / 250, "q4_0": 1 / 7.5, "q4_k": 1 / 12, "q6_k": 1 / 28}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_numbers_survive_as_far_as_the_layout_goes(layout: str) -> None:
    x = normal(3, 512)
    x[0, :256] = 0
    w = quantize(x, layout)
    found = np.asarray(dequantize(w))
    np.testing.assert_allclose(found, decoded(layout, np.asarray(w.parts[0])), rtol=1e-5, atol=1e-6)
    most = np.abs(x).reshape(3, -1, 256).max(-1).repeat(256, -1).reshape(x.shape)
    assert (np.abs(found - x) <= most * ERRORS[layout]).all()
    assert w.shape == x.shape
    assert w.nbytes == x.size // SIZES[layout][0] * SIZES[layout][1]


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("block", [32, 64])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_integers_with_scales(bits: int, block: int, zero: bool) -> None:
    x = normal(2, 128) + np.float32(0.5)
    w = quantize(x, Affine(bits, block, zero))
    packed, scale = (np.asarray(p) for p in w.parts[:2])
    offset = np.asarray(w.parts[2]) if zero else np.full(scale.shape, 2.0 ** (bits - 1))
    fields = [packed >> s & (2**bits - 1) for s in range(0, 8, bits)]
    q = np.stack(fields, -1).reshape(2, -1, block).astype(np.float64)
    wide = ((q - offset[..., None]) * scale[..., None]).reshape(x.shape)
    np.testing.assert_allclose(np.asarray(dequantize(w)), wide, rtol=1e-6)
    assert packed.nbytes == x.size * bits // 8
    # Half a step, and with a rounded zero another half of one at the ends.
    step = scale.repeat(block, -1).reshape(x.shape)
    assert (np.abs(wide - x) <= step * (1.01 if zero or bits == 2 else 0.51)).all()


def test_products_take_it_in_an_arrays_place() -> None:
    x = normal(5, 64)
    w = quantize(normal(7, 64), Gguf("q4_0", activations="float32"))
    wide = np.asarray(dequantize(w)).astype(np.float64)
    contract = (((1,), (1,)), ((), ()))

    def products(x: Any, w: Any) -> list[Any]:
        return [
            x @ w.T,
            jnp.dot(x, w.T),
            jnp.einsum("bk,nk->bn", x, w),
            lax.dot_general(x, w, contract),
            lax.dot_general(w, x, contract).T,
            jnp.inner(x, w),
            jnp.tensordot(x, w, ((1,), (1,))),
        ]

    for found in (products(jnp.asarray(x), w), xpr.jit(products)(x, w)):
        for y in found:
            np.testing.assert_allclose(np.asarray(y), x @ wide.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_derivatives_reach_the_other_operand(layout: str) -> None:
    w = from_blocks(random_blocks(RNG, layout, (6, 256)), layout)
    x, ct = normal(3, 256), normal(3, 6)
    slope = xpr.jit(lambda x, w: xpr.vjp(lambda x: x @ w.T, x)[1](ct)[0])(x, w)
    np.testing.assert_allclose(
        np.asarray(slope), ct @ np.asarray(dequantize(w)), rtol=1e-3, atol=1e-4
    )


def test_rows_are_taken_without_the_others() -> None:
    w = quantize(normal(9, 64), "q8_0")
    whole = np.asarray(dequantize(w))
    index = np.array([[3, -1], [20, 0]])
    for mode in (None, "clip", "wrap"):
        wanted = np.asarray(jnp.take(jnp.asarray(whole), index, axis=0, mode=mode))
        for take in (jnp.take, xpr.jit(jnp.take, static_argnames=("axis", "mode"))):
            found = take(w, index, axis=0, mode=mode)
            np.testing.assert_array_equal(np.asarray(found), wanted)
    text = str(xpr.make_jaxpr(lambda w, i: jnp.take(w, i, axis=0))(w, np.arange(2)))
    assert "f32[9,64]" not in text
    np.testing.assert_array_equal(np.asarray(dequantize(w[2:4])), whole[2:4])
    with pytest.raises(IndexError, match="leading axes"):
        w[0, 1]


def test_it_is_a_tree_and_passes_through_loops() -> None:
    w = quantize(normal(4, 8, 32), "q8_0")
    assert xpr.tree.map(lambda p: p.shape, w).parts == ((4, 8, 34),)
    x = normal(32)

    def step(total: Any, layer: QuantizedArray) -> tuple[Any, Any]:
        return total, jnp.dot(total, layer.T)

    _, found = xpr.jit(lambda x, w: lax.scan(step, x, w))(x, w)
    wanted = rounded(x) @ np.asarray(dequantize(w)).astype(np.float64).swapaxes(1, 2)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-2, atol=5e-2)
    batched = xpr.vmap(lambda w: jnp.dot(x, w.T))(w)
    np.testing.assert_allclose(
        np.asarray(batched), x @ np.asarray(w).swapaxes(1, 2), rtol=1e-4, atol=1e-4
    )


@dataclass(frozen=True)
class Powers:
    """A user's own format: signs and powers of two."""

    def quantize(self, x: Any) -> tuple[Any, ...]:
        power = jnp.round(jnp.log2(jnp.maximum(jnp.abs(x), 2.0**-100)))
        return jnp.sign(x).astype(jnp.int8), power.astype(jnp.int8)

    def dequantize(self, parts: Any) -> Any:
        sign, power = parts
        return sign.astype(jnp.float32) * jnp.exp2(power.astype(jnp.float32))


def test_a_users_own_format() -> None:
    x = normal(3, 8)
    w = quantize(x, Powers())
    assert w.shape == (3, 8)
    wide = np.sign(x) * 2.0 ** np.round(np.log2(np.abs(x)))
    np.testing.assert_allclose(np.asarray(dequantize(w)), wide, rtol=1e-6)
    found = xpr.jit(lambda w: w @ jnp.ones(8))(w)
    np.testing.assert_allclose(np.asarray(found), wide.sum(1), rtol=1e-5)


def test_exported_functions_take_and_return_it(tmp_path: Path) -> None:
    x, w = (
        normal(2, 64),
        {"a": quantize(normal(5, 64), "q8_0"), "b": quantize(normal(5, 64), "int4")},
    )

    def both(x: Any, w: Any) -> Any:
        return x @ w["a"].T + x @ w["b"].T, w["a"][1:]

    stored = export.export(xpr.jit(both))(x, w).serialize()
    found, rest = export.deserialize(stored).call(x, w)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(xpr.jit(both)(x, w)[0]))
    assert rest.format == Gguf("q8_0")
    np.testing.assert_array_equal(np.asarray(rest.parts[0]), np.asarray(w["a"].parts[0])[1:])
    path = tmp_path / "product.xpr"
    export.export(xpr.jit(both))(x, w).save(path)
    again, _ = export.load(path).call(x, w)
    np.testing.assert_allclose(np.asarray(again), np.asarray(found), rtol=3e-2, atol=0.2)
    strange = export.export(xpr.jit(lambda w: w @ jnp.ones(8)))(quantize(normal(3, 8), Powers()))
    with pytest.raises(ValueError, match="in formats of xpr"):
        strange.serialize()
    with pytest.raises(ValueError, match="no format"):
        QuantizedArray.read_format(b"[]")


def test_errors_say_what_is_required() -> None:
    for args, message in (
        ((np.ones((2, 40)), "q8_0"), "whole blocks, 32 numbers each, got shape"),
        ((np.ones((2, 64)), "q9"), "requires a format of these: q8_0"),
    ):
        with pytest.raises(ValueError, match=message):
            quantize(*args)
    with pytest.raises(TypeError, match="real numbers"):
        quantize(np.ones(32, np.complex64))
    with pytest.raises(TypeError, match="whole blocks, 34 bytes each"):
        from_blocks(np.zeros((2, 35), np.uint8), "q8_0")
    with pytest.raises(ValueError, match="2, 4 or 8 bits"):
        Affine(bits=3)
    with pytest.raises(ValueError, match="activations"):
        Gguf("q4_0", activations="int4")
    with pytest.raises(TypeError, match="requires a QuantizedArray"):
        dequantize(np.ones(3))  # pyright: ignore[reportArgumentType]
