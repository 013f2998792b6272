"""What a type checker infers for programs of users: each expectation stands beside its line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Each program is checked alone. A line ends with the type of its expression, as pyright shows it.
_HEADER = """\
import numpy as np
import xpr
import xpr.numpy as jnp
from xpr import Array, lax, stages

x = jnp.ones((3, 3))
"""

PROGRAMS = {
    "arithmetic": """\
x + 1  # Array
1 - x  # Array
x @ x  # Array
-x**2 / 3 // 4 % 5  # Array
x @ np.ones((3, 3))  # Array
divmod(x, 2)  # tuple[Array, Array]
""",
    "comparisons and bits": """\
x > 0  # Array
x == x  # Array
(x != 1) & (x <= 2) | ~(x >= 0)  # Array
x.astype(int) << 1  # Array
""",
    "indexing": """\
x[0]  # Array
x[:, None, ::2]  # Array
[row for row in x]  # list[Array]
x.at[0].set(1.0)  # Array
x.at[1, :2].add(x[0, :2]).sum()  # Array
x.at[0].get(mode="fill", fill_value=0)  # Array
""",
    "methods": """\
x.sum()  # Array
x.reshape(9).astype(jnp.int32)  # Array
x.T.mean(axis=0).max()  # Array
x.nonzero()  # tuple[Array, ...]
x.shape  # tuple[int, ...]
""",
    "creation": """\
jnp.linspace(0, 1, 3)  # Array
jnp.linspace(0, 1, 3, retstep=True)  # tuple[Array, Array]
jnp.zeros_like(x)  # Array
jnp.arange(3)  # Array
jnp.array([1, 2])  # Array
""",
    "selection": """\
jnp.where(x > 0, 1, 0)  # Array
jnp.where(x > 0)  # tuple[Array, ...]
jnp.take(x, 0)  # Array
jnp.sort(x)  # Array
""",
    "functions": """\
jnp.sin(x) + jnp.sum(x)  # Array
jnp.concatenate([x, x])  # Array
jnp.linalg.solve(x, x)  # Array
jnp.linalg.norm(x)  # Array
lax.exp(x) * lax.slice_in_dim(x, 0, 1)  # Array
lax.reshape(x, (9,))  # Array
""",
    "jit": """\
def f(x: Array, n: int = 2) -> Array:
    return x * n
xpr.jit(f)  # Jitted[(x: Array, n: int = 2), Array]
xpr.jit(f, static_argnames="n")(x, n=3)  # Array
wrapped: stages.Wrapped = xpr.jit(f)
xpr.jit(f).lower(x)  # Lowered
xpr.jit(f).lower(x).compile()  # Compiled
xpr.jit(f).trace(x)  # Traced
xpr.jit(f).warm(x)  # Warming
xpr.jit(f).save("f.vmfb", x)  # None
xpr.jit(f).clear_cache()  # None
""",
    "decorated": """\
@xpr.jit
def f(x: Array, *, scale: float) -> tuple[Array, Array]:
    return x * scale, x
@xpr.jit(static_argnums=1)
def g(x: Array, n: int) -> Array:
    return x * n
class Model:
    @xpr.jit
    def step(self, x: Array) -> Array:
        return x
f(x, scale=2.0)  # tuple[Array, Array]
g(x, 2)  # Array
Model().step  # (x: Array) -> Array
Model().step(x)  # Array
""",
    "transformations": """\
def loss(w: Array, x: Array) -> Array:
    return jnp.sum(w * x)
def pair(w: Array) -> tuple[Array, dict[str, Array]]:
    return w.sum(), {"w": w}
xpr.vmap(loss)  # (w: Array, x: Array) -> Array
xpr.jit(xpr.vmap(loss))(x, x)  # Array
xpr.grad(loss)  # (w: Array, x: Array) -> Any
xpr.grad(pair, has_aux=True)(x)  # tuple[Any, dict[str, Array]]
xpr.value_and_grad(loss)(x, x)  # tuple[Array, Any]
xpr.value_and_grad(pair, has_aux=True)(x)  # tuple[tuple[Array, dict[str, Array]], Any]
""",
}


def _program(text: str) -> tuple[str, dict[int, tuple[str, str]]]:
    """The source with `reveal_type` around its expectations, and these by line number from 0."""
    lines = _HEADER.splitlines()
    expected = {}
    for line in text.splitlines():
        expression, mark, kind = line.partition("  # ")
        if mark:
            expected[len(lines)] = (expression, kind)
            line = f"reveal_type({expression})"
        lines.append(line)
    return "\n".join(lines) + "\n", expected


def test_pyright_infers_the_types_of_user_programs(tmp_path: Path) -> None:
    pytest.importorskip("pyright", reason="the type checker comes with xpr[test]")
    wanted = {}
    for i, (name, text) in enumerate(PROGRAMS.items()):
        source, expected = _program(text)
        file = tmp_path / f"program{i}.py"
        file.write_text(source)
        for line, (expression, kind) in expected.items():
            wanted[file.name, line] = (name, expression, kind)
    config = {"extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "-p", str(tmp_path)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    report = json.loads(done.stdout)["generalDiagnostics"]
    assert [d for d in report if d["severity"] != "information"] == []
    found = {
        (Path(d["file"]).name, d["range"]["start"]["line"]): d["message"].split(' is "', 1)[1][:-1]
        for d in report
    }
    assert {wanted[k][:2]: found.get(k) for k in wanted} == {v[:2]: v[2] for v in wanted.values()}
