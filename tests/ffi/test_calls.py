"""Foreign functions: what they are given, and what comes of it.

The texts that handlers write are those that they write when JAX 0.10.2 calls them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.ffi.conftest import text_of
from xpr.core.token import abstract_token
from xpr.experimental.layout import Layout
from xpr.ffi import ffi_call

Described = Callable[..., str]
S = xpr.ShapeDtypeStruct
F32 = jnp.float32

pytestmark = pytest.mark.usefixtures("library")


def scaled(x: Any, factor: float) -> Any:
    return ffi_call("scale", S(x.shape, F32))(x, factor=np.float32(factor))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0, 3), (70, 33)])
@pytest.mark.parametrize("jit", [False, True])
def test_shapes(shape: tuple[int, ...], jit: bool) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    f = xpr.jit(scaled, static_argnums=1) if jit else scaled
    y = f(jnp.asarray(x), 2.5)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, x * np.float32(2.5))


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (np.bool_, 1),
        (np.int8, 2),
        (np.int16, 3),
        (np.int32, 4),
        (np.uint8, 6),
        (np.uint16, 7),
        (np.uint32, 8),
        (np.float16, 10),
        (np.float32, 11),
        (np.complex64, 15),
        (ml_dtypes.bfloat16, 16),
        (ml_dtypes.float8_e5m2, 19),
        (ml_dtypes.float8_e4m3fn, 20),
        (ml_dtypes.int4, 21),
        (ml_dtypes.uint4, 22),
        (ml_dtypes.float8_e4m3b11fnuz, 23),
        (ml_dtypes.float8_e3m4, 29),
    ],
)
@pytest.mark.parametrize("jit", [False, True])
def test_dtypes(dtype: Any, number: int, jit: bool) -> None:
    x = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    options = {"bytes": 3} if number in (21, 22) else {"width": x.dtype.itemsize}

    def f(x: Any) -> Any:
        (text,) = ffi_call("describe", [S((200,), jnp.uint8)])(x)
        return text, ffi_call("copy", S(x.shape, dtype))(x, **options)

    text, same = (xpr.jit(f) if jit else f)(jnp.asarray(x))
    assert text_of(text).startswith(f"argument 1 type {number} [2,3]\n")
    np.testing.assert_array_equal(np.asarray(same), x)


@pytest.mark.parametrize(
    ("dtype", "number"), [(np.int64, 5), (np.float64, 12), (np.complex128, 18)]
)
def test_wide_dtypes(dtype: Any, number: int) -> None:
    with xpr.enable_x64(True):
        x = jnp.asarray(np.arange(3), dtype)
        for f in (lambda f: f, xpr.jit):
            text, same = f(
                lambda x: (
                    ffi_call("describe", S((200,), jnp.uint8))(x),
                    ffi_call("copy", S(x.shape, dtype))(x, width=x.dtype.itemsize),
                )
            )(x)
            assert text_of(text).startswith(f"argument 1 type {number} [3]\n")
            np.testing.assert_array_equal(same, np.arange(3).astype(dtype))


@pytest.mark.parametrize("jit", [False, True])
def test_elements_of_half_a_byte(jit: bool) -> None:
    """XLA has two of them in a byte, the first one in the lower half."""

    def f(x: Any) -> Any:
        data = ffi_call("copy", S((2,), jnp.uint8))(x, bytes=2)
        return data, ffi_call("copy", S((3,), jnp.int4))(data, bytes=2)

    data, back = (xpr.jit(f) if jit else f)(jnp.array([1, -2, 3], jnp.int4))
    assert np.asarray(data).tolist() == [0xE1, 0x03]
    np.testing.assert_array_equal(np.asarray(back).astype(np.int8), [1, -2, 3])


def test_what_a_handler_sees(described: Described) -> None:
    extra = [S((0, 2), jnp.bfloat16)]
    assert described(jnp.ones((2, 3)), 3, 2.5, True, np.float64(3), extra=extra) == (
        "argument 1 type 11 [2,3]\n"
        "argument 1 type 4 []\n"
        "argument 1 type 11 []\n"
        "argument 1 type 1 []\n"
        "argument 1 type 11 []\n"
        "result 1 type 6 [400]\n"
        "result 1 type 16 [0,2]\n"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "scalar of type 5 1"),
        (-(2**63), "scalar of type 5 -9223372036854775808"),
        (2.5, "scalar of type 12 2.5"),
        (True, "scalar of type 1 1"),
        (np.bool_(False), "scalar of type 1 0"),
        ("text", "string text"),
        ("", "string "),
        ("ünï", "string ünï"),
        (b"bytes", "string bytes"),
        (np.float32(3), "scalar of type 11 3"),
        (np.uint8(3), "scalar of type 6 3"),
        (np.int32(7), "scalar of type 4 7"),
        (np.arange(3), "array of type 5 0 1 2"),
        (np.array([1, 2, 3])[::2], "array of type 5 1 3"),
        (np.ones((2, 2), np.float32), "array of type 11 1 1 1 1"),
        (np.array(3), "array of type 5 3"),
        (np.zeros((0, 3), np.int16), "array of type 3"),
        ({}, "{\n}"),
        (
            {"x": 1, "b": {"z": "q", "arr": np.arange(2, dtype=np.int8)}},
            "{\nb: {\narr: array of type 2 0 1\nz: string q\n}\nx: scalar of type 5 1\n}",
        ),
        # What XLA has no attributes for.
        (np.float16(1), "scalar of type 10 0x3c00"),
        (np.array([True, False]), "array of type 1 1 0"),
        (np.array([1, 2], ml_dtypes.bfloat16), "array of type 16 0x3f80 0x4000"),
    ],
)
def test_attributes(described: Described, value: Any, text: str) -> None:
    assert described(v=value) == f"result 1 type 6 [400]\nv: {text}\n"


def test_attributes_are_sorted(described: Described) -> None:
    names = [line.split(":")[0] for line in described(b=1, a=2, _=3, B=4).splitlines()[1:]]
    assert names == ["B", "_", "a", "b"]


def test_attributes_of_one_value_and_several_types(described: Described) -> None:
    seen = [described(v=v) for v in (1, 1.0, True, np.float32(1), np.int32(1), 1)]
    assert len(set(seen)) == 5
    assert seen[0] == seen[-1]
    assert described(v={"k": 1}) != described(v={"k": 1.0})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "No attribute handler defined for type: <class 'NoneType'>"),
        ([1, 2], "Non-hashable keyword argument to ffi_call v"),
        ((1, 2), "Unsupported attribute type for attribute: v is "),
        (1j, "Unsupported scalar attribute type: v is 1j"),
        (np.array("s"), "Unsupported array element type for attribute: v"),
        (object, "Unsupported attribute type for attribute: v is <class 'object'>"),
        ({"k": None}, "No attribute handler defined for type: <class 'NoneType'>"),
        ({1: 2}, "names of attributes of a foreign function are texts, got 1"),
    ],
)
def test_what_is_no_attribute(described: Described, value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        described(v=value)


def test_an_integer_that_is_too_large(described: Described) -> None:
    with pytest.raises(OverflowError, match="Python int too large for the attribute v"):
        described(v=2**70)


def test_the_users_array_may_change_later(described: Described) -> None:
    values = np.arange(2)
    program = xpr.jit(lambda: ffi_call("describe", S((100,), jnp.uint8))(v=values))
    lowered = program.lower()
    values[0] = 7
    assert text_of(lowered.compile()()).endswith("v: array of type 5 0 1\n")


# ---- results


def test_how_many_results() -> None:
    x = jnp.arange(3.0)
    one = S((3,), F32)
    assert ffi_call("copy", ())(x) == ()
    assert isinstance(ffi_call("copy", [one])(x), list)
    found = ffi_call("copy", (one, one))(x, x + 1)
    assert isinstance(found, tuple)
    np.testing.assert_array_equal(found[1], [1, 2, 3])
    np.testing.assert_array_equal(ffi_call("copy", x)(x), x)


@pytest.mark.parametrize("results", [3, [3], {"a": S((3,), F32)}, [S((3,), F32), None]])
def test_results_without_a_type(results: Any) -> None:
    message = "All elements of result_shape_dtypes must have 'shape' and 'dtype' attributes. Got "
    with pytest.raises(ValueError, match=message):
        ffi_call("copy", results)


@pytest.mark.parametrize("operand", ["a", None, [1.0], {"a": 1.0}])
def test_operands_that_are_no_arrays(operand: Any) -> None:
    with pytest.raises(TypeError, match=r"Argument '.*' of type <class '.*'> is not a valid JAX"):
        ffi_call("copy", ())(operand)


def test_keys(described: Described) -> None:
    key = xpr.random.key(3)
    assert described(key).startswith("argument 1 type 8 [2]\n")
    for f in (lambda f: f, xpr.jit):
        same = f(lambda k: ffi_call("copy", S((), key.dtype))(k, width=4))(key)
        assert same.dtype == key.dtype
        np.testing.assert_array_equal(xpr.random.key_data(same), xpr.random.key_data(key))


def test_tokens(described: Described) -> None:
    def f(x: Any) -> Any:
        token = xpr.lax.create_token()
        types = (S((200,), jnp.uint8), abstract_token)
        return ffi_call("describe", types)(token, x)

    for g in (f, xpr.jit(f)):
        text, token = g(jnp.arange(3.0))
        assert text_of(text) == (
            "argument 1 type 17 []\nargument 1 type 11 [3]\n"
            "result 1 type 6 [200]\nresult 1 type 17 []\n"
        )
        assert described(token).startswith("argument 1 type 17 []\n")


# ---- layouts and aliases


@pytest.mark.parametrize("jit", [False, True])
def test_layouts(jit: bool) -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    columns = (1, 0)

    def copied(**layouts: Any) -> Any:
        f = ffi_call("copy", S((2, 3), F32), **layouts)
        return np.asarray((xpr.jit(f) if jit else f)(jnp.asarray(x)))

    by_columns = np.ravel(x, "F").reshape(2, 3)
    np.testing.assert_array_equal(copied(input_layouts=[columns]), by_columns)
    np.testing.assert_array_equal(copied(input_layouts=[Layout(columns)]), by_columns)
    np.testing.assert_array_equal(
        copied(output_layouts=columns), np.ravel(x).reshape(2, 3, order="F")
    )
    np.testing.assert_array_equal(copied(input_layouts=[columns], output_layouts=columns), x)
    np.testing.assert_array_equal(copied(input_layouts=[None]), x)


def test_layouts_of_three_axes() -> None:
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    order = (1, 2, 0)
    y = ffi_call("copy", S((24,), F32), input_layouts=[order])(jnp.asarray(x))
    np.testing.assert_array_equal(y, x.transpose(order).reshape(-1))
    back = ffi_call("copy", S((2, 3, 4), F32), output_layouts=order)(y)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"input_layouts": []}, ValueError, r"The number of input arguments \(1\) must equal"),
        ({"output_layouts": []}, ValueError, r"The number of outputs \(1\) must equal the number"),
        ({"input_layouts": [(0,)]}, ValueError, r"incorrect layout \(0,\) of input 0: layout must"),
        ({"input_layouts": [(0, 2)]}, ValueError, "must be a permutation of "),
        ({"output_layouts": [(0, 0)]}, ValueError, r"incorrect layout \(0, 0\) of output 0"),
        ({"input_layouts": [3]}, TypeError, "the layout of input 0 is None, a Layout or a"),
        (
            {"input_layouts": [Layout((0, 1), tiling=((8, 128),))]},
            ValueError,
            "The FFI does not support layouts with tiling",
        ),
    ],
)
def test_wrong_layouts(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ffi_call("copy", [S((2, 3), F32)], **options)(jnp.ones((2, 3)))


@pytest.mark.parametrize("jit", [False, True])
def test_aliases(jit: bool) -> None:
    """The handler refuses results that do not lie where the operand does."""

    def f(x: Any, y: Any) -> Any:
        added = ffi_call("accumulate", S((3,), F32), input_output_aliases={0: 0})(x, y)
        return added, x

    added, x = (xpr.jit(f) if jit else f)(jnp.arange(3.0), jnp.ones(3))
    np.testing.assert_array_equal(added, [1, 2, 3])
    np.testing.assert_array_equal(x, [0, 1, 2])


@pytest.mark.parametrize(
    ("aliases", "message"),
    [
        ({0: 1}, r"mapping '0:1' with output index 1 outside the range \[0, 1\)"),
        ({5: 0}, r"mapping '5:0' with input index 5 outside the range \[0, 2\)"),
        ({1: 0}, r"mapping '1:0' referring to an input with abstract value float32\[2\] and an "),
    ],
)
def test_wrong_aliases(aliases: dict[int, int], message: str) -> None:
    f = ffi_call("accumulate", S((3,), F32), input_output_aliases=aliases)
    with pytest.raises(ValueError, match=message):
        f(jnp.arange(3.0), jnp.ones(2))


def test_aliases_of_two_layouts() -> None:
    f = ffi_call("copy", S((2, 3), F32), input_output_aliases={0: 0}, input_layouts=[(1, 0)])
    with pytest.raises(ValueError, match=r"with layout \(0, 1\) and an output with a different"):
        f(jnp.ones((2, 3)))


# ---- effects


def test_calls_whose_results_are_not_read(library: ctypes.CDLL) -> None:
    def number_of_calls(**options: Any) -> int:
        before = library.number_of_calls()
        xpr.jit(lambda: (ffi_call("count", S((), jnp.int32), **options)(), 1.0)[1])()
        return library.number_of_calls() - before

    assert number_of_calls() == 0
    assert number_of_calls(has_side_effect=True) == 1


def test_effects_in_order(library: ctypes.CDLL) -> None:
    count = ffi_call("count", S((), jnp.int32), has_side_effect=True)
    found = xpr.jit(lambda: [count() for _ in range(5)])()
    first = int(found[0])
    assert [int(x) for x in found] == list(range(first, first + 5))


def test_effects_in_a_loop(library: ctypes.CDLL) -> None:
    count = ffi_call("count", S((), jnp.int32), has_side_effect=True)
    before = library.number_of_calls()
    _, ys = xpr.jit(lambda: xpr.lax.scan(lambda c, _: (c, count()), 0, length=4))()
    np.testing.assert_array_equal(ys, before + np.arange(1, 5))


# ---- functions without frames


@pytest.mark.parametrize("jit", [False, True])
def test_functions_without_frames(jit: bool) -> None:
    def f(x: Any) -> Any:
        one = S((), F32)
        twice = ffi_call("twice", one, custom_call_api_version=1)(x)
        with_status = ffi_call("twice", one, custom_call_api_version=2)(x)
        both = ffi_call("sum_and_difference", [one, one], custom_call_api_version=1)(x, twice)
        text = ffi_call(
            "with_options",
            S((5,), jnp.uint8),
            custom_call_api_version=3,
            legacy_backend_config="some",
        )(jnp.uint8(65))
        return twice, with_status, both, text

    twice, with_status, both, text = (xpr.jit(f) if jit else f)(jnp.float32(3))
    assert (float(twice), float(with_status)) == (6, 6)
    assert [float(b) for b in both] == [9, -3]
    assert text_of(text) == "someA"


def test_wrong_versions() -> None:
    one, x = S((), F32), jnp.float32(3)
    with pytest.raises(ValueError, match="requires custom_call_api_version < 4; got 4"):
        ffi_call("twice", one, legacy_backend_config="a")(x)
    with pytest.raises(ValueError, match="requires a custom call API version of at least 4; got"):
        ffi_call("twice", one, custom_call_api_version=1)(x, a=1)
    with pytest.raises(ValueError, match="Unknown custom-call API version enum value: 0"):
        ffi_call("twice", one, custom_call_api_version=0)
    with pytest.raises(xpr.errors.JaxRuntimeError, match="NOT_FOUND: No registered implementation"):
        ffi_call("scale", one, custom_call_api_version=1)(x)
    with pytest.raises(xpr.errors.JaxRuntimeError, match="NOT_FOUND: No FFI handler registered"):
        ffi_call("twice", one)(x)
