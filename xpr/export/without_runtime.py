"""`save_c` and `save_wasm`: functions as programs that need no runtime."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from xpr.export.exported import Exported


def save_c(
    path: str | os.PathLike[str],
    functions: Exported | Mapping[str, Exported],
    *,
    target: str = "baseline",
    examples: Mapping[str, Sequence[Any]] | None = None,
) -> None:
    """Writes exported functions as C source, with objects that hold their compiled kernels.

    Beside `path`, which ends in `.c`, stand the header, the objects, an example `main.c` that
    checks itself, `CMakeLists.txt` and a description in JSON. The code needs no runtime, no heap
    and of a C library only `memcpy` and `memset`. Several functions, by name, share large arrays
    that they close over. `jit(f).save("model.c", *args)` does this for one function.

    `target` is `baseline` (any processor of this architecture since about 2015), `host`, a
    processor that `xpr compile` knows, such as `aarch64-linux`, or `cortex-m4`, `cortex-m7`,
    `rv32imc`, `armv7`. `examples` has the flat arguments of the example by function; without, they
    are drawn at random.

    Raises ValueError for unknown targets and for names that C does not have, NotImplementedError
    for programs that need a runtime, FileExistsError where another file is in the way.

    >>> import pathlib, tempfile, xpr, xpr.numpy as jnp
    >>> exported = xpr.export.export(xpr.jit(lambda x: jnp.tanh(2 * x)))(jnp.ones(64))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     xpr.export.save_c(pathlib.Path(folder) / "model.c", {"squash": exported})
    ...     sorted(file.name for file in pathlib.Path(folder).iterdir())
    ['CMakeLists.txt', 'main.c', 'model.c', 'model.h', 'model.json', 'model.o']
    """
    from xpr.export.no_runtime.writing import save  # noqa: PLC0415  the compile path

    save(path, functions, target=target, examples=examples)


def save_wasm(
    path: str | os.PathLike[str],
    functions: Exported | Mapping[str, Exported],
) -> None:
    """Writes exported functions as one module in WebAssembly, with what JavaScript needs.

    `path` ends in `.wasm`. Beside it stand a module of JavaScript (`.mjs`) and its types
    (`.d.ts`): `const model = await load(); model.f({x: Float32Array.of(...)})`. The module has no
    imports, and uses SIMD. `jit(f).save("model.wasm", *args)` does this for one function.

    Raises ValueError for names that C does not have, NotImplementedError for programs that need a
    runtime, FileExistsError where another file is in the way.

    >>> import pathlib, tempfile, xpr, xpr.numpy as jnp
    >>> exported = xpr.export.export(xpr.jit(lambda x: jnp.tanh(2 * x)))(jnp.ones(64))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     xpr.export.save_wasm(pathlib.Path(folder) / "model.wasm", {"squash": exported})
    ...     sorted(file.name for file in pathlib.Path(folder).iterdir())
    ['model.d.ts', 'model.mjs', 'model.wasm']
    """
    from xpr.export.no_runtime.writing import save  # noqa: PLC0415  the compile path

    place = os.fspath(path)
    if not place.endswith(".wasm"):
        raise ValueError(f"a module is saved under a name that ends in .wasm, got {place!r}")
    save(path, functions)
