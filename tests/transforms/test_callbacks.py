"""Calls from programs back into Python."""

from __future__ import annotations

import functools
import itertools
import traceback
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import debug, lax
from xpr.experimental import io_callback
from xpr.sharding import NamedSharding, PartitionSpec

F32 = xpr.ShapeDtypeStruct((), jnp.float32)
V3 = xpr.ShapeDtypeStruct((3,), jnp.float32)
X = np.array([0.5, 1.0, 2.0], np.float32)
BOTH = pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])


class Notes(list[Any]):
    """What callbacks were called with."""

    def __call__(self, *args: Any) -> None:
        self.append(tuple(np.asarray(a).tolist() for a in args))

    def taken(self) -> list[Any]:
        """The notes since the last time; those of a single value as that value."""
        found = [n[0] if len(n) == 1 else n for n in self]
        self.clear()
        return found


def run(function: Any, *args: Any, jit: bool) -> Any:
    return (xpr.jit(function) if jit else function)(*args)


# ---- pure_callback


@BOTH
def test_pytrees_of_every_kind_of_number_go_in_and_out(jit: bool) -> None:
    values = {
        "b": np.array([True, False]),
        "u": np.array([1, 200], np.uint8),
        "i": np.array(-5, np.int32),
        "h": np.array([[1.5, 2.5]], np.float16),
        "c": np.array([1 + 2j], np.complex64),
        "e": np.zeros((0, 2), np.float32),
    }
    types = {k: xpr.ShapeDtypeStruct(v.shape, v.dtype) for k, v in values.items()}
    seen: list[Any] = []

    def swap(tree: Any, *, scale: Any) -> Any:
        seen.append((tree, scale))
        return {k: np.asarray(v) for k, v in tree.items()}, (np.asarray(scale) * 2,)

    def f(tree: Any, scale: Any) -> Any:
        return xpr.pure_callback(swap, (types, (F32,)), tree, scale=scale)

    out, (doubled,) = run(f, values, np.float32(1.5), jit=jit)
    assert isinstance(out["b"], xpr.Array)
    assert doubled == 3
    (tree, scale), *more = seen
    assert not more
    assert isinstance(scale, xpr.Array)
    for k, v in values.items():
        assert isinstance(tree[k], xpr.Array)
        assert out[k].dtype == tree[k].dtype == v.dtype
        np.testing.assert_array_equal(out[k], v)
        np.testing.assert_array_equal(tree[k], v)


def test_a_callback_may_keep_its_arrays_and_call_programs() -> None:
    kept: list[xpr.Array] = []

    @xpr.jit
    def inner(x: Any) -> Any:
        return x * 2

    def keep(x: Any) -> Any:
        kept.append(x)
        return inner(x) + jnp.ones(3)

    f = xpr.jit(lambda x: xpr.pure_callback(keep, V3, jnp.sin(x)) * 10)
    for shift in (0.0, 1.0, 2.0):
        x = X + np.float32(shift)
        np.testing.assert_allclose(f(x), 10 * (2 * np.sin(x) + 1), rtol=1e-5)
    for shift, x in zip((0.0, 1.0, 2.0), kept, strict=True):
        np.testing.assert_allclose(x, np.sin(X + np.float32(shift)), rtol=1e-6)


@pytest.mark.parametrize(
    ("result", "returned", "error", "message"),
    [
        (V3, np.zeros(2, np.float32), ValueError, r"given returned .*\(2,\) as result, .*\(3,\)"),
        (V3, np.zeros(3, np.int32), TypeError, "dtype int32 as result, .*promises float32"),
        (V3, (X, X), TypeError, "returned 2 arrays, but result_shape_dtypes promises 1"),
        (None, 5, TypeError, "returned 1 arrays, but result_shape_dtypes promises 0"),
        ({"a": V3, "b": (V3,)}, {"a": X, "b": (X[:1],)}, ValueError, r"as result\['b'\]\[0\]"),
    ],
)
def test_results_of_other_types_are_refused(
    result: Any, returned: Any, error: type[Exception], message: str
) -> None:
    def given() -> Any:
        return returned

    with pytest.raises(error, match=message):
        xpr.pure_callback(given, result)


