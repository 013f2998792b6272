"""`debug_nans` names the line, the iteration and the operands of planted NaNs.

Each case is a program with one NaN that reaches its results. The line that plants it carries a
comment `# plant: NAME`; the table says the operation and what is around it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.sharding import PartitionSpec as P

Function = Callable[..., Any]


class Case(NamedTuple):
    """A program, its arguments, and what the error must say beside the marked line."""

    name: str
    function: Function
    args: tuple[Any, ...]
    operation: str
    around: str = ""
    operand: str = ""


def _plain(x: Any) -> Any:
    y = x - 2.0
    return jnp.log(y) + x  # plant: plain


def _masked_first(x: Any) -> Any:
    fine = jnp.where(x > 0, jnp.log(x), 0.0)
    return fine + jnp.sqrt(x - 9.0)  # plant: masked_first


def _partly_masked(x: Any) -> Any:
    return jnp.where(x < 0, 0.0, x / (x - x))  # plant: partly_masked


def _mask_times_inf(x: Any) -> Any:
    mask = (x > 0).astype(x.dtype)
    return (mask * (1.0 / jnp.abs(x))).sum()  # plant: mask_times_inf


def _log_of_sum(x: Any) -> Any:
    total = x.sum()
    return jnp.log(total)  # plant: log_of_sum


def _inf_minus_inf(x: Any) -> Any:
    big = jnp.exp(x * 1000.0)
    return big - big  # plant: inf_minus_inf


def _softmax_by_hand(x: Any) -> Any:
    e = jnp.exp(x)
    return e / e.sum()  # plant: softmax_by_hand


def _mean_of_nothing(x: Any) -> Any:
    return x[:0].mean()  # plant: mean_of_nothing


def _constant(x: Any) -> Any:
    return x + np.float32("nan")  # plant: constant


def _scan_carry(x: Any) -> Any:
    def body(c: Any, _: Any) -> Any:
        d = jnp.log(c)  # plant: scan_carry
        return d, d

    return lax.scan(body, x, None, length=9)[0]


def _scan_slices(x: Any) -> Any:
    def body(c: Any, a: Any) -> Any:
        return c, jnp.sqrt(a)  # plant: scan_slices

    return lax.scan(body, 0.0, x)[1]


def _scan_reversed(x: Any) -> Any:
    def body(c: Any, a: Any) -> Any:
        return c + jnp.sqrt(a), c  # plant: scan_reversed

    return lax.scan(body, 0.0, x, reverse=True)[0]


def _scan_in_scan(x: Any) -> Any:
    def inner(c: Any, a: Any) -> Any:
        return c + jnp.log(a), None  # plant: scan_in_scan

    def outer(c: Any, row: Any) -> Any:
        return lax.scan(inner, c, row)[0], None

    return lax.scan(outer, 0.0, x)[0]


def _scan_masked(x: Any) -> Any:
    def body(c: Any, i: Any) -> Any:
        tried = jnp.log(c - i)  # plant: scan_masked
        return jnp.where(i == 3, tried, c), None

    return lax.scan(body, x, jnp.arange(6.0))[0]


def _while_body(x: Any) -> Any:
    def body(c: Any) -> Any:
        return c[0] + 1, jnp.sqrt(c[1] - 1.0)  # plant: while_body

    return lax.while_loop(lambda c: c[0] < 8, body, (0, x))[1]


def _fori(x: Any) -> Any:
    return lax.fori_loop(0, 5, lambda i, c: c / (i - 2.0) * 0.0 + 1.0, x)  # plant: fori


def _while_masked(x: Any) -> Any:
    def body(c: Any) -> Any:
        root = jnp.sqrt(c[1] - 100.0)  # plant: while_masked
        return c[0] + 1, jnp.where(c[0] == 4, root, c[1])

    return lax.while_loop(lambda c: c[0] < 6, body, (0, x))[1]


def _cond_branch(x: Any) -> Any:
    def taken(v: Any) -> Any:
        return jnp.log(v)  # plant: cond_branch

    return lax.cond(x < 0, taken, lambda v: v, x)


def _switch(x: Any) -> Any:
    branches = [lambda v: v, lambda v: v + 1, lambda v: jnp.sqrt(v)]  # plant: switch
    return lax.switch(2, branches, x)


def _cond_in_scan(x: Any) -> Any:
    def body(c: Any, i: Any) -> Any:
        return lax.cond(i == 5, jnp.log, lambda v: v, c), None  # plant: cond_in_scan

    return lax.scan(body, x, jnp.arange(8))[0]


def _jit_in_jit(x: Any) -> Any:
    @xpr.jit
    def layer(v: Any) -> Any:
        return jnp.sqrt(v)  # plant: jit_in_jit

    return layer(x) + layer(x * x)


def _grad_of_root(x: Any) -> Any:
    def root(v: Any) -> Any:
        return jnp.where(v > 0, jnp.sqrt(v), 0.0).sum()  # plant: grad_of_root

    return xpr.grad(root)(x)


def _grad_of_norm(x: Any) -> Any:
    def norm(v: Any) -> Any:
        return jnp.sqrt((v * v).sum())  # plant: grad_of_norm

    return xpr.grad(norm)(x)


def _grad_in_scan(x: Any) -> Any:
    def loss(w: Any) -> Any:
        def body(c: Any, a: Any) -> Any:
            size = jnp.sqrt(c * c * a)  # plant: grad_in_scan
            return c - size, None

        return lax.scan(body, w, jnp.array([1.0, 1.0, 1.0]))[0]

    return xpr.grad(loss)(x)


def _grad_of_power(x: Any) -> Any:
    return xpr.grad(lambda v: (v**0.5 * 0.0).sum())(x)  # plant: grad_of_power


def _grad_of_arccos(x: Any) -> Any:
    return xpr.grad(lambda v: jnp.arccos(v) * 0.0)(x)  # plant: grad_of_arccos


def _jvp_of_root(x: Any) -> Any:
    def root(v: Any) -> Any:
        return jnp.sqrt(v)  # plant: jvp_of_root

    return xpr.jvp(root, (x,), (x,))[1]


def _jvp_in_scan(x: Any) -> Any:
    def loop(w: Any) -> Any:
        def body(c: Any, _: Any) -> Any:
            return jnp.log(c), None  # plant: jvp_in_scan

        return lax.scan(body, w, None, length=3)[0]

    return xpr.jvp(loop, (x,), (1.0,))[1]


def _hessian(x: Any) -> Any:
    return xpr.hessian(lambda v: (v**1.5).sum() * 0.0)(x)  # plant: hessian


def _vmapped(x: Any) -> Any:
    def one(v: Any) -> Any:
        return jnp.log(v) * 2.0  # plant: vmapped

    return xpr.vmap(one)(x)


def _vmapped_scan(x: Any) -> Any:
    def one(v: Any) -> Any:
        def body(c: Any, _: Any) -> Any:
            return jnp.sqrt(c - 1.0), None  # plant: vmapped_scan

        return lax.scan(body, v, None, length=4)[0]

    return xpr.vmap(one)(x)


def _vmapped_while(x: Any) -> Any:
    def one(v: Any) -> Any:
        body = lambda c: (c[0] + 1, jnp.sqrt(c[1] - 1.0))  # noqa: E731  # plant: vmapped_while
        return lax.while_loop(lambda c: c[0] < 4, body, (0, v))[1]

    return xpr.vmap(one)(x)


def _vmapped_grad(x: Any) -> Any:
    return xpr.vmap(xpr.grad(lambda v: jnp.sqrt(v) * 0.0))(x)  # plant: vmapped_grad


def _sharded(x: Any) -> Any:
    def part(v: Any) -> Any:
        return lax.psum(jnp.log(v), "i")  # plant: sharded

    mesh = xpr.make_mesh((1,), ("i",), devices=xpr.devices("reference")[:1])
    return xpr.shard_map(part, mesh=mesh, in_specs=P("i"), out_specs=P())(x)


def _sharded_scan(x: Any) -> Any:
    def part(v: Any) -> Any:
        def body(c: Any, _: Any) -> Any:
            return jnp.log(c), None  # plant: sharded_scan

        return lax.scan(body, v, None, length=3)[0]

    mesh = xpr.make_mesh((1,), ("i",), devices=xpr.devices("reference")[:1])
    return xpr.shard_map(part, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)


@xpr.custom_vjp
def _with_rule(x: Any) -> Any:
    return jnp.abs(x)


def _forward(x: Any) -> Any:
    return jnp.abs(x), x


def _backward(x: Any, ct: Any) -> Any:
    return (ct * x / jnp.abs(x),)  # plant: custom_vjp


_with_rule.defvjp(_forward, _backward)


@xpr.custom_jvp
def _with_jvp(x: Any) -> Any:
    return x * 1.0


@_with_jvp.defjvp
def _with_jvp_rule(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _with_jvp(x), t * jnp.log(x)  # plant: custom_jvp


def _custom_value(x: Any) -> Any:
    @xpr.custom_jvp
    def inside(v: Any) -> Any:
        return jnp.sqrt(v)  # plant: custom_value

    inside.defjvps(lambda t, out, v: t)
    return inside(x)


def _checkpointed(x: Any) -> Any:
    @xpr.checkpoint
    def block(v: Any) -> Any:
        return jnp.sqrt(v * v).sum()  # plant: checkpointed

    return xpr.grad(block)(x)


def _solve(x: Any) -> Any:
    return jnp.linalg.solve(x, x[0])  # plant: solve


def _inverse(x: Any) -> Any:
    return jnp.linalg.inv(x)  # plant: inverse


def _cholesky(x: Any) -> Any:
    return jnp.linalg.cholesky(x)  # plant: cholesky


def _layer_norm(x: Any) -> Any:
    centred = x - x.mean()
    return centred / jnp.sqrt((centred**2).mean())  # plant: layer_norm


def _adam(x: Any) -> Any:
    def update(m: Any, g: Any) -> Any:
        m = 0.9 * m + 0.1 * g * g
        return m, g / jnp.sqrt(m)  # plant: adam

    return lax.scan(update, 0.0 * x[0], x)[1]


def _cross_entropy(x: Any) -> Any:
    p = xpr.nn.softmax(x)
    return -(jnp.array([1.0, 0.0]) * jnp.log(p)).sum()  # plant: cross_entropy


F: Any = np.float32
ROW = F([4.0, 1.0, -1.0, 9.0])
CASES = (
    Case("plain", _plain, (F(1),), "log", operand="f32[] = -1.0"),
    Case("masked_first", _masked_first, (F(-1),), "sqrt", operand="f32[] = -10.0"),
    Case("partly_masked", _partly_masked, (F([-1, 0]),), "div"),
    Case("mask_times_inf", _mask_times_inf, (F([0, 1]),), "mul", operand="inf"),
    Case("log_of_sum", _log_of_sum, (F([1, -3]),), "log", operand="f32[] = -2.0"),
    Case("inf_minus_inf", _inf_minus_inf, (F(1),), "sub", operand="f32[] = inf"),
    Case("softmax_by_hand", _softmax_by_hand, (F([1, 200]),), "div", operand="inf"),
    Case("mean_of_nothing", _mean_of_nothing, (ROW,), "div", operand="f32[] = 0.0"),
    Case("constant", _constant, (F(1),), "add", operand="f32[] = nan"),
    Case("scan_carry", _scan_carry, (F(20),), "log", "iteration 4 of scan"),
    Case("scan_slices", _scan_slices, (ROW,), "sqrt", "iteration 2 of scan", "f32[] = -1.0"),
    Case("scan_reversed", _scan_reversed, (ROW,), "sqrt", "iteration 2 of scan", "f32[] = -1.0"),
    Case("scan_in_scan", _scan_in_scan, (F([[1, 2], [3, -4]]),), "log", "iteration 1 of scan"),
    Case("scan_masked", _scan_masked, (F(1),), "log", "iteration 3 of scan", "f32[] = -2.0"),
    Case("while_body", _while_body, (F(2),), "sqrt", "iteration 2 of while", "f32[] = -1.0"),
    Case("fori", _fori, (F(0),), "mul", "iteration 2 of"),
    Case("while_masked", _while_masked, (F(2),), "sqrt", "iteration 4 of while"),
    Case("cond_branch", _cond_branch, (F(-1),), "log", "branch 1 of cond"),
    Case("switch", _switch, (F(-1),), "sqrt"),
    Case("cond_in_scan", _cond_in_scan, (F(-1),), "log", "iteration 5 of scan"),
    Case("jit_in_jit", _jit_in_jit, (F(-1),), "sqrt", "call of layer"),
    Case("grad_of_root", _grad_of_root, (F([0, 1]),), "mul", "in the gradient of this line"),
    Case("grad_of_norm", _grad_of_norm, (F([0, 0]),), "mul", "in the gradient of this line"),
    Case("grad_in_scan", _grad_in_scan, (F(2),), "mul", "iteration 1 of scan"),
    Case("grad_of_power", _grad_of_power, (F([0, 1]),), "mul"),
    Case("grad_of_arccos", _grad_of_arccos, (F(1),), "mul"),
    Case("jvp_of_root", _jvp_of_root, (F(0),), "mul|div", operand="0.0"),
    Case("jvp_in_scan", _jvp_in_scan, (F(0.5),), "log", "iteration 1 of scan"),
    Case("hessian", _hessian, (F([0, 1]),), "mul|dot_general|div"),
    Case("vmapped", _vmapped, (ROW,), "log", operand="[4.0, 1.0, -1.0, 9.0]"),
    Case("vmapped_scan", _vmapped_scan, (ROW,), "sqrt", "iteration 0 of scan"),
    Case("vmapped_while", _vmapped_while, (F([9, 2]),), "sqrt", "iteration 2 of while"),
    Case("vmapped_grad", _vmapped_grad, (F([0, 1]),), "mul"),
    Case("sharded", _sharded, (ROW,), "log", "program of shard_map"),
    Case("sharded_scan", _sharded_scan, (F([20, 0.5]),), "log", "iteration 1 of scan"),
    Case("custom_vjp", xpr.grad(_with_rule), (F(0),), "div", operand="f32[] = 0.0"),
    Case("custom_jvp", xpr.grad(_with_jvp), (F(-1),), "log", operand="f32[] = -1.0"),
    Case("custom_value", _custom_value, (F(-1),), "sqrt", operand="f32[] = -1.0"),
    Case("checkpointed", _checkpointed, (F([0, 1]),), "div|mul|log"),
    Case("solve", _solve, (np.zeros((2, 2), F),), "triangular_solve|div"),
    Case("inverse", _inverse, (np.zeros((2, 2), F),), "triangular_solve|div|mul|sub"),
    Case("cholesky", _cholesky, (F([[1, 2], [2, 1]]),), "cholesky"),
    Case("layer_norm", _layer_norm, (F([2, 2]),), "div", operand="f32[] = 0.0"),
    Case("adam", _adam, (F([1, 0, 2, 0]) * 0,), "div", "iteration 0 of scan"),
    Case("cross_entropy", _cross_entropy, (F([200, -200]),), "mul", operand="-inf"),
)


def _marked_line(name: str) -> int:
    lines = inspect.getsource(sys.modules[__name__]).splitlines()
    (found,) = (i for i, line in enumerate(lines, 1) if line.endswith(f"# plant: {name}"))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_error_names_line_iteration_and_operands(case: Case) -> None:
    call = partial(xpr.jit(case.function), *case.args)
    with xpr.default_device(xpr.devices("reference")[0]), xpr.debug_nans(True):
        pattern = rf"nvalid value \(nan\) encountered in ({case.operation}|sharded computation)"
        with pytest.raises(FloatingPointError, match=pattern) as caught:
            call()
    notes = "\n".join(caught.value.__notes__)
    assert f"{__file__}:{_marked_line(case.name)}:" in notes.split("operand 0")[0], notes
    assert case.around in notes, notes
    assert case.operand in "\n".join(n for n in notes.splitlines() if "operand" in n), notes


def test_compiled_programs_are_searched_alike() -> None:
    """The native path, with an argument that the call gives up."""
    donated = xpr.jit(_scan_carry, donate_argnums=0)
    with xpr.debug_nans(True), pytest.raises(FloatingPointError, match="encountered in log") as c:
        donated(jnp.full((), 20.0))
    assert any("iteration 4 of scan" in note for note in c.value.__notes__)


def test_a_loop_outside_jit_names_the_operation_inside() -> None:
    with xpr.debug_nans(True), pytest.raises(FloatingPointError, match="encountered in log") as c:
        _scan_carry(jnp.float32(20))
    assert any("iteration 4 of scan" in note for note in c.value.__notes__)
