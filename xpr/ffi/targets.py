"""Names of foreign functions, and of the types of their states."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from xpr.core.errors import JaxRuntimeError
from xpr.runtimes.foreign import api, targets
from xpr.runtimes.foreign.status import ForeignError


@contextmanager
def _as_runtime_errors() -> Iterator[None]:
    try:
        yield
    except ForeignError as failed:
        raise JaxRuntimeError(str(failed)) from None


def register_ffi_target(
    name: str, fn: Any, platform: str = "cpu", api_version: int = 1, *, traits: int = 0
) -> None:
    """Gives a foreign function the name by which `ffi_call` calls it.

    `fn` is a capsule with the address of a handler, as `pycapsule` makes it, or a dictionary of
    such capsules by stages: "execute", and if it likes "instantiate" (once for each place in a
    program), "prepare" and "initialize" (before each execution). `api_version` is 1 for handlers
    of XLA's typed interface, and 0 for functions without call frames (`custom_call_api_version`
    below 4). Functions for other platforms than "cpu" are kept and never called.

    Raises TypeError for a name that is no text, and `JaxRuntimeError` for what is no function, for
    a name that another function has, and for handlers that were compiled for another version of
    the interface.

    >>> import xpr
    >>> xpr.ffi.register_ffi_target("square", 3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    xpr.core.errors.JaxRuntimeError: INVALID_ARGUMENT: Unsupported custom call target type ...
    """
    if not isinstance(name, str):
        raise TypeError(f"register_ffi_target takes a name, got {name!r} of {type(name)}")
    with _as_runtime_errors():
        targets.register_target(name, fn, platform, api_version, int(traits), api.table())


def register_ffi_type(name: str, type_registration: Any, platform: str = "cpu") -> None:
    """Makes a type of states known, before the handlers that set states of that type.

    `type_registration` is a dictionary with the capsule `type_id`, the address of an `int64_t` in
    which the type's number is written, and `type_info`, that of an `XLA_FFI_TypeInfo`, which says
    how a state is deleted. Raises `JaxRuntimeError` for anything else.

    >>> import ctypes
    >>> import xpr
    >>> number = ctypes.c_int64()
    >>> there = xpr.ffi.pycapsule(ctypes.addressof(number))
    >>> xpr.ffi.register_ffi_type("my state", {"type_id": there})
    >>> number.value > 0
    True
    """
    del platform
    with _as_runtime_errors():
        targets.register_type(name, type_registration)


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """Raises ValueError: `register_ffi_type` has taken its place."""
    del obj, platform
    raise ValueError(
        "register_ffi_type_id is not supported after jaxlib version 381: register the type "
        f"{name!r} with register_ffi_type"
    )


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Says that the leading axes of a target's arrays are a batch, which devices may share.

    These are the axes whose sizes all its operands and results have in common. Each device then
    calls the function on its own examples; without this it is called on whole arrays.
    """
    targets.register_batch_partitionable(name)


def include_dir() -> str:
    """The folder of the header files with which handlers are compiled: those of JAX.

    xpr has no copy of them, so that this raises RuntimeError where `jaxlib` is not installed. It is
    looked for, and not loaded.
    """
    found = PathFinder.find_spec("jaxlib", sys.path)
    places = () if found is None else found.submodule_search_locations or ()
    for place in places:
        folder = Path(place, "include")
        if folder.is_dir():
            return str(folder)
    raise RuntimeError(
        "Cannot determine jaxlib directory: the header files of XLA's foreign function interface "
        "come with the package jaxlib, which is not installed here; handlers can be compiled "
        "wherever it is"
    )