def test_results_are_checked_in_compiled_programs() -> None:
    f = xpr.jit(lambda x: xpr.pure_callback(lambda a: a[:2], {"a": V3}, x))
    with pytest.raises(ValueError, match=r"as result\['a'\], but .* promises \(3,\)"):
        f(X)


def test_results_that_count_as_their_type() -> None:
    assert xpr.pure_callback(lambda: 1.5, F32) == 1.5
    assert xpr.pure_callback(lambda: np.float64(1.5), F32) == 1.5  # 64 bits are off
    (out,) = xpr.pure_callback(lambda: [X], (V3,))  # another container, as many leaves
    np.testing.assert_array_equal(out, X)
    with xpr.enable_x64():
        wide = xpr.pure_callback(lambda: 0.1, xpr.ShapeDtypeStruct((), np.float64))
        assert wide == 0.1
        with pytest.raises(TypeError, match="dtype float64 as result"):
            xpr.pure_callback(lambda: np.float64(0.1), F32)


def test_arguments_of_pure_callback_are_checked() -> None:
    with pytest.raises(TypeError, match=r"pure_callback takes a function, got 3"):
        xpr.pure_callback(3, V3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"args\[1\]\['k'\] is 'text'"):
        xpr.pure_callback(lambda *_: X, V3, X, {"k": "text"})
    with pytest.raises(TypeError, match=r"kwargs\['k'\] is 'text'"):
        xpr.pure_callback(lambda *_: X, V3, k="text")
    with pytest.raises(TypeError, match=r"takes objects with a shape and a dtype, got 3\.0"):
        xpr.pure_callback(lambda: 1, 3.0)
    with pytest.raises(ValueError, match=r"vmap_method must be one of .*, got 'all'"):
        xpr.pure_callback(lambda: X, V3, vmap_method="all")
    with pytest.raises(TypeError, match="sharding must be a Sharding, got 'cpu'"):
        xpr.pure_callback(lambda: X, V3, sharding="cpu")
    with pytest.raises(ValueError, match="cannot specify 64-bit types such as int64"):
        xpr.pure_callback(lambda: 1, np.zeros((), np.int64))


@pytest.mark.parametrize("transform", [xpr.grad, lambda f: lambda x: xpr.jvp(f, (x,), (x,))])
def test_pure_callbacks_have_no_derivative(transform: Any) -> None:
    def f(x: Any) -> Any:
        return xpr.pure_callback(np.sin, F32, x)

    with pytest.raises(ValueError, match=r"Pure callbacks do not support JVP.*custom_jvp"):
        transform(f)(1.0)


