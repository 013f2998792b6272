"""`export`: a function as a program that can be stored, compiled for other machines and called."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.config import override, state
from xpr.core.context import context
from xpr.core.jaxpr import ClosedJaxpr, all_eqns, as_function, eval_closed
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.trace import Tracer, get_aval
from xpr.dispatch.eager import eager_trace
from xpr.dispatch.placement import common_device
from xpr.export.layout import Layout, layout_of
from xpr.export.programs import Program, trace_program
from xpr.export.serialization import serialized
from xpr.export.symbolic import SymbolicAval
from xpr.interpreters.zeros import tangent_aval
from xpr.runtimes import registry
from xpr.sharding import Mesh, NamedSharding, set_mesh
from xpr.transforms.custom_vjp import custom_vjp
from xpr.transforms.derivatives import vjp
from xpr.transforms.jit import JittedFunction, jit

minimum_supported_calling_convention_version = 1
maximum_supported_calling_convention_version = 1

_KEPT = 64  # choices of symbolic dimensions for which a compiled function is kept
PLATFORMS = ("cpu", "vulkan", "cuda", "rocm", "metal", "vmvx")
"""What a function may be exported for, and run on here."""

# No runtime of xpr's: the program can be exported, and its StableHLO given to another compiler.
_ELSEWHERE = ("tpu",)


class DisabledSafetyCheck:
    """A check that calls of an exported function leave out.

    >>> DisabledSafetyCheck.platform()
    platform
    """

    def __init__(self, _impl: str) -> None:
        self._impl = _impl

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Lets a function run on platforms that it was not exported for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Allows a custom call of that name. Programs of xpr have none, so nothing changes."""
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The name of the custom call that is allowed, if this check is of that kind."""
        kind, _, name = self._impl.partition(":")
        return name if kind == "custom_call" and name else None

    def __repr__(self) -> str:
        return self._impl

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisabledSafetyCheck) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash(self._impl)


def default_export_platform() -> str:
    """The platform that `export` takes when none is named: that of the default device.

    >>> default_export_platform() in ("cpu", "vulkan", "cuda", "rocm", "metal")
    True
    """
    name = registry.default_backend()
    return "cpu" if name == "reference" else name


class Exported:
    """A function as a program of its own: types, structure, and what it computes as data.

    Made by `export` and `deserialize`. `in_avals` and `out_avals` are the flat types, `in_tree` is
    the structure of `(args, kwargs)` and `out_tree` that of the result.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import export
    >>> exported = export.export(xpr.jit(lambda x: x * 2))(jnp.ones(3))
    >>> exported.in_avals, exported.platforms
    ((ShapedArray(float32[3]),), ('cpu',))
    """

    def __init__(
        self,
        fun_name: str,
        in_tree: Any,
        out_tree: Any,
        program: Program,
        platforms: tuple[str, ...],
        disabled_safety_checks: tuple[DisabledSafetyCheck, ...] = (),
        get_vjp: Callable[[Exported], Exported] | None = None,
        layout: Layout | None = None,
    ) -> None:
        self.fun_name = fun_name
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.program = program
        self.platforms = platforms
        self.disabled_safety_checks = disabled_safety_checks
        self.calling_convention_version = maximum_supported_calling_convention_version
        self.layout = layout
        self.nr_devices = 1 if layout is None else layout.size
        self.ordered_effects: tuple[Any, ...] = ()
        self.unordered_effects: tuple[Any, ...] = ()
        self._get_vjp = get_vjp
        self._vjp: Exported | None = None
        self._callables: dict[Any, tuple[JittedFunction, Any, bool]] = {}

    @property
    def in_avals(self) -> tuple[Any, ...]:
        """The types of the flat inputs."""
        return self.program.in_avals

    @property
    def out_avals(self) -> tuple[Any, ...]:
        """The types of the flat results."""
        return self.program.out_avals

    @property
    def module_kept_var_idx(self) -> tuple[int, ...]:
        """The places of the inputs that the module takes: all of them."""
        return tuple(range(len(self.in_avals)))

    @property
    def uses_global_constants(self) -> bool:
        """Whether dimensions are symbolic."""
        return self.program.scope is not None

    def in_shardings_jax(self, mesh: Any) -> tuple[NamedSharding | None, ...]:
        """The shardings of the flat inputs over a mesh, None where the function leaves them open.

        The mesh has the axes that the function was exported with, and perhaps other devices; it may
        be an `AbstractMesh`. Raises ValueError for one of other axes.

        >>> import xpr, xpr.numpy as jnp
        >>> exported = xpr.export.export(xpr.jit(jnp.sin))(jnp.ones(2))
        >>> exported.in_shardings_jax(xpr.make_mesh((1,), ("x",)))
        (None,)
        """
        if self.layout is None:
            return (None,) * len(self.in_avals)
        return self.layout.shardings_on(mesh, self.layout.inputs)

    def out_shardings_jax(self, mesh: Any) -> tuple[NamedSharding | None, ...]:
        """As `in_shardings_jax`, of the flat results."""
        if self.layout is None:
            return (None,) * len(self.out_avals)
        return self.layout.shardings_on(mesh, self.layout.outputs)

    def __repr__(self) -> str:
        types = ", ".join(str(a) for a in self.in_avals)
        return f"Exported(fun_name={self.fun_name}, in_avals=({types}), platforms={self.platforms})"

    def mlir_module(self) -> str:
        """The program as StableHLO text, with the arrays it closes over written into it.

        It holds nothing but the standard's operations and CHLO's, for any tool that reads them.
        For several devices it is the program on whole arrays, which is partitioned when it is
        called. Factorizations, which StableHLO has no operation for, are JAX's custom calls of
        LAPACK's routines where the only platform is the CPU.
        """
        from xpr.export.modules import stablehlo_text  # noqa: PLC0415  lowering is loaded on use

        return stablehlo_text(self)

    @property
    def mlir_module_serialized(self) -> bytes:
        """The module as a portable artifact of StableHLO 1.15.0: VHLO, in MLIR's bytecode.

        Operations of CHLO are composites, whose decompositions are in the module, too. Raises
        ValueError where MLIR's bindings, which come with `iree-base-compiler`, are missing.
        """
        from xpr.export.modules import artifact  # noqa: PLC0415  lowering is loaded on use

        return artifact(self)

    # ---- calls

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function, also from traced code: inside `jit`, `vmap`, and `grad` (reverse
        mode) where derivatives were exported.

        A function that was exported for several devices is called on as many: those of the
        arguments, or of the mesh in use. Arguments are moved to the shardings that they had.

        Raises ValueError for arguments of another structure, shape or dtype than it was exported
        for, and for a device, or another number of devices, that it was not exported for.
        """
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        if tree != self.in_tree:
            raise ValueError(
                "The invocation args and kwargs must have the same pytree structure as when the "
                f"function {self.fun_name!r} was exported: expected {self.in_tree}, got {tree}"
            )
        return tree_util.tree_unflatten(self.out_tree, self.call_flat(*leaves))

    def call_flat(self, *leaves: Any) -> Sequence[Any]:
        """Calls the function with its flat inputs and gives its flat results."""
        if not state.enable_x64 and any(map(_is_wide, self.in_avals)):
            # Arguments of 64 bits would be halved before they are looked at.
            with override("enable_x64", True):
                return self.call_flat(*map(_kept_type, self.in_avals, leaves))
        avals = [get_aval(x) for x in leaves]
        sizes = self.program.sizes(self.input_names(), avals)
        mesh = None
        if self.layout is not None:
            mesh = self.layout.mesh_for(self.fun_name, leaves, self.input_names())
            leaves = tuple(self.layout.placed(mesh, leaves))
        self._check_platform(leaves)
        known = self._callables.get((sizes, mesh))
        if known is None:
            if len(self._callables) >= _KEPT:
                self._callables.clear()
            closed = self.program.at(sizes)
            known = (*self._functions(closed, mesh), has_wide_types(closed))
            self._callables[(sizes, mesh)] = known
        if known[2] and not state.enable_x64:
            with override("enable_x64", True):
                return self._call(known, leaves, mesh)
        return self._call(known, leaves, mesh)

    def _call(
        self, known: tuple[JittedFunction, Any, bool], leaves: Sequence[Any], mesh: Mesh | None
    ) -> Sequence[Any]:
        jitted, differentiable, _ = known
        traced = context.trace is not eager_trace or any(isinstance(x, Tracer) for x in leaves)
        if traced or mesh is None:
            return (differentiable if traced else jitted)(*leaves)
        with set_mesh(mesh):
            return jitted(*leaves)

    def _functions(self, closed: ClosedJaxpr, mesh: Mesh | None) -> tuple[JittedFunction, Any]:
        """The program at fixed sizes as a jitted function, and as one with its own derivative."""

        def run(*flat: Any) -> Sequence[Any]:
            return tuple(eval_closed(closed, flat))

        run.__name__ = self.fun_name
        run.__qualname__ = self.fun_name
        options: dict[str, Any] = {}
        if self.layout is not None and mesh is not None:
            options["out_shardings"] = self.layout.out_shardings(mesh)
        jitted: Any = jit(run, **options)
        differentiable = custom_vjp(jitted)
        differentiable.defvjp(lambda *xs: (jitted(*xs), xs), self._pull_back)
        return jitted, differentiable

    def _pull_back(self, primals: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self.vjp().call_flat(*primals, *cotangents))

    def input_names(self) -> list[str]:
        """The names of the flat inputs: their paths in `args` and `kwargs`."""
        dummy = tree_util.tree_unflatten(self.in_tree, range(self.in_tree.num_leaves))
        return [
            ("args" if path[0].idx == 0 else "kwargs") + tree_util.keystr(path[1:])
            for path, _ in tree_util.tree_flatten_with_path(dummy)[0]
        ]

    def _check_platform(self, leaves: Sequence[Any]) -> None:
        if DisabledSafetyCheck.platform() in self.disabled_safety_checks:
            return
        name = common_device(leaves)[0].runtime.name
        platform = "cpu" if name == "reference" else name
        if platform in PLATFORMS and platform not in self.platforms:
            raise ValueError(
                f"Function {self.fun_name!r} was exported for platforms {self.platforms} but it is "
                f"used on {platform!r}."
            )

    # ---- derivatives

    def has_vjp(self) -> bool:
        """Whether the derivative is there."""
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """The derivative in reverse mode, exported.

        A function of the flat inputs followed by a cotangent for each result; it returns a tuple
        with a cotangent for each input. Inputs and results without derivatives, such as integers,
        have cotangents of dtype float0. Raises ValueError if it was not serialised with this one.
        """
        if self._get_vjp is None:
            raise ValueError(
                f"No VJP is available for {self.fun_name!r}: serialise it with a greater vjp_order"
            )
        if self._vjp is None:
            self._vjp = self._get_vjp(self)
        return self._vjp

    # ---- storing

    def serialize(self, vjp_order: int = 0, *, format: str = "xpr") -> bytearray:
        """The function as bytes that `deserialize` reads; `vjp_order` derivatives come with it.

        They hold no code but the program's own operations, so that reading them runs nothing, and
        their SHA-256, so that a change to them is noticed. With the format "jax" they are those
        that JAX's `jax.export.deserialize` reads, and `from_stablehlo` here: the module as a
        portable artifact, for the platforms that JAX has.

        Raises NotImplementedError for programs that call back into this process, ValueError for
        pytree nodes that were not registered for serialization and for an unknown format.

        >>> import xpr, xpr.numpy as jnp
        >>> exported = export(xpr.jit(lambda x: x * 2), platforms=("cpu",))(jnp.ones(3))
        >>> blob = exported.serialize(vjp_order=1, format="jax")
        >>> xpr.export.from_stablehlo(bytes(blob)).call(jnp.arange(3.0))
        Array([0., 2., 4.], dtype=float32)
        """
        if format not in ("xpr", "jax"):
            raise ValueError(f"serialize: format must be 'xpr' or 'jax', got {format!r}")
        if format == "xpr":
            return serialized(self, vjp_order)
        from xpr.export.jax_format import jax_bytes  # noqa: PLC0415  lowering is loaded on use

        return jax_bytes(self, vjp_order)

    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Writes a bundle for machines without the compiler: see `xpr.export.save`."""
        from xpr.export.writing import save  # noqa: PLC0415  the compile path is loaded on use

        if self.layout is not None:
            raise NotImplementedError(
                f"{self.fun_name} was exported for {self.nr_devices} devices, and a bundle holds "
                "programs of one: export it without shardings, or use serialize()"
            )
        save(self, path, **options)


def export(
    fun_jit: Any,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
) -> Callable[..., Exported]:
    """A function that exports `fun_jit` for the types of the arguments it is given.

    `fun_jit` is the result of `xpr.jit`, or one of xpr's own functions such as `xpr.numpy.sin`.
    The arguments may be arrays or anything with a shape and a dtype. `platforms` names what it is
    meant to run on (`cpu`, `vulkan`, `cuda`, `rocm`, `metal`, `vmvx`, and `tpu`, on which xpr runs
    nothing itself: the StableHLO is the same); without it the default device's. `disabled_checks`
    leaves checks of calls out.

    Raises ValueError if `fun_jit` is no jitted function or a platform is unknown.

    >>> import xpr, xpr.numpy as jnp
    >>> x = xpr.ShapeDtypeStruct((3,), jnp.float32)
    >>> exported = export(xpr.jit(lambda x: 2 * x), platforms=("cpu", "vulkan"))(x)
    >>> exported.in_avals, exported.platforms
    ((ShapedArray(float32[3]),), ('cpu', 'vulkan'))
    >>> exported.call(jnp.arange(3.0))
    Array([0., 2., 4.], dtype=float32)
    """
    if (getattr(fun_jit, "__module__", None) or "").partition(".")[0] == "xpr":
        fun_jit = fun_jit if isinstance(fun_jit, JittedFunction) else jit(fun_jit)
    if not isinstance(fun_jit, JittedFunction):
        raise ValueError(f"Function to be exported must be the result of `jit` but is: {fun_jit!r}")
    chosen = (default_export_platform(),) if platforms is None else tuple(platforms)
    known = sorted({*PLATFORMS, *_ELSEWHERE})
    if not chosen or not set(chosen) <= set(known):
        raise ValueError(f"platforms must be some of {', '.join(known)}, got {chosen}")

    def do_export(*args: Any, **kwargs: Any) -> Exported:
        program, traced = trace_program(fun_jit, args, kwargs)
        return Exported(
            traced.fun_name,
            traced.in_tree,
            traced.out_tree,
            program,
            chosen,
            tuple(disabled_checks),
            derive,
            layout_of(traced),
        )

    return do_export


def _is_wide(aval: Any) -> bool:
    return dtypes.narrow(aval.dtype) != aval.dtype


def _kept_type(want: Any, x: Any) -> Any:
    """An argument as it is seen without 64-bit types, where one of 32 bits is wanted."""
    if isinstance(x, Tracer | Array) or dtypes.kind(want.dtype) in "xV":
        return x
    host = np.asarray(x)
    return host.astype(want.dtype) if dtypes.narrow(host.dtype) == want.dtype else host


def has_wide_types(closed: ClosedJaxpr) -> bool:
    """Whether 64-bit types are in a program: it is to be traced and run with them."""
    jaxpr = closed.jaxpr
    avals = [v.aval for v in (*jaxpr.invars, *jaxpr.constvars)]
    for eqn in all_eqns(jaxpr):
        avals += [v.aval for v in (*eqn.invars, *eqn.outvars)]
    return any(_is_wide(a) for a in avals if isinstance(a, ShapedArray))


def derive(exported: Exported) -> Exported:
    """The derivative of an exported function, by differentiating its program."""
    count = len(exported.in_avals)

    def differentiated(closed: ClosedJaxpr) -> ClosedJaxpr:
        def pull_back(*flat: Any) -> Sequence[Any]:
            _, pull = vjp(as_function(closed), *flat[:count])
            return pull(list(flat[count:]))

        tangents = [tangent_aval(a) for a in closed.out_avals]
        with override("enable_x64", state.enable_x64 or has_wide_types(closed)):
            return trace_to_jaxpr(pull_back, [*closed.in_avals, *tangents])

    program = exported.program.derived(differentiated, _cotangent_of)
    flat = tuple(range(count + len(exported.out_avals)))
    return Exported(
        f"{exported.fun_name}_vjp",
        tree_util.tree_structure((flat, {})),
        tree_util.tree_structure(tuple(range(count))),
        program,
        exported.platforms,
        exported.disabled_safety_checks,
        derive,
        None if exported.layout is None else exported.layout.of_vjp(),
    )


def _cotangent_of(aval: SymbolicAval) -> SymbolicAval:
    """The type of the cotangent of a result with symbolic dimensions."""
    return SymbolicAval(aval.shape, tangent_aval(ShapedArray((), aval.dtype)).dtype)
