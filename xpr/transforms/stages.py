"""The stages of a jitted function one by one: `Traced`, `Lowered`, `Compiled`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from xpr import tree_util
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.trace import Tracer
from xpr.dispatch import compiled
from xpr.lowering.module import LoweredModule
from xpr.runtimes.base import Device
from xpr.sharding import SingleDeviceSharding
from xpr.transforms.jit import CallParts, JittedFunction
from xpr.transforms.signature import name_of
from xpr.transforms.tracing import ShapeDtypeStruct, TracedProgram


class _Stage:
    def __init__(self, function: JittedFunction, parts: CallParts, traced: TracedProgram) -> None:
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
        """ShapeDtypeStructs of the arguments, as (args, kwargs)."""
        return tree_util.tree_unflatten(
            self._traced.in_tree, _structs(self._traced.closed.in_avals)
        )

    @property
    def out_info(self) -> Any:
        """ShapeDtypeStructs of the result."""
        return tree_util.tree_unflatten(
            self._traced.out_tree, _structs(self._traced.closed.out_avals)
        )

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Indices of the flat arguments whose buffers may be overwritten."""
        return self._parts.donated


def _structs(avals: Any) -> list[ShapeDtypeStruct]:
    return [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals]


class Traced(_Stage):
    """A function traced at certain types."""

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program."""
        return self._traced.closed

    def lower(self, *, lowering_platforms: tuple[str, ...] | None = None) -> Lowered:
        """Lowers the program to StableHLO for the platform named, else for the default device."""
        if lowering_platforms is not None and len(lowering_platforms) != 1:
            raise ValueError(f"lower takes one platform at a time, got {lowering_platforms}")
        platform = lowering_platforms[0] if lowering_platforms else None
        return Lowered(self._function, self._parts, self._traced, platform)


class Lowered(_Stage):
    """A program as StableHLO text."""

    def __init__(
        self,
        function: JittedFunction,
        parts: CallParts,
        traced: TracedProgram,
        platform: str | None,
    ) -> None:
        super().__init__(function, parts, traced)
        device = function.device_for(traced, parts)
        self._device: Device = device
        name = platform or device.runtime.target
        # The reference runtime interprets jaxprs; its text is the portable one of the CPU.
        self._target = compiled.get_target("cpu" if name == "reference" else name)
        self._module: LoweredModule = compiled.lower(
            traced.closed, self._target, self.fun_name, parts.donated
        )

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The StableHLO module; `debug_info` adds the user's lines."""
        if dialect not in (None, "stablehlo"):
            raise ValueError(f"as_text writes the dialect 'stablehlo' only, got {dialect!r}")
        return self._module.debug_text() if debug_info else self._module.text

    def cost_analysis(self) -> dict[str, float]:
        """Estimates: floating-point operations and bytes of all operands."""
        return {"flops": self._module.flops, "bytes accessed": self._module.bytes_accessed}

    def compile(self, compiler_options: Any = None) -> Compiled:
        """Compiles the program for its device."""
        if compiler_options:
            raise NotImplementedError(
                f"compile takes no compiler options, got {compiler_options!r}"
            )
        program = self._function.program_for(self._traced, self._device, self._parts.donated)
        return Compiled(self, program)


class Compiled(_Stage):
    """A program compiled for one device and set of types."""

    def __init__(self, lowered: Lowered, program: compiled.CompiledProgram) -> None:
        super().__init__(lowered._function, lowered._parts, lowered._traced)
        self._lowered = lowered
        self._program = program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program; TypeError for arguments of types it was not compiled for.

        Static arguments are left out: their values are part of the program.
        """
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        parts = CallParts(leaves, tree, self._parts.static_args, {}, self._parts.donated)
        if parts.tree != self._traced.in_tree:
            raise TypeError(
                f"Function {self.fun_name} was compiled for arguments of structure "
                f"{self._traced.in_tree}, static arguments left out, "
                f"called with {parts.tree}"
            )
        if any(isinstance(x, Tracer) for x in leaves):
            raise TypeError(
                f"Function {self.fun_name} was compiled for arrays and cannot be traced: call the "
                "jitted function itself inside a transformation"
            )
        device = self._function.device_for(self._traced, parts, self._program.device)
        if device is not self._program.device:
            raise ValueError(
                f"Compiled object called with arrays on {device!r}: {self.fun_name} was compiled "
                f"for {self._program.device!r}"
            )
        for i, want in enumerate(self._traced.closed.in_avals):
            found = self._function.leaf_aval(parts, i)
            if found.shape != want.shape or found.dtype != want.dtype:
                raise TypeError(
                    "Argument types differ from the types for which this computation was "
                    "compiled. "
                    f"Argument {i} of {self.fun_name} was compiled with type {want.str_short()} "
                    "and called "
                    f"with type {found.str_short()}"
                )
        return tree_util.tree_unflatten(self._traced.out_tree, self._program(parts.leaves))

    @property
    def input_shardings(self) -> Any:
        """Where the arguments go, as (args, kwargs)."""
        return self._spread(self._traced.in_tree)

    @property
    def output_shardings(self) -> Any:
        """Where the results are."""
        return self._spread(self._traced.out_tree)

    def _spread(self, tree: Any) -> Any:
        place = SingleDeviceSharding(self._program.device)
        return tree_util.tree_unflatten(tree, [place] * tree.num_leaves)

    def as_text(self) -> str:
        """The StableHLO that was compiled."""
        return self._lowered.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """Estimates: floating-point operations and bytes of all operands."""
        return self._lowered.cost_analysis()

    def memory_analysis(self) -> dict[str, int]:
        """Bytes of the arguments, of the results and of the compiled code."""
        closed = self._traced.closed
        return {
            "argument_size_in_bytes": sum(a.nbytes for a in closed.in_avals),
            "output_size_in_bytes": sum(a.nbytes for a in closed.out_avals),
            "generated_code_size_in_bytes": len(self._program.vmfb or b""),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a `.vmfb` for `iree-run-module --module=path --function=main`.

        Closed-over arrays become part of the module, and host calls are replaced by portable code.
        """
        target = replace(self._lowered._target, host_calls=False)
        module = compiled.lower(self._traced.closed, target, self.fun_name, embed_consts=True)
        data = compiled.compile_module(module, target)
        with open(path, "wb") as file:
            file.write(data)
