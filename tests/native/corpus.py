"""Real modules of all kinds that the executor knows, for the programs in this folder.

`python -m tests.native.corpus FOLDER` compiles them and writes them there, each with a file that
says what it takes and returns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xpr
import xpr.numpy as xnp
from xpr import lax
from xpr.runtimes import cpu
from xpr.runtimes.base import ArrayType, ExecutableSignature


def _programs() -> dict[str, Callable[[], Any]]:
    x = np.linspace(-1, 1, 35, dtype=np.float32).reshape(5, 7)
    square = (x @ x.T + np.eye(5)).astype(np.float32)
    table = np.arange(3000, dtype=np.int32)
    return {
        "add": lambda: xpr.jit(lambda x: x + 1)(x),
        "many": lambda: xpr.jit(lambda *a: sum(a))(*[x + i for i in range(40)]),
        "dispatches": lambda: xpr.jit(
            lambda x: (x @ x.T, np.float32(2) * x.sum(0), x.max(), x > 0, x[:0], x)
        )(x),
        "donated": lambda: xpr.jit(lambda x, y: (x + y.sum(), y * 2), donate_argnums=0)(
            xnp.asarray(x), x
        ),
        "constant": lambda: xpr.jit(lambda i: (xnp.asarray(table * 7)[i], xnp.arange(2000)))(3),
        "padded": lambda: xpr.jit(lambda x: lax.pad(x, x[0, 0], ((1, 2, 0), (0, 1, 1))))(x),
        "loop": lambda: xpr.jit(
            lambda x: lax.while_loop(
                # It ends for zeros, too, which the programs in C++ call it with.
                lambda s: s[0].sum() < 100,
                lambda s: (s[0] + s[0] @ s[1] + 1, s[1]),
                (x, x.T @ x),
            )
        )(x),
        "branches": lambda: xpr.jit(
            lambda k, x: lax.switch(
                k, [lambda x: x @ x.T, lambda x: (x @ x.T).T + 1, lambda x: x[:, :5] @ x[:, :5]], x
            )
        )(1, x),
        "called": lambda: xpr.jit(lambda x: xnp.linalg.cholesky(x) @ xnp.fft.fft(x).real)(square),
    }


def _line(what: str, kind: ArrayType) -> str:
    shape, dtype = kind
    return " ".join([what, str(dtype.itemsize), *map(str, shape)])


def _types(signature: ExecutableSignature) -> list[str]:
    donated = {i for i, _ in signature.donations}
    lines = [_line("donated" if i in donated else "in", k) for i, k in enumerate(signature.inputs)]
    lines += [_line("out", kind) for kind in signature.outputs]
    for call in signature.host_calls:
        lines.append(f"host {call.symbol}")
        lines += [_line("takes", kind) for kind in call.inputs]
        lines += [_line("returns", kind) for kind in call.outputs]
    return lines


def write(folder: Path) -> list[str]:
    """Writes the modules to a folder; their names."""
    folder.mkdir(parents=True, exist_ok=True)
    found: list[tuple[bytes, ExecutableSignature]] = []
    load = cpu.CpuRuntime.load

    def noted(self: Any, program: bytes, signature: ExecutableSignature, *args: Any, **kw: Any):
        found.append((program, signature))
        return load(self, program, signature, *args, **kw)

    written: list[str] = []
    cpu.CpuRuntime.load = noted
    try:
        for name, run in _programs().items():
            found.clear()
            run()
            for i, (program, signature) in enumerate(found):
                path = folder / f"{name}{i}.vmfb"
                path.write_bytes(program)
                path.with_suffix(".types").write_text("\n".join(_types(signature)) + "\n")
                written.append(path.name)
    finally:
        cpu.CpuRuntime.load = load
    return written


def main(words: Sequence[str]) -> int:
    """Writes the modules to the folder that is named."""
    print(*write(Path(words[0])), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
