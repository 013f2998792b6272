"""Transformations of callables of every kind, and of arguments that are no arrays."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.custom_batching
import xpr.numpy as jnp
from xpr import lax


class Doubles:
    """An object that is called, and has a method."""

    def __call__(self, x: Any) -> Any:
        return x * 2

    def method(self, x: Any) -> Any:
        return x * 2


class Numbered(Doubles):
    """Its name is no string."""

    __name__ = 3
    __qualname__ = "Numbered"


class Slotted:
    """It takes no attributes, and no weak references."""

    __slots__ = ()

    def __call__(self, x: Any) -> Any:
        return x * 2


class Unhashable(Doubles):
    """It cannot be a key."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable)


def renamed(name: str) -> Callable[[Any], Any]:
    def double(x: Any) -> Any:
        return x * 2

    double.__name__ = double.__qualname__ = name
    return double


CALLABLES: dict[str, Callable[[Any], Any]] = {
    "partial": functools.partial(operator.mul, 2),
    "partial of partial": functools.partial(functools.partial(lambda a, b, x: a * b * x, 2), 1),
    "object": Doubles(),
    "bound method": Doubles().method,
    "method of a number": types.MethodType(lambda factor, x: factor * x, 2),
    "partial of a method": functools.partial(Doubles.method, Doubles()),
    "a name that is a number": Numbered(),
    "slots": Slotted(),
    "unhashable": Unhashable(),
    "empty name": renamed(""),
    "a name of odd characters": renamed('a b\n"<%\0é'),
    "methodcaller": operator.methodcaller("__mul__", 2),
    "dispatched": functools.singledispatch(lambda x: x * 2),
    "jitted": xpr.jit(lambda x: x * 2),
    "partial of jitted": functools.partial(xpr.jit(operator.mul), 2),
    "ufunc": functools.partial(jnp.multiply, 2),
}

x = np.float32(3)
TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "jit": lambda f: xpr.jit(f)(x),
    "grad": lambda f: xpr.grad(f)(x) * x,
    "vmap": lambda f: xpr.vmap(f)(jnp.full(2, x))[0],
    "jvp": lambda f: xpr.jvp(f, (x,), (x,))[1],
    "vjp": lambda f: xpr.vjp(f, x)[1](x)[0],
    "linearize": lambda f: xpr.linearize(f, x)[1](x),
    "jacfwd": lambda f: xpr.jacfwd(f)(x) * x,
    "jacrev": lambda f: xpr.jacrev(f)(x) * x,
    "checkpoint": lambda f: xpr.checkpoint(f)(x),
    "lower": lambda f: xpr.jit(f).lower(x).compile()(x),
    "make_jaxpr": lambda f: xpr.make_jaxpr(f)(x) and f(x),
    "eval_shape": lambda f: xpr.eval_shape(f, x).shape == () and f(x),
    "cond": lambda f: lax.cond(True, f, f, x),
    "switch": lambda f: lax.switch(0, [f, f], x),
    "while": lambda f: lax.while_loop(lambda c: c < 5, f, x),
    "map": lambda f: lax.map(f, jnp.full(2, x))[1],
    "custom_vjp": lambda f: with_rules(f)(x),
    "sequential_vmap": lambda f: xpr.custom_batching.sequential_vmap(f)(x),
    "closure_convert": lambda f: xpr.closure_convert(f, x)[0](x),
    "linear_transpose": lambda f: xpr.linear_transpose(f, x)(x)[0],
    "vectorize": lambda f: jnp.vectorize(f)(jnp.full(2, x))[0],
    "pure_callback": lambda f: xpr.pure_callback(f, xpr.ShapeDtypeStruct((), "float32"), x),
    "frompyfunc": lambda f: jnp.frompyfunc(lambda a, b: f(a) + 0 * b, 2, 1)(x, x),
}


