"""The stages of a jitted function one by one: `Traced`, `Lowered`, `Compiled`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from xpr import tree_util
from xpr.core.aval import ShapedArray, same_type
from xpr.core.extended import is_extended
from xpr.core.extended_array import base_of, with_type
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.physical import physical_aval
from xpr.core.trace import Trace, Tracer
from xpr.dispatch import compiled, compiling
from xpr.dispatch.spmd import SpmdProgram
from xpr.interpreters.references import check_once, value_of, written_back
from xpr.lowering.iree.parsed import parsed
from xpr.lowering.module import LoweredModule
from xpr.lowering.targets.stablehlo import stablehlo, stablehlo_anywhere
from xpr.runtimes import registry
from xpr.runtimes.base import Device
from xpr.sharding import SingleDeviceSharding
from xpr.sharding.communication import Communication
from xpr.sharding.layouts import Format, Layout
from xpr.transforms import memory_calls, sharded_calls
from xpr.transforms.cache_misses import shown_types
from xpr.transforms.compiler_options import check_compiler_options
from xpr.transforms.jit_programs import CallParts, ProgramBuilder
from xpr.transforms.signature import name_of
from xpr.transforms.tracing import ShapeDtypeStruct, TracedProgram, abstractify


@dataclass(frozen=True)
class ArgInfo:
    """The type of an argument, and whether its buffer may be overwritten.

    >>> import xpr
    >>> xpr.jit(lambda x: x, donate_argnums=0).trace(1.0).args_info[0][0]
    ArgInfo(_aval=ShapedArray(float32[], weak_type=True), donated=True)
    """

    _aval: ShapedArray
    donated: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        return self._aval.dtype


class MemoryAnalysis(dict[str, int]):
    """Bytes that a program takes, by name: items, and attributes as well.

    >>> import xpr
    >>> found = MemoryAnalysis(argument_size_in_bytes=4)
    >>> found.argument_size_in_bytes
    4
    """

    def __getattr__(self, name: str) -> int:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"memory_analysis tells {', '.join(self)}, and not {name}"
            ) from None


class _Stage:
    def __init__(self, function: ProgramBuilder, parts: CallParts, traced: TracedProgram) -> None:
        self._function = function
        self._parts = parts
        self._traced = traced

    @property
    def fun_name(self) -> str:
        """The name of the traced function."""
        return name_of(self._function._fun)

    @property
    def in_tree(self) -> Any:
        """The tree of (args, kwargs), static arguments left out."""
        return self._traced.in_tree

    @property
    def out_tree(self) -> Any:
        """The tree of the result."""
        return self._traced.out_tree

    @property
    def in_avals(self) -> Any:
        """Types of the arguments, as (args, kwargs)."""
        return tree_util.tree_unflatten(self._traced.in_tree, self._traced.closed.in_avals)

    @property
    def args_info(self) -> Any:
        """Types of the arguments, and which are donated, as (args, kwargs)."""
        donated = set(self._parts.donated)
        infos = [ArgInfo(a, i in donated) for i, a in enumerate(self._traced.closed.in_avals)]
        return tree_util.tree_unflatten(self._traced.in_tree, infos)

    @property
    def out_info(self) -> Any:
        """ShapeDtypeStructs of the result."""
        return tree_util.tree_unflatten(
            self._traced.out_tree, _structs(self._traced.closed.out_avals)
        )

    @property
    def out_avals(self) -> Any:
        """Types of the result, in its structure."""
        return tree_util.tree_unflatten(self._traced.out_tree, self._traced.closed.out_avals)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Indices of the flat arguments whose buffers may be overwritten."""
        return self._parts.donated


def _formats(avals: Any, shardings: Any) -> Any:
    return tree_util.tree_map(
        lambda a, s: Format(Layout(tuple(range(a.ndim))), s), avals, shardings
    )


def _structs(avals: Any) -> list[Any]:
    return [
        a
        if a.is_high
        else ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding, weak_type=a.weak_type)
        for a in avals
    ]


