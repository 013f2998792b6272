"""Functions in C as kernels: from a library, from an address, or from source."""

from __future__ import annotations

import ctypes
import functools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xpr.core.errors import shown
from xpr.experimental.kernel.calls import Kernel, Types
from xpr.primitives.kernel import CFunction, c_kernel_p

_SUFFIXES = {"darwin": ".dylib", "win32": ".dll"}


def c_function(
    function: Any,
    name: str | None = None,
    *,
    result: Any,
    sizes: bool = False,
    status: bool = False,
) -> Kernel:
    """A kernel that is a C function of this process.

    It runs on the CPU. Programs of other devices have its operands copied there, and its results
    back.

    `function` is the path of a shared library or a `ctypes.CDLL`, in which the function is looked
    up by `name`; or a function of `ctypes`; or an address, such as that of a function of `cffi` or
    of Numba's `cfunc`. It is called as `void f(const T0 *x0, ..., R0 *y0, ...)`: with the addresses
    of its operands and then of its results, all of them row-major, which must not be kept. With
    `sizes` the address of all their sizes follows (`const int64_t *`, the shape of each operand,
    then of each result). With `status` it returns an `int`; other values than 0 are an error. It is
    called by several threads at once, without Python's lock.

    `result` is the type of the result (`ShapeDtypeStruct`), or a pytree of such, or a function that
    gives these for the operands' types. What C expects of its arguments cannot be seen: a function
    that is called with wrong types reads and writes past its arrays.

    Raises OSError if there is no such library, AttributeError if it has no such function, TypeError
    for what is none of these; calls raise RuntimeError for a status, and a program that calls
    it raises NotImplementedError when it is saved.

    >>> import ctypes, ctypes.util
    >>> import xpr, xpr.numpy as jnp
    >>> copy = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
    ...     lambda x, y: ctypes.memmove(y, x, 12) and None)
    >>> kernel = xpr.experimental.kernel.c_function(copy, "copy", result=lambda x: x)
    >>> kernel(jnp.arange(3.0))
    Array([0., 1., 2.], dtype=float32)
    """
    library: Any = function
    if isinstance(function, (str, os.PathLike)):
        library = function = ctypes.CDLL(os.fspath(function))
    if isinstance(function, ctypes.CDLL):
        if name is None:
            raise TypeError("c_function needs the name of the function in the library")
        function = function[name]
    if isinstance(function, int) and not isinstance(function, bool):
        address = function
    elif hasattr(function, "restype") and hasattr(function, "argtypes"):
        address = ctypes.cast(function, ctypes.c_void_p).value or 0
    else:
        raise TypeError(
            "c_function takes a library, a function of ctypes or an address, got "
            f"{shown(function)} of type {type(function)}"
        )
    if not address:
        raise TypeError("c_function got the address 0")
    code = CFunction(name or f"c_{address:x}", address, sizes, status, library)
    return Kernel(code.name, result, c_kernel_p, functools.partial(_checked, code))


def _checked(code: CFunction, operands: Types, results: Types) -> CFunction:
    del operands, results
    return code


def c_source(
    source: str,
    name: str,
    *,
    result: Any,
    sizes: bool = False,
    status: bool = False,
    flags: Sequence[str] = ("-O3",),
) -> Kernel:
    """A kernel that is the function `name` of a C program, compiled here and now.

    The compiler is that of the environment variable `CC`, or `cc`, `gcc` or `clang`; `flags` are
    given to it. Everything else is as in `c_function`.

    Raises RuntimeError if there is no compiler or if it refuses the program, with its words.

    >>> import xpr, xpr.numpy as jnp
    >>> source = '''
    ... #include <stdint.h>
    ... void running_max(const float *x, float *y, const int64_t *sizes) {
    ...     float most = x[0];
    ...     for (int64_t i = 0; i < sizes[0]; i++)
    ...         y[i] = most = x[i] > most ? x[i] : most;
    ... }'''
    >>> kernel = xpr.experimental.kernel
    >>> running_max = kernel.c_source(source, "running_max", result=lambda x: x, sizes=True)
    >>> xpr.jit(lambda x: running_max(x) * 2)(jnp.array([1.0, 3.0, 2.0]))
    Array([2., 6., 6.], dtype=float32)
    """
    library = _compiled(source, name, tuple(flags))
    return c_function(library, name, result=result, sizes=sizes, status=status)


def _compiled(source: str, name: str, flags: Sequence[str]) -> ctypes.CDLL:
    compiler = next((words for words in _compilers() if shutil.which(words[0])), None)
    if compiler is None:
        raise RuntimeError(
            f"compiling the kernel {name} needs a C compiler: install gcc or clang, or name one by "
            "the environment variable CC"
        )
    # A library that is loaded stays, though its file is gone; Windows keeps the file.
    with tempfile.TemporaryDirectory(prefix="xpr-kernel-", ignore_cleanup_errors=True) as folder:
        program = Path(folder) / "kernel.c"
        program.write_text(source, encoding="utf-8")
        library = program.with_suffix(_SUFFIXES.get(sys.platform, ".so"))
        command = [*compiler, "-shared", "-fPIC", *flags, "-o", str(library), str(program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(
                f"{shlex.join(compiler)} refuses the kernel {name}:\n{done.stderr.strip()}"
            )
        return ctypes.CDLL(str(library))


def _compilers() -> list[list[str]]:
    """The commands to try: `CC` may hold words besides, as `ccache gcc` does."""
    chosen = shlex.split(os.environ.get("CC", ""))
    return [chosen] if chosen else [["cc"], ["gcc"], ["clang"]]
