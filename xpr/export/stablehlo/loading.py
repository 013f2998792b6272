"""A StableHLO program, of JAX or of another tool, as an exported function."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from xpr import tree_util
from xpr.contexts import enable_x64
from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.key_types import KeyType, generator_named
from xpr.export.exported import PLATFORMS, Exported, derive
from xpr.export.layout import Layout
from xpr.export.programs import FixedProgram, OpenProgram, Program, SymbolicProgram
from xpr.export.stablehlo.bytecode import MAGIC, read_bytecode
from xpr.export.stablehlo.container import Aval, Container, Spec, read_container
from xpr.export.stablehlo.errors import StableHLOError
from xpr.export.stablehlo.form import Module, Operation, Tensor, Token
from xpr.export.stablehlo.importer import TOKEN, Importer, function_type
from xpr.export.stablehlo.rules import all_rules
from xpr.export.stablehlo.text import read_text
from xpr.export.symbolic import SymbolicAval, SymbolicScope, symbolic_shape
from xpr.sharding import AxisType, PartitionSpec

_T = TypeVar("_T")
_SOUND = (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError)


def load(source: Any, entry: str | None) -> Exported:
    """What `xpr.export.from_stablehlo` returns."""
    data, name = _content(source)
    if isinstance(data, str):
        return _of_module(read_text(data, name), entry)
    if data.startswith(MAGIC):
        return _of_module(_read(read_bytecode, data), entry)
    text = _as_text(data)
    if text is not None:
        return _of_module(read_text(text, name), entry)
    if entry is not None:
        raise ValueError("entry is for modules: an exported function of JAX's has one")
    return _of_container(_read(read_container, data))


def _read(reader: Callable[[bytes], _T], data: bytes) -> _T:
    """What a reader makes of bytes; what it stumbles over is damage."""
    try:
        return reader(data)
    except StableHLOError:
        raise
    except (*_SOUND, RecursionError) as error:
        raise StableHLOError(f"the artifact is damaged: {error!r}") from error


def _content(source: Any) -> tuple[str | bytes, str]:
    """The text or bytes of the source, and its name in messages."""
    if isinstance(source, os.PathLike):
        path = Path(source)
        return path.read_bytes(), str(path)
    if isinstance(source, str):
        if "\n" not in source and not source.lstrip().startswith(("module", "func", '"', "#")):
            return Path(source).read_bytes(), source
        return source, "<text>"
    if not isinstance(source, bytes | bytearray | memoryview):
        raise TypeError(
            "from_stablehlo takes MLIR text, bytes, or the path of a file, got "
            f"{type(source).__name__}"
        )
    return bytes(source), "<bytes>"


def _as_text(data: bytes) -> str | None:
    """Bytes that are MLIR's text; None for others."""
    if b"\0" in data:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if text.strip() else None


# ---- modules alone


def _importer(module: Module) -> Importer:
    found = Importer(module, all_rules())
    found.unknown()
    return found