def _numbers_of(traced: TracedProgram, parts: CallParts) -> CallParts:
    """A call with the numbers of its arguments of extended dtypes, or the types of these.

    Values of high types are replaced by the types of their arrays.
    """
    if traced.takes_references:
        values = _reference_values(traced, parts.leaves)
        return CallParts([_number_of(x) for x in values], parts.tree, {}, {}, ())
    if traced.takes_high:
        types = [ShapeDtypeStruct.like(a) for a in traced.on_arrays.closed.in_avals]
        parts = CallParts([_number_of(t) for t in types], parts.tree, {}, {}, ())
    return parts.with_leaves([_number_of(x) for x in parts.leaves])


def _reference_values(traced: TracedProgram, leaves: Sequence[Any]) -> list[Any]:
    """What the program on the values of references takes, given its arguments."""
    return [*traced.discharged.consts, *map(value_of, traced.hoisted[1]), *map(value_of, leaves)]


def _number_of(x: Any) -> Any:
    if isinstance(x, ShapeDtypeStruct) and is_extended(x.dtype):
        return ShapeDtypeStruct(*_physical_type(x), sharding=x.sharding)
    return base_of(x)


def _physical_type(x: ShapeDtypeStruct) -> tuple[Any, Any]:
    aval = physical_aval(abstractify(x))
    return aval.shape, aval.dtype


def _is_sharded(function: ProgramBuilder, parts: CallParts, traced: TracedProgram) -> bool:
    return sharded_calls.is_sharded(
        function, traced, parts.leaves
    ) or sharded_calls.are_types_sharded(parts.leaves)


def _device_of(
    function: ProgramBuilder, parts: CallParts, traced: TracedProgram, name: str
) -> Device:
    names = traced.closed.jaxpr.debug_info.arg_names
    device = sharded_calls.device_of_types(parts.leaves, name, names)
    return device or function.device_for(traced, parts)


