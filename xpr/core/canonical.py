"""Programs as texts that are the same in each process, for keys of what is made of them.

Two programs with the same text are the same in all that a lowering can read: types, literals,
constants, parameters, and which programs inside them are one object. Names of variables and places
in the user's files are no part of it.
"""

from __future__ import annotations

import enum
import hashlib
import struct
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from xpr.core.primitive import Primitive, registry


class NoTextError(Exception):
    """Something in a program has no text that tells it from all others."""


Unread = dict[str, frozenset[str]]
"""Parameters, by the name of their primitive, that nobody reads who is concerned."""


def canonical_text(closed: ClosedJaxpr, unread: Unread) -> str:
    """A text of a program, without the values of its own constants, which are operands.

    `unread` names parameters to leave out, such as rules of derivatives. Raises `NoTextError` for
    programs with effects, and for parameters that are functions of the user's or other objects
    which only this process knows.

    >>> import xpr, xpr.numpy as jnp
    >>> one, other, third = (xpr.make_jaxpr(lambda x: x + n)(0.0) for n in (1, 1, 2))
    >>> canonical_text(one, {}) == canonical_text(other, {})
    True
    >>> canonical_text(one, {}) == canonical_text(third, {})
    False
    """
    return _Writer(unread).jaxpr(closed.jaxpr)


def canonical_value(value: Any) -> str:
    """A text that no other value has; raises `NoTextError` as `canonical_text` does."""
    return _Writer({}).value(value)


class _Writer:
    """The numbers of what has been written."""

    def __init__(self, unread: Unread) -> None:
        self._unread = unread
        self._vars: dict[Var, int] = {}
        # Programs that are called twice are lowered once, if they are one object. What is in here
        # is alive as long as the program is, so that no address is used again.
        self._closed: dict[int, int] = {}
        self._avals: dict[ShapedArray, str] = {}

    def jaxpr(self, jaxpr: Jaxpr) -> str:
        if jaxpr.effects:
            raise NoTextError("a program with effects")
        lines = [
            ",".join(map(self._binder, jaxpr.constvars)),
            ",".join(map(self._binder, jaxpr.invars)),
            *map(self._equation, jaxpr.eqns),
            ",".join(map(self._atom, jaxpr.outvars)),
        ]
        return "{" + "\n".join(lines) + "}"

    def _equation(self, eqn: JaxprEqn) -> str:
        primitive = eqn.primitive
        if eqn.effects:
            raise NoTextError(f"{primitive.name} has effects")
        if registry.get(primitive.name) is not primitive:
            raise NoTextError(f"{primitive.name} is a primitive of the program's own")
        unread = self._unread.get(primitive.name, ())
        params = ",".join(
            [f"{k}={self.value(v)}" for k, v in eqn.params.items() if k not in unread]
        )
        results = ",".join(map(self._binder, eqn.outvars))
        operands = ",".join(map(self._atom, eqn.invars))
        return f"{results}={primitive.name}[{params}]({operands})"

    def _binder(self, v: Var) -> str:
        return f"{type(v).__name__}{self._number(v)}:{self._aval(v.aval)}"

    def _number(self, v: Var) -> int:
        return self._vars.setdefault(v, len(self._vars))

    def _atom(self, x: Atom) -> str:
        if isinstance(x, Literal):
            return f"{self.value(x.val)}:{self._aval(x.aval)}"
        return f"{self._number(x)}"

    def _aval(self, aval: ShapedArray) -> str:
        found = self._avals.get(aval)
        if found is None:
            if type(aval) is not ShapedArray or aval.sharding is not None:
                raise NoTextError(f"the type {aval!r}")
            parts = (aval.shape, aval.dtype, aval.weak_type, aval.vma, aval.memory_space)
            found = self._avals[aval] = ";".join(map(self.value, parts))
        return found

    def _program(self, closed: ClosedJaxpr) -> str:
        known = self._closed.get(id(closed))
        if known is not None:
            return f"program {known}"
        self._closed[id(closed)] = len(self._closed)
        consts = [self._array(np.asarray(c)) for c in closed.consts]
        return f"program({','.join(consts)}){self.jaxpr(closed.jaxpr)}"

    def value(self, value: Any) -> str:
        """A text that only values have of the same type that are the same."""
        kind = type(value)
        if kind is int or kind is bool or kind is str or kind is bytes or value is None:
            return repr(value)
        write = _WRITERS.get(kind)
        if write is not None:
            return write(self, value)
        if isinstance(value, np.dtype):
            return f"dtype({value!r};{value.str};{value.name};{value.type.__module__})"
        if isinstance(value, np.generic):
            return f"number({self.value(value.dtype)};{value.tobytes().hex()})"
        if isinstance(value, Primitive) and registry.get(value.name) is value:
            return f"primitive({value.name!r})"
        if isinstance(value, enum.Enum):
            return f"{_path(kind)}.{value.name}"
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return f"{_path(kind)}({self._all(value)})"
        if hasattr(kind, "__dataclass_fields__"):
            import dataclasses  # noqa: PLC0415  few programs have any

            fields = [getattr(value, f.name) for f in dataclasses.fields(kind)]
            return f"{_path(kind)}({self._all(fields)})"
        if isinstance(value, type):
            return f"type({_path(value)})"
        if isinstance(value, types.FunctionType):
            return f"function({_path(value)})"
        raise NoTextError(f"a parameter of type {kind.__qualname__}")

    def _all(self, values: Iterable[Any]) -> str:
        return ",".join([self.value(v) for v in values])

    def _array(self, value: np.ndarray[Any, Any]) -> str:
        if value.dtype.hasobject:
            raise NoTextError("an array of objects")
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array({self.value(value.dtype)};{value.shape!r};{digest})"

    def _set(self, values: Iterable[Any]) -> str:
        # The order of a set of texts is another one in each process.
        return f"set({','.join(sorted(map(self.value, values)))})"

    def _dict(self, values: dict[Any, Any]) -> str:
        return f"dict({','.join([f'{self.value(k)}:{self.value(v)}' for k, v in values.items()])})"


_WRITERS: dict[type, Callable[[_Writer, Any], str]] = {
    # The bits tell zeros apart, and NaNs.
    float: lambda self, x: f"float({struct.pack('<d', x).hex()})",
    complex: lambda self, x: f"complex({struct.pack('<dd', x.real, x.imag).hex()})",
    tuple: lambda self, x: f"({self._all(x)},)",
    list: lambda self, x: f"[{self._all(x)}]",
    dict: _Writer._dict,
    set: _Writer._set,
    frozenset: _Writer._set,
    slice: lambda self, x: f"slice({self._all((x.start, x.stop, x.step))})",
    np.ndarray: _Writer._array,
    ShapedArray: _Writer._aval,
    ClosedJaxpr: _Writer._program,
    Jaxpr: _Writer.jaxpr,
}


def _path(x: Any) -> str:
    """Where a class or function of xpr's or NumPy's is defined, which says what it is."""
    module, name = x.__module__, x.__qualname__
    if module.partition(".")[0] not in ("xpr", "numpy", "ml_dtypes", "builtins"):
        raise NoTextError(f"{module}.{name} is the program's own")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not x:
        raise NoTextError(f"{module}.{name} is made while programs run")
    return f"{module}.{name}"