def with_rules(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    function = xpr.custom_vjp(f)
    function.defvjp(lambda x: (f(x), None), lambda _, ct: (ct * 2,))
    return function


@pytest.mark.parametrize("kind", CALLABLES)
def test_every_transformation_of(kind: str) -> None:
    with xpr.default_device(xpr.devices("reference")[0]):
        found = {name: float(t(CALLABLES[kind])) for name, t in TRANSFORMS.items()}
    assert found == dict.fromkeys(TRANSFORMS, 6.0)


# ---- arguments that vmap does not map


def test_arguments_that_are_not_mapped_may_be_any_object() -> None:
    v = jnp.arange(3.0)
    thing = object()
    objects: list[Any] = [
        "text", thing, jnp.sin, ["a", {"b": thing}], np.dtype("int32"), jnp.int32, slice(1),
        np.array(["a"]), np.ma.masked_array([1.0], [True]), 2**70, xpr.ShapeDtypeStruct((2,), "f4"),
    ]  # fmt: skip
    for given in objects:
        seen: list[Any] = []
        found = xpr.vmap(lambda a, o, seen=seen: (seen.append(o), a * 2)[1], (0, None))(v, given)
        np.testing.assert_array_equal(found, [0, 2, 4])
        (got,) = seen
        assert got is given or isinstance(given, list)
    nested = xpr.vmap(xpr.vmap(xpr.grad(lambda a, s: a * len(s)), (0, None)), (0, None))
    np.testing.assert_array_equal(nested(jnp.ones((2, 3)), "abc"), np.full((2, 3), 3))
    partly = xpr.vmap(lambda a, pair: a * len(pair[0]) + pair[1], (0, [None, 0]))
    np.testing.assert_array_equal(partly(v, ["ab", v]), [0, 3, 6])
    everything = xpr.vmap(len, in_axes=None, axis_size=3)
    np.testing.assert_array_equal(everything("abcd"), [4, 4, 4])


def test_arguments_that_are_mapped_and_results_must_be_arrays() -> None:
    v = jnp.arange(3.0)
    with pytest.raises(TypeError, match="'abc' of type <class 'str'> is not a valid JAX type"):
        xpr.vmap(lambda a, s: a)(v, "abc")
    with pytest.raises(TypeError, match="'abc' of type <class 'str'> is not a valid JAX type"):
        xpr.vmap(lambda a, s: a)(v, s="abc")
    with pytest.raises(TypeError, match="returned a value of type <class 'str'>"):
        xpr.vmap(lambda a, s: (a, s), (0, None), (0, None))(v, "abc")


# ---- device_get


def test_device_get_gives_traced_arrays_back() -> None:
    get = xpr.device_get
    assert xpr.grad(lambda a: get(a) ** 2)(3.0) == 6
    np.testing.assert_array_equal(
        xpr.vmap(lambda a: get({"a": a})["a"] * 2)(jnp.arange(3.0)), [0, 2, 4]
    )
    program = xpr.make_jaxpr(lambda a: get([a, "text", None])[0] + 1)(1.0)
    assert [e.primitive.name for e in program.eqns] == ["add"]
    assert lax.scan(lambda c, _: (get(c) * 2, None), 1.0, None, length=2)[0] == 4
    assert isinstance(get(jnp.ones(2)), np.ndarray)


# ---- static arguments


def test_arguments_without_a_name_are_not_static_by_name() -> None:
    def f(a: Any, /, b: Any) -> Any:
        return a * b

    refused: list[dict[str, Any]] = [
        {"static_argnames": "a"},
        {"static_argnums": 0, "static_argnames": "a"},
    ]
    for options in refused:
        with pytest.raises(ValueError, match=r"invalid argnames {'a'} in static_argnames"):
            xpr.jit(f, **options)
    with pytest.raises(ValueError, match=r"invalid argnames {'a'} in donate_argnames"):
        xpr.jit(f, donate_argnames="a")
    with pytest.raises(ValueError, match="These are positional-only"):
        xpr.jit(lambda *args: args[0], static_argnames="args")
    assert xpr.jit(f, static_argnums=0)(2, 3.0) == 6
