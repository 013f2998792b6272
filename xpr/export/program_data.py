"""Jaxprs as data: JSON with tables of arrays, without any code of the user's.

A program is a table of closed jaxprs, the entry last; one that several equations call is written
once. Whoever reads it gets equations of known primitives and nothing else: reading runs no code
that the data names. Equations that carry rules of the user's (`custom_jvp`, `custom_vjp`,
`checkpoint` with a policy) become plain calls of their programs: derivatives of an exported
function are programs of their own.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.check import check_jaxpr
from xpr.core.errors import XprError
from xpr.core.extended import ExtendedDType
from xpr.core.extended_array import ExtendedArray, seen_as
from xpr.core.jaxpr import Atom, ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, Literal, Var
from xpr.core.key_types import GENERATORS, Generator, KeyType
from xpr.core.physical import physical_aval
from xpr.core.primitive import Primitive
from xpr.dispatch.transfer import device_put
from xpr.export.program_limits import (
    CALL,
    call_params,
    check_budget,
    check_operation,
    operation_to_read,
)
from xpr.primitives._accuracy import AccuracyMode
from xpr.primitives._conv_dims import ConvDimensionNumbers
from xpr.primitives._index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from xpr.primitives._precision import DotAlgorithm, DotAlgorithmPreset, Precision
from xpr.primitives._tolerance import Tolerance
from xpr.primitives.elementwise import RoundingMethod
from xpr.primitives.fft import FftType
from xpr.primitives.linalg import EighImplementation, SvdAlgorithm
from xpr.primitives.linalg_general import EigImplementation
from xpr.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

UNSOUND = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError)
UNSOUND += (RuntimeError, XprError)
"""What reading data raises, beside ValueError, where something in it is not what it should be."""

Json = Any
Arrays = dict[str, np.ndarray[Any, Any]]

_ENUMS: dict[str, type[enum.Enum]] = {
    c.__name__: c
    for c in (
        AccuracyMode,
        DotAlgorithmPreset,
        EigImplementation,
        EighImplementation,
        FftType,
        GatherScatterMode,
        Precision,
        RoundingMethod,
        SvdAlgorithm,
    )
}
_TUPLES: dict[str, Any] = {
    c.__name__: c for c in (ConvDimensionNumbers, GatherDimensionNumbers, ScatterDimensionNumbers)
}
_RECORDS: dict[str, Any] = {c.__name__: c for c in (DotAlgorithm, Tolerance)}


def dtype_text(dtype: Any) -> str:
    """The name that a dtype is written under."""
    return "float0" if dtype == dtypes.float0 else dtype.name


def dtype_of(name: Any) -> Any:
    """The dtype of that name; ValueError for one that there is not."""
    found = _DTYPES.get(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(f"a program names an unknown dtype: {name!r}")
    return found


_DTYPES: dict[str, Any] = {dtype_text(d): d for d in dtypes.SHORT_NAMES}
_DTYPES |= {t.name: t for t in map(KeyType, GENERATORS.values())}


class ProgramWriter:
    """Collects programs as data, and their arrays."""

    def __init__(self) -> None:
        self.programs: list[Json] = []
        self.arrays: Arrays = {}
        self._known: dict[int, tuple[int, ClosedJaxpr]] = {}
        self._array_names: dict[int, tuple[str, Any]] = {}

    def closed(self, closed: ClosedJaxpr) -> int:
        known = self._known.get(id(closed))
        if known is None:
            jaxpr = self.jaxpr(closed.jaxpr)
            jaxpr["consts"] = [self.const(c) for c in closed.consts]
            self.programs.append(jaxpr)
            known = self._known[id(closed)] = (len(self.programs) - 1, closed)
        return known[0]

    def const(self, value: Any) -> str | None:
        """The name of an array; None if its type tells all, which may have symbolic dimensions
        then."""
        if type(value) is ExtendedArray:
            return self.array(value._base)
        return None if np.asarray(value).dtype == dtypes.float0 else self.array(value)

    def array(self, value: Any) -> str:
        """The name of an array in the table; one object is stored once."""
        known = self._array_names.get(id(value))
        if known is None:
            name = f"array{len(self.arrays)}"
            self.arrays[name] = np.asarray(value)
            known = self._array_names[id(value)] = (name, value)
        return known[0]

    def jaxpr(self, jaxpr: Jaxpr) -> dict[str, Json]:
        numbers: dict[Var, int] = {}

        def declare(variables: Sequence[Var]) -> list[Json]:
            for v in variables:
                numbers[v] = len(numbers)
            return [_aval_data(v.aval) for v in variables]

        def read(atom: Atom) -> Json:
            if isinstance(atom, Literal):
                return [self.param("a literal", atom.val), _aval_data(atom.aval)]
            return numbers[atom]

        const_types, in_types = declare(jaxpr.constvars), declare(jaxpr.invars)
        eqns = []
        for eqn in jaxpr.eqns:
            name = eqn.params.get("target_name", eqn.primitive.name)
            check_operation(eqn.primitive, str(name), eqn.effects)
            operands = [read(a) for a in eqn.invars]
            name, params = self.call_of(eqn)
            eqns.append([name, operands, declare(eqn.outvars), params])
        return {
            "name": jaxpr.debug_info.func_name,
            "const_types": const_types,
            "in_types": in_types,
            "eqns": eqns,
            "outs": [read(a) for a in jaxpr.outvars],
        }

    def call_of(self, eqn: JaxprEqn) -> tuple[str, dict[str, Json]]:
        """Primitive and parameters; a plain call for what carries rules of the user's."""
        name, params = eqn.primitive.name, eqn.params
        if eqn.primitive.calls is not None:
            program = {"closed": self.closed(params[eqn.primitive.calls])}
            return CALL, call_params(program, str(params.get("name", name)), len(eqn.invars))
        return name, {key: self.param(f"{name}'s {key}", v) for key, v in params.items()}

    def param(self, what: str, value: Any) -> Json:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind.__name__ in _ENUMS:
            return {"enum": [kind.__name__, value.name]}
        if kind is float:
            return {"float": value.hex()}
        if kind is complex:
            return {"complex": [value.real.hex(), value.imag.hex()]}
        if kind is tuple or kind is list:
            return {kind.__name__: [self.param(what, v) for v in value]}
        if kind is frozenset:
            return {"frozenset": [self.param(what, v) for v in sorted(value, key=repr)]}
        if isinstance(value, PartitionSpec):
            entries = [self.param(what, v) for v in value.partitions]
            if value.unreduced or value.reduced:
                return {"sums": [entries, sorted(value.unreduced), sorted(value.reduced)]}
            return {"spec": entries}
        if isinstance(value, (Mesh, AbstractMesh)):
            # Without its devices: whoever calls the program says on which it runs.
            types = [t.name for t in value.axis_types]
            return {"mesh": [list(value.axis_sizes), list(value.axis_names), types]}
        if isinstance(value, NamedSharding):
            return {"sharding": [self.param(what, value.mesh), self.param(what, value.spec)]}
        if kind is dict:
            pairs = [[self.param(what, k), self.param(what, v)] for k, v in value.items()]
            return {"dict": pairs}
        if kind.__name__ in _TUPLES:
            return {"named": [kind.__name__, [self.param(what, v) for v in value]]}
        if kind.__name__ in _RECORDS:
            fields = [getattr(value, f.name) for f in dataclasses.fields(value)]
            return {"record": [kind.__name__, [self.param(what, v) for v in fields]]}
        if isinstance(value, ClosedJaxpr):
            return {"closed": self.closed(value)}
        if isinstance(value, Jaxpr):
            return {"jaxpr": self.closed(ClosedJaxpr(value, []))}
        if isinstance(value, Primitive):
            return {"primitive": value.name}
        if isinstance(value, Generator):
            return {"generator": value.name}
        if isinstance(value, (np.dtype, ExtendedDType)):
            return {"dtype": dtype_text(value)}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"scalar_type": np.dtype(value).name}
        if isinstance(value, np.generic):
            return {"scalar": [dtype_text(value.dtype), value.tobytes().hex()]}
        if isinstance(value, ShapedArray):
            return {"aval": _aval_data(value)}
        if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
            return {"array": self.array(value)}
        raise NotImplementedError(
            f"{what} is a {kind.__name__} of this process and cannot be exported: {value!r}"
        )