def test_a_custom_rule_gives_pure_callbacks_a_derivative() -> None:
    @xpr.custom_jvp
    def sin(x: Any) -> Any:
        like = xpr.ShapeDtypeStruct(x.shape, x.dtype)
        return xpr.pure_callback(np.sin, like, x, vmap_method="expand_dims")

    @sin.defjvp
    def sin_jvp(primals: Any, tangents: Any) -> Any:
        return sin(*primals), jnp.cos(*primals) * tangents[0]

    slopes = xpr.jit(xpr.vmap(xpr.grad(sin)))(X)
    np.testing.assert_allclose(slopes, np.cos(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("method", "shapes"),
    [
        ("sequential", [((), ())] * 3),
        ("sequential_unrolled", [((), ())] * 3),
        ("expand_dims", [((3,), (1,))]),
        ("broadcast_all", [((3,), (3,))]),
        ("legacy_vectorized", [((3,), ())]),
    ],
)
@BOTH
def test_vmap_methods(method: str, shapes: Any, jit: bool) -> None:
    seen: list[Any] = []

    def add(a: Any, b: Any) -> Any:
        seen.append((a.shape, b.shape))
        return np.asarray(a) + np.asarray(b)

    def f(a: Any, b: Any) -> Any:
        return xpr.pure_callback(add, F32, a, b, vmap_method=method)

    out = run(xpr.vmap(f, in_axes=(0, None)), X, 2.0, jit=jit)
    np.testing.assert_array_equal(out, X + 2)
    assert seen == shapes


def test_vmaps_inside_one_another() -> None:
    for method, calls in (("sequential", 6), ("expand_dims", 1), ("broadcast_all", 1)):
        seen: list[Any] = []

        def product(a: Any, b: Any, seen: list[Any] = seen) -> Any:
            seen.append(a.shape)
            return np.asarray(a) * np.asarray(b)

        def f(a: Any, b: Any, product: Any = product, method: str = method) -> Any:
            return xpr.pure_callback(product, F32, a, b, vmap_method=method)

        table = xpr.vmap(xpr.vmap(f, (None, 0)), (0, None))
        np.testing.assert_array_equal(table(X, X[:2]), np.outer(X, X[:2]))
        assert len(seen) == calls


def test_vmap_needs_a_method() -> None:
    with pytest.raises(NotImplementedError, match=r"vmap_method is one of .*vmap_method=None"):
        xpr.vmap(lambda x: xpr.pure_callback(np.sin, F32, x))(X)
    out = xpr.vmap(lambda x: xpr.pure_callback(np.sin, F32, 1.0) + x)(X)  # called once
    np.testing.assert_allclose(out, np.sin(np.float32(1)) + X, rtol=1e-6)


def test_a_batch_of_none() -> None:
    def fail(x: Any) -> Any:
        raise AssertionError(x)

    f = xpr.vmap(lambda x: xpr.pure_callback(fail, V3, x, vmap_method="sequential"))
    assert f(np.zeros((0,), np.float32)).shape == (0, 3)


def test_pure_callbacks_that_nothing_reads_are_left_out() -> None:
    notes = Notes()

    def f(x: Any) -> Any:
        xpr.pure_callback(notes, None, x)
        xpr.pure_callback(notes, V3, x)
        return x + 1

    np.testing.assert_array_equal(xpr.jit(f)(X), X + 1)
    assert notes == []


# ---- effects in compiled programs


def test_effects_happen_in_order_and_once_each_round() -> None:
    notes = Notes()

    @xpr.jit
    def inner(x: Any) -> None:
        debug.callback(notes, "inner", x)

    def note(name: str, *values: Any) -> None:
        debug.callback(notes, name, *values)

    def body(i: Any, total: Any) -> Any:
        note("round", i)
        note("fixed")  # the same in each round, and yet not moved out
        io_callback(notes, None, 7)
        return total + i

    def step(carry: Any, x: Any) -> Any:
        note("step", x)
        return None, None

    @xpr.jit
    def program(x: Any, flag: Any) -> Any:
        note("start")
        total = lax.fori_loop(0, 3, body, x)
        lax.cond(flag, lambda: note("yes", total), lambda: note("no", x))
        lax.scan(step, None, jnp.arange(2))
        unread = io_callback(lambda v: (notes("unread", v), np.float32(v))[1], F32, total)
        del unread
        inner(x)
        inner(total)
        lax.while_loop(lambda c: c < 2, lambda c: (note("while"), c + 1)[1], jnp.int32(0))
        note("end", total)
        return x * 2

    rounds = [n for i in range(3) for n in (("round", i), "fixed", 7)]
    for flag in (True, False):
        assert program(np.float32(1), flag) == 2
        middle = ("yes", 4.0) if flag else ("no", 1.0)
        assert notes.taken() == [
            "start", *rounds, middle, ("step", 0), ("step", 1), ("unread", 4.0), ("inner", 1.0),
            ("inner", 4.0), "while", "while", ("end", 4.0)
        ]  # fmt: skip


def test_effects_of_branches_without_results_and_of_conditions() -> None:
    notes = Notes()

    @xpr.jit
    def program(i: Any) -> Any:
        branches = [lambda: debug.callback(notes, "a"), lambda: debug.callback(notes, i), _nothing]
        lax.switch(i, branches)

        def goes_on(c: Any) -> Any:
            debug.callback(notes, "test", c)
            return c < 2

        return lax.while_loop(goes_on, lambda c: c + 1, i)

    for i, first in enumerate((["a"], [1], [], [])):
        assert program(i) == max(i, 2)
        assert notes.taken() == [*first, *(("test", c) for c in range(i, max(i, 2) + 1))]


def _nothing() -> None:
    pass


def test_exported_functions_refuse_callbacks() -> None:
    def f(x: Any) -> Any:
        return xpr.pure_callback(np.sin, V3, x)

    def g(x: Any) -> Any:
        debug.print("{}", x)
        return x

    for function, name in ((f, "pure_callback"), (g, "debug_callback")):
        with pytest.raises(NotImplementedError, match=f"{name} .* an exported program cannot call"):
            xpr.export.export(xpr.jit(function))(X).serialize()


def test_rules_of_derivatives_refuse_exact_effects() -> None:
    @xpr.custom_jvp
    def f(x: Any) -> Any:
        io_callback(print, None, x)
        return x

    f.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    with pytest.raises(NotImplementedError, match="IO effects are not supported in custom_jvp"):
        xpr.jit(f)(1.0)


def test_the_reference_runtime_calls_back() -> None:
    notes = Notes()

    def f(x: Any) -> Any:
        debug.callback(notes, x)
        return xpr.pure_callback(lambda a: np.asarray(a) * 2, V3, x)

    x = xpr.device_put(X, xpr.devices("reference")[0])
    np.testing.assert_array_equal(xpr.jit(f)(x), 2 * X)
    np.testing.assert_array_equal(f(x), 2 * X)
    assert xpr.jit(lambda x: debug.callback(notes, x))(x) is None
    assert notes.taken() == [X.tolist()] * 3


def test_a_program_without_results_runs() -> None:
    notes = Notes()
    f = xpr.jit(lambda x: debug.callback(notes, x))
    for x in (1.0, 2.0, 2.0):
        assert f(x) is None
    g = xpr.jit(lambda x: (x, io_callback(notes, None)))  # and one that hands its operand back
    assert g(3.0) == (3.0, None)
    assert notes == [(1.0,), (2.0,), (2.0,), ()]


def test_programs_of_equal_text_call_their_own_functions() -> None:
    def program(factor: float) -> Any:
        return xpr.jit(lambda x: xpr.pure_callback(lambda a: a * factor, V3, x))

    two, three = program(2.0), program(3.0)
    texts = {p.lower(X).as_text("iree") for p in (two, three)}
    assert len(texts) == 1
    for _ in range(2):
        np.testing.assert_array_equal(two(X), 2 * X)
        np.testing.assert_array_equal(three(X), 3 * X)


class Refused(Exception):
    """An exception that only these tests know."""


@BOTH
def test_exceptions_arrive_unchanged(jit: bool) -> None:
    def fail(x: Any) -> Any:
        raise Refused(float(x[0]))

    def f(x: Any) -> Any:
        return xpr.pure_callback(fail, V3, x)

    with pytest.raises(Refused) as caught:
        run(f, X, jit=jit)
    assert caught.value.args == (0.5,)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert (frames[-1].name, frames[-1].filename) == ("fail", __file__)


def test_programs_without_python_refuse_callbacks() -> None:
    f = xpr.jit(lambda x: xpr.pure_callback(np.sin, V3, x))
    lowered = f.lower(X)
    with pytest.raises(NotImplementedError, match="pure_callback of sin is a Python function"):
        lowered.compile().save("never-written.vmfb")
    g = xpr.jit(lambda x: (debug.print("{}", x), x + 1)[1])
    with pytest.raises(NotImplementedError, match=r"debug\.print of '\{\}' is a Python function"):
        g.lower(X).compile().save("never-written.vmfb")


# ---- io_callback


@BOTH
def test_io_callbacks_are_called_once_each_time(jit: bool) -> None:
    count = itertools.count()
    number = xpr.ShapeDtypeStruct((), jnp.int32)

    def f() -> Any:
        take = functools.partial(io_callback, lambda: np.int32(next(count)), number, ordered=True)
        take()
        return take(), take()

    g = xpr.jit(f) if jit else f
    assert [tuple(map(int, g())) for _ in range(2)] == [(1, 2), (4, 5)]


def test_io_callbacks_under_transformations() -> None:
    notes = Notes()

    def f(x: Any, ordered: bool = False) -> Any:
        io_callback(notes, None, x, ordered=ordered)
        return x

    np.testing.assert_array_equal(xpr.vmap(f)(X), X)
    assert notes.taken() == X.tolist()
    with pytest.raises(ValueError, match="Cannot `vmap` ordered IO callback"):
        xpr.vmap(functools.partial(f, ordered=True))(X)
    with pytest.raises(ValueError, match="IO callbacks do not support JVP"):
        xpr.grad(f)(1.0)
    assert xpr.grad(lambda x: (io_callback(notes, None, 5), x * x)[1])(3.0) == 6
    assert notes.taken() == [5]
    with pytest.raises(NotImplementedError, match="IO effects are not supported in vmap of cond"):
        xpr.vmap(lambda x: lax.cond(x > 1, lambda: f(x), lambda: x))(X)
    with pytest.raises(NotImplementedError, match=r"IO effects are not .* batched predicate"):
        xpr.vmap(lambda x: lax.while_loop(lambda c: c < 3, lambda c: f(c) + 1, x))(X)
    with pytest.raises(NotImplementedError, match=r"OrderedIO effects are not .* of checkpoint"):
        xpr.grad(xpr.checkpoint(lambda x: (f(1, ordered=True), jnp.sin(x))[1]))(1.0)


# ---- debug.callback


def test_debug_callbacks_stay_under_derivatives() -> None:
    notes = Notes()

    def f(x: Any) -> Any:
        debug.callback(notes, x, x + 1)
        return x * x

    for transform in (xpr.grad, xpr.jacfwd, lambda f: xpr.jit(xpr.grad(f)), xpr.hessian):
        transform(f)(2.0)
        assert notes.taken() == [(2.0, 3.0)]
    xpr.grad(xpr.checkpoint(f))(2.0)
    assert notes.taken() == [(2.0, 3.0)] * 2  # computed twice, and shown twice
    assert xpr.linear_transpose(lambda x: (debug.callback(notes, x), 2 * x)[1], 1.0)(1.0) == (2,)
    assert notes == []


def test_debug_callbacks_stay_in_loops_under_grad() -> None:
    notes = Notes()

    def f(x: Any) -> Any:
        def step(c: Any, i: Any) -> Any:
            debug.callback(notes, i, ordered=True)
            debug.callback(notes, c)
            return c * x, None

        return lax.scan(step, x, np.arange(3))[0]

    assert xpr.jit(xpr.grad(f))(2.0) == 4 * 2**3
    assert notes.taken() == [0, 2.0, 1, 4.0, 2, 8.0]
    g = xpr.jit(xpr.grad(lambda x: lax.cond(x > 1, f, jnp.sin, x)))
    assert g(2.0) == 4 * 2**3
    assert notes.taken() == [0, 2.0, 1, 4.0, 2, 8.0]


@BOTH
def test_debug_callbacks_see_each_example(jit: bool) -> None:
    notes = Notes()

    def f(x: Any, y: Any) -> Any:
        debug.callback(notes, x, y)
        debug.callback(notes, y)
        return x * y

    run(xpr.vmap(f, in_axes=(0, None)), X, 3.0, jit=jit)
    assert notes.taken() == [*((x, 3.0) for x in X.tolist()), 3.0]

    def both(x: Any) -> Any:
        return lax.cond(x > 1, lambda: debug.callback(notes, x), lambda: debug.callback(notes, -x))

    run(xpr.vmap(both), X, jit=jit)
    assert sorted(notes.taken()) == sorted([*X.tolist(), *(-X).tolist()])


def test_both_forms_of_debug_callback() -> None:
    notes = Notes()
    ordered = debug.callback(ordered=True)
    assert ordered is not None
    ordered(lambda x, *, word: notes(x, word), 1, word="text")
    assert notes.taken() == [(1, "text")]
    with pytest.raises(TypeError, match=r"jax\.debug\.callback must be callable.*3"):
        debug.callback(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="takes options only"):
        debug.callback(None, 3)


def test_effects_are_part_of_a_program() -> None:
    def f(x: Any) -> Any:
        debug.callback(print, x, ordered=True)
        xpr.jit(lambda x: io_callback(print, None, x))(x)
        xpr.pure_callback(np.sin, V3, x)
        return lax.scan(lambda c, _: (debug.print("{}", c), (c, c))[1], x, length=2)[0]

    closed = xpr.make_jaxpr(f)(X)
    assert sorted(map(repr, closed.effects)) == ["Debug", "IO", "OrderedDebug"]
    names = [(e.primitive.name, sorted(map(repr, e.effects))) for e in closed.eqns]
    assert names == [
        ("debug_callback", ["OrderedDebug"]),
        ("jit", ["IO"]),
        ("pure_callback", []),
        ("scan", ["Debug"]),
    ]


# ---- debug.print


@BOTH
def test_print(jit: bool, capsys: Any) -> None:
    def f(x: Any) -> None:
        debug.print("{:.2f} {x} {t} {{}}", x[0], x=x, t=(x[1], "word"))
        debug.print("plain")

    with np.printoptions(precision=2):
        run(f, np.array([1 / 3, 2], np.float32), jit=jit)
    first, second = capsys.readouterr().out.splitlines()
    assert first == "0.33 [0.33 2.  ] (Array(2., dtype=float32), 'word') {}"
    assert second == "plain"


def test_formats_are_checked_where_they_are_written(capsys: Any) -> None:
    with pytest.raises(IndexError, match="index out of range"):
        debug.print("{} {}", 1)
    with pytest.raises(KeyError, match="'a'"):
        debug.print("{a}")
    with pytest.raises(
        ValueError, match=r"Unused keyword arguments to `jax\.debug\.print`: \['b'\]"
    ):
        debug.print("1.0", b=1)
    with pytest.raises(ValueError, match=r"Unused positional arguments to `jax\.debug\.print`: 2"):
        debug.print("{}", 1, 2)
    with pytest.raises(TypeError, match="takes a format string, got 5"):
        debug.print(5)  # pyright: ignore[reportArgumentType]
    debug.print("{!r}", 1, 2, skip_format_check=True)
    ordered = debug.print(ordered=True)
    assert ordered is not None
    ordered("{!r}", 1)
    assert capsys.readouterr().out.splitlines() == ["Array(1, dtype=int32)"] * 2
    xpr.effects_barrier()


@pytest.mark.parametrize("name", ["float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"])
def test_types_that_cross_the_boundary_of_programs_as_bytes(name: str) -> None:
    x = jnp.asarray([0.5, -1.0, 2.0], name)
    seen = []

    def f(x: Any, y: Any) -> Any:
        seen.append((x.dtype, y.dtype))
        return np.asarray(x)[::-1], np.asarray(y)

    types = (xpr.ShapeDtypeStruct(x.shape, x.dtype), xpr.ShapeDtypeStruct((), jnp.int32))
    back, number = xpr.jit(lambda x: xpr.pure_callback(f, types, x, jnp.int32(3)))(x)
    assert seen[-1] == (x.dtype, np.int32)
    np.testing.assert_array_equal(np.asarray(back, np.float32), [2, -1, 0.5])
    assert int(number) == 3


@pytest.mark.parametrize("jit", [False, True])
def test_results_over_explicit_axes_are_replicated(jit: bool) -> None:
    mesh = xpr.make_mesh((4,), ("i",))  # of Explicit axes
    x = xpr.device_put(jnp.arange(8.0).reshape(4, 2), NamedSharding(mesh, PartitionSpec("i")))

    def f(x: Any) -> Any:
        kind = xpr.ShapeDtypeStruct((4,), jnp.float32)
        y = xpr.pure_callback(lambda x: np.asarray(x).sum(-1), kind, x)
        assert str(xpr.typeof(y)) == "float32[4]"
        return y

    np.testing.assert_array_equal((xpr.jit(f) if jit else f)(x), [1, 5, 9, 13])
