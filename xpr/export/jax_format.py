"""Exported functions as bytes that JAX's `jax.export.deserialize` reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, Var
from xpr.core.key_types import KeyType
from xpr.export.layout import Layout
from xpr.export.modules import module_of, plain_target, symbol_of
from xpr.export.programs import FixedProgram
from xpr.export.stablehlo.artifact import portable_artifact
from xpr.export.stablehlo.bytecode import read_bytecode
from xpr.export.stablehlo.bytecode_writer import write_bytecode
from xpr.export.stablehlo.container import Aval, Container, Spec
from xpr.export.stablehlo.container_writer import write_container
from xpr.export.stablehlo.form import Function, Module, Tensor, Value, walk
from xpr.sharding.spec import axes_of

if TYPE_CHECKING:
    from xpr.export.exported import Exported

_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
"""The platforms that JAX has, too."""

_OURS = "xpr_"
"""The beginning of the names of custom calls that xpr alone knows."""


def jax_bytes(exported: Exported, vjp_order: int) -> bytearray:
    """What `Exported.serialize(format="jax")` returns."""
    return bytearray(write_container(_container(exported, vjp_order)))


def _container(exported: Exported, vjp_order: int) -> Container:
    platforms = tuple(p for p in exported.platforms if p in _PLATFORMS)
    if not platforms:
        raise ValueError(
            f"{exported.fun_name} was exported for {', '.join(exported.platforms)}, and JAX has "
            f"the platforms {', '.join(_PLATFORMS)}: export it with platforms=('cpu',) too"
        )
    ins, outs = exported.in_avals, exported.out_avals
    layout = exported.layout
    derivative = exported.vjp() if vjp_order else None
    return Container(
        exported.fun_name,
        exported.in_tree,
        exported.out_tree,
        [_aval(a) for a in ins],
        [_aval(a) for a in outs],
        [None] * len(ins) if layout is None else _specs(layout, layout.inputs),
        [None] * len(outs) if layout is None else _specs(layout, layout.outputs),
        platforms,
        exported.nr_devices,
        _module(exported, len(platforms) > 1),
        tuple(i for i, a in enumerate(ins) if a.dtype != dtypes.float0),
        [str(c) for c in exported.disabled_safety_checks],
        None if derivative is None else _container(derivative, vjp_order - 1),
        exported.uses_global_constants,
    )


def _aval(aval: Any) -> Aval:
    sizes = tuple(str(n) for n in aval.shape)
    if isinstance(aval.dtype, KeyType):
        return Aval(sizes, None, aval.dtype.generator.name)
    return Aval(sizes, aval.dtype)


def _specs(layout: Layout, specs: Sequence[Any]) -> list[Spec | None]:
    types = tuple(t.value for t in layout.types)
    return [
        None if s is None else Spec(layout.sizes, layout.names, tuple(map(axes_of, s)), types)
        for s in specs
    ]


def _module(exported: Exported, by_platform: bool) -> bytes:
    """The module's artifact: JAX's calls pass the platform's number first where there are two."""
    program = exported.program
    if isinstance(program, FixedProgram):
        program = FixedProgram(_with_all_results(program.at(())))
    elif any(a.dtype == dtypes.float0 for a in exported.out_avals):
        raise NotImplementedError(
            f"{exported.fun_name} has symbolic sizes, and results without values (of dtype "
            "float0), which are not written for JAX: export it for fixed sizes"
        )
    text = module_of(program, plain_target(exported), symbol_of(exported), None)[0].text
    artifact = portable_artifact(text)
    module = read_bytecode(artifact)
    _check(exported, module)
    if not by_platform:
        return artifact
    _take_platform(module)
    return write_bytecode(module)


def _with_all_results(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with booleans in place of results of dtype float0, as JAX's modules have them."""
    if all(a.dtype != dtypes.float0 for a in closed.out_avals):
        return closed

    jaxpr, consts = closed.jaxpr, list(closed.consts)
    constvars, outvars = list(jaxpr.constvars), list(jaxpr.outvars)
    for i, aval in enumerate(closed.out_avals):
        if aval.dtype == dtypes.float0:
            made = Var(ShapedArray(aval.shape, np.dtype(np.bool_)))
            outvars[i] = made
            constvars.append(made)
            consts.append(np.zeros(aval.shape, np.bool_))
    return ClosedJaxpr(jaxpr.replace(constvars=constvars, outvars=outvars), consts)


def _check(exported: Exported, module: Module) -> None:
    for function in module.functions.values():
        for op in (op for block in function.regions for op in walk(block)):
            name = str(op.attributes.get("call_target_name", ""))
            if name.startswith(_OURS):
                raise NotImplementedError(
                    f"{exported.fun_name} has the custom call {name}, which JAX does not know"
                )


def _take_platform(module: Module) -> None:
    """Gives the entry a first argument, which nothing reads."""
    main = module.entry()
    number = Tensor((), np.dtype(np.int32))
    kinds = main.attributes["function_type"]
    main.attributes["function_type"] = Function((number, *kinds.inputs), kinds.results)
    main.regions[0].arguments.insert(0, Value(number))
    if main.attributes.get("arg_attrs"):
        main.attributes["arg_attrs"] = ({}, *main.attributes["arg_attrs"])
