"""IREE's compiler library, through its C interface.

It is loaded on the first compile. Going to it directly spares the import of the MLIR Python
bindings (30 ms), and it is the only way to its diagnostics.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from xpr.lowering.iree import device_functions, installed, plugins, shortcuts, versions
from xpr.lowering.iree.mlir import Declarations, Functions, Mlir
from xpr.runtimes import fork

_LIBRARY_NAMES = {"darwin": "libIREECompiler.dylib", "win32": "IREECompiler.dll"}
_API_MAJOR_VERSION = 1

_POINTER = ctypes.c_void_p
_OUT_POINTER = ctypes.POINTER(ctypes.c_void_p)
_ON_NAME = ctypes.CFUNCTYPE(None, ctypes.c_char_p, _POINTER)
ON_DIAGNOSTIC = ctypes.CFUNCTYPE(None, ctypes.c_int, _POINTER, ctypes.c_size_t, _POINTER)

# After iree/compiler/embedding_api.h
_FUNCTIONS: Declarations = {
    "GetAPIVersion": (ctypes.c_int, []),
    "GetRevision": (ctypes.c_char_p, []),
    "GlobalInitialize": (None, []),
    "SetupGlobalCL": (
        None,
        [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_char_p, ctypes.c_bool],
    ),
    "ErrorGetMessage": (ctypes.c_char_p, [_POINTER]),
    "ErrorDestroy": (None, [_POINTER]),
    "EnumeratePlugins": (None, [_ON_NAME, _POINTER]),
    "SessionCreate": (_POINTER, []),
    "SessionDestroy": (None, [_POINTER]),
    "SessionSetFlags": (_POINTER, [_POINTER, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]),
    "SessionBorrowContext": (_POINTER, [_POINTER]),
    "SourceWrapBuffer": (
        _POINTER,
        [_POINTER, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_bool, _OUT_POINTER],
    ),
    "SourceDestroy": (None, [_POINTER]),
    "InvocationCreate": (_POINTER, [_POINTER]),
    "InvocationDestroy": (None, [_POINTER]),
    "InvocationEnableCallbackDiagnostics": (
        None,
        [_POINTER, ctypes.c_int, ON_DIAGNOSTIC, _POINTER],
    ),
    "InvocationSetVerifyIR": (None, [_POINTER, ctypes.c_bool]),
    "InvocationParseSource": (ctypes.c_bool, [_POINTER, _POINTER]),
    "InvocationPipeline": (ctypes.c_bool, [_POINTER, ctypes.c_int]),
    "InvocationSetCompileFromPhase": (None, [_POINTER, ctypes.c_char_p]),
    "InvocationSetCompileToPhase": (None, [_POINTER, ctypes.c_char_p]),
    "InvocationExportStealModule": (_POINTER, [_POINTER]),
    "InvocationImportStealModule": (ctypes.c_bool, [_POINTER, _POINTER]),
    "InvocationRunPassPipeline": (ctypes.c_bool, [_POINTER, ctypes.c_char_p]),
    "InvocationOutputIR": (_POINTER, [_POINTER, _POINTER]),
    "InvocationOutputVMBytecode": (_POINTER, [_POINTER, _POINTER]),
    "OutputOpenMembuffer": (_POINTER, [_OUT_POINTER]),
    "OutputMapMemory": (
        _POINTER,
        [_POINTER, _OUT_POINTER, ctypes.POINTER(ctypes.c_uint64)],
    ),
    "OutputDestroy": (None, [_POINTER]),
}


class CompilerNotFoundError(ImportError):
    """The compiler is not installed, or it is one that this version cannot drive."""


class Library(Functions):
    """The loaded library."""

    prefix = "ireeCompiler"

    def __init__(
        self, path: Path, alone_for: Sequence[str] | None, allowed: Collection[str]
    ) -> None:
        dll = ctypes.CDLL(str(path))
        self.bind(dll, _FUNCTIONS)
        version = self.GetAPIVersion()
        if version >> 16 != _API_MAJOR_VERSION:
            raise CompilerNotFoundError(
                f"iree-base-compiler with interface version {_API_MAJOR_VERSION} is required, got "
                f"version {version >> 16} in {path}"
            )
        self.mlir = Mlir(dll)
        self.GlobalInitialize()
        self.process = os.getpid()
        self.revision = (self.GetRevision() or b"").decode()
        self.version = versions.find(self.revision)
        # Other versions may not know the options, and an unknown one ends the process.
        allowed = self.version.shortcuts(allowed)
        if alone_for is not None:
            options: list[str] = []
            if shortcuts.DEVICE_FUNCTIONS in allowed:
                name, listed = shortcuts.DEVICE_FUNCTIONS, device_functions.options
                options += shortcuts.attempt(name, listed) or []
            if shortcuts.PLUGINS in allowed:
                name, listed = shortcuts.PLUGINS, plugins.options
                options += shortcuts.attempt(name, listed, alone_for, self.version) or []
            if options:
                self._set_options(options)

    def _set_options(self, options: Sequence[str]) -> None:
        """Sets options of the process, once and before its first session."""
        given = [b"xpr", *(option.encode() for option in options)]
        self.SetupGlobalCL(len(given), (ctypes.c_char_p * len(given))(*given), b"", False)

    def plugins(self) -> frozenset[str]:
        """The plugins that the library was built with."""
        names: list[str] = []
        self.EnumeratePlugins(_ON_NAME(lambda name, _: names.append(name.decode())), None)
        return frozenset(names)

    def check(self, error: int | None) -> None:
        """Raises ``RuntimeError`` with the library's message if there is an error."""
        if error:
            message = self.ErrorGetMessage(error).decode("utf-8", "replace")
            self.ErrorDestroy(error)
            raise RuntimeError(message)