class Traced(_Stage):
    """A function traced at certain types.

    >>> import xpr
    >>> traced = xpr.jit(lambda x: 2 * x).trace(1.0)
    >>> traced.out_info.dtype
    dtype('float32')
    """

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program."""
        return self._traced.closed

    def is_sharded(self) -> bool:
        """Whether the program runs on several devices."""
        return _is_sharded(self._function, self._parts, self._traced)

    def single_device(self) -> Device:
        """The device that the program runs on.

        Raises NotImplementedError if it runs on several.
        """
        if self.is_sharded():
            raise NotImplementedError(f"{self.fun_name} runs on several devices, one is required")
        return _device_of(self._function, self._parts, self._traced, self.fun_name)

    def lower(self, *, lowering_platforms: tuple[str, ...] | None = None) -> Lowered:
        """Lowers the program to StableHLO for the platform named, else for the default device."""
        if lowering_platforms is not None and len(lowering_platforms) != 1:
            raise ValueError(f"lower takes one platform at a time, got {lowering_platforms}")
        platform = lowering_platforms[0] if lowering_platforms else None
        return Lowered(self._function, self._parts, self._traced, platform)


class Lowered(_Stage):
    """A program as StableHLO text.

    >>> import xpr
    >>> lowered = xpr.jit(lambda x: 2 * x).lower(1.0)
    >>> "stablehlo.multiply" in lowered.as_text()
    True
    """

    def __init__(
        self,
        function: ProgramBuilder,
        parts: CallParts,
        traced: TracedProgram,
        platform: str | None,
    ) -> None:
        super().__init__(function, parts, traced)
        # What is lowered has no extended dtypes; the types that users see stay as they are.
        numbers, parts = traced.on_arrays.physical, _numbers_of(traced, parts)
        self._spmd = (
            sharded_calls.program_of(function, numbers, parts, compiled=False)
            if _is_sharded(function, parts, numbers)
            else None
        )
        closed, donated = numbers.closed, parts.donated
        if self._spmd is None:
            device = _device_of(function, parts, numbers, self.fun_name)
        else:
            device = (*self._spmd.local_devices, *self._spmd.devices)[0]
            closed, donated = self._spmd.local, self._spmd.local_donated
        self._device: Device = device
        here = device.runtime.target
        if platform is not None and platform != here:
            platform = registry.spelled(platform)
        self._elsewhere = platform if platform not in (None, here) else None
        name = platform or here
        if name == "reference":
            # It interprets jaxprs; its text is the portable one of the CPU.
            self._target = compiling.get_target("cpu")
        elif self._elsewhere is None:
            self._target = compiling.target_of(device)
        else:
            self._target = compiling.get_target(name)
        self._module: LoweredModule = compiling.lower(closed, self._target, self.fun_name, donated)
        self._whole = numbers.closed

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The program as StableHLO; `debug_info` adds the user's lines.

        The dialect "stablehlo", which is the default one, is the standard's, for any tool that
        reads it, and the same for all devices but for factorizations, which are custom calls of
        LAPACK's on the CPU; a program for several devices is that of whole arrays.
        Arrays that the program closes over are written into it. "iree" is what IREE's compiler
        gets for the device of this program: StableHLO in the forms that IREE compiles well, with
        operations of IREE's own, and such arrays as its first arguments.

        What StableHLO has no operation for, as calls of Python, is a custom call by xpr's name.
        Raises ValueError for another dialect.
        """
        if dialect in (None, "stablehlo"):
            plain = stablehlo if self._target.name == "cpu" else stablehlo_anywhere
            module = compiling.lower(self._whole, plain, self.fun_name, embed_consts=True)
        elif dialect == "iree":
            module = self._module
        else:
            raise ValueError(
                f"unknown dialect: {dialect!r}; as_text writes 'stablehlo' and 'iree' only"
            )
        return module.debug_text() if debug_info else module.text

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The module as an `iree.compiler.ir.Module`, in a dialect of `as_text`."""
        return parsed(self.as_text(dialect))

    def cost_analysis(self) -> dict[str, float]:
        """Estimates: floating-point operations and bytes of all operands."""
        return {"flops": self._module.flops, "bytes accessed": self._module.bytes_accessed}

    def communication(self) -> Communication:
        """What the devices send each other in one run: collectives, bytes, the user's lines.

        Empty for a program that one device runs.

        >>> import xpr, xpr.numpy as jnp
        >>> print(xpr.jit(jnp.sin).lower(jnp.ones(3)).communication())
        no communication
        """
        return Communication(()) if self._spmd is None else self._spmd.communication()

    @property
    def input_shardings(self) -> Any:
        """Where the arguments go, as (args, kwargs)."""
        return self._spread(self._traced.in_tree, "in_shardings")

    @property
    def output_shardings(self) -> Any:
        """Where the results will be."""
        return self._spread(self._traced.out_tree, "out_shardings")

    def _spread(self, tree: Any, which: str) -> Any:
        if self._spmd is not None:
            return tree_util.tree_unflatten(tree, getattr(self._spmd, which))
        return tree_util.tree_unflatten(
            tree, [SingleDeviceSharding(self._device)] * tree.num_leaves
        )

    def compile(self, compiler_options: Any = None) -> Compiled:
        """Compiles the program for its device.

        One for a platform without a device here can be saved, and raises RuntimeError when called.
        `compiler_options` are XLA's: they have no effect here, and each says so once.
        """
        check_compiler_options(compiler_options)
        device = self._device
        if self._spmd is not None:
            if self._elsewhere is not None:
                raise NotImplementedError(
                    f"compile: {self.fun_name} runs on several devices, which cannot be those of "
                    f"another platform ({self._elsewhere})"
                )
            parts = _numbers_of(self._traced, self._parts)
            numbers = self._traced.on_arrays.physical
            program = sharded_calls.program_of(self._function, numbers, parts)
            assert program is not None
            return Compiled(self, program)
        if self._elsewhere is not None:
            try:
                device = registry.first_device(self._elsewhere)
            except RuntimeError as error:
                return Compiled(self, compiling.compile_module(self._module, self._target), error)
        numbers = self._traced.on_arrays.physical
        donated = () if self._traced.takes_high else self._parts.donated
        return Compiled(self, self._function.program_for(numbers, device, donated))


class Compiled(_Stage):
    """A program compiled for one device and set of types.

    Or, for want of a device, its module alone, and the error that says what is missing.

    >>> import xpr
    >>> xpr.jit(lambda x: 2 * x).lower(1.0).compile()(3.0)
    Array(6., dtype=float32, weak_type=True)
    """

    def __init__(
        self,
        lowered: Lowered,
        program: compiled.CompiledProgram | SpmdProgram | bytes,
        missing: RuntimeError | None = None,
    ) -> None:
        super().__init__(lowered._function, lowered._parts, lowered._traced)
        self._lowered = lowered
        self._program = program
        self._missing = missing

    def _loaded(self) -> compiled.CompiledProgram | SpmdProgram:
        program = self._program
        if isinstance(program, bytes):
            raise RuntimeError(
                f"Function {self.fun_name} was compiled for {self._lowered._elsewhere}, and no "
                f"such device works here: {self._missing}"
            ) from self._missing
        return program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program; TypeError for arguments of types it was not compiled for.

        Static arguments are left out: their values are part of the program.
        """
        program = self._loaded()
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        parts = CallParts(leaves, tree, self._parts.static_args, {}, self._parts.donated)
        if parts.tree != self._traced.in_tree:
            raise TypeError(
                "Function compiled with input pytree does not match the input pytree it was called "
                f"with. {self.fun_name} was compiled for arguments of structure "
                f"{self._traced.in_tree}, static arguments left out, "
                f"called with {parts.tree}"
            )
        tracer = next((x for x in leaves if isinstance(x, Tracer)), None)
        if tracer is not None:
            raise TypeError(
                "Cannot apply JAX transformations to a function lowered and compiled for a "
                f"particular signature. Detected argument of Tracer type {type(tracer)}. "
                f"{self.fun_name} was compiled for arrays: call the jitted function itself inside "
                "a transformation"
            )
        self._check_types(parts)
        traced = self._traced
        if traced.takes_references:
            given = [*traced.hoisted[1], *leaves]
            check_once(given, self.fun_name)
            values = _reference_values(traced, leaves)
            out = self._on_arrays(program, parts.with_leaves(values))
            out = written_back(given, traced.discharged.written, out, len(traced.closed.out_avals))
        elif not traced.takes_high:
            out = self._on_arrays(program, parts)
        else:
            from xpr.interpreters.high import call_lowered  # noqa: PLC0415  only for high types

            out = call_lowered(
                traced.lowered,
                leaves,
                lambda operands: self._on_arrays(program, parts.with_leaves(list(operands))),
            )
        return tree_util.tree_unflatten(traced.out_tree, out)

    def _on_arrays(self, program: Any, parts: CallParts) -> list[Any]:
        """A call with the arrays that the arguments are made of."""
        traced = self._traced.on_arrays
        shardings, numbers = self._function._options.shardings, traced.physical
        parts = parts.with_leaves([_number_of(x) for x in parts.leaves])
        if memory_calls.is_concerned(shardings, numbers, parts.leaves):
            found = memory_calls.call(
                lambda p: self._run(program, p), shardings, numbers, parts, self.fun_name
            )
        else:
            found = self._run(program, parts)
        types = traced.closed.out_avals
        return [with_type(aval, x) for aval, x in zip(types, found, strict=True)]

    def _run(self, program: Any, parts: CallParts) -> list[Any]:
        leaves = parts.leaves
        if isinstance(program, SpmdProgram):
            program.check_places(leaves)
        else:
            device = self._function.device_for(
                self._traced.on_arrays.physical, parts, program.device
            )
            if device is not program.device:
                raise ValueError(
                    f"Compiled object called with arrays on {device!r}: {self.fun_name} was "
                    f"compiled for {program.device!r}"
                )
        return program(leaves)

    def _check_types(self, parts: CallParts) -> None:
        differences = []
        names = self._traced.closed.jaxpr.debug_info.arg_names
        for i, want in enumerate(self._traced.closed.in_avals):
            found = self._function.leaf_aval(parts, i)
            if not same_type(found, want):
                first, second = shown_types(want, found)
                if not want.is_high and not found.is_high:
                    first, second = str(want), str(found)
                differences.append(
                    f"Argument '{names[i]}' compiled with {first} and called with {second}"
                )
        if differences:
            raise TypeError(
                "Argument types differ from the types for which this computation was compiled, "
                f"{self.fun_name}. The mismatches are:\n" + "\n".join(differences)
            )
        if Trace.any_high:
            from xpr.core.high import changed_states  # noqa: PLC0415  only for high types

            for was, now in changed_states(self._traced.closed):
                first, second = shown_types(was, now)
                raise TypeError(
                    f"{self.fun_name} closes over a mutable value that has changed: it was "
                    f"compiled for {first}, and the value is {second} now"
                )

    @property
    def out_info(self) -> Any:
        """ShapeDtypeStructs of the result, with their shardings."""
        if isinstance(self._program, bytes):
            return super().out_info
        return tree_util.tree_map(
            lambda struct, sharding: (
                struct.update(sharding=sharding) if isinstance(struct, ShapeDtypeStruct) else struct
            ),
            super().out_info,
            self.output_shardings,
        )

    @property
    def input_shardings(self) -> Any:
        """Where the arguments go, as (args, kwargs)."""
        return self._spread(self._traced.in_tree, "in_shardings")

    @property
    def output_shardings(self) -> Any:
        """Where the results are."""
        return self._spread(self._traced.out_tree, "out_shardings")

    @property
    def input_formats(self) -> Any:
        """Layouts and shardings of the arguments, as (args, kwargs); all are row-major."""
        return _formats(self.in_avals, self.input_shardings)

    @property
    def output_formats(self) -> Any:
        """Layouts and shardings of the results; all are row-major."""
        return _formats(self.out_avals, self.output_shardings)

    def _spread(self, tree: Any, which: str) -> Any:
        program = self._loaded()
        if isinstance(program, SpmdProgram):
            return tree_util.tree_unflatten(tree, getattr(program, which))
        place = SingleDeviceSharding(program.device)
        return tree_util.tree_unflatten(tree, [place] * tree.num_leaves)

    def runtime_executable(self) -> Any:
        """The compiled program, of a type that may change; None if it cannot be run here."""
        return None if isinstance(self._program, bytes) else self._program

    def as_text(self) -> str:
        """The StableHLO that was compiled."""
        return self._lowered.as_text("iree")

    def cost_analysis(self) -> dict[str, float]:
        """Estimates: floating-point operations and bytes of all operands."""
        return self._lowered.cost_analysis()

    def memory_analysis(self) -> MemoryAnalysis:
        """Bytes of the arguments, of the results and of the compiled code."""
        closed, program = self._traced.closed, self._program
        if isinstance(program, SpmdProgram):
            closed = program.local
            modules = [p.vmfb for p in program.load().programs]
        else:
            modules = [program if isinstance(program, bytes) else program.vmfb]
        return MemoryAnalysis(
            argument_size_in_bytes=sum(a.nbytes for a in closed.in_avals),
            output_size_in_bytes=sum(a.nbytes for a in closed.out_avals),
            generated_code_size_in_bytes=sum(len(m or b"") for m in modules),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a `.vmfb` for `iree-run-module --module=path --function=main`.

        Closed-over arrays become part of the module, and host calls are replaced by portable code.
        """
        if isinstance(self._program, SpmdProgram) and self._program.meets:
            raise NotImplementedError(
                f"{self.fun_name} runs on {len(self._program.devices)} devices that meet in this "
                "process: a saved module is the program of one device"
            )
        target = replace(self._lowered._target, host_calls=False)
        module = compiling.lower(self._traced.closed, target, self.fun_name, embed_consts=True)
        data = compiling.compile_module(module, target)
        with open(path, "wb") as file:
            file.write(data)
