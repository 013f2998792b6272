"""Devices that do not agree, fail or are interrupted: all end, in bounded time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr.runtimes.collectives import CollectiveError
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

ROOT = Path(__file__).parent.parent.parent
MESH = Mesh(np.array(xpr.devices("cpu")[:4]), ("x",))


def sharded() -> Any:
    return xpr.device_put(np.arange(8.0, dtype="f"), NamedSharding(MESH, P("x")))


def on_each_device(f: Any) -> Any:
    mapped = xpr.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    return xpr.jit(mapped)


def test_different_collectives_that_meet_are_both_named() -> None:
    def f(v: Any) -> Any:
        return lax.cond(
            lax.axis_index("x") == 0, lambda u: lax.psum(u, "x"), lambda u: lax.pmax(u, "x"), v
        )

    with pytest.raises(CollectiveError, match=r"all_reduce (sum|max)") as caught:
        on_each_device(f)(sharded())
    text = str(caught.value)
    assert "all_reduce sum" in text
    assert "all_reduce max" in text
    assert "test_failures.py" in text


def test_a_collective_that_some_devices_leave_out() -> None:
    def f(v: Any) -> Any:
        return lax.cond(lax.axis_index("x") == 2, lambda u: u, lambda u: lax.psum(u, "x"), v)

    with pytest.raises(CollectiveError, match=r"rank 2 has ended, while rank \d waits for it"):
        on_each_device(f)(sharded())


def test_a_limit_to_waiting() -> None:
    def slow(i: Any, v: Any) -> Any:
        if int(i) == 1:
            time.sleep(1.5)
        return v

    def f(v: Any) -> Any:
        def body(_: Any, c: Any) -> Any:
            kind = xpr.ShapeDtypeStruct(c.shape, c.dtype)
            return lax.psum(xpr.pure_callback(slow, kind, lax.axis_index("x"), c), "x")

        return lax.fori_loop(0, 2, body, v)

    run = on_each_device(f)
    xpr.config.update("collective_timeout", 0.3)
    try:
        with pytest.raises(TimeoutError, match=r"waited 0.3 s at all_reduce sum .* for rank 1"):
            run(sharded())
    finally:
        xpr.config.update("collective_timeout", None)
    np.testing.assert_array_equal(run(sharded()), np.tile([48.0, 64.0], 4))


@pytest.mark.parametrize("text", ["0", "-3", "soon"])
def test_limits_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"positive number of seconds|could not convert"):
        xpr.config.update("collective_timeout", text)


ENDLESS = """
import numpy as np, xpr
from xpr import lax
from xpr.sharding import *
mesh = Mesh(np.array(xpr.devices()), ("x",))
def f(v):
    def body(c):
        xpr.debug.callback(lambda n: print("round", flush=True) if n == 5 else None, c[1])
        return lax.psum(c[0], "x") * 0.5, c[1] + 1
    return lax.while_loop(lambda c: c[1] >= 0, body, (v, 0))[0]
run = xpr.jit(xpr.shard_map(f, mesh=mesh, in_specs=PartitionSpec("x"),
                            out_specs=PartitionSpec("x"), check_vma=False))
try:
    run(np.ones(4, "f"))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_an_interrupt_ends_a_loop_of_collectives() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        cwd=ROOT,
        env={**os.environ, "XPR_NUM_CPU_DEVICES": "4"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("round")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "interrupted" in out, err
    assert process.returncode == 0, err