_load_lock = threading.Lock()
_loaded: list[Library] = []


@fork.in_child
def _renew_lock() -> None:
    """Makes the lock new: a thread that held it in the parent does not exist here."""
    global _load_lock
    _load_lock = threading.Lock()


def adopt_threads() -> None:
    """Has compiles use threads in a forked process whose parent had none to leave behind."""
    for library in _loaded:
        library.process = os.getpid()


def is_loaded() -> bool:
    """Whether this process has loaded the compiler."""
    return bool(_loaded)


def load(
    path: Path | None = None,
    *,
    alone_for: Sequence[str] | None = None,
    allowed: Collection[str] = shortcuts.ALL,
) -> Library:
    """Load the compiler if it is not loaded: the installed one, or that in a file.

    A process that compiles one program after the other, and does nothing else, is `alone_for`
    programs with flags of the same kind as these (`plugins.are_for_cpu`). It gets options for
    those of the `allowed` shortcuts that a whole process takes.
    """
    with _load_lock:
        if not _loaded:
            file = library_path() if path is None else path
            _loaded.append(Library(file, alone_for, allowed))
        return _loaded[0]


def library_path() -> Path:
    """The file of the compiler.

    Raises `CompilerNotFoundError` if it is not installed.
    """
    name = _LIBRARY_NAMES.get(sys.platform, "libIREECompiler.so")
    folder = installed.package()
    if folder is not None:
        path = Path(folder, "_mlir_libs", name)
        if path.is_file():
            return path
    raise CompilerNotFoundError(
        "compiling a program requires iree-base-compiler (a program in the compile cache does "
        "not); install it with: pip install iree-base-compiler"
    )


def written(library: Library, write: Callable[[int, Any], int | None], invocation: int) -> bytes:
    """What a function of the library writes of a compile."""
    output = ctypes.c_void_p()
    library.check(library.OutputOpenMembuffer(ctypes.byref(output)))
    try:
        library.check(write(invocation, output))
        start, size = ctypes.c_void_p(), ctypes.c_uint64()
        library.check(library.OutputMapMemory(output, ctypes.byref(start), ctypes.byref(size)))
        return ctypes.string_at(start.value or 0, size.value)
    finally:
        library.OutputDestroy(output)