def _aval_data(aval: ShapedArray) -> Json:
    data = [list(aval.shape), dtype_text(aval.dtype), int(aval.weak_type)]
    return [*data, sorted(aval.vma)] if aval.vma else data


def program_data(closed: ClosedJaxpr) -> tuple[list[Json], Arrays]:
    """A program as JSON and the arrays it refers to by name.

    Raises NotImplementedError, naming the operation, for what only exists in this process: host
    callbacks, printing, Python functions among the parameters. Raises ValueError for a program of
    too many operations.
    """
    writer = ProgramWriter()
    writer.closed(closed)
    check_budget(writer.programs)
    return writer.programs, writer.arrays


class ProgramReader:
    """Makes programs of their data."""

    def __init__(self, programs: Sequence[Json], arrays: Arrays) -> None:
        self.arrays = arrays
        self.programs: list[ClosedJaxpr] = []
        checked: set[Jaxpr] = set()
        for data in programs:
            program = self.closed(data)
            check_jaxpr(program, checked)
            self.programs.append(program)

    def closed(self, data: Json) -> ClosedJaxpr:
        variables: list[Var] = []

        def declare(types: Sequence[Json]) -> list[Var]:
            made = [Var(_aval(t)) for t in types]
            variables.extend(made)
            return made

        def read(atom: Json) -> Atom:
            if isinstance(atom, int):
                return variables[_index(atom, variables)]
            return _literal(self.param(atom[0]), _aval(atom[1]))

        constvars, invars = declare(data["const_types"]), declare(data["in_types"])
        eqns: list[JaxprEqn] = []
        for name, operands, out_types, params in data["eqns"]:
            invalues = [read(a) for a in operands]
            known = {key: self.param(v) for key, v in params.items()}
            primitive = operation_to_read(name, known)
            eqns.append(JaxprEqn(invalues, declare(out_types), primitive, known))
        outs = [read(a) for a in data["outs"]]
        info = DebugInfo(func_name=str(data["name"]))
        consts = [self.const(*c) for c in zip(data["consts"], constvars, strict=True)]
        return ClosedJaxpr(Jaxpr(constvars, invars, outs, eqns, debug_info=info), consts)

    def const(self, name: str | None, var: Var) -> Any:
        aval = var.aval
        if name is None:
            if aval.dtype != dtypes.float0:
                raise ValueError(f"an array {aval.str_short()} of a program has no values")
            return np.zeros(aval.shape, dtypes.float0)
        array, held = self.arrays[name], physical_aval(aval)
        if array.shape != held.shape or array.dtype != held.dtype:
            raise ValueError(f"the array {name} is {array.dtype}{[*array.shape]}, not {held}")
        if isinstance(aval.dtype, ExtendedDType):
            return seen_as(device_put(array), aval.dtype)
        return array

    def param(self, data: Json) -> Any:
        if not isinstance(data, dict):
            return data
        ((kind, content),) = data.items()
        return _PARAMS[kind](self, content)


