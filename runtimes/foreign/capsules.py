"""Addresses as Python objects: capsules."""

from __future__ import annotations

import ctypes
from typing import Any

_python = ctypes.pythonapi
_Destructor = ctypes.CFUNCTYPE(None, ctypes.py_object)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", _python)
)
_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", _python))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _python)
)


def pycapsule(funcptr: Any) -> Any:
    """A capsule that holds the address of a function that `ctypes` has loaded.

    `funcptr` may also be an address. Raises ValueError for NULL, TypeError for what is no address.
    The library of the function must stay loaded.

    >>> import ctypes
    >>> type(pycapsule(ctypes.pythonapi.Py_GetVersion)).__name__
    'PyCapsule'
    """
    try:
        if isinstance(funcptr, (str, bytes)):
            raise ctypes.ArgumentError("a text")  # which ctypes takes for its address
        return _new(funcptr, None, _Destructor(0))
    except ctypes.ArgumentError:
        raise TypeError(
            "pycapsule takes a function that ctypes has loaded, or an address, got "
            f"{funcptr!r} of {type(funcptr)}"
        ) from None


_Capsule = type(pycapsule(ctypes.addressof(ctypes.c_int())))


def is_capsule(x: Any) -> bool:
    """Whether an object is a capsule."""
    return isinstance(x, _Capsule)


def address_in(capsule: Any) -> int:
    """The address in a capsule, whatever its name."""
    return _pointer(capsule, _name(capsule))
