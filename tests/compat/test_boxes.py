"""Boxes: mutable high values, in programs and out of them."""

from __future__ import annotations

import logging
import re
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.compat import modules
from xpr.compat.boxes import Box, BoxTy
from xpr.core.check import check_jaxpr
from xpr.core.config import override
from xpr.core.errors import JaxprTypeError
from xpr.core.trace import get_aval


def test_arguments_of_jit_change() -> None:
    @xpr.jit
    def add(box: Any, x: Any) -> Any:
        assert isinstance(box, Box)
        box.set(box.get() + x)
        return box.get() * 2

    box = Box(jnp.float32(3))
    assert [float(add(box, 1.0)), float(box.get())] == [8, 4]
    assert [float(add(box, 1.0)), float(box.get())] == [10, 5]
    assert add._cache_size() == 1
    assert modules.typeof(box) == BoxTy()


def test_what_a_function_closes_over_changes() -> None:
    box = Box(jnp.float32(1))
    traces = []

    @xpr.jit
    def add(x: Any) -> None:
        traces.append(x)
        box.set(box.get() + x)

    add(2.0)
    add(2.0)
    assert float(box.get()) == 5
    assert len(traces) == 1
    # Another type of what it holds is another program.
    box.set(jnp.ones(2))
    add(2.0)
    np.testing.assert_array_equal(box.get(), [3, 3])
    assert len(traces) == 2


def test_types_that_alternate_are_compiled_once_each() -> None:
    box = Box(jnp.float32(1))
    traces = []

    @xpr.jit
    def double() -> Any:
        traces.append(1)
        return box.get() * 2

    for _ in range(3):
        box.set(jnp.float32(1))
        assert float(double()) == 2
        box.set(jnp.ones(2))
        np.testing.assert_array_equal(double(), [2, 2])
    assert len(traces) == double._cache_size() == len(double._cache.programs) == 2


def test_programs_for_many_types_are_not_kept_for_ever() -> None:
    box = Box(None)
    f = xpr.jit(lambda: xpr.tree_util.tree_leaves(box.get())[0] + 1)
    for n in range(1, 21):
        box.set([jnp.float32(n)] * n)
        assert float(f()) == n + 1
    assert 1 < f._cache_size() < 20
    assert len(f._cache.programs) == f._cache_size()


def test_the_structure_of_what_it_holds_may_change() -> None:
    @xpr.jit
    def grow(box: Any) -> None:
        box.set((box.get(), jnp.ones(2)))

    box = Box(jnp.float32(1))
    grow(box)
    grow(box)
    (inner, _), last = box.get()
    assert float(inner) == 1
    np.testing.assert_array_equal(last, [1, 1])


def test_programs_keep_boxes() -> None:
    box = Box(jnp.float32(1))
    closed = xpr.make_jaxpr(lambda b, x: b.set(b.get() + x))(box, jnp.float32(2))
    text = str(closed)
    assert "a:BoxTy" in text
    assert "box_get" in text
    assert "box_set" in text
    check_jaxpr(closed)
    assert float(box.get()) == 1


def test_boxes_that_are_made_inside() -> None:
    @xpr.jit
    def f(x: Any) -> Any:
        box = Box(x)
        box.set(jnp.sin(box.get()))
        return box.get()

    np.testing.assert_allclose(f(1.0), np.sin(1.0), 1e-6)
    with pytest.raises(TypeError, match="mutable values cannot be returned"):
        xpr.jit(Box)(1.0)


def test_calls_in_calls() -> None:
    @xpr.jit
    def times(box: Any, x: Any) -> None:
        box.set(box.get() * x)

    @xpr.jit
    def f(box: Any, x: Any) -> None:
        times(box, x)
        times(box, x)
        box.set(box.get() + 1)

    box = Box(jnp.float32(3))
    f(box, 2.0)
    assert float(box.get()) == 13