_PARAMS: dict[str, Callable[[ProgramReader, Any], Any]] = {
    "enum": lambda _, c: _ENUMS[c[0]][c[1]],
    "float": lambda _, c: float.fromhex(c),
    "complex": lambda _, c: complex(float.fromhex(c[0]), float.fromhex(c[1])),
    "tuple": lambda r, c: tuple(r.param(v) for v in c),
    "frozenset": lambda r, c: frozenset(r.param(v) for v in c),
    "spec": lambda r, c: PartitionSpec(*(r.param(v) for v in c)),
    "sums": lambda r, c: PartitionSpec(
        *(r.param(v) for v in c[0]), unreduced=frozenset(c[1]), reduced=frozenset(c[2])
    ),
    "mesh": lambda _, c: AbstractMesh(c[0], tuple(c[1]), tuple(AxisType[t] for t in c[2])),
    "sharding": lambda r, c: NamedSharding(r.param(c[0]), r.param(c[1])),
    "list": lambda r, c: [r.param(v) for v in c],
    "dict": lambda r, c: {r.param(k): r.param(v) for k, v in c},
    "named": lambda r, c: _TUPLES[c[0]](*(r.param(v) for v in c[1])),
    "record": lambda r, c: _record(c[0], [r.param(v) for v in c[1]]),
    "closed": lambda r, c: r.programs[_index(c, r.programs)],
    "jaxpr": lambda r, c: r.programs[_index(c, r.programs)].jaxpr,
    "primitive": lambda _, c: operation_to_read(c, {}),
    "dtype": lambda _, c: dtype_of(c),
    "generator": lambda _, c: GENERATORS[c],
    "scalar_type": lambda _, c: dtype_of(c).type,
    "scalar": lambda _, c: np.ndarray((), dtype_of(c[0]), bytes.fromhex(c[1]))[()],
    "aval": lambda _, c: _aval(c),
    "array": lambda r, c: r.arrays[c],
}


def _index(number: Any, of: Sequence[Any]) -> int:
    """A place in a table; Python's own indices count from the end, too."""
    if type(number) is not int or not 0 <= number < len(of):
        raise ValueError(f"a program names number {number!r} of a table of {len(of)}")
    return number


def _literal(value: Any, aval: ShapedArray) -> Literal:
    """A literal; ValueError for a value that is not a number of its type."""
    is_number = isinstance(value, bool | int | float | complex | np.generic)
    if not is_number or aval.shape or isinstance(aval.dtype, ExtendedDType):
        raise ValueError(f"a program has a literal {value!r} of type {aval.str_short()}")
    if np.asarray(value).astype(aval.dtype) != np.asarray(value) and value == value:
        raise ValueError(f"a program has a literal {value!r} of type {aval.str_short()}")
    return Literal(value, aval)


def _record(name: str, values: Sequence[Any]) -> Any:
    cls = _RECORDS[name]
    return cls(**{f.name: v for f, v in zip(dataclasses.fields(cls), values, strict=True)})


def _aval(data: Json) -> ShapedArray:
    shape, dtype, weak, *vma = data
    found = ShapedArray(tuple(shape), dtype_of(dtype), bool(weak))
    return found.update(vma=frozenset(vma[0])) if vma else found


def program_from_data(programs: Sequence[Json], arrays: Arrays) -> ClosedJaxpr:
    """What `program_data` wrote; ValueError for data that is no program."""
    try:
        check_budget(programs)
        return ProgramReader(programs, arrays).programs[-1]
    except ValueError:
        raise
    except UNSOUND as error:
        raise ValueError(f"the program's data is damaged: {error!r}") from error