def _traced(importer: Importer, function: Operation, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The program of a function of the module for these types."""
    wanted = function.regions[0].arguments

    def run(*args: Any) -> list[Any]:
        rest = iter(args)
        found = [TOKEN if isinstance(v.type, Token) else next(rest) for v in wanted]
        return [x for x in importer.call(function, found) if x is not TOKEN]

    return _guarded(run, avals)


def _guarded(run: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """A program, traced with 64 bits; what is unsound in it is a StableHLOError."""
    try:
        with enable_x64(True):
            return trace_to_jaxpr(run, avals)
    except StableHLOError:
        raise
    except RecursionError as error:
        raise StableHLOError("the module is nested too deeply") from error
    except _SOUND as error:
        raise StableHLOError(f"the module is unsound: {error}") from error


def _of_module(module: Module, entry: str | None) -> Exported:
    function = module.entry(entry)
    kinds = function_type(function)
    for kind in (*kinds.inputs, *kinds.results):
        if not isinstance(kind, Tensor | Token):
            raise function.error(f"the function takes or returns a {kind}, which is not an array")
    inputs = [k for k in kinds.inputs if isinstance(k, Tensor)]
    results = [k for k in kinds.results if isinstance(k, Tensor)]
    importer = _importer(module)
    program = _program_of(importer, function, inputs, results)
    count = len(results)
    out_tree = tree_util.tree_structure(0 if count == 1 else tuple(range(count)))
    in_tree = tree_util.tree_structure((tuple(range(len(inputs))), {}))
    name = str(function.attributes.get("sym_name"))
    return _exported(
        name, in_tree, out_tree, program, _layout_of(importer, function, len(inputs), count)
    )


def _exported(
    name: str, in_tree: Any, out_tree: Any, program: Program, layout: Layout | None
) -> Exported:
    return Exported(name, in_tree, out_tree, program, PLATFORMS, (), derive, layout)


def _layout_of(
    importer: Importer, function: Operation | None, inputs: int, results: int
) -> Layout | None:
    """The devices of a program that names a mesh, and the shardings that its function states."""
    meshes = importer.module.meshes
    name = next((n for n, m in meshes.items() if np.prod(list(m.values())) > 1), None)
    if name is None:
        return None
    mesh = meshes[name]

    def specs(key: str, count: int) -> tuple[PartitionSpec | None, ...]:
        stated = () if function is None else function.attributes.get(key) or ()
        found = [a.get("sdy.sharding") if isinstance(a, dict) else None for a in stated]
        if len(found) != count:
            return (None,) * count
        return tuple(_stated_spec(s, name) for s in found)

    return _layout(
        tuple(mesh.values()), tuple(mesh), specs("arg_attrs", inputs), specs("res_attrs", results)
    )


def _stated_spec(sharding: Any, mesh: str) -> PartitionSpec | None:
    """A sharding over that mesh, by whole axes; None for another, which is left open."""
    if not isinstance(sharding, dict) or sharding.get("mesh") != mesh:
        return None
    if not all(isinstance(a, str) for axes in sharding["axes"] for a in axes):
        return None
    return PartitionSpec(*(None if not a else a[0] if len(a) == 1 else a for a in sharding["axes"]))


def _layout(sizes: Any, names: Any, inputs: Any, results: Any) -> Layout:
    return Layout(sizes, names, (AxisType.Auto,) * len(names), tuple(inputs), tuple(results))


def _program_of(
    importer: Importer, function: Operation, inputs: list[Tensor], results: list[Tensor]
) -> Program:
    if all(None not in kind.shape for kind in inputs):
        avals = [ShapedArray(kind.static, kind.dtype) for kind in inputs]
        return FixedProgram(_traced(importer, function, avals))
    scope = SymbolicScope()
    names = (scope.name(f"d{i}") for i in itertools.count())

    def named(kinds: Sequence[Tensor]) -> list[SymbolicAval]:
        return [
            SymbolicAval(tuple(next(names) if n is None else n for n in k.shape), k.dtype)
            for k in kinds
        ]

    return OpenProgram(
        named(inputs), named(results), functools.partial(_traced, importer, function)
    )


def _sized(avals: Sequence[Any], sizes: dict[str, int]) -> list[ShapedArray]:
    """Types with values for their symbolic dimensions."""
    return [
        ShapedArray(tuple(d if isinstance(d, int) else d.value(sizes) for d in a.shape), a.dtype)
        for a in avals
    ]


# ---- JAX's exported functions


def _of_container(found: Container) -> Exported:
    module = _read(read_bytecode, found.module)
    importer = _importer(module)
    call = _Call(importer, module.entry("main"), found)
    scope = SymbolicScope()
    ins = [_aval(a, scope) for a in found.in_avals]
    outs = [_aval(a, scope) for a in found.out_avals]
    if scope.names:
        program: Program = SymbolicProgram(scope, ins, call.at, out_avals=outs)
        call.in_avals = ins
    else:
        program = FixedProgram(call.program([ShapedArray(a.shape, a.dtype) for a in ins]))
    layout = _container_layout(importer, found) if found.devices > 1 else None
    vjp = derive if found.vjp is None else _stored_vjp(found.vjp)
    return Exported(found.name, found.in_tree, found.out_tree, program, PLATFORMS, (), vjp, layout)


def _stored_vjp(container: Container) -> Callable[[Exported], Exported]:
    return lambda _: _of_container(container)


def _aval(aval: Aval, scope: SymbolicScope) -> SymbolicAval:
    try:
        shape = tuple(
            size for text in aval.sizes for size in symbolic_shape(f"{text},", scope=scope)
        )
    except (ValueError, SyntaxError) as error:
        raise StableHLOError(f"the exported function has an unknown size: {error}") from error
    if any(isinstance(d, int) and d < 0 for d in shape):
        raise StableHLOError(f"the exported function has a negative size: {shape}")
    dtype: Any = aval.dtype
    if aval.key is not None:
        dtype = KeyType(generator_named(aval.key))
    return SymbolicAval(shape, dtype)


def _container_layout(importer: Importer, found: Container) -> Layout | None:
    specs = [s for s in (*found.in_specs, *found.out_specs) if s is not None and s.names]
    if not specs:
        layout = _layout_of(importer, None, len(found.in_avals), len(found.out_avals))
        if layout is None or layout.size != found.devices:
            sizes, names = (found.devices,), ("devices",)
            layout = _layout(
                sizes, names, [None] * len(found.in_avals), [None] * len(found.out_avals)
            )
        return layout
    sizes, names = specs[0].sizes, specs[0].names

    def spec(entry: Spec | None) -> PartitionSpec | None:
        if entry is None:
            return None
        parts = [None if not a else a[0] if len(a) == 1 else a for a in entry.axes]
        return PartitionSpec(*parts)

    return _layout(sizes, names, map(spec, found.in_specs), map(spec, found.out_specs))


class _Call:
    """How the flat arguments of an exported function become those of its module, and back."""

    def __init__(self, importer: Importer, function: Operation, found: Container) -> None:
        self._importer, self._function, self._found = importer, function, found
        self.in_avals: Sequence[Any] = ()
        self._attributes = function.attributes.get("arg_attrs") or ()
        arguments = function.regions[0].arguments
        leading = len(arguments) - len(found.kept)
        if leading not in (0, 1):
            raise function.error(
                f"the module takes {len(arguments)} arguments, the exported function has "
                f"{len(found.kept)}"
            )
        self._platform = leading == 1

    def at(self, sizes: dict[str, int]) -> ClosedJaxpr:
        """The program for sizes by name."""
        return self.program(_sized(self.in_avals, sizes))

    def program(self, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
        """The program for arguments of these types."""
        return _guarded(self._run, avals)

    def _run(self, *leaves: Any) -> list[Any]:
        args: list[Any] = []
        if self._platform:
            names = self._found.platforms
            index = names.index("cpu") if "cpu" in names else 0
            kind = self._function.regions[0].arguments[0].type
            args.append(np.asarray(index, kind.dtype))
        args += [_given(leaves[i], self._found.in_avals[i]) for i in self._found.kept]
        found = self._importer.call(self._function, args)
        if len(found) != len(self._found.out_avals):
            raise self._function.error(
                f"the module returns {len(found)} results, the exported function has "
                f"{len(self._found.out_avals)}"
            )
        return [_returned(x, a) for x, a in zip(found, self._found.out_avals, strict=True)]


def _given(x: Any, aval: Aval) -> Any:
    if aval.dtype == dtypes.float0:
        return np.zeros(np.shape(x), np.bool_)
    if aval.key is not None:
        from xpr.random import key_data  # noqa: PLC0415  only for keys

        return key_data(x)
    return x


def _returned(x: Any, aval: Aval) -> Any:
    if aval.dtype == dtypes.float0:
        return np.zeros(np.shape(x), dtypes.float0)
    if aval.key is not None:
        from xpr.random import wrap_key_data  # noqa: PLC0415  only for keys

        return wrap_key_data(x, impl=aval.key)
    return x