@pytest.mark.parametrize("run", [lambda f: f, xpr.jit])
def test_loops_and_branches(run: Any) -> None:
    box = Box(jnp.float32(0))

    def scanned(xs: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            box.set(box.get() + x)
            return c, box.get()

        return xpr.lax.scan(body, 0.0, xs)[1]

    np.testing.assert_array_equal(run(scanned)(jnp.arange(4.0)), [0, 1, 3, 6])
    assert float(box.get()) == 6

    def branched(p: Any) -> None:
        xpr.lax.cond(p, lambda: box.set(box.get() + 1), lambda: box.set(box.get() * 2))

    run(branched)(True)
    assert float(box.get()) == 7
    run(branched)(False)
    assert float(box.get()) == 14

    def looped() -> None:
        def step(i: Any) -> Any:
            box.set(box.get() * 2)
            return i + 1

        xpr.lax.while_loop(lambda i: i < 3, step, 0)

    run(looped)()
    assert float(box.get()) == 112


def test_loops_and_branches_keep_types() -> None:
    box = Box(jnp.float32(0))

    def body(c: Any, x: Any) -> Any:
        box.set((box.get(), x))
        return c, None

    with pytest.raises(TypeError, match="scan: a mutable value of type BoxTy has to keep"):
        xpr.jit(lambda xs: xpr.lax.scan(body, 0.0, xs))(jnp.ones(2))

    def branched(p: Any) -> None:
        xpr.lax.cond(p, lambda: box.set(1), lambda: box.set((1, 2)))

    with pytest.raises(TypeError, match="the branches leave a mutable value of type BoxTy"):
        xpr.jit(branched)(True)


def test_a_box_stands_in_one_place() -> None:
    """Two names of one box would be two boxes inside, one of which would lose its changes."""
    box, other = Box(jnp.float32(1)), Box(jnp.float32(2))

    def both(a: Any, bs: Any) -> None:
        a.set(a.get() + 1)
        bs[0].set(bs[0].get() * 10)

    twice = r"of type BoxTy appeared at both a and bs\[0\]"
    xpr.jit(both)(box, [other])
    assert [float(box.get()), float(other.get())] == [2, 20]
    with pytest.raises(ValueError, match=twice):
        xpr.jit(both)(box, [box])
    with pytest.raises(ValueError, match=twice):
        xpr.jit(lambda a: xpr.jit(both)(a, [a]))(box)
    with pytest.raises(ValueError, match="closed over and passed as the argument a"):
        xpr.jit(lambda a: both(a, [box]))(box)
    with pytest.raises(ValueError, match="was given twice"):
        xpr.jit(both).lower(box, [other]).compile()(box, [box])
    with pytest.raises(ValueError, match="was given twice"):
        xpr.jit(lambda p: xpr.lax.cond(p, both, both, box, [box]))(True)
    assert [float(box.get()), float(other.get())] == [2, 20]


@pytest.mark.parametrize("run", [lambda f: f, xpr.jit])
def test_loops_and_branches_take_weak_types_for_strong_ones(run: Any) -> None:
    def accumulate(box: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            box.set(box.get() + x)
            return c, box.get()

        return lambda xs: xpr.lax.scan(body, jnp.float32(0), xs)[1]

    box = Box(0.0)
    np.testing.assert_array_equal(run(accumulate(box))(jnp.arange(3.0)), [0, 1, 3])
    assert float(box.get()) == 3
    assert not box.get().weak_type

    def write(box: Any) -> Any:
        def step(i: Any) -> Any:
            box.set(2.0)  # weak, where what it holds is strong
            return i + 1

        return lambda: xpr.lax.while_loop(lambda i: i < 2, step, 0)

    box = Box(jnp.float32(1))
    run(write(box))()
    assert float(box.get()) == 2
    assert not box.get().weak_type

    def choose(box: Any) -> Any:
        def keep() -> None:
            box.set(box.get() * 3)

        def write() -> None:
            box.set(2.0)

        def f(p: Any) -> Any:
            xpr.lax.cond(p, write, keep)
            return box.get() + np.float16(1)

        return f

    for p, held in ((True, 2), (False, 3)):
        for start in (1.0, jnp.float32(1)):
            box = Box(start)
            assert float(run(choose(box))(p)) == held + 1
            assert float(box.get()) == held

    def outer(box: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            xpr.lax.cond(x > 0, lambda: box.set(box.get() + x), lambda: box.set(7.0))
            return c, box.get()

        return lambda xs: xpr.lax.scan(body, 0.0, xs)[1]

    box = Box(0.0)
    np.testing.assert_array_equal(run(outer(box))(jnp.arange(3.0)), [7, 8, 10])
    assert float(box.get()) == 10


def test_programs_with_boxes_are_well_formed() -> None:
    def f(box: Any, xs: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            box.set(box.get() + x)
            return c + x, box.get()

        total, seen = xpr.lax.scan(body, 0.0, xs)
        doubled = xpr.lax.cond(total > 1, lambda: box.get() * 2, lambda: total)
        box.set((box.get(), total))
        return seen * doubled, total

    box = Box(jnp.float32(0))
    with xpr.enable_checks(True):
        found, total = xpr.jit(f)(box, jnp.arange(3.0))
    np.testing.assert_array_equal(found, [0, 6, 18])
    assert float(total) == 3
    assert [float(x) for x in box.get()] == [3, 3]

    closed = xpr.make_jaxpr(lambda xs: f(Box(jnp.float32(0)), xs))(jnp.arange(3.0)).jaxpr
    check_jaxpr(closed)
    scan = next(e for e in closed.eqns if e.primitive.name == "scan")
    broken = closed.replace(eqns=[e for e in closed.eqns if e is not scan])
    with pytest.raises(JaxprTypeError, match="is read before it is bound"):
        check_jaxpr(broken)
    twice = closed.replace(eqns=[*closed.eqns, scan])
    with pytest.raises(JaxprTypeError, match="is bound twice"):
        check_jaxpr(twice)


def test_what_loops_cannot_do_is_said() -> None:
    box = Box(jnp.zeros(2))
    with pytest.raises(TypeError, match="scan cannot scan over a value of the mutable type BoxTy"):
        xpr.lax.scan(lambda c, b: (c, None), 0.0, box, length=2)
    with pytest.raises(TypeError, match="mutable values cannot be returned"):
        xpr.lax.scan(lambda b, x: (b, None), box, jnp.ones(2))
    with pytest.raises(NotImplementedError, match="the condition of a while loop cannot take"):
        xpr.lax.while_loop(lambda i: box.get()[0] < 1, lambda i: i + 1, 0)


def test_errors_name_the_type_and_what_has_changed(caplog: pytest.LogCaptureFixture) -> None:
    box = Box(jnp.float32(1))
    compiled = xpr.jit(lambda x: box.get() + x).lower(1.0).compile()
    assert float(compiled(1.0)) == 2
    box.set(jnp.ones(3))
    changed = (
        r"closes over a mutable value that has changed: it was compiled for BoxTy in the state "
        r"BoxTypeState\(leaf_avals=\(ShapedArray\(float32\[\]\),\), .*"
        r"the value is BoxTy in the state BoxTypeState\(leaf_avals=\(ShapedArray\(float32\[3\]\),"
    )
    with pytest.raises(TypeError, match=changed):
        compiled(1.0)
    box.set(jnp.float32(5))
    assert float(compiled(1.0)) == 6

    reads = xpr.jit(lambda b: b.get()).lower(box).compile()
    differs = (
        r"Argument 'b' compiled with BoxTy in the state .*float32\[\].* "
        r"and called with BoxTy in the state .*float32\[3\]"
    )
    with pytest.raises(TypeError, match=differs):
        reads(Box(jnp.ones(3)))
    again = xpr.jit(lambda b: b.get())
    again(box)
    with override("explain_recompile", True), caplog.at_level(logging.WARNING, "xpr.cache_misses"):
        again(Box(jnp.ones(3)))
    assert re.search(r"\* at b, now BoxTy in the state .*\[3\]\).* and before BoxTy", caplog.text)
    with pytest.raises(AttributeError, match="a value of the high type BoxTy has no shape"):
        get_aval(box).shape  # noqa: B018
    with pytest.raises(AttributeError, match="'BoxTy' object has no attribute 'colour'"):
        get_aval(box).colour  # type: ignore[attr-defined]  # noqa: B018


def test_an_error_while_tracing_changes_nothing() -> None:
    box = Box(jnp.zeros(2))

    @xpr.jit
    def fail(x: Any) -> None:
        box.set(x)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail(1.0)
    np.testing.assert_array_equal(box.get(), [0, 0])


def test_derivatives() -> None:
    box = Box(jnp.float32(2))

    def keep(x: Any) -> Any:
        box.set(xpr.lax.stop_gradient(x))
        return x * x

    for i, f in enumerate((xpr.grad(keep), xpr.grad(xpr.jit(keep)), xpr.jit(xpr.grad(keep)))):
        assert float(f(3.0 + i)) == 2 * (3 + i)
        assert float(box.get()) == 3 + i
    assert float(xpr.grad(lambda x: x * box.get())(7.0)) == 5
    assert float(xpr.jit(xpr.grad(lambda x: x * box.get()))(7.0)) == 5
    with pytest.raises(Exception, match=r"can't differentiate Box\.set operation"):
        xpr.grad(lambda x: box.set(x) or x)(3.0)

    def times(box: Any, x: Any) -> None:
        box.set(box.get() * x)

    for f in (times, xpr.jit(times)):
        value, moved = Box(2.0), Box(1.0)
        xpr.jvp(f, (value, 3.0), (moved, 1.0))
        # d(b x) = db x + b dx
        assert [float(value.get()), float(moved.get())] == [6, 5]
        value, moved = Box(2.0), Box(jnp.float32(1))
        xpr.jvp(f, (value, 3.0), (moved, 1.0))
        assert [float(value.get()), float(moved.get())] == [6, 5]
    with pytest.raises(TypeError, match="a primal value of type"):
        xpr.jvp(times, (Box(2.0), 3.0), (Box(jnp.zeros(2)), 1.0))


def test_batches() -> None:
    box = Box(jnp.float32(2))
    np.testing.assert_array_equal(xpr.vmap(lambda x: x * box.get())(jnp.arange(3.0)), [0, 2, 4])
    with pytest.raises(NotImplementedError, match="Batching rule for 'box_set' not implemented"):
        xpr.vmap(box.set)(jnp.arange(3.0))
