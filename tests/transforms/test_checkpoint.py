"""`checkpoint`: the same derivatives, with values computed again and less kept."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.ad_checkpoint import checkpoint_name, print_saved_residuals
from xpr.core.jaxpr import ClosedJaxpr, sub_jaxprs


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6)


def f(x):
    return jnp.sum(jnp.sin(jnp.sin(jnp.sin(x))))


def count(closed: ClosedJaxpr, name: str) -> int:
    """How often a primitive occurs, inside calls too."""

    def inside(jaxpr):
        own = sum(e.primitive.name == name for e in jaxpr.eqns)
        return own + sum(inside(sub) for e in jaxpr.eqns for sub in sub_jaxprs(e.params))

    return inside(closed.jaxpr)


X = np.linspace(0.1, 1.0, 5).astype("f4")


def test_derivatives_are_those_of_the_function() -> None:
    plain = np.asarray(xpr.grad(f)(X))
    h = xpr.checkpoint(f)
    close(h(X), f(X))
    for g in (xpr.grad(h), xpr.jit(xpr.grad(h)), xpr.grad(xpr.jit(h)), xpr.grad(xpr.checkpoint(h))):
        close(g(X), plain)
    close(xpr.jvp(h, (X,), (np.ones_like(X),))[1], plain.sum())
    second = xpr.hessian(f)(X)
    close(xpr.hessian(h)(X), second)
    close(xpr.jacrev(xpr.jacrev(h))(X), second)
    batch = np.stack([X, 2 * X])
    close(xpr.vmap(xpr.grad(h))(batch), np.stack([plain, xpr.grad(f)(2 * X)]))
    close(xpr.grad(lambda b: xpr.vmap(h)(b).sum())(batch), np.stack([plain, xpr.grad(f)(2 * X)]))


def test_it_really_computes_again() -> None:
    plain = xpr.make_jaxpr(lambda x: xpr.vjp(f, x)[1](1.0))(X)
    again = xpr.make_jaxpr(lambda x: xpr.vjp(xpr.checkpoint(f), x)[1](1.0))(X)
    # Forward: three sines. Backward: two of them again (the last value is not needed).
    assert (count(plain, "sin"), count(plain, "cos")) == (3, 3)
    assert (count(again, "sin"), count(again, "cos")) == (5, 3)


def test_policies() -> None:
    def g(w, x):
        hidden = checkpoint_name(jnp.sin(x @ w), "hidden")
        return jnp.sum(jnp.sin(hidden @ w))

    w = np.eye(5, dtype="f4") * 0.5
    plain = np.asarray(xpr.grad(g)(w, X))
    policies = xpr.checkpoint_policies
    forward_again = {
        policies.nothing_saveable: (4, 2),
        policies.everything_saveable: (2, 0),
        policies.dots_saveable: (2, 1),
        policies.dots_with_no_batch_dims_saveable: (2, 1),
        policies.save_only_these_names("hidden"): (4, 0),
        policies.save_any_names_but_these("hidden"): (4, 2),
        policies.save_anything_except_these_names("nothing"): (2, 0),
        policies.save_from_both_policies(
            policies.dots_saveable, policies.save_only_these_names("hidden")
        ): (2, 0),
    }
    without = xpr.make_jaxpr(xpr.value_and_grad(g))(w, X)
    for policy, (dots, sines) in forward_again.items():
        h = xpr.checkpoint(g, policy=policy)
        close(xpr.grad(h)(w, X), plain)
        jaxpr = xpr.make_jaxpr(xpr.value_and_grad(h))(w, X)
        extra = count(jaxpr, "dot_general") - count(without, "dot_general") + 2
        assert extra <= dots, (policy, extra)
        assert count(jaxpr, "sin") - count(without, "sin") <= sines, policy


def test_policies_see_inside_jit() -> None:
    policy = xpr.checkpoint_policies.save_only_these_names("a")
    inner = xpr.jit(lambda x: jnp.sin(checkpoint_name(jnp.sin(x), "a")))
    h = xpr.checkpoint(inner, policy=policy)
    close(xpr.grad(h)(0.5), np.cos(np.sin(0.5)) * np.cos(0.5))
    assert count(xpr.make_jaxpr(xpr.value_and_grad(h))(0.5), "sin") == 2


def test_static_arguments_closures_and_options() -> None:
    @partial(xpr.checkpoint, static_argnums=(1,), prevent_cse=False)
    def g(x, flag):
        return jnp.sin(x) if flag else x

    close(xpr.grad(g)(0.5, True), np.cos(0.5))
    close(xpr.grad(g)(0.5, False), 1.0)
    close(xpr.grad(lambda y: xpr.remat(lambda x: x * y)(2.0))(3.0), 2.0)
    with pytest.raises(ValueError, match="static_argnums of checkpoint name argument 1"):
        g(0.5)
    with pytest.raises(NotImplementedError, match="concrete"):
        xpr.checkpoint(f, concrete=True)


def test_printing_what_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    print_saved_residuals(lambda x: jnp.sin(x) * x, X)
    lines = capsys.readouterr().out.splitlines()
    assert "f32[5] from the argument x" in lines
    assert any(line.startswith("f32[5] output of cos from") for line in lines)
    print_saved_residuals(xpr.checkpoint(lambda x: jnp.sin(x) * x), X)
    assert capsys.readouterr().out.splitlines() == ["f32[5] from the argument x"]


_PEAK = """
import sys
import numpy as np
import xpr, xpr.numpy as jnp

def layer(x):
    for _ in range(4):
        # The sum in between keeps the steps apart: they are not one elementwise program.
        x = jnp.sqrt(x + 1.0) + jnp.mean(x)
    return x

block = xpr.checkpoint(layer) if sys.argv[1] == "remat" else layer

def f(x):
    for _ in range(4):
        x = block(x)
    return jnp.sum(x)

x = np.ones(1 << 20, np.float32)
g = xpr.jit(xpr.grad(f))
g(x[:16])
compiled = g.lower(x).compile()
def peak():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
open("/proc/self/clear_refs", "w").write("5")
before = peak()
out = compiled(x)
out.block_until_ready()
print(peak() - before, float(out[0]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.skipif(
    os.environ.get("XPR_NATIVE") == "check",
    reason="programs are run twice, and each of the two runners keeps memory of its own",
)
def test_peak_memory_is_smaller() -> None:
    """16 values of 4 MB are kept without checkpoint, with it 4 and those of one layer."""
    grown, values = {}, {}
    for mode in ("plain", "remat"):
        done = subprocess.run(
            [sys.executable, "-c", _PEAK, mode],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        kib, value = done.stdout.split()
        grown[mode], values[mode] = int(kib), float(value)
    assert values["plain"] == pytest.approx(values["remat"], rel=1e-5)
    assert grown["remat"] < 0.7 * grown["plain"], grown


@pytest.mark.parametrize("names", [["a"], np.ones(3), jnp.ones(3)])
def test_names_are_given_one_by_one(names: Any) -> None:
    """A list in the place of names would keep nothing, without a word."""
    policies = xpr.checkpoint_policies
    for policy in (
        policies.save_only_these_names,
        policies.save_any_names_but_these,
        policies.save_anything_except_these_names,
    ):
        with pytest.raises(TypeError, match="takes names, one by one, which are strings; got"):
            policy(names)
    with pytest.raises(TypeError, match="checkpoint_name takes names"):
        checkpoint_name(1.0, names)
