"""Ctrl-C ends programs that run, within a second, and the process goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from xpr.runtimes.extension import native

pytestmark = pytest.mark.skipif(
    native().module is None or os.name != "posix",
    reason="only the native part ends programs, by signals of POSIX",
)

PROGRAM = """
import signal, time
import xpr, xpr.numpy as jnp
{before}
f = xpr.jit({function})
x = {argument}
run = f.lower(x).compile()
warm = xpr.jit(lambda x: x * 2)
warm(jnp.ones(3))
print("go", flush=True)
try:
    xpr.block_until_ready({call})
except KeyboardInterrupt:
    print("interrupted", time.monotonic(), flush=True)
assert float(warm(jnp.ones(3)).sum()) == 6
print("goes on", time.monotonic(), flush=True)
"""

FOREVER = (
    "lambda x: xpr.lax.while_loop(lambda c: c[1] >= 0, lambda c: ({step}, c[1] * 0.5), (x, 1.0))"
)

CASES = {
    "one kernel": (FOREVER.format(step="jnp.sin(c[0]) + c[1]"), "jnp.ones(3)", "f(x)"),
    "compiled": (FOREVER.format(step="jnp.sin(c[0]) + c[1]"), "jnp.ones(3)", "run(x)"),
    "long count": (
        "lambda x: xpr.lax.fori_loop(0, 10**10, lambda i, x: jnp.sin(x) + i * 1e-9, x)",
        "jnp.ones(3)",
        "f(x)",
    ),
    "many kernels": (
        FOREVER.format(step="xpr.lax.sort(jnp.sin(c[0] @ c[0].T)[:, :64])"),
        "jnp.ones((64, 64))",
        "f(x)",
    ),
    "host functions": (
        FOREVER.format(step="jnp.linalg.inv(c[0] + jnp.eye(64))"), "jnp.eye(64)", "f(x)",
    ),
    "donated": (
        FOREVER.format(step="jnp.sin(c[0]) + c[1]"),
        "jnp.ones(3)",
        "xpr.jit(f, donate_argnums=0)(x)",
    ),
    "queued": (FOREVER.format(step="jnp.sin(c[0]) + c[1]"), "jnp.ones(3)", "f(x)"),
}  # fmt: skip


def interrupted(program: str) -> tuple[str, float, float]:
    """What the program prints after an interrupt, and the time until then; then until its end."""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        assert first == "go\n", process.stderr.read()
        time.sleep(0.5)  # the program runs by now
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert process.returncode == 0, err
        return out, float(out.split()[1]) - sent, time.monotonic() - sent


@pytest.mark.parametrize("name", CASES)
def test_ctrl_c_ends_a_program(name: str) -> None:
    function, argument, call = CASES[name]
    before = "xpr.config.update('async_dispatch', 'always')" if name == "queued" else ""
    out, first, last = interrupted(
        PROGRAM.format(before=before, function=function, argument=argument, call=call)
    )
    assert out.startswith("interrupted ")
    assert "goes on" in out
    assert first < 3  # a second, and what a busy machine adds
    assert last < 10


def test_a_handler_of_the_users_does_not_end_a_program() -> None:
    """It may return, and then the program has to go on."""
    program = PROGRAM.format(
        before="signal.signal(signal.SIGINT, lambda *_: print('handled', time.monotonic()))",
        function="lambda x: xpr.lax.fori_loop(0, 40_000_000, lambda i, x: jnp.sin(x), x)",
        argument="jnp.ones(3)",
        call="f(x)",
    )
    out, _, _ = interrupted(program)
    assert out.startswith("handled")
    assert "interrupted" not in out
    assert "goes on" in out
