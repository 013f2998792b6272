"""Errors and results of transformations in the cases that JAX's own programs look at."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax


class _Unprintable:
    def __call__(self, x: Any) -> Any:
        return x

    def __repr__(self) -> str:
        raise ValueError("no repr")


class _OtherArray:
    """An array of another library, which copies itself to the host."""

    copied = 0

    def copy_to_host_async(self) -> None:
        self.copied += 1


def test_repr_of_jitted_functions() -> None:
    def double(x: Any) -> Any:
        return 2 * x

    assert repr(xpr.jit(double)) == f"<PjitFunction of {double!r}>"
    assert repr(xpr.jit(_Unprintable())) == "<PjitFunction>"


def test_names_of_functions_that_make_jaxprs() -> None:
    def double(x: Any) -> Any:
        return 2 * x

    assert xpr.make_jaxpr(double).__name__ == "make_jaxpr(double)"
    assert xpr.make_jaxpr(double).__qualname__ == f"make_jaxpr({double.__qualname__})"


def test_documentation_of_mapped_functions() -> None:
    def double(x: Any) -> Any:
        """Does the sum."""
        return 2 * x

    text = xpr.vmap(double).__doc__ or ""
    assert text.startswith("Vectorized version of double.")
    assert text.endswith("\n\nOriginal documentation:\n\nDoes the sum.")
    assert xpr.vmap(lambda x: x).__doc__ is None


def test_cotangents_that_are_not_wanted_leave_compiled_functions() -> None:
    _, pull = xpr.vjp(lambda x, y: x * y, jnp.arange(3.0), jnp.ones(3))
    pull = pull.with_refs(xpr.ad.DontWant(), xpr.ad.GradValue())
    left, right = xpr.jit(lambda: pull(jnp.ones(3)))()
    assert left == xpr.ad.DidntWant()
    np.testing.assert_array_equal(right, np.arange(3.0))


def test_copies_to_the_host_are_asked_of_every_leaf() -> None:
    other = _OtherArray()
    leaves = [object(), 1, other, jnp.ones(2)]
    assert xpr.copy_to_host_async(leaves) is leaves
    assert other.copied == 1


def _float0() -> Any:
    return xpr.grad(lambda x: x + 0.0, allow_int=True)(1)


def _vmapped(fun: Callable[..., Any], *args: Any, **options: Any) -> Callable[[], Any]:
    return lambda: xpr.vmap(fun, **options)(*args)


_A, _B = np.zeros((10, 4), "f4"), np.zeros((10, 2), "f4")
_SIZES = "vmap got inconsistent sizes for array axes to be mapped:\n"

ERRORS: list[tuple[type[Exception], str, Callable[[], Any]]] = [
    (
        ValueError,
        "static_argnames and donate_argnames cannot intersect",
        lambda: xpr.jit(lambda x: x, static_argnames="x", donate_argnames="x"),
    ),
    (
        ValueError,
        "static_argnums and donate_argnums cannot intersect",
        lambda: xpr.jit(lambda x: x, static_argnums=0, donate_argnums=0),
    ),
    (
        TypeError,
        r"same shape, got \(3,\) and \(4,\)\.",
        lambda: jnp.dot(np.zeros(3, "f4"), np.zeros(4, "f4")),
    ),
    (
        ValueError,
        r"(?s)device_put device specification must be a tree prefix.*\(1 found\).*different types",
        lambda: xpr.device_put({"a": 1, "b": 2}, {"a": None, "b": (None,)}),
    ),
    (
        ValueError,
        r"Mismatch details \(2 found\)",
        lambda: xpr.device_put({"a": 1, "b": 2}, {"a": [None], "b": (None,)}),
    ),
    (
        TypeError,
        "float0s do not support any operations by design",
        lambda: _float0() + jnp.zeros(()),
    ),
    (
        TypeError,
        "float0s do not support any operations by design",
        lambda: jnp.add(jnp.ones(2), np.zeros(2, xpr.dtypes.float0)),
    ),
    (
        ValueError,
        _SIZES + r"  \* most axes \(2 of them\) had size 10, e.g. axis 0 of argument x of type "
        r"float32\[10,4\];\n  \* one axis had size 2: axis 1 of argument y of type float32\[10,2\]",
        _vmapped(lambda x, y, z: x, _A, _B, _A, in_axes=(0, 1, 0)),
    ),
    (
        ValueError,
        _SIZES + r"  \* most axes \(2 of them\) had size 2, e.g. axis 1 of argument b\[0\] of type "
        r"float32\[10,2\];\n  \* one axis had size 10: axis 0 of argument a of",
        _vmapped(lambda a, b: a, _A, [_B, _B], in_axes=(0, 1)),
    ),
    (
        ValueError,
        _SIZES + r"  \* the `axis_size` argument was 2;\n  \* one axis had size 10",
        _vmapped(lambda x: x, _A, axis_size=2),
    ),
    (
        ValueError,
        r"had size 2: axis 0 of kwargs\['y'\] of type int32\[2\]",
        lambda: xpr.vmap(lambda x, y: x)(np.zeros(1), y=np.zeros(2, "i4")),
    ),
    (
        ValueError,
        r"vmap has mapped output \(axis_name=foo\) but out_axes is None",
        _vmapped(lambda x: x, _A, out_axes=None, axis_name="foo"),
    ),
    (
        ValueError,
        r"at least one argument containing an array .* got empty \*args=\(\{\},\) and \*\*kwargs",
        _vmapped(lambda x: x, {}),
    ),
    (
        ValueError,
        r"(?s)in_axes specification must be a tree prefix of the corresponding value;.*Mismatch",
        _vmapped(lambda x: x, _A, in_axes=([0],)),
    ),
    (
        TypeError,
        "is not a valid JAX type: Dtype object is not a valid JAX array type",
        lambda: xpr.grad(lambda x: x)(np.array([1, 2], object)),
    ),
    (
        AttributeError,
        "typeof",
        lambda: xpr.make_jaxpr(lambda x: x.sharding)(1.0),
    ),
    (
        TypeError,
        r"`arr\[tuple\(seq\)\]` instead",
        lambda: jnp.arange(6).reshape(3, 2)[[0, None]],
    ),
    (
        TypeError,
        "Index type must be an integer, got <function",
        lambda: lax.switch(lambda: 0, [lambda x: x], 1),  # type: ignore[arg-type]
    ),
    (
        TypeError,
        r"linear_transpose only supports .*got \['float32'\] -> \['int32'\]",
        lambda: xpr.linear_transpose(lambda x: x.astype(int), 1.0),
    ),
    (xpr.errors.JaxRuntimeError, "No such compile option: 'other'", lambda: xpr.jit(
        lambda x: x, compiler_options={"other": 1}
    )),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "message", "call"), ERRORS)
def test_errors(kind: type[Exception], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("wrapped", [lambda f: f, xpr.jit])
def test_python_numbers_of_other_arrays_than_scalars(wrapped: Any) -> None:
    vector, empty, number = jnp.arange(10), jnp.arange(0), jnp.float32(0)
    for convert in (operator.index, hex):
        for x in (vector, empty, number):
            with pytest.raises(TypeError, match="Only integer scalar arrays can be converted"):
                wrapped(convert)(x)
    for convert in (int, float, complex):
        with pytest.raises(TypeError, match="Only scalar arrays can be converted to Python scal"):
            wrapped(convert)(vector)
    with pytest.raises(ValueError, match="truth value of an array with more than one element is a"):
        wrapped(bool)(vector)
    with pytest.raises(ValueError, match="truth value of an empty array is ambiguous"):
        wrapped(bool)(empty)


def test_python_numbers_of_traced_scalars() -> None:
    kinds = {
        operator.index: xpr.errors.TracerIntegerConversionError,
        int: xpr.errors.ConcretizationTypeError,
        bool: xpr.errors.TracerBoolConversionError,
    }
    for convert, kind in kinds.items():
        with pytest.raises(kind, match=r"traced array|[cC]oncrete"):
            xpr.jit(convert)(jnp.int32(0))


def test_linear_transpose_of_integers() -> None:
    assert int(xpr.linear_transpose(lambda x: 2 * x, 1)(3)[0]) == 6
    matrix = np.arange(6).reshape(2, 3)
    [found] = xpr.linear_transpose(lambda x: matrix @ x, np.zeros(3, int))(np.array([1, 2]))
    np.testing.assert_array_equal(found, matrix.T @ [1, 2])


def test_linear_transposes_go_through_jit() -> None:
    @xpr.jit
    def transpose(scale: Any, x: Any) -> Any:
        return xpr.linear_transpose(lambda y: scale * y, x)

    transposed = transpose(2.0, 1.0)
    assert float(xpr.jit(lambda f, x: f(x)[0])(transposed, 3.0)) == 6.0


def test_jvp_returns_arrays() -> None:
    for x in xpr.jvp(jnp.asarray, (1.0,), (2.0,)):
        assert isinstance(x, xpr.Array)


def test_integers_beyond_64_bits_become_floats() -> None:
    for dtype in (jnp.float32, jnp.complex64):
        found = lax.convert_element_type(2**100, dtype)
        assert found == np.dtype(dtype).type(2**100)
    for dtype in (jnp.int32, jnp.uint8):
        with pytest.raises(OverflowError, match="too large to convert"):
            lax.convert_element_type(2**100, dtype)


def test_types_that_a_compiled_program_does_not_take() -> None:
    compiled = xpr.jit(lambda x, y: x + y).lower(np.ones(2, "f4"), np.ones(2, "f4")).compile()
    with pytest.raises(TypeError, match="Argument types differ") as info:
        compiled(np.ones(2, "i4"), np.ones(3, "f4"))
    lines = str(info.value).splitlines()
    assert lines[1:] == [
        "Argument 'x' compiled with float32[2] and called with int32[2]",
        "Argument 'y' compiled with float32[2] and called with float32[3]",
    ]
