"""The code for CUDA: products use the tensor cores, and their operands are not widened before."""

from __future__ import annotations

from typing import Any

import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.gpu_util import has_wide_accesses, kernels, operand, products, ptx_of
from xpr import lax, nn
from xpr.lowering.targets.gpu import cuda_target

_NARROW = {"float16": "f32.f16.f16.f32", "bfloat16": "f32.bf16.bf16.f32"}
_NHWC = ("NHWC", "HWIO", "NHWC")


def _sum(a: Any, b: Any) -> Any:
    return lax.dot(a, b, preferred_element_type="float32")


def _batched(a: Any, b: Any) -> Any:
    return jnp.einsum("bij,bkj->bik", a, b)


_PRODUCTS = {
    "summed in float32": (_sum, (512, 512), (512, 512)),
    "rounded": (lambda a, b: a @ b, (512, 512), (512, 512)),
    "second transposed": (lambda a, b: a @ b.T, (256, 128), (256, 128)),
    "first transposed": (lambda a, b: a.T @ b, (128, 256), (128, 256)),
    "batched": (_batched, (4, 128, 64), (4, 128, 64)),
    "uneven": (_sum, (100, 130), (130, 70)),
}


@pytest.mark.parametrize("dtype", _NARROW)
@pytest.mark.parametrize("name", _PRODUCTS)
def test_products_of_narrow_floats_use_tensor_cores(name: str, dtype: str) -> None:
    product, left, right = _PRODUCTS[name]
    ptx = ptx_of(product, operand(*left, dtype=dtype), operand(*right, dtype=dtype))
    assert products(ptx) == {_NARROW[dtype]}
    assert kernels(ptx) == 1  # none of them writes the operands in a wider type
    assert "fma.rn.f32" not in ptx
    assert name == "uneven" or has_wide_accesses(ptx)


@pytest.mark.parametrize("dtype", _NARROW)
def test_gradients_of_products_use_tensor_cores(dtype: str) -> None:
    def loss(w: Any, x: Any) -> Any:
        return nn.relu(x @ w).astype("float32").sum()

    ptx = ptx_of(
        xpr.grad(loss, argnums=(0, 1)),
        operand(128, 256, dtype=dtype),
        operand(64, 128, dtype=dtype),
    )
    assert products(ptx) == {_NARROW[dtype]}
    assert "fma.rn.f32" not in ptx


@pytest.mark.parametrize("dtype", _NARROW)
def test_attention_uses_tensor_cores(dtype: str) -> None:
    x = operand(2, 128, 4, 64, dtype=dtype)
    ptx = ptx_of(nn.dot_product_attention, x, x, x)
    assert products(ptx) == {_NARROW[dtype]}
    assert "fma.rn.f32" not in ptx
    assert has_wide_accesses(ptx)


_CONVOLUTIONS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "in order": (_NHWC, (4, 16, 16, 64), (3, 3, 64, 64), {}),
    "features first": (None, (4, 64, 16, 16), (64, 64, 3, 3), {}),
    "groups": (_NHWC, (4, 16, 16, 64), (3, 3, 16, 64), {"feature_group_count": 4}),
    "of lines": (("NWC", "WIO", "NWC"), (4, 32, 64), (3, 64, 64), {}),
    "of volumes": (("NDHWC", "DHWIO", "NDHWC"), (2, 8, 8, 8, 32), (3, 3, 3, 32, 32), {}),
}


@pytest.mark.parametrize("name", _CONVOLUTIONS)
def test_convolutions_are_implicit_products(name: str) -> None:
    numbers, left, right, how = _CONVOLUTIONS[name]
    dtype = "bfloat16" if name == "groups" else "float16"

    def f(x: Any, k: Any) -> Any:
        strides = (1,) * (len(left) - 2)
        return lax.conv_general_dilated(x, k, strides, "SAME", dimension_numbers=numbers, **how)

    ptx = ptx_of(f, operand(*left, dtype=dtype), operand(*right, dtype=dtype))
    assert products(ptx) == {_NARROW[dtype]}
    assert kernels(ptx) == 2  # the operand is padded before


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_convolutions_of_single_features_compile(dtype: str) -> None:
    """IREE does not compile those of two types: a reshape expects the other one."""

    def f(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=_NHWC, feature_group_count=16
        )

    assert kernels(ptx_of(f, operand(2, 8, 8, 16, dtype=dtype), operand(3, 3, 1, 16, dtype=dtype)))


def test_gradients_of_convolutions_use_tensor_cores() -> None:
    def loss(x: Any, k: Any) -> Any:
        found = lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=_NHWC)
        return found.astype("float32").sum()

    x, k = operand(4, 16, 16, 32, dtype="float16"), operand(3, 3, 32, 32, dtype="float16")
    assert products(ptx_of(xpr.grad(loss, argnums=(0, 1)), x, k)) == {_NARROW["float16"]}


@pytest.mark.parametrize(
    ("left", "right", "preferred"),
    [("int8", "int8", "int32"), ("uint8", "int8", "int32"), ("int8", "int8", None)],
)
def test_products_of_bytes_use_tensor_cores(left: str, right: str, preferred: str | None) -> None:
    def f(a: Any, b: Any) -> Any:
        return lax.dot(a, b, preferred_element_type=preferred)

    ptx = ptx_of(f, operand(128, 600, dtype=left), operand(600, 64, dtype=right))
    assert products(ptx) == {_NARROW["float16"]}


def test_products_of_float32_use_tensor_cores_where_the_user_lets_them() -> None:
    def product(precision: Any) -> str:
        x = operand(256, 256)
        return ptx_of(lambda a, b: jnp.matmul(a, b, precision=precision), x, x)

    for allowed in ("tensorfloat32", "high", "TF32_TF32_F32", "BF16_BF16_F32"):
        assert products(product(allowed)) == {_NARROW["bfloat16"]}
    for exact in (None, "highest", "F32_F32_F32"):
        ptx = product(exact)
        assert not products(ptx)
        assert "fma.rn.f32" in ptx
        assert kernels(ptx) == 1


@pytest.mark.parametrize("dtype", _NARROW)
def test_older_gpus_multiply_float32(dtype: str) -> None:
    """IREE ends the process for float16 on sm_75, with an instruction that sm_80 has."""
    target = cuda_target("sm_75")
    for size in (8, 256):
        ptx = ptx_of(_sum, *[operand(size, size, dtype=dtype)] * 2, target=target)
        assert not products(ptx)
        assert ".target sm_75" in ptx


def test_sums_are_cut_where_a_gpu_would_be_idle() -> None:
    assert kernels(ptx_of(jnp.sum, operand(1 << 22))) > 1
    assert kernels(ptx_of(lambda x: x.sum(1), operand(1 << 14, 1 << 14))) == 1
    assert kernels(ptx_of(lambda x: x.sum(1), operand(4096, 1001))) == 1
    assert kernels(ptx_of(lambda x: x.sum(0), operand(512, 1 << 17))) == 1
    assert kernels(ptx_of(lambda x: x.sum(0), operand(4096, 64))) > 1


def test_products_with_vectors_are_one_kernel() -> None:
    matrix, vector = operand(1024, 1024), operand(1024)
    assert kernels(ptx_of(lambda a, x: a @ x, matrix, vector)) == 1
    assert kernels(ptx_of(lambda a, x: x @ a, matrix, vector)) == 1
